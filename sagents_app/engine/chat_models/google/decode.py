"""Chunks of Gemini's `streamGenerateContent` as deltas: pure.

The form is that of https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse. The
stream has no closing mark: its end behind a reason to finish is the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sagents_app.engine.chat_models import _refusals, _wire
from sagents_app.engine.chat_models.google.encode import OF_CALL, PROVIDER
from sagents_app.engine.deltas import (
    Delta,
    FinishDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from sagents_app.engine.errors import BadRequest, ContentFiltered, ProtocolError, StreamDied
from sagents_app.engine.usage import TokenUsage

Status = Literal["complete", "length", "content_filtered"]
STATUSES: Mapping[str, Status] = {
    "MAX_TOKENS": "length",
    "SAFETY": "content_filtered",
    "RECITATION": "content_filtered",
    "LANGUAGE": "content_filtered",
    "BLOCKLIST": "content_filtered",
    "PROHIBITED_CONTENT": "content_filtered",
    "SPII": "content_filtered",
    "IMAGE_SAFETY": "content_filtered",
    "IMAGE_PROHIBITED_CONTENT": "content_filtered",
    "IMAGE_RECITATION": "content_filtered",
    "MODEL_ARMOR": "content_filtered",
}
MALFORMED = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE", "NO_IMAGE"}
)
"""The model wrote what nobody can read; another try mostly reads well."""


class GeminiDecoder:
    """Decodes one reply."""

    is_closed = False

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._index = 0
        self._kind = ""
        self._calls = 0
        self._reason: str | None = None
        self._told: str | None = None
        self._has_candidate = False

    @property
    def is_finished(self) -> bool:
        """Whether a reason to finish has come."""
        return self._reason is not None

    def feed(self, event: str, data: str) -> Sequence[Delta]:
        """Return what one chunk adds.

        Raises:
            ModelError: an error of the provider inside its stream, or a prompt that it blocked.
            ProtocolError: it is no chunk of a reply.
        """
        chunk = _wire.parsed(data, secrets=self._secrets)
        return list(self._chunk(chunk))

    def whole(self, body: Any) -> Sequence[Delta]:
        """Return what an answer that came at once holds: a reply, or the list of its chunks.

        Raises:
            ModelError: as `feed`.
        """
        chunks = body if isinstance(body, list) else [body]
        deltas = [delta for chunk in chunks for delta in self._chunk(chunk)]
        if not self._has_candidate:
            raise ProtocolError("the answer has no candidate")
        return deltas

    def end(self) -> Sequence[Delta]:
        """Return the closing delta.

        Raises:
            StreamDied: no reason to finish has come, or the model wrote what cannot be read.
        """
        reason = self._reason
        if reason is None:
            raise StreamDied("the reply ended without saying that it was finished")
        told = f": {_refusals.shortened(self._told)}" if self._told else ""
        if reason in MALFORMED:
            raise StreamDied(f"the model's reply cannot be read ({reason}{told})")
        if reason == "MISSING_THOUGHT_SIGNATURE":
            raise BadRequest(f"the provider misses the signature of a thought{told}")
        details = None
        if reason != "STOP":
            details = {"finishReason": reason}
            if self._told:
                details["finishMessage"] = self._told
        return (FinishDelta(status=STATUSES.get(reason, "complete"), stop_details=details),)

    def _chunk(self, chunk: Any) -> Iterator[Delta]:
        if isinstance(chunk, list) and chunk:
            chunk = chunk[0]  # an error is wrapped in a list
        if not isinstance(chunk, Mapping):
            raise ProtocolError(f"expected a chunk, got {type(chunk).__name__}")
        if chunk.get("error"):
            raise _refusals.refusal(chunk, secrets=self._secrets)
        feedback = _wire.mapping(chunk.get("promptFeedback"))
        if feedback.get("blockReason"):
            told = feedback.get("blockReasonMessage") or feedback["blockReason"]
            raise ContentFiltered(f"the prompt was blocked: {_refusals.shortened(str(told))}")
        candidates = chunk.get("candidates")
        for candidate in candidates if isinstance(candidates, list) else ():
            if isinstance(candidate, Mapping) and not candidate.get("index"):
                yield from self._candidate(candidate)
        usage = chunk.get("usageMetadata")
        if isinstance(usage, Mapping) and usage:
            yield UsageDelta(token_usage(usage))

    def _candidate(self, candidate: Mapping[str, Any]) -> Iterator[Delta]:
        self._has_candidate = True
        parts = _wire.mapping(candidate.get("content")).get("parts")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, Mapping):
                yield from self._part(part)
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason and reason != "FINISH_REASON_UNSPECIFIED":
            self._reason = reason
            told = candidate.get("finishMessage")
            self._told = told if isinstance(told, str) else None

    def _part(self, part: Mapping[str, Any]) -> Iterator[Delta]:
        text = part.get("text")
        if isinstance(text, str) and text:
            yield self._thinking(text) if part.get("thought") else self._text(text)
        call = part.get("functionCall")
        if isinstance(call, Mapping):
            yield self._call(call)
        signature = part.get("thoughtSignature") or part.get("thought_signature")
        if not isinstance(signature, str) or not signature:
            return
        if isinstance(call, Mapping):
            where = f"{OF_CALL}{self._calls - 1}"
            self._next("signature")
            yield ThinkingDelta(
                signature=signature, redacted=where, index=self._index, provider=PROVIDER
            )
            return
        if not part.get("thought"):
            self._next("signature")
        yield ThinkingDelta(signature=signature, index=self._index, provider=PROVIDER)

    def _text(self, text: str) -> TextDelta:
        self._go_on("text")
        return TextDelta(text, self._index)

    def _thinking(self, text: str) -> ThinkingDelta:
        self._go_on("thinking")
        return ThinkingDelta(text=text, index=self._index, provider=PROVIDER)

    def _call(self, call: Mapping[str, Any]) -> ToolCallDelta:
        """Return a call, which comes whole; many have no id."""
        given = call.get("args")
        index = self._calls
        self._calls += 1
        return ToolCallDelta(
            index=index,
            call_id=_wire.string(call.get("id")) or None,
            name=_wire.string(call.get("name")),
            arguments=given if isinstance(given, Mapping) else json.dumps(given or {}),
        )

    def _go_on(self, kind: str) -> None:
        """Stay in the part, unless it is of another kind."""
        if self._kind != kind:
            self._next(kind)

    def _next(self, kind: str) -> None:
        self._index += 1
        self._kind = kind


def token_usage(usage: Mapping[str, Any]) -> TokenUsage:
    """Return the usage; thoughts are counted apart from the answer by the API."""
    thoughts = _wire.count(usage, "thoughtsTokenCount")
    cached = _wire.count(usage, "cachedContentTokenCount")
    read = _wire.count(usage, "promptTokenCount") + _wire.count(usage, "toolUsePromptTokenCount")
    return TokenUsage(
        input_tokens=max(read, cached),
        output_tokens=_wire.count(usage, "candidatesTokenCount") + thoughts,
        cached_tokens=cached,
        reasoning_tokens=thoughts,
    )
