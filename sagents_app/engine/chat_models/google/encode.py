"""A model request as the JSON of Gemini's `generateContent`: pure.

The form is that of https://ai.google.dev/api/generate-content. Its rules beside the types: a turn
with function calls stands behind a user's, their responses, one a call, right behind it; the last
turn is a user's; signatures of thoughts go back on the part that they came on
(https://ai.google.dev/gemini-api/docs/thought-signatures).
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Sequence
from typing import Any

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _history
from sagents_app.engine.chat_models.google.options import GeminiOptions
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

PROVIDER = "google"
OF_CALL = "call "
"""How the part with a call's signature begins its `redacted`; the call's number follows."""
BEGIN = "(The conversation begins.)"
GO_ON = "Please go on."
LONGEST_CALL_ID = 64
UNSIGNED = "skip_thought_signature_validator"
"""What the provider takes in the place of a signature, for calls of another model."""
SENDABLE = (
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
    "application/pdf",
)
TEXTS = ("application/json", "application/xml", "application/yaml", "application/csv")
MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
CONFIG = {
    "max_tokens": "maxOutputTokens",
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
THINKING = {
    "thinking_budget": "thinkingBudget",
    "thinking_level": "thinkingLevel",
    "include_thoughts": "includeThoughts",
}
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

Wire = dict[str, Any]


def body(request: ModelRequest, options: GeminiOptions, *, signs_calls: bool) -> Wire:
    """Return the body of the call.

    `signs_calls`: the model refuses calls of its running turn without a signature.

    Raises:
        BadRequest: the newest message holds what the protocol cannot carry; older ones have a note
            in its place, so that a conversation stays usable.
    """
    wire: Wire = {"contents": contents(request.messages, signs_calls=signs_calls)}
    system = [request.system, *_leading(request.messages)]
    if parts := [{"text": text} for text in system if text.strip()]:
        wire["systemInstruction"] = {"parts": parts}
    if request.tools:
        wire["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
        if options.tool_choice is not None:
            mode = MODES[options.tool_choice]
            wire["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    if config := _config(options):
        wire["generationConfig"] = config
    return {**wire, **options.extra}


def contents(history: Sequence[Message], *, signs_calls: bool) -> list[Wire]:
    """Return the history in turns; system messages that lead it are left out.

    Raises:
        BadRequest: as `body`.
    """
    turns: list[Wire] = []
    ids = _history.CallIds(lambda text: bool(_CALL_ID.fullmatch(text)), length=LONGEST_CALL_ID)
    newest = history[-1] if history else None
    running = max((i for i, message in enumerate(history) if message.role == "user"), default=-1)
    begun = False
    for index, message, results in _history.exchanges(history):
        if message.role == "system" and not begun:
            continue
        begun = True
        if message.role == "assistant":
            wire_ids = [ids.take(call) for call in message.tool_calls]
            _add_model(turns, _said(message, wire_ids, sign=signs_calls and index > running))
            answers = zip(message.tool_calls, results, wire_ids, strict=True)
            _add_user(turns, [_response(*answer) for answer in answers])
            _add_user(turns, _returned_files(results, newest))
        elif message.role == "system":
            if message.text.strip():
                _add_user(turns, [{"text": f"<system>\n{message.text}\n</system>"}])
        else:
            _add_user(turns, _parts(message.content, strict=message is newest))
    if not turns:
        _add_user(turns, [{"text": BEGIN}])
    if turns[-1]["role"] == "model":
        _add_user(turns, [{"text": GO_ON}])
    return turns


def _add_user(turns: list[Wire], parts: list[Wire]) -> None:
    """Add a turn of the user; responses keep one of their own."""
    if parts:
        turns.append({"role": "user", "parts": parts})


def _add_model(turns: list[Wire], parts: list[Wire]) -> None:
    """Add what the model said to its turn; one with calls has to stand behind a user's."""
    if not parts:
        return
    if not turns:
        _add_user(turns, [{"text": BEGIN}])
    if turns[-1]["role"] == "model":
        turns[-1]["parts"].extend(parts)
    else:
        turns.append({"role": "model", "parts": parts})


