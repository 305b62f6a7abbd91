"""Chunks of chat completions, as documented and as other servers send them, become one message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sagents_app.engine import TextPart, ThinkingPart, TokenUsage
from sagents_app.engine.chat_models.openai.decode import ChatDecoder, token_usage
from sagents_app.engine.deltas import FinishDelta, TextDelta, ToolCallDelta
from sagents_app.engine.errors import (
    BadRequest,
    ModelError,
    Overloaded,
    ProtocolError,
    RateLimited,
    StreamDied,
)
from tests.engine.chat_models.wire import calls_of, decoded, folded, recorded, sse, status_of


def chunk(reason: str | None = None, /, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def fragment(
    arguments: Any = "",
    *,
    name: str | None = None,
    index: int | None = None,
    id: Any = None,  # noqa: A002
) -> dict[str, Any]:
    """A tool call's fragment; what is None is left out."""
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    given: dict[str, Any] = {"type": "function", "function": function}
    if index is not None:
        given["index"] = index
    if id is not None:
        given["id"] = id
    return given


def test_a_documented_stream_of_text_is_one_message_with_its_usage() -> None:
    deltas = decoded(ChatDecoder(), recorded("openai/text.sse"))
    assert [d.text for d in deltas if isinstance(d, TextDelta)] == ["Hello", ", world"]
    assert deltas[-1] == FinishDelta()
    message = folded(deltas)
    assert (message.text, message.status, message.stop_details) == (
        "Hello, world",
        "complete",
        None,
    )
    assert message.usage == TokenUsage(
        input_tokens=19, output_tokens=10, cached_tokens=7, reasoning_tokens=4
    )


def test_fragments_of_parallel_calls_that_alternate_stay_apart() -> None:
    """B069."""
    deltas = decoded(ChatDecoder(), recorded("openai/parallel_tools.sse"))
    assert calls_of(folded(deltas)) == [
        ("call_DdmO9pD3xa9XTPNJ32zg2hcA", "get_weather", '{"city":"Paris"}'),
        ("call_8Qz0rVGHq2pB1Jt3nEyH5xSd", "get_weather", '{"city":"Bogotá"}'),
    ]
    assert sum(isinstance(d, ToolCallDelta) and bool(d.name) for d in deltas) == 2


def test_reasoning_is_thinking_before_the_text() -> None:
    message = folded(decoded(ChatDecoder(), recorded("openai/deepseek_thinking.sse")))
    assert message.content == (ThinkingPart("9.11 or 9.8?", provider="openai"), TextPart("9.8"))
    assert message.usage == TokenUsage(
        input_tokens=30, output_tokens=20, cached_tokens=16, reasoning_tokens=12
    )


def test_whole_calls_in_one_chunk_without_an_index_are_calls() -> None:
    message = folded(decoded(ChatDecoder(), recorded("openai/ollama_tools.sse")))
    assert calls_of(message) == [
        ("call_ejieksiz", "get_weather", '{"city":"Paris"}'),
        ("call_kdu2lwuz", "get_weather", '{"city":"Rome"}'),
    ]
    assert message.usage is None


def test_a_call_that_is_said_in_the_old_form_too_is_one_call() -> None:
    message = folded(decoded(ChatDecoder(), recorded("openai/llama_cpp_python_tools.sse")))
    assert calls_of(message) == [("call__0_get_weather_cmpl-1", "get_weather", '{"city":"Paris"}')]


def test_a_reply_that_the_filter_cut_says_so() -> None:
    deltas = decoded(ChatDecoder(), recorded("openai/azure_filter.sse"))
    message = folded(deltas)
    assert (message.text, message.status) == ("Take the", "content_filtered")
    assert message.stop_details == {"finish_reason": "content_filter"}


def test_an_error_inside_the_stream_is_raised_with_its_words_and_no_key() -> None:
    with pytest.raises(RateLimited, match=r"Rate limit exceeded \| too many requests") as caught:
        decoded(ChatDecoder(), recorded("openai/openrouter_error.sse"))
    assert "made-up" not in str(caught.value)
    with pytest.raises(Overloaded, match="engine died"):
        decoded(ChatDecoder(), recorded("openai/vllm_error.sse"))


