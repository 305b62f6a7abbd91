"""A model request as the JSON of a chat completion: pure.

The form is that of https://platform.openai.com/docs/api-reference/chat/create, kept to what other
servers of the protocol take as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _history
from sagents_app.engine.chat_models.openai.options import ChatOptions
from sagents_app.engine.errors import BadRequest
from sagents_app.engine.messages import (
    FilePart,
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    text_of,
)
from sagents_app.engine.tools import Tool

PROVIDER = "openai"
LONGEST_CALL_ID = 40  # what OpenAI takes
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXTS = ("application/json", "application/xml", "application/yaml", "application/csv")
_PLAIN = ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")
_NAMED = ("reasoning_effort", "verbosity", "service_tier")
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")

Wire = dict[str, Any]


def body(
    model_name: str, request: ModelRequest, options: ChatOptions, *, max_tokens_field: str
) -> Wire:
    """Return the body of the call.

    Raises:
        BadRequest: the newest message holds what the protocol cannot carry; older ones have a note
            in its place, so that a conversation stays usable.
    """
    wire: Wire = {
        "model": model_name,
        "messages": messages(request, options),
        "stream": True,
    }
    if options.stream_usage:
        wire["stream_options"] = {"include_usage": True}
    for name in (*_PLAIN, *_NAMED):
        if (value := getattr(options, name)) is not None:
            wire[name] = value
    if options.max_tokens is not None:
        wire[max_tokens_field] = options.max_tokens
    if options.stop:
        wire["stop"] = list(options.stop)
    if options.response_format is not None:
        wire["response_format"] = dict(options.response_format)
    if request.tools:
        wire["tools"] = [_tool(tool, strict=options.strict_tools) for tool in request.tools]
        for name in ("tool_choice", "parallel_tool_calls"):
            if (value := getattr(options, name)) is not None:
                wire[name] = value
    return {**wire, **options.extra}


def messages(request: ModelRequest, options: ChatOptions) -> list[Wire]:
    """Return the history: each call with one result, right behind it.

    Raises:
        BadRequest: as `body`; also for a history that holds nothing.
    """
    wire: list[Wire] = []
    if request.system:
        wire.append({"role": "system", "content": request.system})
    ids = _call_ids(options)
    newest = request.messages[-1] if request.messages else None
    turn_begins = _last_user(request.messages) if options.send_thinking else len(request.messages)
    for index, message, results in _history.exchanges(request.messages):
        match message.role:
            case "assistant":
                thinking = index > turn_begins
                wire.extend(_assistant(message, results, ids, newest=newest, thinking=thinking))
            case "system":
                role = options.later_system_role if wire else "system"
                if message.text:
                    wire.append({"role": role, "content": message.text})
            case _:
                if content := _content(message.content, strict=message is newest):
                    wire.append({"role": "user", "content": content})
    if not wire:
        raise BadRequest("there is nothing to send: no system prompt and no message")
    return wire


def _assistant(
    message: Message,
    results: Sequence[ToolResult],
    ids: _history.CallIds,
    *,
    newest: Message | None,
    thinking: bool,
) -> list[Wire]:
    """Return an assistant's message and all results of its calls; nothing of an empty message."""
    text = _assistant_text(message.content)
    if not text and not message.tool_calls:
        return []
    said: Wire = {"role": "assistant", "content": text or None}
    if thinking and (thought := _own_thinking(message.content)):
        said["reasoning_content"] = thought
    if not message.tool_calls:
        return [said]
    wire_ids = [ids.take(call) for call in message.tool_calls]
    said["tool_calls"] = [
        _call(call, wire_id) for call, wire_id in zip(message.tool_calls, wire_ids, strict=True)
    ]
    wire = [said]
    shown: list[Wire] = []
    for wire_id, result in zip(wire_ids, results, strict=True):
        wire.append(
            {"role": "tool", "tool_call_id": wire_id, "content": _history.result_text(result)}
        )
        if files := _history.files_of(result):
            strict = newest is not None and any(result is one for one in newest.tool_results)
            heading = TextPart(f"What {_history.tool_name(result.name)} ({wire_id}) returned:")
            shown.append({"role": "user", "content": _content((heading, *files), strict=strict)})
    return wire + shown  # a tool's message carries text only: its images follow as a user's


def _assistant_text(parts: Sequence[Part]) -> str:
    """Return an assistant's text; the protocol has no other content for it."""
    texts = (
        _history.note_of(part) if isinstance(part, (ImagePart, FilePart)) else part.text
        for part in parts
        if not isinstance(part, ThinkingPart)
    )
    return "\n".join(text for text in texts if text)


def _own_thinking(parts: Sequence[Part]) -> str:
    return "\n".join(
        part.text for part in parts if isinstance(part, ThinkingPart) and part.provider == PROVIDER
    )


def _call(call: ToolCall, wire_id: str) -> Wire:
    arguments = call.arguments_json
    if call.problem is not None:  # servers parse the arguments of a history: they must be JSON
        arguments = json.dumps({_history.INVALID_JSON: arguments}, ensure_ascii=False)
    function = {"name": _history.tool_name(call.name), "arguments": arguments}
    return {"id": wire_id, "type": "function", "function": function}


def _content(parts: Sequence[Part], *, strict: bool) -> str | list[Wire]:
    """Return a user's content: a string where it is text alone, which every server takes."""
    readable = _history.without_thinking(parts)
    if all(isinstance(part, TextPart) for part in readable):
        return text_of(readable)
    return [_part(part, strict=strict) for part in readable]


def _part(part: Part, *, strict: bool) -> Wire:
    if isinstance(part, (TextPart, ThinkingPart)):
        return _text(part.text)
    encoded = _image(part) if isinstance(part, ImagePart) else _file(part)
    if encoded is not None:
        return encoded
    if strict:
        raise BadRequest(
            f"chat completions cannot carry {_history.described(part)}: images are sent by address "
            "or as PNG, JPEG, GIF or WebP, files as PDF or text, never by address"
        )
    return _text(_history.note_of(part))


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _image(part: ImagePart) -> Wire | None:
    url = part.url
    if part.data:
        kind = _history.mime_type(part)
        url = f"data:{kind};base64,{part.data}" if kind in IMAGES else None
    return {"type": "image_url", "image_url": {"url": url}} if url else None


def _file(part: FilePart) -> Wire | None:
    kind = _history.mime_type(part)
    if not part.data:
        return None
    if kind in IMAGES:
        return _image(ImagePart(data=part.data, mime_type=kind))
    if kind == "application/pdf":
        data = f"data:{kind};base64,{part.data}"
        return {"type": "file", "file": {"filename": part.name, "file_data": data}}
    if kind.startswith("text/") or kind in TEXTS:
        text = _history.decoded(part).decode("utf-8", "replace")
        return _text(f"File {part.name}:\n\n{text}")
    return None


def _tool(tool: Tool, *, strict: bool) -> Wire:
    function: Wire = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }
    if strict and _history.strictly_enforceable(tool.parameters):
        function["strict"] = True
    return {"type": "function", "function": function}


def _call_ids(options: ChatOptions) -> _history.CallIds:
    length = options.call_id_length
    form = re.compile(rf"[A-Za-z0-9]{{{length}}}") if length else _CALL_ID
    return _history.CallIds(
        lambda call_id: form.fullmatch(call_id) is not None, length=length or LONGEST_CALL_ID
    )


def _last_user(messages: Sequence[Message]) -> int:
    """Return where the newest user message stands, -1 for nowhere."""
    return next((i for i in reversed(range(len(messages))) if messages[i].role == "user"), -1)
