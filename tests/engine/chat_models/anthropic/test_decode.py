"""Events of Anthropic's Messages API become one message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagents_app.engine import TextPart, ThinkingPart, TokenUsage
from sagents_app.engine.chat_models.anthropic.decode import MessagesDecoder, token_usage
from sagents_app.engine.deltas import TextDelta, UsageDelta
from sagents_app.engine.errors import (
    AuthenticationFailed,
    ModelError,
    Overloaded,
    ProtocolError,
    RateLimited,
    StreamDied,
)
from tests.engine.chat_models.wire import calls_of, decoded, folded, recorded, status_of

SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/=="
REDACTED = "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP"


def named(*events: dict[str, Any]) -> str:
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)


START = {"type": "message_start", "message": {"content": [], "usage": {"input_tokens": 1}}}
STOP = {"type": "message_stop"}


def text(words: str) -> dict[str, Any]:
    delta = {"type": "text_delta", "text": words}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def stopped(reason: str, **details: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **details}, "usage": {}}


def test_a_documented_stream_of_text_is_one_message_with_its_usage() -> None:
    deltas = decoded(MessagesDecoder(), recorded("anthropic/text.sse"))
    assert [d.text for d in deltas if isinstance(d, TextDelta)] == ["Hello", ", world"]
    message = folded(deltas)
    assert (message.text, message.status, message.stop_details) == (
        "Hello, world",
        "complete",
        None,
    )
    assert message.usage == TokenUsage(input_tokens=135, output_tokens=15, cached_tokens=100)
    assert len([d for d in deltas if isinstance(d, UsageDelta)]) == 2


def test_parallel_calls_are_calls_and_one_without_input_has_none() -> None:
    message = folded(decoded(MessagesDecoder(), recorded("anthropic/tools.sse")))
    assert message.text == "Okay, let's check the weather:"
    assert calls_of(message) == [
        ("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "get_weather", '{"city":"San Francisco"}'),
        ("toolu_01T1x1fJ34qAmk2tNTrN7Up7", "list_cities", "{}"),
    ]


def test_thinking_keeps_its_signature_and_what_is_redacted_its_data() -> None:
    message = folded(decoded(MessagesDecoder(), recorded("anthropic/thinking.sse")))
    assert message.content == (
        ThinkingPart("I need to find the GCD of 1071 and 462.\n", SIGNATURE, provider="anthropic"),
        ThinkingPart("", None, REDACTED, "anthropic"),
    )
    assert calls_of(message) == [("toolu_01", "get_weather", '{"city":"Paris"}')]
    assert message.usage == TokenUsage(input_tokens=9, output_tokens=60, reasoning_tokens=40)


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("end_turn", "complete", None),
        ("tool_use", "complete", None),
        ("stop_sequence", "complete", {"stop_reason": "stop_sequence"}),
        ("pause_turn", "complete", {"stop_reason": "pause_turn"}),
        ("max_tokens", "length", {"stop_reason": "max_tokens"}),
        (
            "model_context_window_exceeded",
            "length",
            {"stop_reason": "model_context_window_exceeded"},
        ),
        ("refusal", "content_filtered", {"stop_reason": "refusal"}),
    ],
)
def test_each_reason_to_stop_has_its_status(reason: str, status: str, details: Any) -> None:
    deltas = decoded(MessagesDecoder(), named(START, text("a"), stopped(reason), STOP))
    assert status_of(deltas) == status
    assert folded(deltas).stop_details == details


def test_the_providers_account_of_a_stop_is_kept() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": None}
    deltas = decoded(
        MessagesDecoder(), named(START, stopped("refusal", stop_details=details), STOP)
    )
    assert folded(deltas).stop_details == {"stop_reason": "refusal", "stop_details": details}


def test_a_limit_inside_a_thought_leaves_a_message_that_says_so() -> None:
    """B074."""
    recording = recorded("anthropic/thinking.sse")
    cut = recording[: recording.index("event: content_block_delta", 900)]
    deltas = decoded(MessagesDecoder(), cut + named(stopped("max_tokens"), STOP))
    message = folded(deltas)
    assert message.status == "length"
    assert isinstance(message.content[0], ThinkingPart)
    assert message.content[0].signature is None


def test_a_stream_that_ends_in_the_middle_has_died() -> None:
    with pytest.raises(StreamDied):
        decoded(MessagesDecoder(), named(START, text("Once upon")))


def test_a_reply_is_whole_with_its_reason_though_the_last_event_is_missing() -> None:
    deltas = decoded(MessagesDecoder(), named(START, text("a"), stopped("end_turn")))
    assert status_of(deltas) == "complete"


def test_a_closed_stream_without_a_message_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="without a reply"):
        decoded(MessagesDecoder(), named(STOP))


def test_an_error_inside_the_stream_keeps_its_kind() -> None:
    with pytest.raises(Overloaded, match="Overloaded"):
        decoded(MessagesDecoder(), recorded("anthropic/overloaded.sse"))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("rate_limit_error", RateLimited),
        ("api_error", Overloaded),
        ("authentication_error", AuthenticationFailed),
        ("something_new", StreamDied),
    ],
)
def test_each_error_inside_a_stream_is_its_error(kind: str, error: type[ModelError]) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "m"}}
    with pytest.raises(error):
        MessagesDecoder().feed("error", json.dumps(event))


@pytest.mark.parametrize("data", ["{oops", "[]", "null", '"text"'])
def test_an_event_that_is_none_breaks_the_protocol(data: str) -> None:
    with pytest.raises(ProtocolError, match="expected a"):
        MessagesDecoder().feed("message", data)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "something_new", "of": "tomorrow"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta"}},
        {"type": "content_block_delta", "index": None, "delta": None},
        {"type": "message_start"},
        {"type": "message_delta", "delta": {"stop_reason": None}, "usage": None},
    ],
    ids=lambda event: str(event["type"]),
)
def test_events_that_are_unknown_or_empty_add_nothing(event: dict[str, Any]) -> None:
    assert list(MessagesDecoder().feed("", json.dumps(event))) == []


def test_an_answer_that_came_at_once_is_a_reply() -> None:
    """The answer of https://platform.claude.com/docs/en/api/messages."""
    decoder = MessagesDecoder()
    body = {
        "type": "message",
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Hi!"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 10, "output_tokens": 25},
    }
    message = folded([*decoder.whole(body), *decoder.end()])
    assert message.content == (ThinkingPart("hm", "sig", provider="anthropic"), TextPart("Hi!"))
    assert calls_of(message) == [("toolu_1", "f", '{"a":1}')]
    assert message.usage == TokenUsage(input_tokens=10, output_tokens=25)


@pytest.mark.parametrize("body", [{}, [], {"content": None}, {"choices": []}])
def test_another_answer_breaks_the_protocol(body: Any) -> None:
    with pytest.raises(ProtocolError):
        MessagesDecoder().whole(body)
    with pytest.raises(Overloaded):
        MessagesDecoder().whole({"type": "error", "error": {"type": "overloaded_error"}})


def test_counts_that_are_nonsense_are_none() -> None:
    assert token_usage({"input_tokens": -1, "output_tokens": "x"}) == TokenUsage()
