"""Histories become requests that are valid for the protocol, whatever is in them."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from sagents_app.engine import (
    FilePart,
    ImagePart,
    Message,
    ModelRequest,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    tool,
)
from sagents_app.engine.chat_models.openai import encode
from sagents_app.engine.chat_models.openai.options import ChatOptions
from sagents_app.engine.errors import BadRequest
from tests.engine.chat_models.histories import histories
from tests.engine.chat_models.wire import asking, get_weather, refund
from tests.engine.doubles import call, calling

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 16).decode()
PDF = base64.b64encode(b"%PDF-1.7 ...").decode()
WEBP = base64.b64encode(b"RIFF\x10\0\0\0WEBPVP8 ").decode()
OFFICIAL: TypeAdapter[Any] = TypeAdapter(completion_create_params.CompletionCreateParamsStreaming)


def body(*messages: Message, system: str = "", options: Any = None, tools: Any = ()) -> Any:
    """A body that OpenAI's own request types take."""
    request = asking(*messages, system=system, tools=tools)
    encoded = encode.body(
        "m", request, ChatOptions(**(options or {})), max_tokens_field="max_tokens"
    )
    OFFICIAL.validate_python(encoded)
    assert_valid(encoded["messages"])
    return json.loads(json.dumps(encoded))


def sent(*messages: Message, **given: Any) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = body(*messages, **given)["messages"]
    return encoded


def assert_valid(messages: list[dict[str, Any]]) -> None:
    """The rules that the types do not say: each call with its one result, right behind it."""
    assert messages
    seen: set[str] = set()
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        assert message["role"] != "tool", "a result without its call"
        if message["role"] != "assistant":
            assert message["content"], "a message without content"
            continue
        ids = [one["id"] for one in message.get("tool_calls", ())]
        assert ids or message["content"], "an assistant's message without anything"
        assert len(set(ids)) == len(ids)
        assert not seen & set(ids), "an id that was used before"
        seen.update(ids)
        for one in message.get("tool_calls", ()):
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
        behind = messages[index : index + len(ids)]
        assert [(one["role"], one["tool_call_id"]) for one in behind] == [
            ("tool", call_id) for call_id in ids
        ]
        assert all(isinstance(one["content"], str) and one["content"] for one in behind)
        index += len(ids)


def answered(*calls: ToolCall, text: str = "done", **fields: Any) -> Message:
    return Message.tool(
        *(ToolResult(one.call_id, one.name, (TextPart(text),), **fields) for one in calls)
    )


def test_a_request_says_what_is_asked_of_whom() -> None:
    assert body(Message.user("hi"), system="Be brief.") == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_options_are_fields_of_the_request() -> None:
    options = {
        "temperature": 0.0,
        "max_tokens": 9,
        "stop": ("END",),
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "stream_usage": False,
        "extra": {"user": "u1"},
    }
    encoded = body(Message.user("hi"), options=options, tools=[get_weather])
    assert {name: encoded[name] for name in encoded if name not in ("messages", "tools")} == {
        "model": "m",
        "stream": True,
        "temperature": 0.0,
        "max_tokens": 9,
        "stop": ["END"],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "user": "u1",
    }


def test_what_is_about_tools_is_left_out_without_tools() -> None:
    encoded = body(Message.user("hi"), options={"tool_choice": "auto", "parallel_tool_calls": True})
    assert not encoded.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


def test_tools_carry_their_schema_and_are_strict_where_that_can_hold() -> None:
    encoded = body(Message.user("hi"), tools=[get_weather, refund], options={"strict_tools": True})
    first, second = (one["function"] for one in encoded["tools"])
    assert first["name"] == "get_weather"
    assert first["description"] == "Say what the weather is like."
    assert first["parameters"]["properties"]["city"]["type"] == "string"
    assert first["strict"] is True
    assert "strict" not in second  # its amount may be left out


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Place(Closed):
    name: str


class Left(Closed):
    side: Literal["left"]


class Right(Closed):
    side: Literal["right"] = "right"


@tool
async def note(text: str | None) -> str:
    """Note a text, or that there is none."""
    return text or ""


@tool
async def move(place: Place) -> str:
    """Move to a place."""
    return place.name


@tool
async def count(words: dict[str, int]) -> str:
    """Count words."""
    return str(words)


@tool
async def count_all(words: list[dict[str, int]]) -> str:
    """Count words of several texts."""
    return str(words)


@tool
async def keep(value: Any) -> str:
    """Keep whatever it is."""
    return str(value)


@tool
async def keep_all(values: Annotated[list[Any], Field(json_schema_extra={"items": True})]) -> str:
    """Keep whatever they are."""
    return str(values)


@tool
async def wait(seconds: int = 5) -> str:
    """Wait."""
    return str(seconds)


@tool
async def pair(one: Left | Right) -> str:
    """Take one of two."""
    return str(one)


@tool
async def name_it(name: Annotated[str, Field(json_schema_extra={"not": {"const": ""}})]) -> str:
    """Give it a name."""
    return name