def _said(message: Message, wire_ids: Sequence[str], *, sign: bool) -> list[Wire]:
    parts: list[Wire] = []
    signatures: dict[int, str] = {}
    whole = message.status in ("complete", "length")
    for part in message.content:
        match part:
            case ThinkingPart():
                if whole and part.provider == PROVIDER and part.signature:
                    _sign(parts, signatures, part)
            case TextPart():
                if part.text:
                    parts.append({"text": part.text})
            case _:
                parts.append({"text": _history.note_of(part)})
    if sign and message.tool_calls:
        signatures.setdefault(0, UNSIGNED)
    for number, (call, wire_id) in enumerate(zip(message.tool_calls, wire_ids, strict=True)):
        wire = _call(call, wire_id)
        if number in signatures:
            wire["thoughtSignature"] = signatures[number]
        parts.append(wire)
    return parts


def _sign(parts: list[Wire], signatures: dict[int, str], part: ThinkingPart) -> None:
    """Put a signature where it came from: a call, a thought, or the text before it."""
    where = part.redacted or ""
    number = where.removeprefix(OF_CALL)
    if where.startswith(OF_CALL) and number.isdecimal():
        signatures[int(number)] = part.signature or ""
    elif part.text:
        thought = {"text": part.text, "thought": True, "thoughtSignature": part.signature}
        parts.append(thought)
    elif parts and "thoughtSignature" not in parts[-1]:
        parts[-1]["thoughtSignature"] = part.signature
    else:
        parts.append({"text": "", "thoughtSignature": part.signature})


def _call(call: ToolCall, wire_id: str) -> Wire:
    given: dict[str, Any] = call.arguments
    if call.problem is not None:
        given = {_history.INVALID_JSON: call.arguments_json}
    name = _history.tool_name(call.name)
    return {"functionCall": {"id": wire_id, "name": name, "args": given}}


def _response(call: ToolCall, result: ToolResult, wire_id: str) -> Wire:
    text = text_of(result.content)
    told = {"error": text or "Error"} if result.is_error else {"output": text or _history.NO_OUTPUT}
    name = _history.tool_name(call.name)
    return {"functionResponse": {"id": wire_id, "name": name, "response": told}}


def _returned_files(results: Sequence[ToolResult], newest: Message | None) -> list[Wire]:
    """Return the files of results as a user's parts, for a response itself carries JSON."""
    parts: list[Wire] = []
    for result in results:
        if files := _history.files_of(result):
            strict = newest is not None and any(result is one for one in newest.tool_results)
            parts.append({"text": f"What {_history.tool_name(result.name)} returned:"})
            parts.extend(_parts(files, strict=strict))
    return parts


def _parts(parts: Sequence[Part], *, strict: bool) -> list[Wire]:
    wires: list[Wire] = []
    for part in _history.without_thinking(parts):
        if isinstance(part, (TextPart, ThinkingPart)):
            wires.extend([{"text": part.text}] if part.text else [])
            continue
        wire = _file(_history.inlined(part))
        if wire is None and strict:
            raise BadRequest(
                f"Gemini cannot take {_history.described(part)}: files are sent as PNG, JPEG, "
                "WebP, HEIC, PDF, text, audio or video"
            )
        wires.append(wire or {"text": _history.note_of(part)})
    return wires


def _file(part: ImagePart | FilePart) -> Wire | None:
    kind = _history.mime_type(part)
    if part.data:
        if not _is_sendable(kind):
            return None
        return {"inlineData": {"mimeType": kind, "data": part.data}}
    if not part.url:
        return None
    kind = kind or mimetypes.guess_type(part.url.partition("?")[0])[0] or ""
    if not kind and isinstance(part, ImagePart):
        kind = "image/jpeg"
    return {"fileData": {"mimeType": kind, "fileUri": part.url}} if _is_sendable(kind) else None


def _is_sendable(kind: str) -> bool:
    return kind in SENDABLE or kind in TEXTS or kind.startswith(("text/", "audio/", "video/"))


def _leading(history: Sequence[Message]) -> list[str]:
    texts: list[str] = []
    for message in history:
        if message.role == "system":
            texts.append(message.text)
        elif message.role != "tool":
            break
    return texts


def _tool(tool: Tool) -> Wire:
    wire: Wire = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        wire["parametersJsonSchema"] = tool.parameters
    return wire


def _config(options: GeminiOptions) -> Wire:
    config: Wire = {
        wire: value
        for name, wire in CONFIG.items()
        if (value := getattr(options, name)) is not None
    }
    if options.stop:
        config["stopSequences"] = list(options.stop)
    thinking = {
        wire: value
        for name, wire in THINKING.items()
        if (value := getattr(options, name)) is not None
    }
    if thinking:
        config["thinkingConfig"] = thinking
    if options.response_format is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = dict(options.response_format)
    return config
