"""Values to JSON and back: the stored form of messages, states, interrupts and decisions.

The form is fixed and versioned; nothing is imported by name, so data that looks like an envelope
stays data. Stored are never tools, prompts, keys, the host's context, nor a result's
`processed_content`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar, get_args, get_type_hints

from sagents_app.engine import canonical, interrupts, todos, upgrades
from sagents_app.engine.decisions import (
    DECISIONS,
    Answer,
    Approve,
    Cancel,
    Decision,
    Edit,
    Reject,
    Respond,
)
from sagents_app.engine.errors import EngineError, InvalidState
from sagents_app.engine.history import History
from sagents_app.engine.interrupts import (
    ActionRequest,
    ApprovalRequest,
    Interrupt,
    MultipleInterrupts,
    Question,
    QuestionOption,
    ReviewConfig,
    SubAgentInterrupt,
    UnknownInterrupt,
    UnknownOutcome,
)
from sagents_app.engine.messages import (
    Expansion,
    FilePart,
    ImagePart,
    Message,
    Part,
    Role,
    Status,
    StreamFailure,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    fresh_id,
)
from sagents_app.engine.state import AgentState
from sagents_app.engine.usage import TokenUsage

PART_TYPES: Mapping[str, type[Part]] = {
    "text": TextPart,
    "thinking": ThinkingPart,
    "image": ImagePart,
    "file": FilePart,
}
PART_NAMES = {kind: name for name, kind in PART_TYPES.items()}
ROLES, STATUSES = get_args(Role), get_args(Status)
Json = dict[str, Any]
T = TypeVar("T")
_UNREADABLE = (
    EngineError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def dump_message(message: Message) -> Json:
    """Return a message's stored form; what is empty is left out."""
    data: Json = {"id": message.id, "role": message.role, "status": message.status}
    if message.content:
        data["content"] = [dump_part(part) for part in message.content]
    if message.tool_calls:
        data["tool_calls"] = [dump_call(call) for call in message.tool_calls]
    if message.tool_results:
        data["tool_results"] = [dump_result(result) for result in message.tool_results]
    if message.usage is not None:
        data["usage"] = dataclasses.asdict(message.usage)
    if message.stream_failure is not None:
        data["stream_failure"] = dataclasses.asdict(message.stream_failure)
    if message.stop_details is not None:
        data["stop_details"] = canonical.to_json(dict(message.stop_details))
    return data


def load_message(data: Any) -> Message:
    """Return the message of a stored form.

    Raises:
        InvalidState: it is none; says where.
    """
    return _read("message", _message, data)


def dump_part(part: Part) -> Json:
    """Return a content part's stored form."""
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    kept = {key: value for key, value in dataclasses.asdict(part).items() if value is not None}
    return {"type": PART_NAMES[type(part)], **kept}


def dump_call(call: ToolCall) -> Json:
    """Return a tool call's stored form; the arguments stay canonical text."""
    data: Json = {"call_id": call.call_id, "name": call.name, "arguments": call.arguments_json}
    if call.provider_id is not None:
        data["provider_id"] = call.provider_id
    if call.problem is not None:
        data["problem"] = call.problem
    return data


def dump_result(result: ToolResult) -> Json:
    """Return a tool result's stored form."""
    data: Json = {"tool_call_id": result.tool_call_id, "name": result.name}
    data["content"] = [dump_part(part) for part in result.content]
    if result.is_error:
        data["is_error"] = True
    if result.is_interrupt:
        data["is_interrupt"] = True
    if result.interrupt is not None:
        data["interrupt"] = dump_interrupt(result.interrupt)
    if result.expansion is not None:
        kept = result.expansion.result_content
        data["expansion"] = {
            "messages": [dump_message(message) for message in result.expansion.messages],
            "result_content": None if kept is None else [dump_part(part) for part in kept],
        }
    if result.state_update:
        data["state_update"] = _dump_update(result.state_update)
    if result.decision is not None:
        data["decision"] = result.decision
    return data