@dataclass(frozen=True)
class Calls:
    """Fragments of one server, chunk by chunk, and the calls that they are."""

    name: str
    chunks: list[list[dict[str, Any]]]
    calls: list[tuple[str, str, str]]


A, B = '{"a":1}', '{"b":2}'
CALLS = [
    Calls(
        "the id is repeated on every fragment",
        [
            [fragment("", name="f", index=0, id="c1")],
            [fragment('{"a"', index=0, id="c1")],
            [fragment(":1}", index=0, id="c1")],
        ],
        [("c1", "f", A)],
    ),
    Calls(
        "the id is empty on later fragments",
        [
            [fragment('{"a"', name="f", index=0, id="c1")],
            [fragment(":1}", name="", index=0, id="")],
        ],
        [("c1", "f", A)],
    ),
    Calls(
        "the name is repeated on every fragment",
        [
            [fragment('{"a"', name="f", index=0, id="c1")],
            [fragment(":1}", name="f", index=0, id="c1")],
        ],
        [("c1", "f", A)],
    ),
    Calls(
        "the name comes in pieces",
        [
            [fragment("", name="get_", index=0, id="c1")],
            [fragment("", name="weather", index=0)],
            [fragment(A, index=0)],
        ],
        [("c1", "get_weather", A)],
    ),
    Calls(
        "the name grows",
        [
            [fragment("", name="get_", index=0, id="c1")],
            [fragment(A, name="get_weather", index=0, id="c1")],
        ],
        [("c1", "get_weather", A)],
    ),
    Calls(
        "every call has index 0 and an id of its own",
        [
            [fragment(A, name="f", index=0, id="c1")],
            [fragment(B, name="g", index=0, id="c2")],
        ],
        [("c1", "f", A), ("c2", "g", B)],
    ),
    Calls(
        "fragments without an id follow the newest call of their index",
        [
            [fragment('{"a"', name="f", index=0, id="c1")],
            [fragment(":1}", index=0)],
            [fragment('{"b"', name="g", index=0, id="c2")],
            [fragment(":2}", index=0)],
        ],
        [("c1", "f", A), ("c2", "g", B)],
    ),
    Calls(
        "whole calls with empty ids under one index (B057)",
        [
            [fragment(A, name="f", index=0, id="")],
            [fragment(B, name="f", index=0, id="")],
        ],
        [("", "f", A), ("", "f", B)],
    ),
    Calls(
        "equal calls with empty ids are two calls (B057)",
        [[fragment(A, name="f", id=""), fragment(A, name="f", id="")]],
        [("", "f", A), ("", "f", A)],
    ),
    Calls(
        "two calls with one id (B057)",
        [
            [fragment(A, name="f", index=0, id="c1")],
            [fragment(B, name="g", index=1, id="c1")],
        ],
        [("c1", "f", A), ("c1", "g", B)],
    ),
    Calls(
        "two calls with one id and one index (B057)",
        [
            [fragment(A, name="f", index=0, id="c1")],
            [fragment(B, name="f", index=0, id="c1")],
        ],
        [("c1", "f", A), ("c1", "f", B)],
    ),
    Calls(
        "no index and no id, one call after the other",
        [
            [fragment("", name="f")],
            [fragment("{}", name="g")],
            [fragment('{"a"', name="h")],
            [fragment(":1}")],
        ],
        [("", "f", "{}"), ("", "g", "{}"), ("", "h", A)],
    ),
    Calls(
        "the whole call is said once more at the end",
        [
            [fragment('{"a"', name="f", index=0, id="c1")],
            [fragment(":1}", index=0)],
            [fragment(A, name="f", index=0, id="c1")],
        ],
        [("c1", "f", A)],
    ),
    Calls(
        "the arguments are an object",
        [[fragment({"a": 1}, name="f", index=0, id="c1")]],
        [("c1", "f", A)],
    ),
    Calls(
        "the arguments are null, or missing",
        [
            [fragment(None, name="f", index=0, id="c1")],
            [{"index": 1, "id": "c2", "function": {"name": "g"}}],
        ],
        [("c1", "f", "{}"), ("c2", "g", "{}")],
    ),
    Calls(
        "the id is a number",
        [[fragment(A, name="f", index=0, id=7)]],
        [("7", "f", A)],
    ),
    Calls(
        "something else stands in the list of calls",
        [[None, fragment(A, name="f", index=0, id="c1")]],  # type: ignore[list-item]  # the deviation
        [("c1", "f", A)],
    ),
    Calls(
        "every fragment repeats the name, and one ends behind an inner brace",
        [
            [fragment('{"a":{"b":1}', name="f", index=0, id="c1")],
            [fragment("}", name="f", index=0, id="c1")],
        ],
        [("c1", "f", '{"a":{"b":1}}')],
    ),
    Calls(
        "the list of calls is one call",
        [fragment(A, name="f", index=0, id="c1")],  # type: ignore[list-item]  # the deviation
        [("c1", "f", A)],
    ),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_deviating_fragments_are_the_calls_that_they_mean(case: Calls) -> None:
    chunks = [chunk(tool_calls=calls) for calls in case.chunks]
    message = folded(decoded(ChatDecoder(), sse(*chunks, chunk("tool_calls"))))
    assert calls_of(message) == case.calls
    assert all(call.problem is None for call in message.tool_calls)


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [('{"a": ', '{"a": '), ("[1]", "[1]"), ([1], "[1]"), ("go!", "go!"), (3, "3")],
)
def test_arguments_that_are_no_object_are_kept_with_the_problem(arguments: Any, kept: str) -> None:
    calls = [fragment(arguments, name="f", index=0, id="c1")]
    message = folded(decoded(ChatDecoder(), sse(chunk("tool_calls", tool_calls=calls))))
    (call,) = message.tool_calls
    assert call.arguments_json == kept
    assert call.problem


