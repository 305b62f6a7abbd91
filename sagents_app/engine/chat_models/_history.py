"""A history as every provider needs it, before any wire format: pure.

The engine hands over histories that are sendable already. What is here does not rely on that: a
call without a result is answered, a result without a call is left out, so that whatever is encoded
is valid.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

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

UNANSWERED = "This call was never run."
NO_OUTPUT = "(no output)"
UNNAMED = "unnamed"
INVALID_JSON = "INVALID_JSON"
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)

FileT = TypeVar("FileT", bound=ImagePart | FilePart)
Exchange = tuple[int, Message, tuple[ToolResult, ...]]


def exchanges(messages: Sequence[Message]) -> Iterator[Exchange]:
    """Yield each message but the tool messages: its index, itself, one result for each call."""
    index = 0
    while index < len(messages):
        place, message = index, messages[index]
        index += 1
        if message.role == "tool":
            continue
        found: dict[str, list[ToolResult]] = {}
        while message.tool_calls and index < len(messages) and messages[index].role == "tool":
            for result in messages[index].tool_results:
                found.setdefault(result.tool_call_id, []).append(result)
            index += 1
        yield place, message, tuple(_result(call, found) for call in message.tool_calls)


def _result(call: ToolCall, found: dict[str, list[ToolResult]]) -> ToolResult:
    if known := found.get(call.call_id):
        return known.pop(0)
    return ToolResult(call.call_id, call.name, (TextPart(UNANSWERED),), is_error=True)


class CallIds:
    """Gives calls their ids on the wire: the same ones whenever the same history is sent.

    The provider's own id where it is usable and new, else ours where it is, else one made of ours.
    """

    def __init__(self, usable: Callable[[str], bool], *, length: int) -> None:
        self._usable = usable
        self._length = length
        self._used: set[str] = set()

    def take(self, call: ToolCall) -> str:
        """Return the wire id of the next call of the history."""
        for candidate in (call.provider_id, call.call_id):
            if candidate and candidate not in self._used and self._usable(candidate):
                break
        else:
            candidate = self._made(call.call_id)
        self._used.add(candidate)
        return candidate

    def _made(self, call_id: str) -> str:
        for number in range(len(self._used) + 1):
            digest = hashlib.sha256(f"{number}:{call_id}".encode()).hexdigest()
            if (made := digest[: self._length]) not in self._used:
                return made
        raise BadRequest(f"no call id of {self._length} characters is left")


def tool_name(name: str) -> str:
    """Return a name that every provider takes; a model may have made up any."""
    return _FOREIGN.sub("_", name)[:64] or UNNAMED


def result_text(result: ToolResult) -> str:
    """Return what the model reads of a result; an error says so."""
    text = text_of(result.content)
    if result.is_error and not text.lower().startswith("error"):
        return f"Error: {text}" if text else "Error"
    return text or NO_OUTPUT


def files_of(result: ToolResult) -> tuple[Part, ...]:
    """Return the images and files of a result."""
    return tuple(part for part in result.content if isinstance(part, (ImagePart, FilePart)))


def without_thinking(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return the parts that any provider may read."""
    return tuple(part for part in parts if not isinstance(part, ThinkingPart))


def inlined(part: FileT) -> FileT:
    """Return the part with the data of a `data:` address as its own."""
    head, comma, data = (part.url or "").partition(",")
    if part.data or not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return part
    named = head.removeprefix("data:").removesuffix(";base64")
    return replace(part, url=None, data=data, mime_type=part.mime_type or named or None)


def mime_type(part: ImagePart | FilePart) -> str:
    """Return the type that a part names, else what its first bytes say, else an empty text."""
    if part.mime_type:
        return part.mime_type.partition(";")[0].strip().lower()
    head = decoded(part)[:16]
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((known for magic, known in _MAGIC if head.startswith(magic)), "")


def decoded(part: ImagePart | FilePart) -> bytes:
    """Return the bytes of a part's data; empty where there are none, or it is no base64."""
    try:
        return base64.b64decode(part.data or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def described(part: ImagePart | FilePart) -> str:
    """Return a part in words, for errors and for the note that stands in its place."""
    kind = mime_type(part) or "of unknown type"
    if isinstance(part, ImagePart):
        return f"image ({kind})"
    return f"file {part.name!r} ({kind})"


def note_of(part: ImagePart | FilePart) -> str:
    """Return the text in the place of a part that cannot be sent."""
    return f"[{described(part)}: not readable by this model]"


def strictly_enforceable(schema: Any) -> bool:
    """Whether a provider can enforce the schema of a tool: closed, typed, everything required.

    See https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
    """
    if isinstance(schema, list):
        return all(strictly_enforceable(one) for one in schema)
    if not isinstance(schema, Mapping) or not schema.keys() & {"type", "anyOf", "enum", "$ref"}:
        return False
    if schema.keys() & {"allOf", "not", "oneOf", "patternProperties", "default"}:
        return False
    if schema.get("type") == "object":
        properties = schema.get("properties", {})
        if schema.get("additionalProperties") is not False:
            return False
        if set(schema.get("required", ())) != set(properties):
            return False
        if not all(strictly_enforceable(one) for one in properties.values()):
            return False
    inner = ("items", "anyOf", "prefixItems")
    if not all(strictly_enforceable(schema[name]) for name in inner if name in schema):
        return False
    return all(strictly_enforceable(one) for one in schema.get("$defs", {}).values())