@pytest.mark.parametrize(
    ("given", "strict"),
    [
        (note, True),
        (move, True),
        (count, False),
        (count_all, False),
        (name_it, False),
        (keep, False),
        (keep_all, False),
        (wait, False),
        (pair, False),
    ],
    ids=lambda one: getattr(one, "name", ""),
)
def test_only_closed_and_typed_schemas_of_required_fields_are_demanded_to_hold(
    given: Any, strict: bool
) -> None:
    """The rules of https://platform.openai.com/docs/guides/structured-outputs."""
    encoded = body(Message.user("hi"), tools=[given], options={"strict_tools": True})
    assert encoded["tools"][0]["function"].get("strict", False) is strict


def test_results_stand_right_behind_their_calls_whatever_the_history_says() -> None:
    """B049, B054."""
    one, two = call("c1"), call("c2")
    messages = sent(
        Message.user("hi"),
        calling(one, two, text="both"),
        answered(two),
        answered(one, text="nope", is_error=True),
        Message.user("and?"),
    )
    assert [(m["role"], m.get("tool_call_id"), m["content"]) for m in messages] == [
        ("user", None, "hi"),
        ("assistant", None, "both"),
        ("tool", "c1", "Error: nope"),
        ("tool", "c2", "done"),
        ("user", None, "and?"),
    ]


def test_a_denied_call_has_a_text_even_without_one() -> None:
    """B050."""
    one = call("c1")
    denied = ToolResult("c1", "note", (), is_error=True, decision="reject")
    assert sent(Message.user("hi"), calling(one), Message.tool(denied))[-1]["content"] == "Error"
    nothing = ToolResult("c1", "note", ())
    assert sent(Message.user("hi"), calling(one), Message.tool(nothing))[-1]["content"]


def test_a_call_without_a_result_is_answered_and_a_result_without_a_call_is_left_out() -> None:
    messages = sent(
        answered(call("x")), Message.user("hi"), calling(call("c1")), Message.user("go")
    )
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "user"]
    assert "never run" in messages[2]["content"]


def test_empty_assistant_messages_are_left_out_and_content_of_calls_is_null() -> None:
    messages = sent(Message.user("hi"), Message.assistant(), calling(call()), answered(call()))
    assert [m["role"] for m in messages] == ["user", "assistant", "tool"]
    assert messages[1]["content"] is None


def test_thinking_of_others_is_dropped_and_ones_own_is_sent_if_asked_for() -> None:
    """B058: what is not this provider's does not go back to it."""
    own = ThinkingPart("hm", provider="openai")
    other = ThinkingPart("secret", "sig", provider="anthropic")
    one = call()
    history = (
        Message.user("a"),
        Message.assistant([own, TextPart("A")]),
        Message.user("b"),
        Message.assistant([other, own, TextPart("B")], tool_calls=[one]),
        answered(one),
    )
    assert "hm" not in json.dumps(sent(*history))
    messages = sent(*history, options={"send_thinking": True})
    assert [m.get("reasoning_content") for m in messages] == [None, None, None, "hm", None]
    assert "secret" not in json.dumps(messages)


@pytest.mark.parametrize(
    ("role", "expected"), [("system", "system"), ("user", "user"), ("developer", "developer")]
)
def test_system_messages_in_the_middle_keep_their_place(role: str, expected: str) -> None:
    messages = sent(
        Message.user("hi"),
        Message.system("now in French"),
        system="Be brief.",
        options={"later_system_role": role},
    )
    assert [m["role"] for m in messages] == ["system", "user", expected]


def test_ids_that_repeat_over_turns_are_ours_from_the_second_on() -> None:
    """B056."""
    first = ToolCall("call_0", "note", {})
    second = ToolCall("call_made", "note", {}, "call_0")
    third = ToolCall("call_other", "note", {}, "call_7")
    messages = sent(
        Message.user("hi"),
        *(message for one in (first, second, third) for message in (calling(one), answered(one))),
    )
    ids = [m["tool_calls"][0]["id"] for m in messages if m.get("tool_calls")]
    assert ids == ["call_0", "call_made", "call_7"]


def test_ids_that_the_provider_would_refuse_are_replaced_the_same_way_each_time() -> None:
    long = ToolCall("parent-" * 8 + "c1", "note", {})
    odd = ToolCall("call_made", "note", {}, "functions.note:0")
    history = (Message.user("hi"), calling(long, odd), answered(long, odd))
    ids = [one["id"] for one in sent(*history)[1]["tool_calls"]]
    assert len(ids[0]) == 40
    assert ids[1] == "call_made"
    assert ids == [one["id"] for one in sent(*history, Message.user("more"))[1]["tool_calls"]]


def test_ids_of_an_exact_length_are_made_where_a_server_demands_them() -> None:
    """Mistral's `Tool call id has to be a-z, A-Z, 0-9, with a length of 9`."""
    own = ToolCall("call_made", "note", {}, "D681PevKs")
    ours = ToolCall("call_0123456789", "note", {})
    history = (Message.user("hi"), calling(own, ours), answered(own, ours))
    messages = sent(*history, options={"call_id_length": 9})
    ids = [one["id"] for one in messages[1]["tool_calls"]]
    assert ids[0] == "D681PevKs"
    assert len(ids[1]) == 9
    assert ids[1].isalnum()


