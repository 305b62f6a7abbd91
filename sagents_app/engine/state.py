"""The state of an agent's conversation: data, which each method answers with a new value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol

from sagents_app.engine import todos
from sagents_app.engine.decisions import Decision
from sagents_app.engine.errors import Misconfigured
from sagents_app.engine.history import History
from sagents_app.engine.interrupts import Halt, Interrupt, MultipleInterrupts, leaves
from sagents_app.engine.messages import Message, TextPart, ToolResult
from sagents_app.engine.todos import Todo, TodoStatus

PROCESS_BOUND = "The tool was interrupted and could not be resumed; its work was lost."
INCOMPATIBLE = (
    "The tool was interrupted, and the stored interrupt is incompatible with this version."
)
HALTED = "The tool halted the workflow: {message}\nProceed with the user's new request."
MOVED_ON = (
    "The user did not respond to this and sent something new. Proceed with the user's new request."
)


class Restorer(Protocol):
    """Whatever can say that an interrupt survives a cold start; every middleware can."""

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        """Whether this middleware takes care of `interrupt` after a restart."""
        ...


@dataclass(frozen=True, slots=True)
class AgentState:
    """What an agent knows and what it waits for; methods return new states."""

    messages: Sequence[Message] = ()
    todos: tuple[Todo, ...] = ()
    """The plan, in the order in which it was made; mappings of a todo's fields become todos."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """JSON values; a middleware keeps its own state under its own key."""
    interrupt: Interrupt | None = None
    pause_reason: Any = None
    """Why the last turn paused, as JSON; None where it did not or gave no reason."""
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    """Accepted replies by call id, until the call has its result."""
    verdicts: Mapping[str, bool] = field(default_factory=dict)
    """By call id, whether the gate asked for a decision; kept until the call has its result."""
    runs_used: int = 0
    """Model calls of the turn that is interrupted or paused; 0 between turns."""
    tokens_used: int = 0
    """Tokens of those calls; 0 between turns."""
    sub_agents: Mapping[str, AgentState] = field(default_factory=dict)
    """States of sub-agents that have not finished, by the call id of their task."""
    tool_failures: int = 0
    """Tool batches in a row that brought nothing but errors; 0 between turns."""
    granted: Mapping[str, int] = field(default_factory=dict)
    """What a person granted this turn beyond its limits, by budget: `runs`, `tokens`."""
    rejected: Mapping[str, str] = field(default_factory=dict)
    """What a person rejected in this turn: the first call's id by `ToolCall.fingerprint`."""

    def __post_init__(self) -> None:
        # the exact types come first, since each step of a turn makes a few states
        if type(self.messages) is not History and (
            isinstance(self.messages, str) or not isinstance(self.messages, Sequence)
        ):
            raise Misconfigured(f"messages are a sequence of Message, got {self.messages!r:.200}")
        if type(self.metadata) is not dict and not isinstance(self.metadata, Mapping):
            raise Misconfigured(f"metadata is a mapping, got {self.metadata!r:.200}")
        if type(self.todos) is not tuple or not all(isinstance(one, Todo) for one in self.todos):
            object.__setattr__(self, "todos", todos.read(self.todos))

    def history(self) -> History:
        """Return the messages as a view that grows cheaply.

        Raises:
            Misconfigured: something among them is no message.
        """
        if isinstance(self.messages, History):
            return self.messages
        for message in self.messages:
            if not isinstance(message, Message):
                raise Misconfigured(f"messages hold only Message objects, got {message!r:.200}")
        return History(self.messages)

    def add_message(self, *messages: Message) -> AgentState:
        """Return the state with `messages` at the end."""
        for message in messages:
            if not isinstance(message, Message):
                raise Misconfigured(f"expected a Message, got {message!r:.200}")
        return replace(self, messages=self.history().append(*messages))

    def replace_message(self, index: int, message: Message) -> AgentState:
        """Return the state with another message at `index`."""
        return replace(self, messages=self.history().replace(index, message))

    def replace_tool_result(self, result: ToolResult) -> AgentState:
        """Return the state with `result` wherever its call id has one."""
        return self._map_results(
            lambda known: result if known.tool_call_id == result.tool_call_id else known
        )

    def put_metadata(self, key: str, value: Any) -> AgentState:
        """Return the state with one metadata value set."""
        return replace(self, metadata={**self.metadata, key: value})

    def put_todo(self, todo: Todo) -> AgentState:
        """Return the state with `todo` in the place of the one with its id, or at the end."""
        return replace(self, todos=todos.put(self.todos, todo))

    def get_todo(self, todo_id: int) -> Todo | None:
        """Return the todo of that id, None where there is none."""
        return todos.get(self.todos, todo_id)

    def delete_todo(self, todo_id: int) -> AgentState:
        """Return the state without the todo of that id."""
        return replace(self, todos=todos.delete(self.todos, todo_id))

    def todos_by_status(self, status: TodoStatus) -> tuple[Todo, ...]:
        """Return the todos of that status, in their order."""
        return tuple(todo for todo in self.todos if todo.status == status)

    def reset(self) -> AgentState:
        """Return a new conversation's state: nothing said, planned, known or waited for.

        Files are elsewhere and stay.
        """
        return AgentState()

    def merge(self, changes: Mapping[str, Any]) -> AgentState:
        """Return the state with what `changes` names, and nothing else, changed.

        `messages` are appended, `metadata` is merged deeply, `sub_agents` by call id (None
        removes one), every other field is replaced.

        Raises:
            Misconfigured: a name that is no field, or a value that its field cannot hold.
        """
        known = {state_field.name for state_field in fields(self)}
        if unknown := sorted(set(changes) - known):
            fields_known = ", ".join(sorted(known))
            raise Misconfigured(f"a state has no field {unknown}; it has {fields_known}")
        new: dict[str, Any] = dict(changes)
        if "messages" in new:
            new["messages"] = self.add_message(*new["messages"]).messages
        if isinstance(new.get("metadata"), Mapping):
            new["metadata"] = _deep_merge(self.metadata, new["metadata"])
        if "sub_agents" in new:
            inner = {**self.sub_agents, **new["sub_agents"]}
            new["sub_agents"] = {key: kept for key, kept in inner.items() if kept is not None}
        return replace(self, **new)

    def cancel_pending_interrupts(self) -> AgentState:
        """Return the state after the user moved on: whatever waits is answered as an error result.

        Also answers gated calls that nobody decided, and forgets their decisions.
        """
        state = self._map_results(
            lambda known: _demoted(known, _moved_on(known)) if known.is_interrupt else known
        )
        state = replace(
            state,
            interrupt=None,
            decisions={},
            verdicts={},
            sub_agents={},
            runs_used=0,
            tokens_used=0,
            tool_failures=0,
            granted={},
            rejected={},
        )
        return _answer_open_calls(state, MOVED_ON)

    def clean_stale_interrupts(self, middlewares: Iterable[Restorer] = ()) -> AgentState:
        """Return the state as a cold start may keep it: unrestorable placeholders become errors.

        Each placeholder is kept or not on its own merits, unless the batch is restorable as a
        whole; what is not kept is not waited for any more.
        """
        restorers = tuple(middlewares)
        batch = (
            _batch_ids(self.interrupt) if interrupt_restorable(self.interrupt, restorers) else ()
        )
        lost: set[str] = set()

        def clean(known: ToolResult) -> ToolResult:
            if (
                not known.is_interrupt
                or (known.interrupt is not None and known.tool_call_id in batch)
                or interrupt_restorable(known.interrupt, restorers)
            ):
                return known
            lost.add(known.tool_call_id)
            return _demoted(known, INCOMPATIBLE if known.interrupt is None else PROCESS_BOUND)

        state = self._map_results(clean)
        if not lost:
            return state
        inner = {key: one for key, one in self.sub_agents.items() if key not in lost}
        return replace(state, interrupt=_without(self.interrupt, lost), sub_agents=inner)

    def put_results(self, results: Mapping[str, ToolResult]) -> AgentState:
        """Return the state whose last batch has these results, in call order, right behind it.

        Raises:
            Misconfigured: the history does not end in a batch of calls.
        """
        batch = open_calls(self.messages)
        if batch is None:
            raise Misconfigured("the history does not end in a batch of tool calls")
        index, assistant, _ = batch
        ordered = in_call_order(assistant, results)
        if index + 1 == len(self.messages):
            return self.add_message(Message.tool(*ordered))
        return self.replace_message(
            index + 1, replace(self.messages[index + 1], tool_results=ordered)
        )

    def _map_results(self, change: Callable[[ToolResult], ToolResult]) -> AgentState:
        state = self
        for index, message in enumerate(self.messages):
            if message.tool_results:
                results = tuple(change(known) for known in message.tool_results)
                if any(
                    new is not old for new, old in zip(results, message.tool_results, strict=True)
                ):
                    state = state.replace_message(index, replace(message, tool_results=results))
        return state


