"""Deltas: what a model streams, and the fold that makes a message of them.

Text and thinking are keyed by content index; tool calls by their index and, where one index carries
two ids, by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sagents_app.engine import canonical
from sagents_app.engine.errors import ModelError
from sagents_app.engine.messages import (
    Message,
    Part,
    Status,
    StreamFailure,
    TextPart,
    ThinkingPart,
    ToolCall,
    fresh_id,
)
from sagents_app.engine.usage import TokenUsage


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the content part at `index`."""

    text: str
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    """More reasoning of the content part at `index`; signature fragments are joined."""

    text: str = ""
    index: int = 0
    signature: str = ""
    redacted: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallDelta:
    """A fragment of a tool call; `arguments` is JSON text to append, or a whole mapping at once."""

    index: int
    call_id: str | None = None
    name: str = ""
    arguments: str | Mapping[str, Any] = ""


@dataclass(frozen=True, slots=True)
class UsageDelta:
    """Token usage of this call so far; a later one replaces it."""

    usage: TokenUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishDelta:
    """The reply's end as the provider sees it. A stream without one has died.

    Of several, the first that says why the reply was cut stands.
    """

    status: Literal["complete", "length", "content_filtered"] = "complete"
    stop_details: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ReplyDelta:
    """A whole reply at once, from a model that does not stream; ends the stream."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """The call failed and is made again; what was streamed before is void."""

    model: str
    error: ModelError


Delta = (
    TextDelta
    | ThinkingDelta
    | ToolCallDelta
    | UsageDelta
    | FinishDelta
    | ReplyDelta
    | AttemptFailed
)


class _Call:
    __slots__ = ("arguments", "call_id", "index", "name")

    def __init__(self, index: int, call_id: str | None) -> None:
        self.index = index
        self.call_id = call_id
        self.name = ""
        self.arguments: list[str] | Mapping[str, Any] = []


class Accumulator:
    """Folds the deltas of one reply; `message` may be asked at any time."""

    __slots__ = ("_calls", "_texts", "_thinking", "finish", "reply", "usage")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget everything: the reply starts over."""
        self._texts: dict[int, list[str]] = {}
        self._thinking: dict[int, list[ThinkingDelta]] = {}
        self._calls: list[_Call] = []
        self.usage: TokenUsage | None = None
        self.finish: FinishDelta | None = None
        self.reply: Message | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing has come that could be shown or run."""
        return not (self._texts or self._thinking or self._calls or self.reply)

    def begins_call(self, delta: ToolCallDelta) -> bool:
        """Whether `delta` names a call that has had no name so far."""
        call = self._find(delta)
        return bool(delta.name) and (call is None or not call.name)

    def add(self, delta: Delta) -> None:
        """Fold one delta in."""
        match delta:
            case TextDelta():
                self._texts.setdefault(delta.index, []).append(delta.text)
            case ToolCallDelta():
                self._add_call(delta)
            case ThinkingDelta():
                self._thinking.setdefault(delta.index, []).append(delta)
            case UsageDelta():
                self.usage = delta.usage
            case FinishDelta():
                if self.finish is None or self.finish.status == "complete":
                    self.finish = delta
            case ReplyDelta():
                self.reply = delta.message
            case AttemptFailed():
                self.reset()

    def message(self, *, failure: StreamFailure | None = None, cancelled: bool = False) -> Message:
        """Return the message so far, with the status that tells how the stream ended."""
        if self.reply is not None and failure is None:
            return self.reply
        if self.reply is not None:
            return replace(self.reply, status="stream_error", stream_failure=failure)
        finish = self.finish or FinishDelta()
        status: Status = "cancelled" if cancelled else "stream_error" if failure else finish.status
        return Message(
            "assistant",
            self._parts(),
            tuple(
                self._call(call)
                for call in self._calls
                if call.name or call.call_id or call.arguments
            ),
            status=status,
            id=fresh_id(),
            usage=self.usage,
            stream_failure=failure,
            stop_details=finish.stop_details,
        )

    def _add_call(self, delta: ToolCallDelta) -> None:
        call = self._find(delta)
        if call is None:
            call = _Call(delta.index, delta.call_id)
            self._calls.append(call)
        call.call_id = call.call_id or delta.call_id
        if delta.name and call.name != delta.name:
            call.name += delta.name
        if not isinstance(delta.arguments, str):
            call.arguments = delta.arguments
        elif delta.arguments and isinstance(call.arguments, list):
            call.arguments.append(delta.arguments)

    def _find(self, delta: ToolCallDelta) -> _Call | None:
        """Return the call a fragment belongs to: the newest of its index, unless its id differs."""
        same = [call for call in self._calls if call.index == delta.index]
        if not delta.call_id:
            return same[-1] if same else None
        for call in same:
            if call.call_id == delta.call_id:
                return call
        return next((call for call in same if not call.call_id), None)

    def _call(self, call: _Call) -> ToolCall:
        arguments = "".join(call.arguments) if isinstance(call.arguments, list) else call.arguments
        return ToolCall(call.call_id or "", canonical.clean_text(call.name), arguments)

    def _parts(self) -> tuple[Part, ...]:
        parts: list[Part] = []
        for index in sorted({*self._texts, *self._thinking}):
            if index in self._thinking:
                parts.append(_thinking(self._thinking[index]))
            text = canonical.clean_text("".join(self._texts.get(index, ())))
            if text:
                parts.append(TextPart(text))
        return tuple(parts)


def _thinking(deltas: list[ThinkingDelta]) -> ThinkingPart:
    return ThinkingPart(
        canonical.clean_text("".join(delta.text for delta in deltas)),
        "".join(delta.signature for delta in deltas) or None,
        next((delta.redacted for delta in deltas if delta.redacted is not None), None),
        next((delta.provider for delta in deltas if delta.provider), None),
    )