def test_the_old_form_alone_is_a_call() -> None:
    text = sse(
        chunk(function_call={"name": "f", "arguments": ""}),
        chunk(function_call={"arguments": '{"a"'}),
        chunk(function_call={"arguments": ":1}"}),
        chunk("function_call"),
    )
    assert calls_of(folded(decoded(ChatDecoder(), text))) == [("", "f", A)]


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        ("stop", "complete", None),
        ("tool_calls", "complete", None),
        ("eos_token", "complete", {"finish_reason": "eos_token"}),
        ("length", "length", {"finish_reason": "length"}),
        ("MAX_TOKENS", "length", {"finish_reason": "MAX_TOKENS"}),
        ("model_length", "length", {"finish_reason": "model_length"}),
        ("content_filter", "content_filtered", {"finish_reason": "content_filter"}),
    ],
)
def test_each_reason_to_stop_has_its_status(reason: str, status: str, details: Any) -> None:
    deltas = decoded(ChatDecoder(), sse(chunk(content="a"), chunk(reason)))
    assert status_of(deltas) == status
    assert folded(deltas).stop_details == details


def test_the_reason_of_the_server_behind_the_server_is_kept_where_it_says_more() -> None:
    """OpenRouter's `native_finish_reason`."""
    last = chunk("length", content="a")
    last["choices"][0]["native_finish_reason"] = "MAX_TOKENS"
    assert folded(decoded(ChatDecoder(), sse(last))).stop_details == {
        "finish_reason": "length",
        "native_finish_reason": "MAX_TOKENS",
    }
    last["choices"][0]["native_finish_reason"] = "length"
    assert folded(decoded(ChatDecoder(), sse(last))).stop_details == {"finish_reason": "length"}


def test_a_call_that_the_limit_cut_off_is_marked_so() -> None:
    """B051."""
    calls = [fragment('{"city": "Par', name="f", index=0, id="c1")]
    message = folded(decoded(ChatDecoder(), sse(chunk(tool_calls=calls), chunk("length"))))
    assert message.status == "length"
    assert message.tool_calls[0].problem


