"""Events of Anthropic's Messages API as deltas: pure.

The form is that of https://platform.claude.com/docs/en/build-with-claude/streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sagents_app.engine.chat_models import _refusals, _wire
from sagents_app.engine.chat_models.anthropic.encode import PROVIDER
from sagents_app.engine.deltas import (
    Delta,
    FinishDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from sagents_app.engine.errors import ProtocolError, StreamDied
from sagents_app.engine.usage import TokenUsage

Status = Literal["complete", "length", "content_filtered"]
STATUSES: Mapping[str, Status] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filtered",
}
PLAIN = frozenset({"end_turn", "tool_use"})


class MessagesDecoder:
    """Decodes one reply."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._usage: dict[str, Any] = {}
        self._reason: str | None = None
        self._details: dict[str, Any] = {}
        self._has_begun = False
        self.is_closed = False

    @property
    def is_finished(self) -> bool:
        """Whether a reason to stop has come."""
        return self._reason is not None

    def feed(self, event: str, data: str) -> Sequence[Delta]:
        """Return what one event adds; unknown events add nothing, as the provider asks for.

        Raises:
            ModelError: an error of the provider inside its stream.
            ProtocolError: it is no event of a message.
        """
        given = _wire.parsed(data, secrets=self._secrets)
        if not isinstance(given, Mapping):
            raise ProtocolError(f"expected an event, got {type(given).__name__}")
        return list(self._event(str(given.get("type") or event), given))

    def whole(self, body: Any) -> Sequence[Delta]:
        """Return what an answer that came at once holds.

        Raises:
            ModelError: as `feed`.
        """
        if not isinstance(body, Mapping):
            raise ProtocolError(f"expected a message, got {type(body).__name__}")
        if body.get("type") == "error" or body.get("error"):
            raise _refusals.refusal(body, secrets=self._secrets)
        if not isinstance(body.get("content"), list):
            raise ProtocolError("the answer has no content")
        self._has_begun = self.is_closed = True
        deltas = [
            delta
            for index, block in enumerate(body["content"])
            for delta in self._block(index, _wire.mapping(block))
        ]
        self._stop(body)
        return [*deltas, *self._used(body.get("usage"))]

    def end(self) -> Sequence[Delta]:
        """Return the closing delta.

        Raises:
            StreamDied: neither a reason to stop nor the closing event has come.
            ProtocolError: the stream was closed without a message.
        """
        if self._reason is None and not self.is_closed:
            raise StreamDied("the reply ended without saying that it was finished")
        if not self._has_begun:
            raise ProtocolError("the stream was closed without a reply")
        status = STATUSES.get(self._reason or "end_turn", "complete")
        return (FinishDelta(status=status, stop_details=self._details or None),)

    def _event(self, kind: str, event: Mapping[str, Any]) -> Iterator[Delta]:
        match kind:
            case "error":
                raise _refusals.refusal(event, secrets=self._secrets)
            case "message_start":
                self._has_begun = True
                yield from self._used(_wire.mapping(event.get("message")).get("usage"))
            case "content_block_start":
                self._has_begun = True
                yield from self._block(_index(event), _wire.mapping(event.get("content_block")))
            case "content_block_delta":
                yield from self._delta(_index(event), _wire.mapping(event.get("delta")))
            case "message_delta":
                self._stop(_wire.mapping(event.get("delta")))
                yield from self._used(event.get("usage"))
            case "message_stop":
                self.is_closed = True
            case _:
                pass

    def _block(self, index: int, block: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what a block says at its start: mostly nothing, but all of it in a whole answer."""
        match block.get("type"):
            case "text":
                yield from _some_text(index, block.get("text"))
            case "thinking":
                yield ThinkingDelta(
                    text=_wire.string(block.get("thinking")),
                    signature=_wire.string(block.get("signature")),
                    index=index,
                    provider=PROVIDER,
                )
            case "redacted_thinking":
                redacted = _wire.string(block.get("data"))
                yield ThinkingDelta(redacted=redacted, index=index, provider=PROVIDER)
            case "tool_use":
                given = block.get("input")
                yield ToolCallDelta(
                    index=index,
                    call_id=_wire.string(block.get("id")) or None,
                    name=_wire.string(block.get("name")),
                    arguments=given if isinstance(given, Mapping) and given else "",
                )
            case _:
                pass

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[Delta]:
        match delta.get("type"):
            case "text_delta":
                yield from _some_text(index, delta.get("text"))
            case "thinking_delta":
                text = _wire.string(delta.get("thinking"))
                yield ThinkingDelta(text=text, index=index, provider=PROVIDER)
            case "signature_delta":
                signature = _wire.string(delta.get("signature"))
                yield ThinkingDelta(signature=signature, index=index, provider=PROVIDER)
            case "input_json_delta":
                yield ToolCallDelta(index=index, arguments=_wire.string(delta.get("partial_json")))
            case _:
                pass

    def _stop(self, delta: Mapping[str, Any]) -> None:
        reason = delta.get("stop_reason")
        if not isinstance(reason, str):
            return
        self._reason = reason
        if reason not in PLAIN:
            self._details["stop_reason"] = reason
        for name in ("stop_sequence", "stop_details"):
            if delta.get(name):
                self._details[name] = delta[name]

    def _used(self, usage: Any) -> Iterator[Delta]:
        """Yield the usage so far; later counts replace earlier ones, for they are cumulative."""
        if not isinstance(usage, Mapping) or not usage:
            return
        self._usage.update({name: value for name, value in usage.items() if value is not None})
        yield UsageDelta(token_usage(self._usage))


def token_usage(usage: Mapping[str, Any]) -> TokenUsage:
    """Return the usage; what is read from or written to the cache is counted apart by the API."""
    cached = _wire.count(usage, "cache_read_input_tokens")
    written = _wire.count(usage, "output_tokens")
    return TokenUsage(
        input_tokens=_wire.count(usage, "input_tokens")
        + _wire.count(usage, "cache_creation_input_tokens")
        + cached,
        output_tokens=written,
        cached_tokens=cached,
        reasoning_tokens=min(
            written,
            _wire.count(_wire.mapping(usage.get("output_tokens_details")), "thinking_tokens"),
        ),
    )


def _some_text(index: int, text: Any) -> Iterator[Delta]:
    if text := _wire.string(text):
        yield TextDelta(text, index)


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else 0
