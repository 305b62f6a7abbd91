"""A model request as the JSON of Anthropic's Messages API: pure.

The form is that of https://platform.claude.com/docs/en/api/messages. Its rules beside the types:
the first message and the last are a user's, roles alternate, results stand at the beginning of the
message behind their calls, no text is blank, and thinking goes back as it came or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _history
from sagents_app.engine.chat_models.anthropic.options import MessagesOptions
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
)
from sagents_app.engine.tools import Tool

PROVIDER = "anthropic"
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXTS = ("application/json", "application/xml", "application/yaml", "application/csv")
LONGEST_CALL_ID = 64
BEGIN = "(The conversation begins.)"
GO_ON = "Please go on."
CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

Wire = dict[str, Any]


def body(model_name: str, request: ModelRequest, options: MessagesOptions) -> Wire:
    """Return the body of the call.

    Raises:
        BadRequest: the newest message holds what the protocol cannot carry; older ones have a note
            in its place, so that a conversation stays usable.
    """
    leading = _leading(request.messages)
    system = _texts([TextPart(request.system), *leading])
    turns = messages(request.messages, options)
    wire: Wire = {
        "model": model_name,
        "max_tokens": options.max_tokens,
        "messages": turns,
        "stream": True,
    }
    if system:
        wire["system"] = system
    if request.tools:
        wire["tools"] = [_tool(tool, strict=options.strict_tools) for tool in request.tools]
        if choice := _tool_choice(options):
            wire["tool_choice"] = choice
    for name in ("temperature", "top_p", "top_k", "service_tier"):
        if (value := getattr(options, name)) is not None:
            wire[name] = value
    if options.stop:
        wire["stop_sequences"] = list(options.stop)
    if options.effort is not None:
        wire["output_config"] = {"effort": options.effort}
    if (thinking := _thinking(options, turns)) is not None:
        wire["thinking"] = thinking
    if options.cache != "off":
        _mark_cached(system, turns, options.cache)
    return {**wire, **options.extra}


def messages(history: Sequence[Message], options: MessagesOptions) -> list[Wire]:
    """Return the history in alternating turns; system messages that lead it are left out.

    Raises:
        BadRequest: as `body`.
    """
    turns: list[Wire] = []
    ids = _history.CallIds(lambda text: bool(_CALL_ID.fullmatch(text)), length=LONGEST_CALL_ID)
    newest = history[-1] if history else None
    begun = False
    for _, message, results in _history.exchanges(history):
        if message.role == "system" and not begun:
            continue
        begun = True
        if message.role == "assistant":
            _add_assistant(turns, message, results, ids, options, newest=newest)
        elif message.role == "system":
            if message.text.strip():
                _add(turns, "user", [_text(f"<system>\n{message.text}\n</system>")])
        else:
            _add(turns, "user", _blocks(message.content, options, strict=message is newest))
    if turns and turns[-1]["role"] == "assistant":
        _add(turns, "user", [_text(GO_ON)])  # models refuse to go on with words in their mouth
    return turns or [{"role": "user", "content": [_text(BEGIN)]}]


def _add(turns: list[Wire], role: str, blocks: list[Wire]) -> None:
    """Add blocks to the turn of their role, which has to alternate with the other."""
    if not blocks:
        return
    if not turns and role == "assistant":
        turns.append({"role": "user", "content": [_text(BEGIN)]})
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"].extend(blocks)
    else:
        turns.append({"role": role, "content": blocks})


def _add_assistant(
    turns: list[Wire],
    message: Message,
    results: Sequence[ToolResult],
    ids: _history.CallIds,
    options: MessagesOptions,
    *,
    newest: Message | None,
) -> None:
    wire_ids = [ids.take(call) for call in message.tool_calls]
    calls = [
        _call(call, wire_id) for call, wire_id in zip(message.tool_calls, wire_ids, strict=True)
    ]
    said = _said(message)
    if not calls and all(block["type"].endswith("thinking") for block in said):
        return  # a reply that never got beyond its thoughts
    _add(turns, "assistant", [*said, *calls])
    if not calls:
        return
    strict = [newest is not None and any(one is r for one in newest.tool_results) for r in results]
    _add(
        turns,
        "user",
        [
            _result(result, wire_id, options, strict=new)
            for result, wire_id, new in zip(results, wire_ids, strict, strict=True)
        ],
    )


def _said(message: Message) -> list[Wire]:
    """Return an assistant's own words; thoughts only where they were thought to their end."""
    blocks: list[Wire] = []
    whole = message.status in ("complete", "length")
    for part in message.content:
        match part:
            case ThinkingPart():
                if whole and (thought := _thought(part)):
                    blocks.append(thought)
            case TextPart():
                blocks.extend(_texts([part]))
            case _:
                blocks.append(_text(_history.note_of(part)))
    return blocks


def _thought(part: ThinkingPart) -> Wire | None:
    """Return a thinking block as it came; what is another's, or unsigned, is not sent."""
    if part.provider != PROVIDER:
        return None
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    if not part.signature:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": part.signature}