def test_a_length_that_leaves_no_ids_is_refused() -> None:
    calls = [ToolCall(f"call_{number}", "note", {}) for number in range(17)]
    with pytest.raises(BadRequest, match="no call id of 1 characters is left"):
        sent(Message.user("hi"), calling(*calls), options={"call_id_length": 1})


def test_arguments_that_are_no_json_are_sent_as_json() -> None:
    """B051."""
    broken = ToolCall("c1", "note", '{"text": "ha')
    messages = sent(Message.user("hi"), calling(broken), answered(broken, is_error=True))
    arguments = messages[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"INVALID_JSON": '{"text": "ha'}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a b.c", "a_b_c"), ("", "unnamed"), ("n" * 99, "n" * 64), ("größe", "gr__e")],
)
def test_names_that_a_model_made_up_are_sendable(name: str, expected: str) -> None:
    one = ToolCall("c1", name, {})
    messages = sent(Message.user("hi"), calling(one), answered(one, is_error=True))
    assert messages[1]["tool_calls"][0]["function"]["name"] == expected


@dataclass(frozen=True)
class Case:
    """A part, and how it is sent."""

    part: Any
    wire: dict[str, Any]


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


PARTS = [
    Case(ImagePart(url="https://example.org/a.png"), image("https://example.org/a.png")),
    Case(ImagePart(data=PNG), image(f"data:image/png;base64,{PNG}")),
    Case(ImagePart(data=WEBP), image(f"data:image/webp;base64,{WEBP}")),
    Case(ImagePart(data=PNG, mime_type="image/WebP"), image(f"data:image/webp;base64,{PNG}")),
    Case(FilePart(name="a.png", data=PNG), image(f"data:image/png;base64,{PNG}")),
    Case(
        FilePart(name="a.pdf", data=PDF),
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
        },
    ),
    Case(
        FilePart(name="a.csv", data=base64.b64encode(b"a;b").decode(), mime_type="text/csv"),
        {"type": "text", "text": "File a.csv:\n\na;b"},
    ),
]


@pytest.mark.parametrize("case", PARTS, ids=lambda case: repr(case.part)[:60])
def test_images_and_files_are_parts_of_a_users_message(case: Case) -> None:
    (message,) = sent(Message.user([TextPart("look"), case.part]))
    assert message["content"] == [{"type": "text", "text": "look"}, case.wire]


UNSENDABLE = [
    FilePart(name="a.docx", data="UEsDBA==", mime_type="application/msword"),
    FilePart(name="a.pdf", url="https://example.org/a.pdf", mime_type="application/pdf"),
    FilePart(name="a.mp3", data="SUQz", mime_type="audio/mpeg"),
    FilePart(name="a", data="////"),
    FilePart(name="a", data="no base64!"),
    ImagePart(data="PHN2Zz4=", mime_type="image/svg+xml"),
    ImagePart(),
]


@pytest.mark.parametrize("part", UNSENDABLE, ids=lambda part: repr(part)[:60])
def test_what_cannot_be_sent_is_refused_once_and_noted_ever_after(part: Any) -> None:
    asked = Message.user([TextPart("look"), part])
    with pytest.raises(BadRequest, match="cannot carry"):
        sent(asked)
    messages = sent(asked, Message.user("never mind"))
    assert "not readable by this model" in messages[0]["content"][1]["text"]


def test_images_of_results_follow_all_results_as_a_users_message() -> None:
    """B054: nothing comes between the results of one message."""
    one, two = call("c1", "draw"), call("c2", "draw")
    drawn = ToolResult("c1", "draw", (TextPart("a cat"), ImagePart(data=PNG)))
    messages = sent(
        Message.user("hi"),
        calling(one, two),
        Message.tool(drawn, ToolResult("c2", "draw", (ImagePart(data=PNG),))),
    )
    assert [m["role"] for m in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert messages[2]["content"] == "a cat"
    assert messages[4]["content"][0]["text"] == "What draw (c1) returned:"
    assert messages[4]["content"][1] == image(f"data:image/png;base64,{PNG}")


def test_images_that_an_assistant_wrote_are_noted() -> None:
    messages = sent(Message.user("hi"), Message.assistant([ImagePart(data=PNG), TextPart("see")]))
    assert messages[1]["content"] == "[image (image/png): not readable by this model]\nsee"


def test_nothing_to_send_is_refused() -> None:
    with pytest.raises(BadRequest, match="nothing to send"):
        encode.messages(ModelRequest("", ()), ChatOptions())


@given(histories(), st.sampled_from([None, 9]), st.booleans())
def test_every_history_is_valid_for_the_protocol(
    history: tuple[Message, ...], call_id_length: int | None, thinking: bool
) -> None:
    """Histories that mix providers, in any order and state of repair, are always sendable."""
    options = {"call_id_length": call_id_length, "send_thinking": thinking}
    body(*history, Message.user("go on"), system="s", options=options)