def interrupt_restorable(interrupt: Interrupt | None, middlewares: Iterable[Restorer]) -> bool:
    """Whether a cold start keeps `interrupt`: it, or every member of the batch, is claimed."""
    if interrupt is None:
        return False
    restorers = tuple(middlewares)
    if any(claims(restorer, interrupt) for restorer in restorers):
        return True
    return (
        isinstance(interrupt, MultipleInterrupts)
        and bool(interrupt.members)
        and all(interrupt_restorable(member, restorers) for member in interrupt.members)
    )


def claims(restorer: Restorer, interrupt: Interrupt) -> bool:
    """Whether `restorer` takes care of `interrupt`; one that fails to say so does not."""
    try:
        return restorer.restorable_interrupt(interrupt) is True
    except Exception:  # noqa: BLE001  # a claim that cannot be made is no claim
        return False


def _batch_ids(interrupt: Interrupt | None) -> tuple[str | None, ...]:
    """Return the calls whose placeholders belong to what a turn waits for."""
    if isinstance(interrupt, MultipleInterrupts):
        return tuple(member.tool_call_id for member in interrupt.members)
    return () if interrupt is None else (interrupt.tool_call_id,)


def _without(interrupt: Interrupt | None, lost: set[str]) -> Interrupt | None:
    """Return what is left to wait for when the calls in `lost` wait no more."""
    if not isinstance(interrupt, MultipleInterrupts):
        return None if interrupt is None or interrupt.tool_call_id in lost else interrupt
    kept = tuple(member for member in interrupt.members if member.tool_call_id not in lost)
    if len(kept) == len(interrupt.members):
        return interrupt
    return None if not kept else kept[0] if len(kept) == 1 else MultipleInterrupts(kept)


