"""Random histories: what providers, tools and cancels may leave behind in a conversation."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st

from sagents_app.engine import (
    FilePart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
)

TEXTS = st.text(max_size=6)
IDS = st.sampled_from(["call_0", "call_1", "toolu_01", "c" * 64, "a.b", "", "ä"]) | TEXTS
NAMES = st.sampled_from(["note", "a b", "", "x" * 70])
PROVIDERS = st.sampled_from([None, "openai", "anthropic", "google", "openai-responses"])
DATA = st.binary(max_size=12).map(lambda data: base64.b64encode(data).decode())
MIME_TYPES = st.sampled_from([None, "image/png", "application/pdf", "text/plain", "audio/wav"])
TEXT_PARTS: st.SearchStrategy[Any] = st.builds(TextPart, TEXTS)
THINKING = st.builds(
    ThinkingPart,
    TEXTS,
    st.none() | TEXTS,
    redacted=st.none() | TEXTS,
    provider=PROVIDERS,
)
FILES: st.SearchStrategy[Any] = st.builds(ImagePart, data=DATA, mime_type=MIME_TYPES) | st.builds(
    FilePart, name=TEXTS, data=DATA, mime_type=MIME_TYPES
)
ARGUMENTS = st.sampled_from([{}, {"a": 1}, '{"a": ', "[1]", ""])
CALLS = st.builds(ToolCall, IDS, NAMES, ARGUMENTS, provider_id=st.none() | IDS)
RESULTS = st.builds(
    ToolResult,
    IDS,
    NAMES,
    st.lists(TEXT_PARTS | FILES, max_size=2).map(tuple),
    is_error=st.booleans(),
    is_interrupt=st.booleans(),
)


def _parts(*kinds: Any) -> Any:
    return st.lists(st.one_of(*kinds), max_size=3).map(tuple)


def _results_of(calls: list[ToolCall]) -> Any:
    return st.lists(RESULTS, min_size=len(calls), max_size=len(calls)).map(
        lambda results: tuple(
            ToolResult(call.call_id, call.name, result.content, is_error=result.is_error)
            for call, result in zip(calls, results, strict=True)
        )
    )


ASSISTANT = st.builds(
    Message,
    st.just("assistant"),
    _parts(TEXT_PARTS, THINKING, FILES),
    st.lists(CALLS, max_size=3).map(tuple),
    status=st.sampled_from(["complete", "length", "cancelled", "stream_error"]),
)
OTHERS = st.one_of(
    st.builds(Message, st.just("user"), _parts(TEXT_PARTS, FILES, THINKING)),
    st.builds(Message, st.just("system"), _parts(TEXT_PARTS)),
    st.builds(Message, st.just("tool"), tool_results=st.lists(RESULTS, max_size=2).map(tuple)),
)


@st.composite
def histories(draw: Any) -> tuple[Message, ...]:
    """Messages in any order; calls mostly with their results, sometimes without."""
    messages: list[Message] = []
    for _ in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            messages.append(draw(OTHERS))
            continue
        said = draw(ASSISTANT)
        messages.append(said)
        if said.tool_calls and draw(st.integers(0, 3)):
            results = draw(_results_of(list(said.tool_calls)))
            messages.append(Message("tool", tool_results=draw(st.permutations(results).map(tuple))))
    return tuple(messages)