def load_result(data: Any) -> ToolResult:
    """Return the tool result of a stored form, or raise `InvalidState`."""
    return _read("result", _result, data)


def dump_interrupt(interrupt: Interrupt) -> Json:
    """Return an interrupt's stored form, which names its kind as `type`."""
    if isinstance(interrupt, UnknownInterrupt):
        return {
            **interrupt.data,
            "type": interrupt.stored_type,
            "tool_call_id": interrupt.tool_call_id,
        }
    data: Json = {"type": interrupt.type}
    for field in dataclasses.fields(interrupt):
        data[field.name] = _plain(getattr(interrupt, field.name))
    return data


def load_interrupt(data: Any) -> Interrupt:
    """Return the interrupt of a stored form; unreadable ones are `UnknownInterrupt`.

    Raises:
        InvalidState: not even a mapping with a `type`.
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("type"), str):
        raise InvalidState(
            f"an interrupt is a mapping with a type, got {data!r:.200}", path="interrupt"
        )
    kind = interrupts.kinds().get(data["type"])
    values = {key: value for key, value in data.items() if key != "type"}
    try:
        if kind is not None and kind is not UnknownInterrupt:
            return _interrupt(kind, values)
    except _UNREADABLE:
        pass  # today's code cannot read it; it can still be shown and cancelled
    call_id = values.pop("tool_call_id", None)
    return UnknownInterrupt(
        data["type"], data=values, tool_call_id=call_id if isinstance(call_id, str) else None
    )


def dump_decision(decision: Decision) -> Json:
    """Return a decision's stored form."""
    data: Json = {"type": decision.type}
    for field in dataclasses.fields(decision):
        data[field.name] = _plain(getattr(decision, field.name))
    return data


def load_decision(data: Any) -> Decision:
    """Return the decision of a stored form, or raise `InvalidState`."""
    return _read("decision", _decision, data)


def dump_state(state: AgentState, *, with_messages: bool = True) -> Json:
    """Return a state's stored form; hosts that keep messages as rows leave them out."""
    data: Json = {
        "version": upgrades.VERSION,
        "todos": [dataclasses.asdict(todo) for todo in state.todos],
        "metadata": canonical.to_json(dict(state.metadata)),
        "interrupt": None if state.interrupt is None else dump_interrupt(state.interrupt),
        "pause_reason": canonical.to_json(state.pause_reason),
        "decisions": {
            call_id: dump_decision(decision) for call_id, decision in state.decisions.items()
        },
        "verdicts": dict(state.verdicts),
        "runs_used": state.runs_used,
        "tokens_used": state.tokens_used,
        "sub_agents": {call_id: dump_state(inner) for call_id, inner in state.sub_agents.items()},
        "tool_failures": state.tool_failures,
        "granted": dict(state.granted),
        "rejected": dict(state.rejected),
    }
    if with_messages:
        data["messages"] = [dump_message(message) for message in state.messages]
    return data


def load_state(data: Any, messages: Iterable[Message] | None = None) -> AgentState:
    """Return the state of a stored form; `messages` are given where the host keeps them apart.

    Raises:
        InvalidState: it cannot be read, or a newer version wrote it.
    """
    return _read("state", lambda given: _state(upgrades.upgraded(given), messages), data)


def load_pending_message(data: Any) -> Message | None:
    """Return the message that a stored state of version 1 or 2 had not delivered yet, if any.

    Today's states have none: what nobody has read yet is the host's, not the state's.
    """
    pending = data.get("pending_message") if isinstance(data, Mapping) else None
    return load_message(upgrades.message(pending)) if isinstance(pending, Mapping) else None


def _read(what: str, reader: Callable[[Any], T], data: Any) -> T:
    try:
        return reader(data)
    except InvalidState:
        raise
    except _UNREADABLE as error:
        raise InvalidState(f"cannot be read: {type(error).__name__}: {error}", path=what) from error


