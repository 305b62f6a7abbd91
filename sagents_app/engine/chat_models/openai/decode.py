"""Chunks of a chat completion as deltas: pure.

The form is that of https://platform.openai.com/docs/api-reference/chat-streaming. Known deviations
of other servers are read for what they mean; where two readings are possible, the one that cannot
run a tool with another call's arguments is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from sagents_app.engine import canonical
from sagents_app.engine.chat_models import _refusals, _wire
from sagents_app.engine.chat_models.openai.encode import PROVIDER
from sagents_app.engine.deltas import (
    Delta,
    FinishDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    UsageDelta,
)
from sagents_app.engine.errors import ModelError, Overloaded, ProtocolError, StreamDied
from sagents_app.engine.usage import TokenUsage

Status = Literal["complete", "length", "content_filtered"]
DONE = "[DONE]"
STATUSES: Mapping[str, Status] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral
    "model_context_window_exceeded": "length",
    "content_filter": "content_filtered",
    "content_filtered": "content_filtered",
    "safety": "content_filtered",
    "recitation": "content_filtered",
    "refusal": "content_filtered",
    "sensitive": "content_filtered",  # Z.ai
}
PLAIN = frozenset({"stop", "tool_calls", "function_call"})
BROKEN: Mapping[str, type[ModelError]] = {
    "error": StreamDied,  # OpenRouter, Mistral
    "network_error": StreamDied,  # Z.ai
    "abort": StreamDied,  # vLLM
    "insufficient_system_resource": Overloaded,  # DeepSeek
}


class _Slot:
    """One call as it has come so far; `index` is its own among all calls of the reply."""

    __slots__ = ("arguments", "call_id", "index", "length", "name", "wire_index")

    def __init__(self, index: int, wire_index: int | None, call_id: str) -> None:
        self.index = index
        self.wire_index = wire_index
        self.call_id = call_id
        self.name = ""
        self.arguments: list[str] = []
        self.length = 0
        """Characters of the arguments."""

    @property
    def is_whole(self) -> bool:
        """Whether the arguments are a JSON object already."""
        return _is_object("".join(self.arguments))


class ChatDecoder:
    """Decodes one reply."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._slots: list[_Slot] = []
        self._index = 0
        self._kind = ""
        self._reason: str | None = None
        self._native_reason: str | None = None
        self._refusal: list[str] = []
        self._has_choice = False
        self.is_closed = False

    @property
    def is_finished(self) -> bool:
        """Whether a reason to stop has come."""
        return self._reason is not None

    def feed(self, event: str, data: str) -> Sequence[Delta]:
        """Return what one event adds.

        Raises:
            ModelError: an error of the provider inside its stream.
            ProtocolError: it is no chunk of a chat completion.
        """
        if data.strip() == DONE:
            self.is_closed = True
            return ()
        chunk = _wire.parsed(data, secrets=self._secrets)
        if event == "error":
            raise _refusals.refusal(chunk, secrets=self._secrets)
        return self._chunk(chunk)

    def whole(self, body: Any) -> Sequence[Delta]:
        """Return what an answer that came at once holds.

        Raises:
            ModelError: as `feed`.
        """
        deltas = self._chunk(body)
        if not self._has_choice:
            raise ProtocolError("the answer has no choice")
        self.is_closed = True
        return deltas

    def end(self) -> Sequence[Delta]:
        """Return the closing delta.

        Raises:
            StreamDied: no reason to stop has come, nor the mark that closes the stream.
            ProtocolError: the stream was closed without a reply.
        """
        if self._reason is None and not self.is_closed:
            raise StreamDied("the reply ended without saying that it was finished")
        if not self._has_choice:
            raise ProtocolError("the stream was closed without a reply")
        reason = (self._reason or "stop").strip().lower()
        if (broken := BROKEN.get(reason)) is not None:
            raise broken(f"the provider broke the reply off ({self._native_reason or reason})")
        status: Status = STATUSES.get(reason, "complete")
        if self._refusal:
            status = "content_filtered"
        return (FinishDelta(status=status, stop_details=self._details(reason)),)

    def _details(self, reason: str) -> Mapping[str, Any] | None:
        details: dict[str, Any] = {}
        if reason not in PLAIN:
            details["finish_reason"] = self._reason
        if self._native_reason and self._native_reason != self._reason and details:
            details["native_finish_reason"] = self._native_reason
        if self._refusal:
            details["refusal"] = "".join(self._refusal)
        return details or None

    def _chunk(self, chunk: Any) -> list[Delta]:
        if not isinstance(chunk, Mapping):
            if isinstance(chunk, list) and chunk and isinstance(chunk[0], Mapping):
                return self._chunk(chunk[0])  # Gemini wraps an error in a list
            raise ProtocolError(f"expected a chunk, got {type(chunk).__name__}")
        if chunk.get("error") or chunk.get("object") == "error":
            raise _refusals.refusal(chunk, secrets=self._secrets)
        deltas: list[Delta] = []
        usage = chunk.get("usage")
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and not choice.get("index"):
                usage = usage or choice.get("usage")  # Moonshot
                deltas.extend(self._choice(choice))
        if not isinstance(usage, Mapping) and isinstance(chunk.get("x_groq"), Mapping):
            usage = chunk["x_groq"].get("usage")
        if isinstance(usage, Mapping) and usage:
            deltas.append(UsageDelta(token_usage(usage)))
        return deltas

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Delta]:
        self._has_choice = True
        if isinstance(choice.get("error"), Mapping):
            raise _refusals.refusal(choice, secrets=self._secrets)
        delta = choice.get("delta") or choice.get("message")
        if isinstance(delta, Mapping):
            yield from self._delta(delta)
        elif isinstance(choice.get("text"), str):
            yield from self._text(choice["text"])
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            self._reason = reason
            native = choice.get("native_finish_reason")
            self._native_reason = native if isinstance(native, str) else None

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str):
            yield from self._thinking(thought)
        yield from self._content(delta.get("content"))
        refused = delta.get("refusal")
        if isinstance(refused, str) and refused:
            self._refusal.append(refused)
            yield from self._text(refused)
        calls = delta.get("tool_calls")
        if isinstance(calls, Mapping):
            calls = [calls]
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                yield self._call(call)
        legacy = delta.get("function_call")
        if isinstance(legacy, Mapping) and not calls and all(not s.call_id for s in self._slots):
            yield self._call({"index": 0, "function": legacy})

    def _content(self, content: Any) -> Iterator[Delta]:
        if isinstance(content, str):
            yield from self._text(content)
        for part in content if isinstance(content, list) else ():
            if isinstance(part, str):
                yield from self._text(part)
            elif isinstance(part, Mapping) and part.get("type") == "thinking":  # Mistral
                yield from self._thinking(_joined(part.get("thinking")))
            elif isinstance(part, Mapping):
                yield from self._text(_joined(part.get("text")))

    def _text(self, text: str) -> Iterator[Delta]:
        if text:
            self._kind = "text"
            yield TextDelta(text, self._index)

    def _thinking(self, text: str) -> Iterator[Delta]:
        if text:
            if self._kind == "text":
                self._index += 1
            self._kind = "thinking"
            yield ThinkingDelta(text=text, index=self._index, provider=PROVIDER)

    def _call(self, call: Mapping[str, Any]) -> ToolCallDelta:
        function = call.get("function")
        function = function if isinstance(function, Mapping) else call
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        call_id = call.get("id")
        call_id = canonical.to_text(call_id) if call_id not in (None, "") else ""
        arguments = _arguments(function.get("arguments", function.get("parameters")))
        slot = self._slot(call.get("index"), call_id, name, arguments)
        first_name = not slot.name or not name.startswith(slot.name)
        fresh = name if first_name else name[len(slot.name) :]
        slot.name += fresh
        if isinstance(arguments, str):
            if _is_repeated(slot, arguments):
                arguments = ""
            elif arguments:
                slot.arguments.append(arguments)
                slot.length += len(arguments)
        else:
            slot.arguments = [json.dumps(arguments)]
        slot.call_id = slot.call_id or call_id
        return ToolCallDelta(
            index=slot.index,
            call_id=slot.call_id or None,
            name=fresh,
            arguments=arguments,
        )

    def _slot(self, wire_index: Any, call_id: str, name: str, arguments: Any) -> _Slot:
        """Return the call that a fragment belongs to, a new one where it begins one."""
        index = wire_index if isinstance(wire_index, int) else None
        same = [slot for slot in self._slots if index is None or slot.wire_index == index]
        if call_id:
            owned = [slot for slot in same if slot.call_id == call_id]
            nameless = [slot for slot in same if not slot.call_id] if index is not None else []
            same = owned or nameless
        known = same[-1] if same else None
        renamed = index is None and known is not None and bool(name) and name != known.name
        if known is None or (renamed and known.name) or _begins_anew(known, name, arguments):
            known = _Slot(len(self._slots), index, call_id)
            self._slots.append(known)
        return known


