"""Events of OpenAI's Responses API as deltas: pure.

The form is that of https://platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sagents_app.engine.chat_models import _refusals, _wire
from sagents_app.engine.chat_models.openai.decode import token_usage
from sagents_app.engine.chat_models.openai_responses.encode import PROVIDER
from sagents_app.engine.deltas import (
    Delta,
    FinishDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from sagents_app.engine.errors import ProtocolError, StreamDied

Status = Literal["complete", "length", "content_filtered"]
DONE = "[DONE]"
STATUSES: Mapping[str, Status] = {
    "max_output_tokens": "length",
    "content_filter": "content_filtered",
}


class ResponsesDecoder:
    """Decodes one reply."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._parts: dict[tuple[Any, ...], int] = {}
        self._calls: dict[Any, int] = {}
        self._streamed: set[Any] = set()
        self._refusal: list[str] = []
        self._finish: FinishDelta | None = None
        self.is_closed = False

    @property
    def is_finished(self) -> bool:
        """Whether the closing event has come."""
        return self._finish is not None

    def feed(self, event: str, data: str) -> Sequence[Delta]:
        """Return what one event adds; unknown events add nothing.

        Raises:
            ModelError: an error of the provider inside its stream.
            ProtocolError: it is no event of a response.
        """
        if data.strip() == DONE:
            self.is_closed = True
            return ()
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
            raise ProtocolError(f"expected a response, got {type(body).__name__}")
        if not isinstance(body.get("output"), list):
            if body.get("error"):
                raise _refusals.refusal(body, secrets=self._secrets)
            raise ProtocolError("the answer has no output")
        self.is_closed = True
        deltas = [
            delta
            for index, item in enumerate(body["output"])
            for delta in self._done(index, _wire.mapping(item))
        ]
        return [*deltas, *self._closed(body)]

    def end(self) -> Sequence[Delta]:
        """Return the closing delta.

        Raises:
            StreamDied: the closing event has not come.
        """
        if self._finish is None:
            raise StreamDied("the reply ended without saying that it was finished")
        return (self._finish,)

    def _event(self, kind: str, event: Mapping[str, Any]) -> Iterator[Delta]:
        place = event.get("output_index", event.get("item_id"))
        match kind:
            case "error":
                given = event if event.get("error") else {"error": dict(event)}
                raise _refusals.refusal(given, secrets=self._secrets)
            case "response.output_item.added":
                yield from self._added(place, _wire.mapping(event.get("item")))
            case "response.output_item.done":
                yield from self._done(place, _wire.mapping(event.get("item")))
            case "response.output_text.delta" | "response.refusal.delta":
                text = _wire.string(event.get("delta"))
                if kind.startswith("response.refusal"):
                    self._refusal.append(text)
                yield from self._text(place, event.get("content_index"), text)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                part = event.get("summary_index", event.get("content_index"))
                yield from self._thinking(place, part, _wire.string(event.get("delta")))
            case "response.function_call_arguments.delta":
                yield from self._arguments(place, _wire.string(event.get("delta")))
            case "response.completed" | "response.incomplete" | "response.failed":
                yield from self._closed(_wire.mapping(event.get("response")))
            case _:
                pass

    def _added(self, place: Any, item: Mapping[str, Any]) -> Iterator[Delta]:
        if item.get("type") == "function_call":
            self._calls[place] = len(self._calls)
            yield ToolCallDelta(
                index=self._calls[place],
                call_id=_wire.string(item.get("call_id")) or _wire.string(item.get("id")) or None,
                name=_wire.string(item.get("name")),
            )

    def _done(self, place: Any, item: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what of a finished item has not been streamed."""
        match item.get("type"):
            case "function_call":
                if place not in self._calls:
                    yield from self._added(place, item)
                if place not in self._streamed:
                    yield from self._arguments(place, _wire.string(item.get("arguments")))
            case "message" if place not in self._streamed:
                parts = item.get("content")
                for index, part in enumerate(parts if isinstance(parts, list) else ()):
                    refused = _wire.string(_wire.mapping(part).get("refusal"))
                    if refused:
                        self._refusal.append(refused)
                    text = _wire.string(_wire.mapping(part).get("text")) or refused
                    yield from self._text(place, index, text)
            case "reasoning":
                yield from self._reasoned(place, item)
            case _:
                pass

    def _reasoned(self, place: Any, item: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield the encrypted reasoning, whose finished form alone is whole."""
        if place not in self._streamed:
            given = item.get("summary") or item.get("content")
            for index, part in enumerate(given if isinstance(given, list) else ()):
                yield from self._thinking(
                    place, index, _wire.string(_wire.mapping(part).get("text"))
                )
        encrypted, item_id = (
            _wire.string(item.get("encrypted_content")),
            _wire.string(item.get("id")),
        )
        if encrypted and item_id:
            yield ThinkingDelta(
                signature=encrypted,
                redacted=f"{item_id} {len(self._calls)}",
                index=self._index("thinking", place),
                provider=PROVIDER,
            )

    def _text(self, place: Any, part: Any, text: str) -> Iterator[Delta]:
        if text:
            self._streamed.add(place)
            yield TextDelta(text, self._index("text", place, part))

    def _thinking(self, place: Any, part: Any, text: str) -> Iterator[Delta]:
        if not text:
            return
        self._streamed.add(place)
        paragraph = ("paragraph", place, part)
        if paragraph not in self._parts:
            self._parts[paragraph] = 0
            if part:
                text = f"\n\n{text}"
        yield ThinkingDelta(text=text, index=self._index("thinking", place), provider=PROVIDER)

    def _arguments(self, place: Any, text: str) -> Iterator[Delta]:
        if text:
            self._streamed.add(place)
            index = self._calls.setdefault(place, len(self._calls))
            yield ToolCallDelta(index=index, arguments=text)

    def _closed(self, response: Mapping[str, Any]) -> Iterator[Delta]:
        status = response.get("status")
        if status in ("failed", "cancelled") or _wire.mapping(response.get("error")):
            error = response.get("error") or {"message": f"the response is {status}"}
            raise _refusals.refusal({"error": error}, secrets=self._secrets)
        usage = response.get("usage")
        if isinstance(usage, Mapping) and usage:
            yield UsageDelta(token_usage(usage))
        details: dict[str, Any] = {}
        reason = _wire.string(_wire.mapping(response.get("incomplete_details")).get("reason"))
        if reason or status == "incomplete":
            details["incomplete_details"] = response.get("incomplete_details")
        if self._refusal:
            details["refusal"] = "".join(self._refusal)
        ended = STATUSES.get(reason, "length" if status == "incomplete" else "complete")
        self._finish = FinishDelta(
            status="content_filtered" if self._refusal else ended, stop_details=details or None
        )

    def _index(self, *key: Any) -> int:
        """Return the content index of a part, in the order in which parts began."""
        return self._parts.setdefault(key, len(self._parts))
