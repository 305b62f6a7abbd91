"""Messages of a conversation as frozen values, apart from any provider's wire format."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sagents_app.engine import canonical
from sagents_app.engine.errors import Misconfigured
from sagents_app.engine.interrupts import Interrupt
from sagents_app.engine.usage import TokenUsage

Role = Literal["system", "user", "assistant", "tool"]
Status = Literal["complete", "length", "cancelled", "content_filtered", "stream_error"]

USABLE_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class TextPart:
    """Plain text, or markdown where an assistant wrote it; what cannot be stored is U+FFFD."""

    text: str

    def __post_init__(self) -> None:
        _clean(self, "text")


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """A model's reasoning; `signature` and opaque `redacted` data go back byte for byte."""

    text: str
    signature: str | None = None
    redacted: str | None = None
    provider: str | None = None
    """The adapter whose part this is; others drop it."""

    def __post_init__(self) -> None:
        _clean(self, "text", "signature", "redacted")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """An image by `url`, or as base64 `data` of `mime_type`."""

    url: str | None = None
    data: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        _clean(self, "url", "data", "mime_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """A file by `url`, or as base64 `data` of `mime_type`."""

    name: str
    url: str | None = None
    data: str | None = None
    mime_type: str | None = None

    def __post_init__(self) -> None:
        _clean(self, "name", "url", "data", "mime_type")


def _clean(part: Any, *names: str) -> None:
    """Replace what no database stores (NUL, lone surrogates), where a part comes into being."""
    for name in names:
        text = getattr(part, name)
        if text is None and name not in ("text", "name"):
            continue
        if not isinstance(text, str):
            raise Misconfigured(f"{type(part).__name__}: {name} is a text, got {text!r:.200}")
        if (clean := canonical.clean_text(text)) is not text:
            object.__setattr__(part, name, clean)


Part = TextPart | ThinkingPart | ImagePart | FilePart
Content = str | Part | Iterable[Part]
PARTS = (TextPart, ThinkingPart, ImagePart, FilePart)


def fresh_id() -> str:
    """Return an id that nobody can guess (24 hex digits)."""
    return secrets.token_hex(12)


def parts_of(content: Content | None) -> tuple[Part, ...]:
    """Return the parts of `content`: a string is one, None and the empty string are none."""
    if isinstance(content, str):
        return (TextPart(content),) if content else ()
    if content is None:
        return ()
    if isinstance(content, PARTS):
        return (content,)
    if isinstance(content, tuple) and all(isinstance(part, PARTS) for part in content):
        return content
    if isinstance(content, Iterable) and not isinstance(content, (Mapping, bytes)):
        parts = tuple(content)
        if all(isinstance(part, PARTS) for part in parts):
            return parts
    raise Misconfigured(f"content is a string or message parts, got {content!r:.200}")


def text_of(parts: Iterable[Part]) -> str:
    """Return the text parts, one a line."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))


@dataclass(frozen=True, slots=True, init=False)
class ToolCall:
    """A model's wish to run a tool.

    `arguments` may be given as a mapping or as JSON text. What is kept is canonical JSON text of an
    object, or, where the model sent something else, that text as it came and the reason in
    `problem`; such a call is never run.
    """

    call_id: str
    """Unique in its conversation."""
    name: str
    arguments_json: str
    provider_id: str | None
    """The provider's own id, where it differs."""
    problem: str | None

    def __init__(
        self,
        call_id: str,
        name: str,
        arguments: Mapping[str, Any] | str | None = None,
        provider_id: str | None = None,
        *,
        arguments_json: str | None = None,
        problem: str | None = None,
    ) -> None:
        if arguments_json is None:
            arguments_json, problem = _read_arguments(arguments)
        put = object.__setattr__
        put(self, "call_id", call_id)
        put(self, "name", canonical.to_text(name))
        put(self, "arguments_json", arguments_json)
        put(self, "provider_id", provider_id and canonical.to_text(provider_id))
        put(self, "problem", problem)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, parsed anew for each caller; empty where they cannot be read."""
        if self.problem is not None:
            return {}
        parsed: dict[str, Any] = canonical.parse(self.arguments_json)
        return parsed

    @property
    def digest(self) -> str:
        """What a decision about this call is bound to."""
        return canonical.digest(self.call_id, self.name, self.arguments_json)

    @property
    def fingerprint(self) -> str:
        """What this call has in common with its repetitions: tool and arguments."""
        return canonical.digest("", self.name, self.arguments_json)


def _read_arguments(arguments: Any) -> tuple[str, str | None]:
    if arguments is None or arguments == "":
        return canonical.NOTHING, None
    try:
        value = canonical.parse(arguments) if isinstance(arguments, str) else arguments
        if isinstance(value, Mapping):
            return canonical.dump(dict(value)), None
        problem = f"the arguments are not a JSON object but {type(value).__name__}"
    except (TypeError, ValueError) as error:
        problem = f"the arguments are not valid JSON ({error})"
    return canonical.to_text(arguments), problem


@dataclass(frozen=True, slots=True)
class Expansion:
    """Material that the model reads as messages on its very next call."""

    messages: tuple[Message, ...]
    result_content: tuple[Part, ...] | None
    """What the tool's own result keeps once the messages stand; None keeps its content."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What became of one tool call."""

    tool_call_id: str
    name: str
    content: tuple[Part, ...] = ()
    is_error: bool = False
    is_interrupt: bool = False
    """The result is a placeholder: the call waits for what `interrupt` says."""
    interrupt: Interrupt | None = None
    processed_content: Any = None
    """The tool's own value for the program, never sent to the model, not stored."""
    expansion: Expansion | None = None
    state_update: Mapping[str, Any] | None = None
    """Changes of the state that are still to be applied, by field; None once they are."""
    decision: str | None = None
    """How a person settled the call (approve, edit, …), None where nobody was asked.

    `repeated`: not asked again, since a person had rejected an identical call.
    """

    @property
    def text(self) -> str:
        """The text parts, one a line."""
        return text_of(self.content)


@dataclass(frozen=True, slots=True)
class StreamFailure:
    """What broke a reply's stream: an error's stable type and its text."""

    type: str
    message: str

    def __post_init__(self) -> None:
        _clean(self, "type", "message")


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """One message; `user`, `system`, `assistant` and `tool` build it from checked content."""

    role: Role
    content: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    tool_results: tuple[ToolResult, ...] = ()
    status: Status = "complete"
    id: str = ""
    usage: TokenUsage | None = None
    """Of the model call that wrote it."""
    stream_failure: StreamFailure | None = None
    stop_details: Mapping[str, Any] | None = None
    """The provider's own account of why it stopped, verbatim."""

    @classmethod
    def user(cls, content: Content) -> Message:
        """Return what a person, or a tool in a person's place, says."""
        return cls("user", _some(content, "user"), id=fresh_id())

    @classmethod
    def system(cls, content: Content) -> Message:
        """Return an instruction that stands in the history itself."""
        return cls("system", _some(content, "system"), id=fresh_id())

    @classmethod
    def assistant(
        cls,
        content: Content | None = None,
        *,
        tool_calls: Iterable[ToolCall] = (),
        status: Status = "complete",
    ) -> Message:
        """Return what a model says; it may be empty."""
        return cls("assistant", parts_of(content), tuple(tool_calls), status=status, id=fresh_id())

    @classmethod
    def tool(cls, *results: ToolResult) -> Message:
        """Return the results of one assistant message's calls, in call order."""
        if not results or not all(isinstance(result, ToolResult) for result in results):
            raise Misconfigured(f"a tool message is made of tool results, got {results!r:.200}")
        return cls("tool", tool_results=results, id=fresh_id())

    @property
    def text(self) -> str:
        """The text parts, one a line."""
        return text_of(self.content)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither content nor a call nor a result."""
        return not (self.content or self.tool_calls or self.tool_results)

    def __repr__(self) -> str:
        inside = f"{len(self.tool_calls)} calls, {len(self.tool_results)} results"
        return f"<Message {self.role} {self.id} {self.text[:60]!r} {inside} {self.status}>"


def _some(content: Content, role: str) -> tuple[Part, ...]:
    parts = parts_of(content)
    if not parts:
        raise Misconfigured(f"a {role} message needs content, got {content!r}")
    return parts