def token_usage(usage: Mapping[str, Any]) -> TokenUsage:
    """Return the usage that a server reports, whatever it calls its parts."""
    details_in = _wire.mapping(
        usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    )
    details_out = _wire.mapping(
        usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    )
    read = _wire.count(usage, "prompt_tokens", "input_tokens")
    written = _wire.count(usage, "completion_tokens", "output_tokens")
    reasoning = _wire.count(details_out, "reasoning_tokens") or _wire.count(
        usage, "reasoning_tokens"
    )
    if reasoning and _wire.count(usage, "total_tokens") == read + written + reasoning:
        written += reasoning  # xAI counts reasoning apart from the completion
    cached = (
        _wire.count(details_in, "cached_tokens")
        or _wire.count(usage, "prompt_cache_hit_tokens")  # DeepSeek
        or _wire.count(usage, "cached_tokens")  # Moonshot
    )
    return TokenUsage(
        input_tokens=max(read, cached),
        output_tokens=max(written, reasoning),
        cached_tokens=cached,
        reasoning_tokens=reasoning,
    )


def _begins_anew(known: _Slot, name: str, arguments: Any) -> bool:
    """Whether a fragment for a known call can only be the next one.

    Some servers send whole calls under one index and one id, or none: what follows complete
    arguments would make them unreadable. The same arguments again are a repetition, though.
    """
    if not name or not known.name or not known.arguments:
        return False
    if isinstance(arguments, str) and (not arguments.strip() or _is_repeated(known, arguments)):
        return False
    return known.is_whole


def _is_repeated(slot: _Slot, arguments: str) -> bool:
    """Whether a server says once more, at the end, what it had streamed."""
    return (
        bool(slot.call_id)
        and len(arguments) == slot.length > 1
        and arguments == "".join(slot.arguments)
        and _is_object(arguments)
    )


def _is_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _arguments(arguments: Any) -> str | Mapping[str, Any]:
    if arguments is None:
        return ""
    if isinstance(arguments, (str, Mapping)):
        return arguments
    return json.dumps(arguments)


def _joined(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else ()
    return "".join(_joined(part.get("text")) for part in parts if isinstance(part, Mapping))