def _call(call: ToolCall, wire_id: str) -> Wire:
    given: dict[str, Any] = call.arguments
    if call.problem is not None:
        given = {_history.INVALID_JSON: call.arguments_json}
    name = _history.tool_name(call.name)
    return {"type": "tool_use", "id": wire_id, "name": name, "input": given}


def _result(result: ToolResult, wire_id: str, options: MessagesOptions, *, strict: bool) -> Wire:
    wire: Wire = {"type": "tool_result", "tool_use_id": wire_id}
    blocks = _blocks(result.content, options, strict=strict)
    if result.is_error:  # an error is told in text alone
        blocks = [block for block in blocks if block["type"] == "text"]
        wire["is_error"] = True
    wire["content"] = blocks or [_text("Error" if result.is_error else _history.NO_OUTPUT)]
    return wire


def _blocks(parts: Sequence[Part], options: MessagesOptions, *, strict: bool) -> list[Wire]:
    blocks: list[Wire] = []
    for part in _history.without_thinking(parts):
        if isinstance(part, (TextPart, ThinkingPart)):
            blocks.extend(_texts([TextPart(part.text)]))
            continue
        part = _history.inlined(part)
        block = _image(part) if isinstance(part, ImagePart) else _file(part, options)
        if block is None and strict:
            raise BadRequest(
                f"the Messages API cannot carry {_history.described(part)}: images are sent as "
                "PNG, JPEG, GIF or WebP, files as PDF or text"
            )
        blocks.append(block or _text(_history.note_of(part)))
    return blocks


def _texts(parts: Sequence[TextPart]) -> list[Wire]:
    return [_text(part.text) for part in parts if part.text.strip()]


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _image(part: ImagePart | FilePart) -> Wire | None:
    kind = _history.mime_type(part)
    if part.data:
        source: Wire = {"type": "base64", "media_type": kind, "data": part.data}
        return {"type": "image", "source": source} if kind in IMAGES else None
    return {"type": "image", "source": {"type": "url", "url": part.url}} if part.url else None


def _file(part: FilePart, options: MessagesOptions) -> Wire | None:
    kind = _history.mime_type(part)
    if kind in IMAGES:
        return _image(part)
    source: Wire
    if kind == "application/pdf" and part.data:
        source = {"type": "base64", "media_type": kind, "data": part.data}
    elif kind == "application/pdf" and part.url:
        source = {"type": "url", "url": part.url}
    elif part.data and (kind.startswith("text/") or kind in TEXTS):
        text = _history.decoded(part).decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
        if not text.strip():
            return _text(f"File {part.name} is empty.")
    else:
        return None
    wire: Wire = {"type": "document", "source": source}
    if part.name.strip():
        wire["title"] = part.name[:500]
    if options.citations:
        wire["citations"] = {"enabled": True}
    return wire


def _leading(history: Sequence[Message]) -> list[TextPart]:
    """Return the texts of the system messages before anything else."""
    texts: list[TextPart] = []
    for message in history:
        if message.role == "system":
            texts.append(TextPart(message.text))
        elif message.role != "tool":
            break
    return texts


def _tool(tool: Tool, *, strict: bool) -> Wire:
    wire: Wire = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }
    if strict and _history.strictly_enforceable(tool.parameters):
        wire["strict"] = True
    return wire


def _tool_choice(options: MessagesOptions) -> Wire | None:
    if options.tool_choice is None and options.parallel_tool_calls is None:
        return None
    wire: Wire = {"type": CHOICES[options.tool_choice or "auto"]}
    if options.parallel_tool_calls is not None and wire["type"] != "none":
        wire["disable_parallel_tool_use"] = not options.parallel_tool_calls
    return wire


def _thinking(options: MessagesOptions, turns: list[Wire]) -> Wire | None:
    """Return how to think; a turn that another model began without it goes on without it.

    With a budget the provider refuses a running turn whose first block is not thinking.
    """
    if options.thinking is not None:
        return {"type": options.thinking}
    if options.thinking_budget is None:
        return None
    if turns[-1]["content"][0]["type"] == "tool_result":
        first = turns[-2]["content"][0]["type"]
        if not first.endswith("thinking"):
            return {"type": "disabled"}
    return {"type": "enabled", "budget_tokens": options.thinking_budget}


def _mark_cached(system: list[Wire], turns: list[Wire], keep: str) -> None:
    """Mark the ends of the system prompt and of the newest two user turns as worth keeping.

    The prefix up to a mark is read again by the next call that begins with it; the mark behind the
    tools' results of a call is where the next call finds it.
    """
    mark = {"type": "ephemeral"} if keep == "5m" else {"type": "ephemeral", "ttl": keep}
    ends = [turn["content"][-1] for turn in turns if turn["role"] == "user"][-2:]
    for block in [*system[-1:], *ends]:
        block["cache_control"] = mark
