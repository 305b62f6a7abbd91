"""Histories become requests that are valid for OpenAI's Responses API, whatever is in them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import response_create_params
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
from sagents_app.engine.chat_models.openai_responses import encode
from sagents_app.engine.chat_models.openai_responses.decode import ResponsesDecoder
from sagents_app.engine.chat_models.openai_responses.options import ResponsesOptions
from sagents_app.engine.errors import BadRequest
from tests.engine.chat_models.histories import histories
from tests.engine.chat_models.wire import asking, decoded, folded, get_weather, recorded, refund
from tests.engine.doubles import call, calling

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 16).decode()
PDF = base64.b64encode(b"%PDF-1.7 ...").decode()
OFFICIAL: TypeAdapter[Any] = TypeAdapter(response_create_params.ResponseCreateParamsStreaming)


def body(
    *messages: Message, system: str = "", options: Any = None, tools: Any = (), name: str = "gpt-5"
) -> Any:
    """A body that OpenAI's own request types take."""
    request = asking(*messages, system=system, tools=tools)
    encoded = encode.body(name, request, ResponsesOptions(**(options or {})))
    OFFICIAL.validate_python(encoded)
    assert_valid(encoded["input"])
    return json.loads(json.dumps(encoded))


def sent(*messages: Message, **given: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = body(*messages, **given)["input"]
    return items


def kind(item: dict[str, Any]) -> str:
    return str(item.get("type") or item["role"])


def assert_valid(items: list[dict[str, Any]]) -> None:
    """The rules that the types do not say: outputs behind their calls, thoughts before words."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for item, behind in zip(items, [*items[1:], None], strict=True):
        if kind(item) == "function_call":
            assert item["call_id"] not in seen
            assert isinstance(json.loads(item["arguments"]), dict)
            seen.add(item["call_id"])
            open_calls.append(item["call_id"])
        elif kind(item) == "function_call_output":
            assert item["call_id"] == open_calls.pop(0)
            assert item["output"]
        elif kind(item) == "reasoning":
            assert behind is not None
            assert kind(behind) in ("assistant", "function_call", "reasoning")
        else:
            assert not open_calls, "something stands between a call and its output"
            assert item["content"]
    assert not open_calls


def answered(*calls: ToolCall, text: str = "done", **fields: Any) -> Message:
    return Message.tool(
        *(ToolResult(one.call_id, one.name, (TextPart(text),), **fields) for one in calls)
    )


def test_a_request_says_what_is_asked_of_whom() -> None:
    assert body(Message.user("hi"), system="Be brief.", name="gpt-4.1") == {
        "model": "gpt-4.1",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "hi"}],
        "stream": True,
        "store": False,
    }


def test_options_are_fields_of_the_request() -> None:
    options = {
        "max_tokens": 9,
        "temperature": 0.5,
        "reasoning_effort": "low",
        "reasoning_summary": "auto",
        "verbosity": "low",
        "response_format": {"type": "json_object"},
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "store": True,
        "extra": {"safety_identifier": "u"},
    }
    encoded = body(Message.user("hi"), options=options, tools=[get_weather])
    assert {name: encoded[name] for name in encoded if name not in ("input", "tools")} == {
        "model": "gpt-5",
        "stream": True,
        "store": True,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 9,
        "temperature": 0.5,
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "json_object"}},
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "safety_identifier": "u",
    }


@pytest.mark.parametrize(
    ("name", "given", "asks"),
    [
        ("gpt-5-mini", None, True),
        ("o3", None, True),
        ("gpt-4o", None, False),
        ("ft:gpt-4.1:org", None, False),
        ("gpt-4o", True, True),
        ("gpt-5", False, False),
    ],
)
def test_the_reasoning_is_asked_for_of_models_that_have_one(
    name: str, given: bool | None, asks: bool
) -> None:
    options = {"encrypted_thinking": given}
    assert ("include" in body(Message.user("hi"), name=name, options=options)) is asks


def test_tools_are_strict_where_that_can_hold() -> None:
    encoded = body(Message.user("hi"), tools=[get_weather, refund], options={"strict_tools": True})
    assert [(one["name"], one["strict"]) for one in encoded["tools"]] == [
        ("get_weather", True),
        ("refund", False),
    ]


def test_outputs_stand_right_behind_their_calls_whatever_the_history_says() -> None:
    """B049, B050, B054."""
    one, two = call("c1", text="x"), call("c2")
    items = sent(
        Message.user("hi"),
        calling(one, two, text="both"),
        answered(two),
        answered(one, text="nope", is_error=True),
        Message.system("now in French"),
        Message.user("and?"),
    )
    assert items == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "both"},
        {"type": "function_call", "call_id": "c1", "name": "note", "arguments": '{"text":"x"}'},
        {"type": "function_call", "call_id": "c2", "name": "note", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "Error: nope"},
        {"type": "function_call_output", "call_id": "c2", "output": "done"},
        {"role": "system", "content": "now in French"},
        {"role": "user", "content": "and?"},
    ]


def test_reasoning_goes_back_byte_for_byte_before_what_it_led_to() -> None:
    """B058."""
    reply = folded(decoded(ResponsesDecoder(), recorded("openai_responses/reasoning_tools.sse")))
    state = AgentState((Message.user("hi"), reply, answered(*reply.tool_calls)))
    stored = json.loads(json.dumps(serialize.dump_state(state)))
    items = sent(*serialize.load_state(stored).messages)
    assert [kind(item) for item in items[1:4]] == ["reasoning", "function_call", "function_call"]
    assert items[1] == {
        "type": "reasoning",
        "id": "rs_6806bfca",
        "summary": [{"type": "summary_text", "text": "**Two cities**\n\n**Both at once**"}],
        "encrypted_content": "gAAAAABof+whole==",
    }


def test_reasoning_between_calls_keeps_its_place() -> None:
    thoughts = [
        ThinkingPart("", "a", "rs_1 0", "openai-responses"),
        ThinkingPart("", "b", "rs_2 1", "openai-responses"),
    ]
    one, two = call("c1"), call("c2")
    items = sent(
        Message.user("hi"), Message.assistant(thoughts, tool_calls=[one, two]), answered(one, two)
    )
    assert [item.get("id") or item.get("call_id") for item in items[1:5]] == [
        "rs_1",
        "c1",
        "rs_2",
        "c2",
    ]


@pytest.mark.parametrize(
    "part",
    [
        ThinkingPart("hm", "sig", provider="anthropic"),
        ThinkingPart("hm", "sig", "rs_1 0", "openai"),
        ThinkingPart("hm", None, "rs_1 0", "openai-responses"),
        ThinkingPart("hm", "sig", None, "openai-responses"),
    ],
    ids=["another's", "chat's", "unsigned", "nameless"],
)
def test_other_reasoning_is_dropped(part: ThinkingPart) -> None:
    items = sent(Message.user("a"), Message.assistant([part, TextPart("A")]), Message.user("b"))
    assert [kind(item) for item in items] == ["user", "assistant", "user"]


def test_reasoning_that_led_to_nothing_is_dropped() -> None:
    part = ThinkingPart("hm", "sig", "rs_1 0", "openai-responses")
    alone = Message.assistant([part], status="length")
    cut = Message.assistant([part, TextPart("A")], status="stream_error")
    items = sent(Message.user("a"), alone, Message.user("b"), cut, Message.user("c"))
    assert [kind(item) for item in items] == ["user", "user", "assistant", "user"]


def test_ids_names_and_arguments_are_what_the_provider_takes() -> None:
    """B051, B056."""
    odd = ToolCall("call_made", "a b", '{"a": ', "functions.note:0")
    again = ToolCall("call_other", "note", {}, "call_0")
    first = ToolCall("call_0", "note", {})
    items = sent(Message.user("hi"), calling(first, odd, again), answered(first, odd, again))
    assert [item["call_id"] for item in items[1:4]] == ["call_0", "call_made", "call_other"]
    assert items[2]["name"] == "a_b"
    assert json.loads(items[2]["arguments"]) == {"INVALID_JSON": '{"a": '}


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (
            ImagePart(data=PNG),
            {
                "type": "input_image",
                "detail": "auto",
                "image_url": f"data:image/png;base64,{PNG}",
            },
        ),
        (
            ImagePart(url="https://example.org/a.png"),
            {"type": "input_image", "detail": "auto", "image_url": "https://example.org/a.png"},
        ),
        (
            FilePart(name="a.pdf", data=PDF),
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": f"data:application/pdf;base64,{PDF}",
            },
        ),
        (
            FilePart(name="a", url="https://example.org/a.pdf", mime_type="application/pdf"),
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
        ),
        (
            FilePart(name="a.txt", data=base64.b64encode(b"ha").decode(), mime_type="text/plain"),
            {"type": "input_text", "text": "File a.txt:\n\nha"},
        ),
    ],
)
def test_images_and_files_are_parts_of_users_and_of_outputs(part: Any, wire: Any) -> None:
    one = call("c1")
    result = ToolResult("c1", "draw", (part,))
    items = sent(Message.user(part), calling(one), Message.tool(result))
    assert items[0]["content"] == [wire]
    assert items[-1]["output"] == [{"type": "input_text", "text": "(no output)"}, wire]


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
    items = sent(asked, Message.user("never mind"))
    assert "not readable by this model" in items[0]["content"][1]["text"]


def test_nothing_to_send_is_refused() -> None:
    with pytest.raises(BadRequest, match="nothing to send"):
        encode.body("m", ModelRequest("s", (Message.assistant(),)), ResponsesOptions())


@given(histories(), st.text(max_size=3))
def test_every_history_is_valid_for_the_protocol(history: tuple[Message, ...], system: str) -> None:
    """Histories that mix providers, in any order and state of repair, are always sendable."""
    body(*history, Message.user("go on"), system=system)
