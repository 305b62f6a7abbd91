"""Histories become requests that are valid for Anthropic's Messages API, whatever is in them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from anthropic.types import message_create_params
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sagents_app.engine import (
    AgentState,
    FilePart,
    ImagePart,
    Message,
    ModelRequest,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    serialize,
)
from sagents_app.engine.chat_models.anthropic import encode
from sagents_app.engine.chat_models.anthropic.decode import MessagesDecoder
from sagents_app.engine.chat_models.anthropic.options import MessagesOptions
from sagents_app.engine.errors import BadRequest
from tests.engine.chat_models.histories import histories
from tests.engine.chat_models.wire import asking, decoded, folded, get_weather, recorded, refund
from tests.engine.doubles import call, calling

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 16).decode()
PDF = base64.b64encode(b"%PDF-1.7 ...").decode()
OFFICIAL: TypeAdapter[Any] = TypeAdapter(message_create_params.MessageCreateParamsStreaming)
PLAIN = {"cache": "off"}


def body(*messages: Message, system: str = "", options: Any = None, tools: Any = ()) -> Any:
    """A body that Anthropic's own request types take."""
    request = asking(*messages, system=system, tools=tools)
    encoded = encode.body("m", request, MessagesOptions(**(options or PLAIN)))
    OFFICIAL.validate_python(encoded)
    assert_valid(encoded)
    return json.loads(json.dumps(encoded))


def sent(*messages: Message, **given: Any) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = body(*messages, **given)["messages"]
    return encoded


def assert_valid(encoded: dict[str, Any]) -> None:
    """The rules that the types do not say."""
    turns = encoded["messages"]
    assert [turn["role"] for turn in turns] == (["user", "assistant"] * len(turns))[: len(turns)]
    assert turns[-1]["role"] == "user"
    seen: set[str] = set()
    asked: list[str] = []
    marks = 0
    for turn in [{"role": "system", "content": encoded.get("system", [])}, *turns]:
        blocks = turn["content"]
        kinds = [block["type"] for block in blocks]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert answered == asked, "not each call, and nothing else, is answered right behind"
        assert kinds[: len(asked)] == ["tool_result"] * len(asked)
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        assert not seen & set(asked)
        assert len(set(asked)) == len(asked)
        seen.update(asked)
        for block in blocks:
            assert_block(block)
            marks += "cache_control" in block
    assert not asked
    assert marks <= 4


def assert_block(block: dict[str, Any]) -> None:
    if block["type"] == "text":
        assert block["text"].strip()
    if block["type"] == "tool_result":
        assert block["content"]
        for inner in block["content"]:
            assert_block(inner)
            assert inner["type"] == "text" or not block.get("is_error")
    if block["type"] == "thinking":
        assert block["signature"]
    if block["type"].endswith("thinking"):
        assert "cache_control" not in block


def answered(*calls: ToolCall, text: str = "done", **fields: Any) -> Message:
    return Message.tool(
        *(ToolResult(one.call_id, one.name, (TextPart(text),), **fields) for one in calls)
    )


def kinds(turn: dict[str, Any]) -> list[str]:
    return [block["type"] for block in turn["content"]]


def test_a_request_says_what_is_asked_of_whom() -> None:
    assert body(Message.user("hi"), system="Be brief.") == {
        "model": "m",
        "max_tokens": 8192,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "stream": True,
    }


def test_options_are_fields_of_the_request() -> None:
    options = {
        "cache": "off",
        "max_tokens": 9000,
        "temperature": 1.0,
        "stop": ("END",),
        "thinking": "adaptive",
        "effort": "low",
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "service_tier": "auto",
        "extra": {"metadata": {"user_id": "u"}},
    }
    encoded = body(Message.user("hi"), options=options, tools=[get_weather])
    assert {name: encoded[name] for name in encoded if name not in ("messages", "tools")} == {
        "model": "m",
        "stream": True,
        "max_tokens": 9000,
        "temperature": 1.0,
        "stop_sequences": ["END"],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "service_tier": "auto",
        "metadata": {"user_id": "u"},
    }


def test_tools_carry_their_schema_and_are_strict_where_that_can_hold() -> None:
    options = {"strict_tools": True, "cache": "off"}
    first, second = body(Message.user("hi"), tools=[get_weather, refund], options=options)["tools"]
    assert first["name"] == "get_weather"
    assert first["input_schema"]["properties"]["city"]["type"] == "string"
    assert first["strict"] is True
    assert "strict" not in second
    assert "tool_choice" not in body(Message.user("hi"), tools=[refund])


