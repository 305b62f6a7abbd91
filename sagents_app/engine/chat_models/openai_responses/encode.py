"""A model request as the JSON of OpenAI's Responses API: pure.

The form is that of https://platform.openai.com/docs/api-reference/responses/create. The whole
history is sent each time, and nothing is kept by the provider. Reasoning goes back, encrypted,
before what it led to, or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _history
from sagents_app.engine.chat_models.openai_responses.options import ResponsesOptions
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

PROVIDER = "openai-responses"
LONGEST_CALL_ID = 64
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXTS = ("application/json", "application/xml", "application/yaml", "application/csv")
ENCRYPTED = "reasoning.encrypted_content"
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_WITHOUT_REASONING = re.compile(r"(?:ft:)?(?:gpt-3|gpt-4|chatgpt-4)")

Wire = dict[str, Any]


def body(model_name: str, request: ModelRequest, options: ResponsesOptions) -> Wire:
    """Return the body of the call.

    Raises:
        BadRequest: the newest message holds what the protocol cannot carry; older ones have a note
            in its place, so that a conversation stays usable. Also for a history without content.
    """
    wire: Wire = {
        "model": model_name,
        "input": items(request.messages),
        "stream": True,
        "store": options.store,
    }
    if not wire["input"]:
        raise BadRequest("there is nothing to send: no message has any content")
    if request.system:
        wire["instructions"] = request.system
    if _asks_for_thinking(model_name, options):
        wire["include"] = [ENCRYPTED]
    if request.tools:
        wire["tools"] = [_tool(tool, strict=options.strict_tools) for tool in request.tools]
        wire |= _given(
            tool_choice=options.tool_choice, parallel_tool_calls=options.parallel_tool_calls
        )
    wire |= _given(
        temperature=options.temperature,
        top_p=options.top_p,
        service_tier=options.service_tier,
        max_output_tokens=options.max_tokens,
        reasoning=_given(effort=options.reasoning_effort, summary=options.reasoning_summary)
        or None,
        text=_given(verbosity=options.verbosity, format=options.response_format) or None,
    )
    return {**wire, **options.extra}


def items(history: Sequence[Message]) -> list[Wire]:
    """Return the history as items: each call with one output, all of them right behind.

    Raises:
        BadRequest: as `body`.
    """
    wire: list[Wire] = []
    ids = _history.CallIds(lambda text: bool(_CALL_ID.fullmatch(text)), length=LONGEST_CALL_ID)
    newest = history[-1] if history else None
    for _, message, results in _history.exchanges(history):
        match message.role:
            case "assistant":
                wire_ids = [ids.take(call) for call in message.tool_calls]
                wire.extend(_said(message, wire_ids))
                wire.extend(
                    _output(result, wire_id, newest)
                    for result, wire_id in zip(results, wire_ids, strict=True)
                )
            case "system":
                if message.text:
                    wire.append({"role": "system", "content": message.text})
            case _:
                if content := _content(message.content, strict=message is newest):
                    wire.append({"role": "user", "content": content})
    return wire


def _said(message: Message, wire_ids: Sequence[str]) -> list[Wire]:
    """Return the items of an assistant's message, reasoning before the call that it led to."""
    wire: list[Wire] = []
    before_calls: dict[int, list[Wire]] = {}
    whole = message.status in ("complete", "length")
    for part in message.content:
        match part:
            case ThinkingPart():
                if whole and (thought := _thought(part)):
                    item, calls = thought
                    (before_calls.setdefault(calls, []) if calls else wire).append(item)
            case TextPart():
                if part.text:
                    wire.append({"role": "assistant", "content": part.text})
            case _:
                wire.append({"role": "assistant", "content": _history.note_of(part)})
    for number, (call, wire_id) in enumerate(zip(message.tool_calls, wire_ids, strict=True)):
        wire.extend(before_calls.get(number, ()))
        wire.append(_call(call, wire_id))
    while wire and wire[-1].get("type") == "reasoning":
        wire.pop()  # the provider refuses reasoning that leads to nothing
    return wire


def _thought(part: ThinkingPart) -> tuple[Wire, int] | None:
    """Return a reasoning item as it came, and the number of calls before it."""
    if part.provider != PROVIDER or not part.signature or not part.redacted:
        return None
    item_id, _, calls = part.redacted.partition(" ")
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item = {
        "type": "reasoning",
        "id": item_id,
        "summary": summary,
        "encrypted_content": part.signature,
    }
    return item, int(calls) if calls.isdecimal() else 0


def _call(call: ToolCall, wire_id: str) -> Wire:
    arguments = call.arguments_json
    if call.problem is not None:
        arguments = json.dumps({_history.INVALID_JSON: arguments}, ensure_ascii=False)
    name = _history.tool_name(call.name)
    return {"type": "function_call", "call_id": wire_id, "name": name, "arguments": arguments}


def _output(result: ToolResult, wire_id: str, newest: Message | None) -> Wire:
    text = _history.result_text(result)
    output: str | list[Wire] = text
    if files := _history.files_of(result):
        strict = newest is not None and any(result is one for one in newest.tool_results)
        output = [_text(text), *(_part(part, strict=strict) for part in files)]
    return {"type": "function_call_output", "call_id": wire_id, "output": output}


def _content(parts: Sequence[Part], *, strict: bool) -> str | list[Wire]:
    readable = _history.without_thinking(parts)
    if all(isinstance(part, TextPart) for part in readable):
        return text_of(readable)
    return [_part(part, strict=strict) for part in readable]


def _part(part: Part, *, strict: bool) -> Wire:
    if isinstance(part, (TextPart, ThinkingPart)):
        return _text(part.text)
    wire = _image(part) if isinstance(part, ImagePart) else _file(part)
    if wire is None and strict:
        raise BadRequest(
            f"the Responses API cannot carry {_history.described(part)}: images are sent by "
            "address or as PNG, JPEG, GIF or WebP, files as PDF or text, PDF by address too"
        )
    return wire or _text(_history.note_of(part))


def _text(text: str) -> Wire:
    return {"type": "input_text", "text": text}


def _image(part: ImagePart | FilePart) -> Wire | None:
    url = part.url
    if part.data:
        kind = _history.mime_type(part)
        url = f"data:{kind};base64,{part.data}" if kind in IMAGES else None
    return {"type": "input_image", "detail": "auto", "image_url": url} if url else None


def _file(part: FilePart) -> Wire | None:
    kind = _history.mime_type(part)
    if kind in IMAGES:
        return _image(part)
    if not part.data:
        is_pdf = kind == "application/pdf"
        return {"type": "input_file", "file_url": part.url} if part.url and is_pdf else None
    if kind == "application/pdf":
        data = f"data:{kind};base64,{part.data}"
        return {"type": "input_file", "filename": part.name, "file_data": data}
    if kind.startswith("text/") or kind in TEXTS:
        text = _history.decoded(part).decode("utf-8", "replace")
        return _text(f"File {part.name}:\n\n{text}")
    return None


def _tool(tool: Tool, *, strict: bool) -> Wire:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": strict and _history.strictly_enforceable(tool.parameters),
    }


def _asks_for_thinking(model_name: str, options: ResponsesOptions) -> bool:
    if options.encrypted_thinking is not None:
        return options.encrypted_thinking
    return _WITHOUT_REASONING.match(model_name) is None


def _given(**values: Any) -> Wire:
    return {name: value for name, value in values.items() if value is not None}
