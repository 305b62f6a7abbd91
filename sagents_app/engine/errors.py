"""The engine's one error tree.

Errors are for mistakes and failures only: interrupts and pauses are outcomes, a failed tool call is
a tool result.

    EngineError
    ├── Misconfigured            a mistake in agent, tool, gate, mode or options
    ├── InvalidResume            replies that do not fit what is open
    ├── InvalidState             stored data that cannot be read
    ├── NoAnswer                 a turn that did not bring what was to be read from it
    ├── ToolError                raised by a tool: the text is the model's, as an error result
    │   ├── InvalidArguments     the model's arguments do not fit the tool's schema
    │   └── InvalidExpansion     what `expand` was given is no plain message
    └── TurnError                what ends a turn as `Failed`
        ├── BudgetExceeded       model calls, time or tokens are used up
        ├── FailureLimitExceeded too many tool batches in a row failed
        ├── UntilToolNotCalled   the model stopped without the tool that the caller demanded
        ├── HookFailed           a middleware hook raised
        ├── ObserverFailed       the host's `on_event` or journal raised
        ├── StepFailed           a step of the mode raised
        └── ModelError           a model call failed; `retryable`: it may succeed later
            ├── RateLimited, Overloaded, ModelTimeout, ConnectionFailed, StreamDied      (retryable)
            ├── ContextTooLong, ContentFiltered, AuthenticationFailed, BadRequest, ProtocolError
            └── ModelsExhausted  every configured model failed; `attempts` has each one's error
"""

from __future__ import annotations


class EngineError(Exception):
    """Base of everything the engine raises; `type` is a stable code for pages, rows and tests."""

    type = "engine_error"


class Misconfigured(EngineError):
    """A caller's mistake; names the culprit, and nothing has happened."""

    type = "misconfigured"


class InvalidResume(EngineError):
    """Replies that do not fit the open interrupt; the state is as it was."""

    type = "invalid_resume"


class InvalidState(EngineError):
    """Stored data that this version cannot read; `path` says where in the data."""

    type = "invalid_state"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class NoAnswer(EngineError):
    """What was to be read from a turn is not there.

    `type` is interrupted, paused or cancelled for a turn that did not complete, else
    no_tool_result, no_tool_arguments or no_text.
    """

    type = "no_answer"

    def __init__(self, message: str, *, type: str, outcome: object) -> None:  # noqa: A002
        super().__init__(message)
        self.type = type
        self.outcome = outcome
        """The outcome, or state, that was read."""


class ToolError(EngineError):
    """A tool says why it could not do its work; the model reads the text as an error result."""

    type = "tool_error"


class InvalidArguments(ToolError):
    """Arguments that do not fit the tool's schema, one line a problem."""

    type = "invalid_arguments"


class InvalidExpansion(ToolError):
    """An expansion that is empty or holds anything but user and assistant messages."""

    type = "invalid_expansion"


class TurnError(EngineError):
    """A failure that ends a turn as `Failed`."""

    type = "turn_error"


class BudgetExceeded(TurnError):
    """A turn's budget is used up; `limit` and `used` are in the budget's unit."""

    type = "exceeded_max_runs"

    def __init__(self, message: str, *, limit: float, used: float, budget: str = "runs") -> None:
        super().__init__(message)
        self.limit = limit
        self.used = used
        self.budget = budget
        """Which one: `runs`, `tokens` or `seconds`."""
        if budget != "runs":
            self.type = f"exceeded_max_{budget}"


class FailureLimitExceeded(TurnError):
    """`failures` tool batches in a row brought nothing but errors."""

    type = "exceeded_failure_count"

    def __init__(self, message: str, *, failures: int) -> None:
        super().__init__(message)
        self.failures = failures


class UntilToolNotCalled(TurnError):
    """The model ended its turn although one of `names` had to be called."""

    type = "until_tool_not_called"

    def __init__(self, message: str, *, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names


class HookFailed(TurnError):
    """A middleware's hook raised; the cause is chained."""

    type = "hook_failed"


class ObserverFailed(TurnError):
    """The host's `on_event` or journal raised; what happened may not be recorded."""

    type = "observer_failed"


class StepFailed(TurnError):
    """A step of the mode raised something that is no engine error; the cause is chained."""

    type = "step_failed"


class ModelError(TurnError):
    """A model call failed. Texts never hold keys or headers."""

    type = "model_error"
    retryable = False

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds the provider asks to wait, None where it named none."""


class RateLimited(ModelError):
    """The provider refuses for now because of the caller's rate."""

    type = "rate_limited"
    retryable = True


class Overloaded(ModelError):
    """The provider, or a server before it, cannot take the call now."""

    type = "overloaded"
    retryable = True


class ModelTimeout(ModelError):
    """The provider did not answer in time; `phase` is connect, write, read or pool."""

    type = "timeout"
    retryable = True

    def __init__(self, message: str, *, phase: str) -> None:
        super().__init__(message)
        self.phase = phase


class ConnectionFailed(ModelError):
    """No connection to the provider."""

    type = "connection_failed"
    retryable = True


class StreamDied(ModelError):
    """The connection broke, or ended without the closing mark, while the reply was streaming."""

    type = "stream_error"
    retryable = True


class ContextTooLong(ModelError):
    """The history does not fit the model's window."""

    type = "context_too_long"


class ContentFiltered(ModelError):
    """The provider refused the request for its content."""

    type = "content_filtered"


class AuthenticationFailed(ModelError):
    """The key is missing, wrong or not allowed to use this model."""

    type = "authentication_failed"


class BadRequest(ModelError):
    """The provider says that the request is wrong; the text has its words, shortened."""

    type = "bad_request"


class ProtocolError(ModelError):
    """The answer is not what the protocol promises."""

    type = "protocol_error"


class ModelsExhausted(ModelError):
    """Every model failed. `attempts` holds (model name, error) in the order tried."""

    type = "models_exhausted"

    def __init__(self, attempts: tuple[tuple[str, ModelError], ...]) -> None:
        told = "; ".join(f"{name}: {error}" for name, error in attempts)
        super().__init__(f"every model failed ({told})")
        self.attempts = attempts
