"""Tools: functions that a model may call, their context, and what they return."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

from sagents_app.engine import canonical
from sagents_app.engine.errors import InvalidExpansion, Misconfigured
from sagents_app.engine.interrupts import Halt, Interrupt, Question
from sagents_app.engine.messages import (
    PARTS,
    Content,
    Expansion,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    fresh_id,
    parts_of,
)

if TYPE_CHECKING:
    from sagents_app.engine.schema import Signature
    from sagents_app.engine.state import AgentState

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
EXPANDED = "The material of this result follows as messages."
FLAGS = ("parallel", "retry_safe", "read_only", "asks_person")
NO_OUTPUT = "(the tool returned nothing)"
RunSync = Callable[..., Awaitable[Any]]
Delegate = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know beyond its arguments."""

    state: AgentState
    """As of the start of the batch, with every earlier batch's changes applied."""
    call_id: str
    idempotency_key: str
    """Unique to the call, and the same whenever the same call is run again."""
    agent_name: str = ""
    conversation_id: str | None = None
    scope: Any = None
    acting_user: Any = None
    """Whoever the turn is run for, as the host gave it."""
    tool_context: Mapping[str, Any] = field(default_factory=dict)
    """The host's own values; never stored."""
    emit: Callable[[Any], Awaitable[None]] | None = field(default=None, repr=False)
    """Tells the host of an event, such as `Custom(name, data)` about progress."""
    delegate: Delegate | None = field(default=None, repr=False)
    """Runs another agent inside this call, under its cancel, journal and ids; see `sub_agents`."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result: `content` for the model, `processed` for the program, `state` changes.

    An interrupt as `content` is a call that waits and changes the state meanwhile.

    Raises:
        Misconfigured: `state` is no mapping.
    """

    content: Any
    processed: Any = field(default=None, kw_only=True)
    state: Mapping[str, Any] | None = field(default=None, kw_only=True)
    """Only what changes, for instance `{"todos": (...)}`; see `AgentState.merge`."""
    expansion: Expansion | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.state is not None and not isinstance(self.state, Mapping):
            raise Misconfigured(f"state names changes by field, got {self.state!r:.200}")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool:
    """A function that a model may call. Make one with `tool`."""

    name: str
    """1 to 64 of `[A-Za-z0-9_-]`."""
    description: str
    function: Callable[..., Any]
    signature: Signature
    is_async: bool
    parallel: bool = False
    """Whether it may run at the same time as others of its batch."""
    timeout: float | None = None
    """Seconds it may take; None is no limit."""
    retry_safe: bool = False
    """Whether running it twice under one idempotency key does no more than running it once."""
    read_only: bool = False
    """Whether it changes nothing outside."""
    asks_person: bool = False
    """Whether all it does is to ask a person; a gate's default does not cover it."""
    display_text: str = ""
    """What pages call it."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments: an object, with additional properties refused."""
        return self.signature.parameters

    def validate(self, call: ToolCall) -> dict[str, Any]:
        """Return the call's typed arguments.

        Raises:
            InvalidArguments: they do not fit the schema.
        """
        return self.signature.validate(call.arguments_json)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parallel: bool = False,
    timeout: float | None = None,
    retry_safe: bool = False,
    read_only: bool = False,
    asks_person: bool = False,
    display_text: str | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a sync or async function; signature and docstring give its JSON Schema.

    A parameter annotated `ToolContext` gets the context and is not shown to the model. For the
    options see `Tool`.

    Raises:
        Misconfigured: a name, signature or option that cannot work; names it.
    """
    if function is None:
        return lambda decorated: _make(decorated, **options)
    return _make(function)


def _make(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    display_text: str | None = None,
    **flags: bool,
) -> Tool:
    from sagents_app.engine import schema  # pydantic takes longer to import than the whole engine

    if isinstance(function, Tool) or not callable(function):
        raise Misconfigured(f"a tool is made of a function, got {function!r}")
    name = getattr(function, "__name__", "") if name is None else name
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        raise Misconfigured(f"a tool's name is 1 to 64 of A-Z a-z 0-9 _ -, got {name!r}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Misconfigured(f"tool {name!r}: a generator has no result; return a value")
    _check_options(name, timeout, {"description": description, "display_text": display_text}, flags)
    signature = schema.read_signature(function, context_type=ToolContext)
    return Tool(
        name=name,
        description=description if description is not None else signature.description,
        function=function,
        signature=signature,
        is_async=inspect.iscoroutinefunction(function),
        timeout=timeout,
        display_text=display_text or humanized(name),
        **flags,
    )


def _check_options(
    name: str, timeout: Any, texts: Mapping[str, Any], flags: Mapping[str, Any]
) -> None:
    if timeout is not None and not (_is_number(timeout) and 0 < timeout < math.inf):
        raise Misconfigured(
            f"tool {name!r}: the timeout is a number of seconds above 0, got {timeout!r}"
        )
    for option, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise Misconfigured(f"tool {name!r}: {option} is a text, got {text!r:.200}")
    for option, flag in flags.items():
        if option not in FLAGS:
            raise Misconfigured(f"tool {name!r}: unknown option {option!r}")
        if not isinstance(flag, bool):
            raise Misconfigured(f"tool {name!r}: {option} is True or False, got {flag!r:.200}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def humanized(name: str) -> str:
    """Return a tool's name as a label: `look_up_order` is "Look up order"."""
    return name.replace("_", " ").strip().capitalize()