def test_a_refusal_is_text_that_was_filtered() -> None:
    text = sse(chunk(refusal="I cannot "), chunk(refusal="help."), chunk("stop"))
    message = folded(decoded(ChatDecoder(), text))
    assert (message.text, message.status) == ("I cannot help.", "content_filtered")
    assert message.stop_details == {"refusal": "I cannot help."}


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("error", StreamDied),
        ("abort", StreamDied),
        ("insufficient_system_resource", Overloaded),
    ],
)
def test_a_reply_that_the_provider_broke_off_is_an_error(
    reason: str, error: type[ModelError]
) -> None:
    with pytest.raises(error):
        decoded(ChatDecoder(), sse(chunk(content="a"), chunk(reason)))


@dataclass(frozen=True)
class Text:
    """Chunks of one server, and the text and thinking that they are."""

    name: str
    chunks: list[Any]
    text: str
    thinking: str = ""
    done: bool = True


THOUGHTLESS = {"type": "thinking", "thinking": []}
END = chunk("stop")
TEXTS = [
    Text("no closing mark", [chunk(content="a"), chunk("stop")], "a", done=False),
    Text("a closing mark and no reason", [chunk(content="a")], "a"),
    Text("null for everything", [chunk(content=None, tool_calls=None), chunk("stop")], ""),
    Text("parts that are none", [chunk("stop", content=[7, None, "a"])], "a"),
    Text("thinking without a text", [chunk(reasoning=""), chunk(content=[THOUGHTLESS]), END], ""),
    Text("no delta", [{"choices": [{"index": 0, "finish_reason": "stop"}]}], ""),
    Text("no list of choices", [{"choices": None}, {}, chunk("stop", content="a")], "a"),
    Text("the reason is an empty text", [chunk("", content="a"), chunk("stop")], "a"),
    Text("the reason comes with every chunk", [chunk("stop", content=c) for c in "ab"], "ab"),
    Text("parts", [chunk("stop", content=[{"type": "text", "text": "a"}, "b"])], "ab"),
    Text(
        "parts with thinking (Mistral)",
        [
            chunk(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
            chunk("stop", content="a"),
        ],
        "a",
        "hm",
    ),
    Text(
        "reasoning (OpenRouter, Ollama)",
        [chunk(reasoning="hm"), chunk("stop", content="a")],
        "a",
        "hm",
    ),
    Text(
        "reasoning under both names",
        [chunk(reasoning="hm", reasoning_content="hm"), chunk("stop", content="a")],
        "a",
        "hm",
    ),
    Text(
        "another choice",
        [{"choices": [{"index": 1, "delta": {"content": "x"}}]}, chunk("stop")],
        "",
    ),
    Text(
        "a text completion",
        [{"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}],
        "a",
    ),
]


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.name)
def test_deviating_chunks_are_the_text_that_they_mean(case: Text) -> None:
    deltas = decoded(ChatDecoder(), sse(*case.chunks, done=case.done))
    message = folded(deltas)
    assert message.text == case.text
    thinking = [part.text for part in message.content if isinstance(part, ThinkingPart)]
    assert "".join(thinking) == case.thinking
    assert status_of(deltas) == "complete"


def test_thinking_after_text_is_a_part_of_its_own() -> None:
    text = sse(
        chunk(reasoning_content="one"),
        chunk(content="a"),
        chunk(reasoning_content="two"),
        chunk(content="b"),
        chunk("stop"),
    )
    parts = [part.text for part in folded(decoded(ChatDecoder(), text)).content]  # type: ignore[union-attr]  # texts
    assert parts == ["one", "a", "two", "b"]


def test_a_stream_that_ends_in_the_middle_has_died() -> None:
    with pytest.raises(StreamDied):
        decoded(ChatDecoder(), sse(chunk(content="Once upon"), done=False))


def test_a_closed_stream_without_a_reply_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="without a reply"):
        decoded(ChatDecoder(), sse())


@pytest.mark.parametrize("data", ["{oops", "[]", "3", '"text"', "null", "[" * 100_000])
def test_a_chunk_that_is_no_chunk_breaks_the_protocol(data: str) -> None:
    with pytest.raises(ProtocolError, match="expected a"):
        ChatDecoder().feed("message", data)


def test_a_broken_chunk_is_told_without_the_key() -> None:
    with pytest.raises(ProtocolError) as caught:
        ChatDecoder(("very-secret",)).feed("message", "oops very-secret sk-0123456789abcdef")
    assert "***" in str(caught.value)
    assert "very-secret" not in str(caught.value)
    assert "0123456789" not in str(caught.value)


@dataclass(frozen=True)
class Wrong:
    """An error inside a stream."""

    data: str
    error: type[ModelError]
    event: str = "message"


ERRORS = [
    Wrong('{"error": {"message": "slow down", "code": 429}}', RateLimited),
    Wrong('{"error": {"message": "m", "type": "server_error"}}', Overloaded),
    Wrong('{"error": {"message": "m", "type": "invalid_request_error"}}', BadRequest),
    Wrong('{"error": "model runner has unexpectedly stopped"}', StreamDied),
    Wrong('{"object": "error", "message": "m", "code": 400}', BadRequest),
    Wrong('[{"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}]', Overloaded),
    Wrong('{"message": "m"}', StreamDied, "error"),
    Wrong('{"choices": [{"index": 0, "error": {"code": 502, "message": "m"}}]}', Overloaded),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.data)
def test_errors_inside_a_stream_keep_their_kind(case: Wrong) -> None:
    with pytest.raises(case.error):
        ChatDecoder().feed(case.event, case.data)


def test_an_answer_that_came_at_once_is_a_reply() -> None:
    """The answer of https://platform.openai.com/docs/api-reference/chat/create."""
    decoder = ChatDecoder()
    call = fragment('{"city": "Paris"}', name="get_weather", id="call_abc123")
    body = {
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Let me see.", "tool_calls": [call]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 82, "completion_tokens": 17, "total_tokens": 99},
    }
    message = folded([*decoder.whole(body), *decoder.end()])
    assert message.text == "Let me see."
    assert calls_of(message) == [("call_abc123", "get_weather", '{"city":"Paris"}')]
    assert message.usage == TokenUsage(input_tokens=82, output_tokens=17)


@dataclass(frozen=True)
class Usage:
    """A server's account of tokens, and what it means."""

    name: str
    given: dict[str, Any]
    expected: dict[str, int] = field(default_factory=dict)


USAGES = [
    Usage(
        "Moonshot",
        {"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 4},
        {"input_tokens": 9, "output_tokens": 1, "cached_tokens": 4},
    ),
    Usage(
        "xAI, whose completion leaves the reasoning out",
        {
            "prompt_tokens": 9,
            "completion_tokens": 1,
            "total_tokens": 15,
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
        {"input_tokens": 9, "output_tokens": 6, "reasoning_tokens": 5},
    ),
    Usage("nonsense", {"prompt_tokens": -3, "completion_tokens": "many", "total_tokens": None}),
    Usage("null details", {"prompt_tokens": 1, "prompt_tokens_details": None}, {"input_tokens": 1}),
]


@pytest.mark.parametrize("case", USAGES, ids=lambda case: case.name)
def test_usage_is_read_whatever_its_parts_are_called(case: Usage) -> None:
    assert token_usage(case.given) == TokenUsage(**case.expected)


@pytest.mark.parametrize("where", ["choice", "x_groq"])
def test_usage_is_found_where_a_server_puts_it(where: str) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    last: dict[str, Any] = chunk("stop", content="a")
    if where == "choice":
        last["choices"][0]["usage"] = usage
    else:
        last["x_groq"] = {"id": "req", "usage": usage}
    message = folded(decoded(ChatDecoder(), sse(last)))
    assert message.usage == TokenUsage(input_tokens=3, output_tokens=2)
