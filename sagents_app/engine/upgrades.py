"""Stored states of earlier versions, as today's: one step a version, from JSON to JSON.

Versions 1 and 2 are those of sagents for Elixir: an envelope around `state`, parts with `content`
and `options`, what broke a stream in a message's `metadata`, interrupts as opaque Erlang terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sagents_app.engine.errors import InvalidState

VERSION = 3
TASK_TOOLS = ("task", "get_task_instructions")
FIELDS = ("messages", "todos", "metadata")
Json = dict[str, Any]


def upgraded(data: Any) -> Json:
    """Return a stored state in today's version.

    Raises:
        InvalidState: no mapping, without a state, or of a version that does not exist yet.
    """
    if not isinstance(data, Mapping):
        raise InvalidState(f"a state is a mapping, got {type(data).__name__}")
    version = data.get("version", 1)
    if type(version) is not int or not 1 <= version <= VERSION:
        raise InvalidState(f"version {version!r:.200} is not among 1 to {VERSION}", path="version")
    state = dict(data)
    for step in _STEPS[version - 1 :]:
        state = step(state)
    return state


def message(data: Any) -> Any:
    """Return a message of version 2 as one of version 3; what is no mapping stays as it is."""
    if not isinstance(data, Mapping):
        return data
    failure, details = _from_metadata(data.get("metadata"))
    status = data.get("status") or "complete"
    new: Json = {
        "id": data.get("id"),
        "role": data.get("role") or "user",
        "status": "stream_error" if failure and status == "cancelled" else status,
        "content": _content(data.get("content")),
        "tool_calls": data.get("tool_calls"),
        "tool_results": [_result(result) for result in data.get("tool_results") or ()],
    }
    return {**new, "stream_failure": failure, "stop_details": details}


def _v1_to_v2(data: Json) -> Json:
    """Rename the argument of the sub-agent tools, `subagent_type`, to `task_name`."""
    inner = _inner(data)
    messages = inner.get("messages")
    if isinstance(messages, list):
        inner = {**inner, "messages": [_rename_task(message) for message in messages]}
    return {**data, "version": 2, "state": inner}


def _v2_to_v3(data: Json) -> Json:
    """Take the state out of its envelope, and its messages and todos into today's form."""
    inner = _inner(data)
    messages, todos = inner.get("messages"), inner.get("todos")
    return {
        "version": 3,
        "messages": [message(one) for one in messages] if isinstance(messages, list) else [],
        "todos": _todos(todos) if isinstance(todos, list) else [],
        "metadata": inner.get("metadata"),
    }


_STEPS: tuple[Callable[[Json], Json], ...] = (_v1_to_v2, _v2_to_v3)


def _inner(data: Json) -> Json:
    """Return the state itself, which stands in an envelope or alone."""
    inner = data.get("state")
    if isinstance(inner, Mapping):
        return dict(inner)
    if "state" in data or not any(field in data for field in FIELDS):
        raise InvalidState("the stored form holds no state", path="state")
    return {field: data[field] for field in FIELDS if field in data}


def _rename_task(data: Any) -> Any:
    if not isinstance(data, Mapping) or not isinstance(data.get("tool_calls"), list):
        return data
    calls = []
    for call in data["tool_calls"]:
        arguments = call.get("arguments") if isinstance(call, Mapping) else None
        if isinstance(arguments, Mapping) and call.get("name") in TASK_TOOLS:
            renamed = {
                "task_name" if key == "subagent_type" else key: value
                for key, value in arguments.items()
            }
            call = {**call, "arguments": renamed}
        calls.append(call)
    return {**data, "tool_calls": calls}


def _from_metadata(metadata: Any) -> tuple[Json | None, Json | None]:
    """Return what broke the stream and the provider's account of why it stopped."""
    if not isinstance(metadata, Mapping):
        return None, None
    error, details = metadata.get("streaming_error"), metadata.get("stop_details")
    failure = (
        {"type": str(error.get("type")), "message": str(error.get("message"))}
        if isinstance(error, Mapping)
        else None
    )
    return failure, dict(details) if isinstance(details, Mapping) else None


def _result(data: Any) -> Any:
    """Return a tool result whose interrupt, an Erlang term, nobody here can read."""
    if not isinstance(data, Mapping):
        return data
    kept = ("tool_call_id", "name", "is_error", "is_interrupt")
    result = {key: data[key] for key in kept if key in data}
    return {"name": "", **result, "content": _content(data.get("content"))}


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = (_part(part) for part in content)
    return [part for part in parts if part is not None]


def _part(part: Any) -> Any:
    """Return a content part in today's form, None for one that only its provider understood."""
    if not isinstance(part, Mapping):
        return part
    text, options = part.get("content") or "", dict(part.get("options") or {})
    match part.get("type", "text"):
        case "text":
            return {"type": "text", "text": text}
        case "thinking":
            return {"type": "thinking", "text": text, "signature": options.get("signature")}
        case "unsupported" if options.get("type") == "redacted_thinking":
            return {"type": "thinking", "text": "", "redacted": options.get("data")}
        case "unsupported":
            return None
        case "image_url" | "image" as kind:
            return {"type": "image", **_source(kind, text, options)}
        case "file_url" | "file" as kind:
            name = options.get("filename") or "file"
            return {"type": "file", "name": name, **_source(kind, text, options)}
        case _:
            return part


def _source(kind: str, content: str, options: Json) -> Json:
    if kind.endswith("_url"):
        return {"url": content}
    media = str(options.get("media") or "")
    if media and "/" not in media:
        family = "image" if kind == "image" else "application"
        media = f"{family}/{'jpeg' if media == 'jpg' else media}"
    return {"data": content, "mime_type": media or None}


def _todos(todos: list[Any]) -> list[Any]:
    """Return todos with the three fields of today, renumbered where an id is no number."""
    if not all(isinstance(todo, Mapping) for todo in todos):
        return todos
    numbered = all(type(todo.get("id")) is int and todo["id"] > 0 for todo in todos)
    return [
        {
            "id": todo["id"] if numbered else place,
            "content": todo.get("content"),
            "status": todo.get("status") or "pending",
        }
        for place, todo in enumerate(todos, 1)
    ]