def _state(data: Json, messages: Iterable[Message] | None) -> AgentState:
    stored = data.get("messages")
    own = [_message(message) for message in stored] if isinstance(stored, list) else []
    plan, metadata = data.get("todos"), data.get("metadata")
    return AgentState(
        History(own if messages is None else messages),
        todos.read(plan) if isinstance(plan, list) else (),
        _mapping(metadata) or {},
        None if data.get("interrupt") is None else load_interrupt(data["interrupt"]),
        data.get("pause_reason"),
        {
            call_id: _decision(decision)
            for call_id, decision in (data.get("decisions") or {}).items()
        },
        {
            call_id: verdict is not False
            for call_id, verdict in (data.get("verdicts") or {}).items()
        },
        _count(data.get("runs_used")),
        _count(data.get("tokens_used")),
        {call_id: load_state(inner) for call_id, inner in (data.get("sub_agents") or {}).items()},
        _count(data.get("tool_failures")),
        {budget: _count(amount) for budget, amount in (data.get("granted") or {}).items()},
        {key: str(call_id) for key, call_id in (data.get("rejected") or {}).items()},
    )


def _count(stored: Any) -> int:
    if stored is None:
        return 0
    if type(stored) is not int or stored < 0:
        raise InvalidState(f"a count is a number from 0, got {stored!r:.200}")
    return stored


def _message(data: Any) -> Message:
    role, status = data["role"], data.get("status", "complete")
    if role not in ROLES or status not in STATUSES:
        raise InvalidState(f"role {role!r} or status {status!r} is unknown", path="message")
    if role in ("user", "system") and not data.get("content"):
        raise InvalidState(f"a {role} message needs content", path="message")
    failure = data.get("stream_failure")
    usage = data.get("usage")
    return Message(
        role,
        _parts(data.get("content")),
        tuple(_call(call) for call in data.get("tool_calls") or ()),
        tuple(_result(result) for result in data.get("tool_results") or ()),
        status,
        data.get("id") or fresh_id(),
        None if usage is None else TokenUsage(**usage),
        None if failure is None else StreamFailure(failure["type"], failure["message"]),
        _mapping(data.get("stop_details")),
    )


def _mapping(stored: Any) -> Mapping[str, Any] | None:
    return stored if isinstance(stored, Mapping) else None


def _parts(stored: Any) -> tuple[Part, ...]:
    if isinstance(stored, str):
        return (TextPart(stored),) if stored else ()
    return tuple(_part(part) for part in stored or ())


def _part(data: Mapping[str, Any]) -> Part:
    kind = PART_TYPES.get(data["type"])
    if kind is None:
        raise InvalidState(f"a part of the unknown type {data['type']!r}", path="content")
    return kind(**{key: value for key, value in data.items() if key != "type"})


def _call(data: Mapping[str, Any]) -> ToolCall:
    arguments, problem = data.get("arguments"), data.get("problem")
    if problem is not None:
        stored = {"arguments_json": str(arguments), "problem": str(problem)}
        return ToolCall(data["call_id"], data["name"], None, data.get("provider_id"), **stored)
    return ToolCall(data["call_id"], data["name"], arguments, data.get("provider_id"))


def _result(data: Mapping[str, Any]) -> ToolResult:
    stored, expansion = data.get("interrupt"), data.get("expansion")
    return ToolResult(
        data["tool_call_id"],
        data["name"],
        _parts(data.get("content")),
        data.get("is_error") is True,
        data.get("is_interrupt") is True,
        _stored_interrupt(stored),
        None,
        None if expansion is None else _expansion(expansion),
        None if data.get("state_update") is None else _update(data["state_update"]),
        data.get("decision"),
    )


def _stored_interrupt(data: Any) -> Interrupt | None:
    return (
        load_interrupt(data)
        if isinstance(data, Mapping) and isinstance(data.get("type"), str)
        else None
    )


def _expansion(data: Mapping[str, Any]) -> Expansion:
    kept = data["result_content"]
    messages = tuple(_message(message) for message in data["messages"])
    return Expansion(messages, None if kept is None else _parts(kept))


def _dump_update(update: Mapping[str, Any]) -> Json:
    return {key: _dump_change(key, value) for key, value in update.items()}