def test_results_begin_the_users_turn_and_what_the_user_says_follows() -> None:
    """B049, B054."""
    one, two = call("c1", text="x"), call("c2")
    turns = sent(
        Message.user("hi"),
        calling(one, two, text="both"),
        answered(two),
        answered(one, text="nope", is_error=True),
        Message.user("and?"),
    )
    assert [(turn["role"], kinds(turn)) for turn in turns] == [
        ("user", ["text"]),
        ("assistant", ["text", "tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text"]),
    ]
    assert turns[1]["content"][1]["input"] == {"text": "x"}
    results = turns[2]["content"][:2]
    assert [(r["tool_use_id"], r.get("is_error"), r["content"]) for r in results] == [
        ("c1", True, [{"type": "text", "text": "nope"}]),
        ("c2", None, [{"type": "text", "text": "done"}]),
    ]


def test_a_denied_call_has_a_text_even_without_one() -> None:
    """B050."""
    one = call("c1")
    denied = ToolResult("c1", "note", (), is_error=True, decision="reject")
    (result,) = sent(Message.user("hi"), calling(one), Message.tool(denied))[-1]["content"]
    assert result["content"] == [{"type": "text", "text": "Error"}]


def test_thinking_goes_back_byte_for_byte_over_a_pause() -> None:
    """B058."""
    reply = folded(decoded(MessagesDecoder(), recorded("anthropic/thinking.sse")))
    state = AgentState((Message.user("hi"), reply, answered(*reply.tool_calls)))
    stored = json.loads(json.dumps(serialize.dump_state(state)))
    turns = sent(*serialize.load_state(stored).messages)
    assert turns[1]["content"] == [
        {
            "type": "thinking",
            "thinking": "I need to find the GCD of 1071 and 462.\n",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/==",
        },
        {
            "type": "redacted_thinking",
            "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIwxtE3rAFBa8cr3qpP",
        },
        {"type": "tool_use", "id": "toolu_01", "name": "get_weather", "input": {"city": "Paris"}},
    ]


@pytest.mark.parametrize(
    "part",
    [
        ThinkingPart("hm", "sig", provider="google"),
        ThinkingPart("hm", "sig"),
        ThinkingPart("hm", None, provider="anthropic"),
        ThinkingPart("hm", "", provider="anthropic"),
    ],
    ids=["another's", "nobody's", "unsigned", "signed blank"],
)
def test_other_thinking_is_dropped_not_sent_blank(part: ThinkingPart) -> None:
    turns = sent(Message.user("a"), Message.assistant([part, TextPart("A")]), Message.user("b"))
    assert kinds(turns[1]) == ["text"]


def test_thoughts_that_were_cut_off_are_dropped() -> None:
    part = ThinkingPart("hm", "half-a-signa", provider="anthropic")
    cut = Message.assistant([part, TextPart("A")], status="stream_error")
    assert kinds(sent(Message.user("a"), cut, Message.user("b"))[1]) == ["text"]


def test_a_reply_of_thoughts_alone_is_left_out() -> None:
    """A limit inside a thought leaves nothing that the provider would take."""
    part = ThinkingPart("hm", "sig", provider="anthropic")
    turns = sent(Message.user("a"), Message.assistant([part]), Message.user("b"))
    assert [turn["role"] for turn in turns] == ["user"]
    assert len(turns[0]["content"]) == 2


def test_a_running_turn_without_thinking_goes_on_without_it() -> None:
    one = call("c1")
    options = {"thinking_budget": 2000, "cache": "off"}
    foreign = (Message.user("hi"), calling(one), answered(one))
    assert body(*foreign, options=options)["thinking"] == {"type": "disabled"}
    thought = ThinkingPart("hm", "sig", provider="anthropic")
    own = (Message.user("hi"), Message.assistant([thought], tool_calls=[one]), answered(one))
    enabled = {"type": "enabled", "budget_tokens": 2000}
    assert body(*own, options=options)["thinking"] == enabled
    assert body(*foreign, Message.user("b"), options=options)["thinking"] == {"type": "disabled"}
    done = (*foreign, Message.assistant("ok"), Message.user("b"))
    assert body(*done, options=options)["thinking"] == enabled


def test_system_messages_lead_or_are_told_in_their_place() -> None:
    encoded = body(
        Message.system("first"), Message.user("hi"), Message.system("now in French"), system="zero"
    )
    assert [block["text"] for block in encoded["system"]] == ["zero", "first"]
    (turn,) = encoded["messages"]
    assert turn["content"][1]["text"] == "<system>\nnow in French\n</system>"


def test_the_first_turn_and_the_last_are_a_users() -> None:
    turns = sent(Message.assistant("Welcome!"))
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[-1]["content"] == [{"type": "text", "text": "Please go on."}]