def _moved_on(result: ToolResult) -> str:
    inside = leaves(result.interrupt) if result.interrupt is not None else ()
    reasons = [leaf.message for leaf in inside if isinstance(leaf, Halt) and leaf.message]
    return HALTED.format(message="\n".join(reasons)) if reasons else MOVED_ON


def _demoted(result: ToolResult, text: str) -> ToolResult:
    return ToolResult(result.tool_call_id, result.name, (TextPart(text),), is_error=True)


def open_calls(messages: Sequence[Message]) -> tuple[int, Message, dict[str, ToolResult]] | None:
    """Return the last batch: index and message of the assistant, and the results so far.

    None where the history does not end in a batch, that is with an assistant that calls or its tool
    message.
    """
    results: dict[str, ToolResult] = {}
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "tool":
            for result in message.tool_results:
                results.setdefault(result.tool_call_id, result)
            continue
        if message.role == "assistant" and message.tool_calls:
            return index, message, results
        return None
    return None


def last_batch_index(messages: Sequence[Message]) -> int | None:
    """Return where the last batch's results are, behind which only user messages may have come."""
    for index in range(len(messages) - 1, -1, -1):
        role = messages[index].role
        if role != "user":
            return index if role == "tool" else None
    return None


def _answer_open_calls(state: AgentState, text: str) -> AgentState:
    batch = open_calls(state.messages)
    if batch is None:
        return state
    _, assistant, results = batch
    missing = [call for call in assistant.tool_calls if call.call_id not in results]
    if not missing:
        return state
    answers = {
        call.call_id: ToolResult(call.call_id, call.name, (TextPart(text),), is_error=True)
        for call in missing
    }
    return state.put_results({**results, **answers})


def in_call_order(assistant: Message, results: Mapping[str, ToolResult]) -> tuple[ToolResult, ...]:
    """Return the results that the message's calls have, in the order of the calls."""
    return tuple(results[call.call_id] for call in assistant.tool_calls if call.call_id in results)


def _deep_merge(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(left)
    for key, value in right.items():
        known = merged.get(key)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        merged[key] = _deep_merge(known, value) if both and isinstance(known, Mapping) else value
    return merged