def _dump_change(field: str, value: Any) -> Any:
    """Return a change of one field; what no state can hold is kept for whoever applies it."""
    try:
        match field:
            case "todos":
                return [dataclasses.asdict(todo) for todo in todos.read(value)]
            case "messages":
                return [dump_message(message) for message in value]
            case "sub_agents":
                return {key: None if one is None else dump_state(one) for key, one in value.items()}
            case _:
                return canonical.to_json(value)
    except _UNREADABLE:
        return canonical.to_json(value)


def _update(data: Mapping[str, Any]) -> Json:
    return {key: _change(key, value) for key, value in data.items()}


def _change(field: str, value: Any) -> Any:
    try:
        match field:
            case "todos":
                return todos.read(value)
            case "messages":
                return tuple(_message(message) for message in value)
            case "sub_agents":
                return {key: None if one is None else load_state(one) for key, one in value.items()}
            case _:
                return value
    except _UNREADABLE:
        return value


def _interrupt(kind: type[Interrupt], values: Mapping[str, Any]) -> Interrupt:
    fields = {field.name for field in dataclasses.fields(kind)}
    known = {key: value for key, value in values.items() if key in fields}
    if kind is ApprovalRequest:
        known["action_requests"] = tuple(
            ActionRequest(**request) for request in known["action_requests"]
        )
        configs = known.get("review_configs") or {}
        known["review_configs"] = {
            name: ReviewConfig(
                tuple(config["allowed_decisions"]),
                "ask" if config.get("repeat_after_reject") == "ask" else "refuse",
            )
            for name, config in configs.items()
        }
    elif kind is Question:
        known["options"] = tuple(QuestionOption(**option) for option in known.get("options") or ())
    elif kind is UnknownOutcome:
        known["call"] = ActionRequest(**known["call"])
    elif kind is SubAgentInterrupt:
        known["inner"], known["path"] = load_interrupt(known["inner"]), tuple(known["path"])
    elif kind is MultipleInterrupts:
        known["interrupts"] = tuple(load_interrupt(member) for member in known["interrupts"])
    elif kind.__module__ != interrupts.__name__:
        return _hosts_own(kind, known)
    return kind(**known)


def _hosts_own(kind: type[Interrupt], values: Json) -> Interrupt:
    """Return an interrupt of a host's own kind, its values made what the annotations say."""
    from pydantic import PydanticUserError, TypeAdapter  # slower to import than the whole engine

    try:
        hints, adapter = get_type_hints(kind), TypeAdapter(kind)
    except (NameError, PydanticUserError):
        return kind(**values)  # annotations that only Python can read
    for name, value in values.items():
        if value is not None and _holds_interrupts(hints[name]):
            values[name] = (
                load_interrupt(value)
                if isinstance(value, Mapping)
                else tuple(load_interrupt(member) for member in value)
            )
    return adapter.validate_python(values)


def _holds_interrupts(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, Interrupt):
        return True
    return any(_holds_interrupts(one) for one in get_args(hint))


def _decision(data: Mapping[str, Any]) -> Decision:
    match data:
        case {"type": "approve"}:
            return Approve(data.get("note") or "")
        case {"type": "edit", "arguments_json": str(text)}:
            return Edit(canonical.parse(text), data.get("note") or "")
        case {"type": "reject"}:
            return Reject(data.get("note") or "")
        case {"type": "respond", "text": str(text)}:
            return Respond(text)
        case {"type": "answer"}:
            return Answer(data.get("selected") or (), data.get("other_text"))
        case {"type": "cancel"}:
            return Cancel()
        case _:
            raise InvalidState(
                f"a decision is one of {', '.join(DECISIONS)}, got {data!r:.200}", path="decision"
            )


def _plain(value: Any) -> Any:
    """Return a field of an interrupt or decision as JSON; nested interrupts keep their `type`."""
    if isinstance(value, Interrupt):
        return dump_interrupt(value)
    if isinstance(value, Enum):
        return _plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {canonical.to_text(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(one) for one in value]
    return canonical.to_json(value)