def expand(
    content: Content,
    messages: Iterable[Message],
    *,
    result_content: Content | None = EXPANDED,
    processed: Any = None,
    state: Mapping[str, Any] | None = None,
) -> ToolOutput:
    """Hand material over as messages that the model reads on its very next call.

    `content` is the full material, which the result shows where nothing expands it; once the
    messages stand, the result keeps `result_content` (None: it keeps `content`). The messages get
    ids of their own, so that a tool may hand the same ones over again. `processed` and `state` are
    those of `ToolOutput`.

    Raises:
        InvalidExpansion: no messages, or one that is not a user or assistant message.
    """
    kept = None if result_content is None else parts_of(result_content)
    expansion = Expansion(material(messages), kept)
    return ToolOutput(parts_of(content), processed=processed, state=state, expansion=expansion)


def material(messages: Any) -> tuple[Message, ...]:
    """Return the messages that a tool hands over, each with an id of its own.

    Raises:
        InvalidExpansion: no messages, or one that is not a plain user or assistant message.
    """
    listed = isinstance(messages, Iterable) and not isinstance(messages, str)
    given = tuple(messages) if listed else ()
    if not given:
        raise InvalidExpansion(f"an expansion needs at least one message, got {messages!r:.200}")
    for message in given:
        if not isinstance(message, Message):
            raise InvalidExpansion(f"an expansion holds messages, got {message!r:.200}")
        if message.role not in ("user", "assistant") or message.tool_calls:
            raise InvalidExpansion(
                f"an expansion holds plain user and assistant messages, got role {message.role!r}"
            )
    return tuple(replace(message, id=fresh_id()) for message in given)


def result_of(call: ToolCall, returned: Any) -> ToolResult:
    """Return what a tool returned as the result of `call`, whatever its form."""
    match returned:
        case Interrupt():
            return placeholder(call, returned)
        case ToolOutput(content=Interrupt() as interrupt):
            return replace(placeholder(call, interrupt), state_update=returned.state)
        case ToolOutput():
            return ToolResult(
                call.call_id,
                call.name,
                _content(returned.content),
                processed_content=returned.processed,
                expansion=returned.expansion,
                state_update=returned.state,
            )
        case ToolResult():
            return replace(
                returned,
                tool_call_id=call.call_id,
                name=call.name,
                content=_content(returned.content),
                decision=None,
            )
        case _:
            return ToolResult(call.call_id, call.name, _content(returned))


def error_result(call: ToolCall, text: str, *, decision: str | None = None) -> ToolResult:
    """Return a failed call's result."""
    text = canonical.clean_text(text) or "The tool failed."
    return ToolResult(call.call_id, call.name, (TextPart(text),), is_error=True, decision=decision)


def placeholder(call: ToolCall, interrupt: Interrupt) -> ToolResult:
    """Return the result of a call that waits, with the interrupt's gaps filled in."""
    changes: dict[str, Any] = {}
    if interrupt.tool_call_id is None:
        changes["tool_call_id"] = call.call_id
    if isinstance(interrupt, Halt) and not (interrupt.source_tool or interrupt.source):
        changes["source_tool"] = call.name
    filled = replace(interrupt, **changes) if changes else interrupt
    text = _waiting(filled)
    return ToolResult(
        call.call_id, call.name, (TextPart(text),), is_interrupt=True, interrupt=filled
    )


def _waiting(interrupt: Interrupt) -> str:
    match interrupt:
        case Halt(message=message):
            return message or "The workflow was halted."
        case Question():
            return "Waiting for user response..."
        case _:
            return "Waiting for a person."


def _content(value: Any) -> tuple[Part, ...]:
    if value is None or isinstance(value, str):
        return (TextPart(canonical.clean_text(str(value or "")) or NO_OUTPUT),)
    if isinstance(value, PARTS):
        value = (value,)
    if isinstance(value, tuple | list) and all(isinstance(part, PARTS) for part in value):
        if any(part != TextPart("") for part in value):
            return tuple(value)
        if value or isinstance(value, tuple):
            return (TextPart(NO_OUTPUT),)
    from sagents_app.engine import schema

    return (TextPart(schema.to_text(value)),)
