"""Chunks of Gemini become one message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagents_app.engine import TextPart, ThinkingPart, TokenUsage
from sagents_app.engine.chat_models.google.decode import GeminiDecoder, token_usage
from sagents_app.engine.deltas import TextDelta
from sagents_app.engine.errors import (
    AuthenticationFailed,
    BadRequest,
    ContentFiltered,
    ModelError,
    Overloaded,
    ProtocolError,
    RateLimited,
    StreamDied,
)
from tests.engine.chat_models.wire import calls_of, decoded, folded, recorded, sse, status_of


def chunk(*parts: dict[str, Any], reason: str | None = None, **fields: Any) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    candidate = {"index": 0, "content": content, **({"finishReason": reason} if reason else {})}
    return {"candidates": [{**candidate, **fields}]}


def played(*chunks: Any) -> str:
    return sse(*chunks, done=False)


def test_a_documented_stream_of_text_is_one_message_with_its_usage() -> None:
    deltas = decoded(GeminiDecoder(), recorded("google/text.sse"))
    assert [d.text for d in deltas if isinstance(d, TextDelta)] == ["Hello", ", world"]
    message = folded(deltas)
    assert (message.text, message.status, message.stop_details) == (
        "Hello, world",
        "complete",
        None,
    )
    assert message.usage == TokenUsage(
        input_tokens=8, output_tokens=23, cached_tokens=4, reasoning_tokens=20
    )


def test_calls_without_ids_are_calls_and_the_signature_knows_its_own() -> None:
    message = folded(decoded(GeminiDecoder(), recorded("google/tools.sse")))
    assert calls_of(message) == [
        ("", "get_weather", '{"city":"Paris"}'),
        ("", "get_weather", '{"city":"London"}'),
    ]
    assert message.content == (
        ThinkingPart("**Checking**\nBoth cities, then.", provider="google"),
        TextPart("Let me look."),
        ThinkingPart("", "CiQB0e2Kb3d1pkiMOYds+/==", "call 0", "google"),
    )


def test_calls_of_several_chunks_and_ids_of_the_provider_are_kept() -> None:
    first = {"functionCall": {"id": "fc_1", "name": "f", "args": {"a": 1}}}
    second = {"functionCall": {"id": "fc_2", "name": "g"}}
    third = {"functionCall": {"name": "h", "args": [1]}}
    text = played(chunk(first), chunk(second), chunk(third, reason="STOP"))
    message = folded(decoded(GeminiDecoder(), text))
    assert calls_of(message) == [("fc_1", "f", '{"a":1}'), ("fc_2", "g", "{}"), ("", "h", "[1]")]
    assert message.tool_calls[2].problem


def test_the_signature_of_a_text_stands_behind_it() -> None:
    message = folded(decoded(GeminiDecoder(), recorded("google/signed_text.sse")))
    assert message.content == (
        TextPart("It is sunny."),
        ThinkingPart("", "CiIBsigned", None, "google"),
    )


def test_a_signed_thought_is_one_part() -> None:
    part = {"text": "hm", "thought": True, "thoughtSignature": "sig"}
    message = folded(decoded(GeminiDecoder(), played(chunk(part, {"text": "a"}, reason="STOP"))))
    assert message.content == (ThinkingPart("hm", "sig", None, "google"), TextPart("a"))


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("STOP", "complete"),
        ("OTHER", "complete"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filtered"),
        ("RECITATION", "content_filtered"),
        ("PROHIBITED_CONTENT", "content_filtered"),
    ],
)
def test_each_reason_to_finish_has_its_status(reason: str, status: str) -> None:
    deltas = decoded(
        GeminiDecoder(), played(chunk({"text": "a"}, reason=reason, finishMessage="why"))
    )
    assert status_of(deltas) == status
    details = {"finishReason": reason, "finishMessage": "why"} if reason != "STOP" else None
    assert folded(deltas).stop_details == details


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("MALFORMED_FUNCTION_CALL", StreamDied),
        ("UNEXPECTED_TOOL_CALL", StreamDied),
        ("MISSING_THOUGHT_SIGNATURE", BadRequest),
    ],
)
def test_a_reply_that_cannot_be_read_is_an_error(reason: str, error: type[ModelError]) -> None:
    with pytest.raises(error, match="why"):
        decoded(GeminiDecoder(), played(chunk(reason=reason, finishMessage="why")))


def test_a_prompt_that_was_blocked_says_so() -> None:
    with pytest.raises(ContentFiltered, match="SAFETY"):
        decoded(GeminiDecoder(), played({"promptFeedback": {"blockReason": "SAFETY"}}))


def test_a_stream_that_ends_in_the_middle_has_died() -> None:
    with pytest.raises(StreamDied):
        decoded(GeminiDecoder(), played(chunk({"text": "Once upon"})))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m"}, RateLimited),
        ({"code": 503, "status": "UNAVAILABLE", "message": "m"}, Overloaded),
        (
            {"code": 400, "message": "m", "details": [{"reason": "API_KEY_INVALID"}]},
            AuthenticationFailed,
        ),
        ({"code": 400, "status": "INVALID_ARGUMENT", "message": "m"}, BadRequest),
    ],
)
@pytest.mark.parametrize("in_list", [False, True])
def test_errors_inside_a_stream_keep_their_kind(
    error: Any, expected: type[ModelError], in_list: bool
) -> None:
    body = {"error": error}
    with pytest.raises(expected):
        GeminiDecoder().feed("", json.dumps([body] if in_list else body))
    with pytest.raises(expected):
        GeminiDecoder().whole([body] if in_list else body)


@pytest.mark.parametrize("data", ["{oops", "[]", "null", "3"])
def test_a_chunk_that_is_none_breaks_the_protocol(data: str) -> None:
    with pytest.raises(ProtocolError, match="expected a"):
        GeminiDecoder().feed("", data)


@pytest.mark.parametrize(
    "given",
    [{}, {"candidates": None}, {"candidates": [None]}, chunk(None), {"candidates": [{"index": 1}]}],  # type: ignore[arg-type]  # nonsense
)
def test_chunks_that_are_empty_add_nothing(given: Any) -> None:
    assert list(GeminiDecoder().feed("", json.dumps(given))) == []


def test_an_answer_that_came_at_once_is_a_reply_also_as_a_list() -> None:
    for body in (
        chunk({"text": "ab"}, reason="STOP"),
        [chunk({"text": "a"}), chunk({"text": "b"}, reason="STOP")],
    ):
        decoder = GeminiDecoder()
        assert folded([*decoder.whole(body), *decoder.end()]).text == "ab"
    with pytest.raises(ProtocolError, match="no candidate"):
        GeminiDecoder().whole({"hello": 1})


def test_counts_that_are_nonsense_are_none() -> None:
    assert token_usage({"promptTokenCount": "x", "thoughtsTokenCount": -2}) == TokenUsage()


def test_a_reason_that_is_not_explained_stands_alone() -> None:
    deltas = decoded(GeminiDecoder(), played(chunk({"text": "a"}, reason="SAFETY")))
    assert folded(deltas).stop_details == {"finishReason": "SAFETY"}
