"""Events of OpenAI's Responses API become one message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagents_app.engine import TextPart, ThinkingPart, TokenUsage
from sagents_app.engine.chat_models.openai_responses.decode import ResponsesDecoder
from sagents_app.engine.deltas import TextDelta
from sagents_app.engine.errors import (
    BadRequest,
    ContentFiltered,
    ModelError,
    Overloaded,
    ProtocolError,
    RateLimited,
    StreamDied,
)
from tests.engine.chat_models.wire import calls_of, decoded, folded, recorded, sse, status_of


def played(*events: dict[str, Any]) -> str:
    return sse(*events, done=False)


def text(delta: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": delta}


def closed(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, **fields}}


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def test_a_documented_stream_of_text_is_one_message_with_its_usage() -> None:
    deltas = decoded(ResponsesDecoder(), recorded("openai_responses/text.sse"))
    assert [d.text for d in deltas if isinstance(d, TextDelta)] == ["Hello", ", world"]
    message = folded(deltas)
    assert (message.text, message.status, message.stop_details) == (
        "Hello, world",
        "complete",
        None,
    )
    assert message.usage == TokenUsage(
        input_tokens=37, output_tokens=11, cached_tokens=12, reasoning_tokens=3
    )


def test_reasoning_keeps_its_finished_form_and_parallel_calls_stay_apart() -> None:
    """B069."""
    message = folded(decoded(ResponsesDecoder(), recorded("openai_responses/reasoning_tools.sse")))
    assert message.content == (
        ThinkingPart(
            "**Two cities**\n\n**Both at once**",
            "gAAAAABof+whole==",
            "rs_6806bfca 0",
            "openai-responses",
        ),
    )
    assert calls_of(message) == [
        ("call_1234xyz", "get_weather", '{"city":"Paris"}'),
        ("call_5678xyz", "get_weather", '{"city":"Rome"}'),
    ]


def test_what_was_not_streamed_is_read_from_the_finished_items() -> None:
    """Servers of the protocol exist that send whole items only."""
    events = played(
        done(0, type="reasoning", id="rs_1", summary=[{"text": "hm"}], encrypted_content="sig"),
        done(1, type="message", content=[{"type": "output_text", "text": "a"}]),
        done(2, type="function_call", call_id="c1", name="f", arguments='{"a":1}'),
        closed(),
    )
    message = folded(decoded(ResponsesDecoder(), events))
    thought = ThinkingPart("hm", "sig", "rs_1 0", "openai-responses")
    assert message.content == (thought, TextPart("a"))
    assert calls_of(message) == [("c1", "f", '{"a":1}')]


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (closed(), "complete"),
        (closed("incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
        (closed("incomplete", incomplete_details={"reason": "content_filter"}), "content_filtered"),
        (closed("incomplete", incomplete_details=None), "length"),
    ],
)
def test_each_end_has_its_status(event: dict[str, Any], status: str) -> None:
    deltas = decoded(ResponsesDecoder(), played(text("a"), event))
    assert status_of(deltas) == status
    details = folded(deltas).stop_details
    assert (details is None) is (status == "complete")


def test_a_refusal_is_text_that_was_filtered() -> None:
    delta = {"type": "response.refusal.delta", "output_index": 0, "delta": "I cannot."}
    message = folded(decoded(ResponsesDecoder(), played(delta, closed())))
    assert (message.text, message.status) == ("I cannot.", "content_filtered")
    assert message.stop_details == {"refusal": "I cannot."}
    whole = done(0, type="message", content=[{"type": "refusal", "refusal": "I cannot."}])
    assert folded(decoded(ResponsesDecoder(), played(whole, closed()))).text == "I cannot."


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("server_error", Overloaded),
        ("rate_limit_exceeded", RateLimited),
        ("invalid_prompt", BadRequest),
        ("invalid_image", BadRequest),
        ("image_file_not_found", BadRequest),
        ("image_content_policy_violation", ContentFiltered),
        ("something_new", StreamDied),
        (None, StreamDied),
    ],
)
def test_each_failure_is_its_error(code: str | None, error: type[ModelError]) -> None:
    given = {"code": code, "message": "the reason"}
    with pytest.raises(error, match="the reason"):
        decoded(ResponsesDecoder(), played(closed("failed", error=given)))
    with pytest.raises(error, match="the reason"):
        decoded(ResponsesDecoder(), played({"type": "error", **given}))
    with pytest.raises(error, match="the reason"):
        decoded(ResponsesDecoder(), played({"type": "error", "error": given}))


def test_a_response_that_was_cancelled_elsewhere_has_died() -> None:
    with pytest.raises(StreamDied, match="cancelled"):
        decoded(ResponsesDecoder(), played({**closed("cancelled"), "type": "response.failed"}))


@pytest.mark.parametrize("ended", [played(text("Once upon")), played(text("a")) + sse()])
def test_a_stream_that_ends_in_the_middle_has_died(ended: str) -> None:
    with pytest.raises(StreamDied):
        decoded(ResponsesDecoder(), ended)


def test_a_closing_mark_of_another_protocol_does_no_harm() -> None:
    deltas = decoded(ResponsesDecoder(), played(text("a"), closed()) + sse())
    assert status_of(deltas) == "complete"


@pytest.mark.parametrize("data", ["{oops", "[]", "null", "3"])
def test_an_event_that_is_none_breaks_the_protocol(data: str) -> None:
    with pytest.raises(ProtocolError, match="expected a"):
        ResponsesDecoder().feed("", data)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.something_new"},
        {"type": "response.output_item.added"},
        {"type": "response.output_item.done", "item": None},
        {"type": "response.output_text.delta", "delta": None},
        {"type": "response.reasoning_summary_text.delta", "delta": ""},
        {"type": "response.function_call_arguments.delta", "delta": ""},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1"}},
        {"type": "response.output_item.done", "item": {"type": "web_search_call"}},
        {},
    ],
)
def test_events_that_are_unknown_or_empty_add_nothing(event: dict[str, Any]) -> None:
    assert list(ResponsesDecoder().feed("", json.dumps(event))) == []


def test_an_answer_that_came_at_once_is_a_reply() -> None:
    """The answer of https://platform.openai.com/docs/api-reference/responses/create."""
    decoder = ResponsesDecoder()
    body = {
        "status": "completed",
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "In a grove"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        ],
        "usage": {"input_tokens": 36, "output_tokens": 87},
    }
    message = folded([*decoder.whole(body), *decoder.end()])
    assert message.text == "In a grove"
    assert calls_of(message) == [("c1", "f", "{}")]
    assert message.usage == TokenUsage(input_tokens=36, output_tokens=87)


def test_another_answer_breaks_the_protocol() -> None:
    for body in ({}, [], {"output": None}):
        with pytest.raises(ProtocolError):
            ResponsesDecoder().whole(body)
    with pytest.raises(Overloaded):
        ResponsesDecoder().whole({"error": {"code": "server_error", "message": "m"}})
