"""Values to JSON and back: the stored form of messages, states, interrupts and decisions.

The form is fixed and versioned; nothing is imported by name, so data that looks like an envelope
stays data. Stored are never tools, prompts, keys, the host's context, nor a result's
`processed_content`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from sagents_app.engine import canonical, interrupts
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
from sagents_app.engine.todos import Todo
from sagents_app.engine.usage import TokenUsage

VERSION = 3
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
    except (EngineError, TypeError, ValueError, KeyError, AttributeError):
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
        "version": VERSION,
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
    }
    if with_messages:
        data["messages"] = [dump_message(message) for message in state.messages]
    return data


def load_state(data: Any, messages: Iterable[Message] | None = None) -> AgentState:
    """Return the state of a stored form; `messages` are given where the host keeps them apart.

    Raises:
        InvalidState: it cannot be read, or a newer version wrote it.
    """
    return _read("state", lambda given: _state(upgraded(given), messages), data)


def upgraded(data: Any) -> Json:
    """Return a stored state in today's version.

    Raises:
        InvalidState: no mapping, or of a version that does not exist yet.
    """
    if not isinstance(data, Mapping):
        raise InvalidState(f"a state is a mapping, got {type(data).__name__}")
    version = data.get("version", 1)
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise InvalidState(f"version {version!r} is not among 1 to {VERSION}", path="version")
    state = dict(data)
    for step in _UPGRADES[version - 1 :]:
        state = step(state)
    return state


def _v1_to_v2(data: Json) -> Json:
    """Rename the argument of the sub-agent tools, `subagent_type`, to `task_name`."""
    messages = data.get("messages")
    renamed = [_rename_task(message) for message in messages] if isinstance(messages, list) else []
    return (
        {**data, "messages": renamed, "version": 2}
        if "messages" in data
        else {**data, "version": 2}
    )


def _rename_task(message: Any) -> Any:
    if not isinstance(message, Mapping) or not isinstance(message.get("tool_calls"), list):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = call.get("arguments") if isinstance(call, Mapping) else None
        if isinstance(arguments, Mapping) and call.get("name") in ("task", "get_task_instructions"):
            renamed = {
                "task_name" if key == "subagent_type" else key: value
                for key, value in arguments.items()
            }
            call = {**call, "arguments": renamed}
        calls.append(call)
    return {**message, "tool_calls": calls}


def _v2_to_v3(data: Json) -> Json:
    """Take what version 2 did not have as empty; the readers take both forms of the rest."""
    messages = data.get("messages")
    return {**data, "version": 3, **({"messages": messages} if isinstance(messages, list) else {})}


_UPGRADES: tuple[Callable[[Json], Json], ...] = (_v1_to_v2, _v2_to_v3)


def _read(what: str, reader: Callable[[Any], T], data: Any) -> T:
    try:
        return reader(data)
    except InvalidState:
        raise
    except (EngineError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise InvalidState(f"cannot be read: {type(error).__name__}: {error}", path=what) from error


def _state(data: Json, messages: Iterable[Message] | None) -> AgentState:
    stored = data.get("messages")
    own = [_message(message) for message in stored] if isinstance(stored, list) else []
    todos, metadata = data.get("todos"), data.get("metadata")
    return AgentState(
        History(own if messages is None else messages),
        tuple(Todo(**todo) for todo in todos) if isinstance(todos, list) else (),
        metadata if isinstance(metadata, dict) else {},
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
        int(data.get("runs_used") or 0),
        int(data.get("tokens_used") or 0),
        {call_id: load_state(inner) for call_id, inner in (data.get("sub_agents") or {}).items()},
        int(data.get("tool_failures") or 0),
        {budget: int(amount) for budget, amount in (data.get("granted") or {}).items()},
    )


def _message(data: Any) -> Message:
    role, status = data["role"], data.get("status", "complete")
    if role not in ROLES or status not in STATUSES:
        raise InvalidState(f"role {role!r} or status {status!r} is unknown", path="message")
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
        data.get("stop_details"),
    )


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
    data = dict(update)
    if "todos" in data:
        data["todos"] = [dataclasses.asdict(todo) for todo in data["todos"]]
    if "messages" in data:
        data["messages"] = [dump_message(message) for message in data["messages"]]
    if "sub_agents" in data:
        inner = data["sub_agents"].items()
        data["sub_agents"] = {key: None if one is None else dump_state(one) for key, one in inner}
    return {key: canonical.to_json(value) for key, value in data.items()}


def _update(data: Mapping[str, Any]) -> Json:
    update = dict(data)
    if "todos" in update:
        update["todos"] = tuple(Todo(**todo) for todo in update["todos"])
    if "messages" in update:
        update["messages"] = tuple(_message(message) for message in update["messages"])
    if "sub_agents" in update:
        inner = update["sub_agents"].items()
        update["sub_agents"] = {key: None if one is None else load_state(one) for key, one in inner}
    return update


def _interrupt(kind: type[Interrupt], values: Mapping[str, Any]) -> Interrupt:
    fields = {field.name for field in dataclasses.fields(kind)}
    known = {key: value for key, value in values.items() if key in fields}
    if kind is ApprovalRequest:
        known["action_requests"] = tuple(
            ActionRequest(**request) for request in known["action_requests"]
        )
        configs = known.get("review_configs") or {}
        known["review_configs"] = {
            name: ReviewConfig(tuple(config["allowed_decisions"]))
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
    return kind(**known)


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
            return Answer(tuple(data.get("selected") or ()), data.get("other_text"))
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
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(one) for one in value]
    return canonical.to_json(value)