def test_ids_and_arguments_are_what_the_provider_takes() -> None:
    """B051, B056."""
    odd = ToolCall("call_made", "a b", '{"a": ', "functions.note:0")
    again = ToolCall("call_other", "note", {}, "toolu_1")
    first = ToolCall("toolu_1", "note", {})
    turns = sent(Message.user("hi"), calling(first, odd, again), answered(first, odd, again))
    blocks = turns[1]["content"]
    assert [block["id"] for block in blocks] == ["toolu_1", "call_made", "call_other"]
    assert blocks[1]["name"] == "a_b"
    assert blocks[1]["input"] == {"INVALID_JSON": '{"a": '}


def source(**fields: str) -> dict[str, str]:
    return dict(fields)


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (
            ImagePart(url="https://example.org/a.png"),
            {"type": "image", "source": source(type="url", url="https://example.org/a.png")},
        ),
        (
            ImagePart(data=PNG),
            {"type": "image", "source": source(type="base64", media_type="image/png", data=PNG)},
        ),
        (
            FilePart(name="a.pdf", data=PDF),
            {
                "type": "document",
                "title": "a.pdf",
                "source": source(type="base64", media_type="application/pdf", data=PDF),
            },
        ),
        (
            FilePart(name="", url="https://example.org/a.pdf", mime_type="application/pdf"),
            {"type": "document", "source": source(type="url", url="https://example.org/a.pdf")},
        ),
        (
            FilePart(name="a.txt", data=base64.b64encode(b"ha").decode(), mime_type="text/plain"),
            {
                "type": "document",
                "title": "a.txt",
                "source": source(type="text", media_type="text/plain", data="ha"),
            },
        ),
        (
            FilePart(name="b.txt", data=base64.b64encode(b" \n").decode(), mime_type="text/plain"),
            {"type": "text", "text": "File b.txt is empty."},
        ),
    ],
)
def test_images_and_files_are_blocks_of_users_and_of_results(part: Any, wire: Any) -> None:
    one = call("c1")
    result = ToolResult("c1", "note", (part,))
    turns = sent(Message.user(part), calling(one), Message.tool(result))
    assert turns[0]["content"] == [wire]
    assert turns[2]["content"][0]["content"] == [wire]


def test_citations_are_asked_for_of_documents() -> None:
    part = FilePart(name="a.pdf", data=PDF)
    turns = sent(Message.user(part), options={"citations": True, "cache": "off"})
    assert turns[0]["content"][0]["citations"] == {"enabled": True}


@pytest.mark.parametrize(
    "part",
    [
        FilePart(name="a.docx", data="UEsDBA==", mime_type="application/msword"),
        FilePart(name="a.mp3", data="SUQz", mime_type="audio/mpeg"),
        ImagePart(data="PHN2Zz4=", mime_type="image/svg+xml"),
        ImagePart(),
    ],
)
def test_what_cannot_be_sent_is_refused_once_and_noted_ever_after(part: Any) -> None:
    asked = Message.user([TextPart("look"), part])
    with pytest.raises(BadRequest, match="cannot carry"):
        sent(asked)
    (turn,) = sent(asked, Message.user("never mind"))
    assert "not readable by this model" in turn["content"][1]["text"]


def test_the_ends_of_what_stays_the_same_are_marked_for_the_cache() -> None:
    one = call("c1")
    history = (Message.user("hi"), calling(one), answered(one))
    encoded = body(*history, system="s", options={"cache": "1h"})
    mark = {"type": "ephemeral", "ttl": "1h"}
    assert encoded["system"][-1]["cache_control"] == mark
    assert [turn["content"][-1].get("cache_control") for turn in encoded["messages"]] == [
        mark,
        None,
        mark,
    ]
    assert body(*history, options={"cache": "5m"})["messages"][0]["content"][0][
        "cache_control"
    ] == {"type": "ephemeral"}


def test_a_history_that_holds_nothing_is_begun() -> None:
    encoded = encode.body("m", ModelRequest("", ()), MessagesOptions())
    assert_valid(encoded)


@given(
    histories(), st.sampled_from(["5m", "off"]), st.sampled_from([None, 2000]), st.text(max_size=3)
)
def test_every_history_is_valid_for_the_protocol(
    history: tuple[Message, ...], cache: str, budget: int | None, system: str
) -> None:
    """Histories that mix providers, in any order and state of repair, are always sendable."""
    options = {"cache": cache, "thinking_budget": budget}
    body(*history, Message.user("go on"), system=system, options=options)


@pytest.mark.parametrize(
    ("options", "wire"),
    [
        ({}, None),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        (
            {"parallel_tool_calls": False},
            {"type": "auto", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_calls_side_by_side_are_forbidden_only_where_there_may_be_any(
    options: dict[str, Any], wire: dict[str, Any] | None
) -> None:
    assert body(Message.user("hi"), options=options, tools=(refund,)).get("tool_choice") == wire
