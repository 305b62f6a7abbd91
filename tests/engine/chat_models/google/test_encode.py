"""Histories become requests that are valid for Gemini, whatever is in them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    tool,
)
from sagents_app.engine.chat_models.google import encode
from sagents_app.engine.chat_models.google.decode import GeminiDecoder
from sagents_app.engine.chat_models.google.options import GeminiOptions
from sagents_app.engine.errors import BadRequest
from tests.engine.chat_models.histories import histories
from tests.engine.chat_models.wire import asking, decoded, folded, get_weather, recorded
from tests.engine.doubles import call, calling

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 16).decode()


def body(
    *messages: Message,
    system: str = "",
    options: Any = None,
    tools: Any = (),
    signs_calls: bool = False,
) -> Any:
    request = asking(*messages, system=system, tools=tools)
    encoded = encode.body(request, GeminiOptions(**(options or {})), signs_calls=signs_calls)
    assert_valid(encoded["contents"])
    return json.loads(json.dumps(encoded))


def sent(*messages: Message, **given: Any) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = body(*messages, **given)["contents"]
    return turns


def assert_valid(turns: list[dict[str, Any]]) -> None:
    """The rules that the documentation states beside the types."""
    assert turns[0]["role"] == turns[-1]["role"] == "user"
    asked: list[tuple[str, str]] = []
    seen: set[str] = set()
    for before, turn in zip([None, *turns], turns, strict=False):
        parts = turn["parts"]
        assert parts
        for part in parts:
            fields = part.keys() - {"thought", "thoughtSignature"}
            assert len(fields) == 1, "a part has one content"
            assert part.get("text") != "" or "thoughtSignature" in part
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        assert [(one["id"], one["name"]) for one in answers] == asked
        assert not answers or len(answers) == len(parts)
        if turn["role"] == "model":
            assert before is not None
            assert before["role"] == "user"
        asked = [(one["id"], one["name"]) for one in calls]
        assert not seen & {call_id for call_id, _ in asked}
        seen.update(call_id for call_id, _ in asked)
        assert all(isinstance(one["args"], dict) for one in calls)
    assert not asked


def answered(*calls: ToolCall, text: str = "done", **fields: Any) -> Message:
    return Message.tool(
        *(ToolResult(one.call_id, one.name, (TextPart(text),), **fields) for one in calls)
    )


def test_a_request_says_what_is_asked_of_whom() -> None:
    assert body(Message.user("hi"), system="Be brief.") == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
    }


def test_options_are_fields_of_the_request() -> None:
    options = {
        "max_tokens": 9,
        "temperature": 0.0,
        "top_k": 3,
        "stop": ("END",),
        "thinking_level": "low",
        "include_thoughts": True,
        "tool_choice": "required",
        "response_format": {"type": "object"},
        "extra": {"cachedContent": "c"},
    }
    encoded = body(Message.user("hi"), options=options, tools=[get_weather])
    assert encoded["generationConfig"] == {
        "maxOutputTokens": 9,
        "temperature": 0.0,
        "topK": 3,
        "stopSequences": ["END"],
        "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True},
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object"},
    }
    assert encoded["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert encoded["cachedContent"] == "c"


def test_tools_carry_their_schema_where_they_have_parameters() -> None:
    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    (tools,) = body(Message.user("hi"), tools=[get_weather, ping])["tools"]
    first, second = tools["functionDeclarations"]
    assert first["name"] == "get_weather"
    assert first["parametersJsonSchema"]["properties"]["city"]["type"] == "string"
    assert second == {"name": "ping", "description": "Answer."}


def test_responses_stand_alone_right_behind_their_calls() -> None:
    """B049, B050, B054."""
    one, two = call("c1", text="x"), call("c2")
    turns = sent(
        Message.user("hi"),
        Message.assistant("wait"),
        calling(one, two),
        answered(two),
        answered(one, text="nope", is_error=True),
        Message.user("and?"),
    )
    assert [turn["role"] for turn in turns] == ["user", "model", "user", "user"]
    assert turns[1]["parts"] == [
        {"text": "wait"},
        {"functionCall": {"id": "c1", "name": "note", "args": {"text": "x"}}},
        {"functionCall": {"id": "c2", "name": "note", "args": {}}},
    ]
    assert turns[2]["parts"] == [
        {"functionResponse": {"id": "c1", "name": "note", "response": {"error": "nope"}}},
        {"functionResponse": {"id": "c2", "name": "note", "response": {"output": "done"}}},
    ]


@pytest.mark.parametrize("recording", ["google/tools.sse", "google/signed_text.sse"])
def test_signatures_go_back_on_the_part_that_they_came_on(recording: str) -> None:
    """B058."""
    reply = folded(decoded(GeminiDecoder(), recorded(recording)))
    calls = tuple(
        ToolCall(f"call_{number}", one.name, one.arguments)
        for number, one in enumerate(reply.tool_calls)
    )
    reply = Message("assistant", reply.content, calls, id="m")
    behind = answered(*calls) if calls else Message.user("thanks")
    state = AgentState((Message.user("hi"), reply, behind))
    stored = json.loads(json.dumps(serialize.dump_state(state)))
    parts = sent(*serialize.load_state(stored).messages, signs_calls=True)[1]["parts"]
    if not calls:
        assert parts == [{"text": "It is sunny.", "thoughtSignature": "CiIBsigned"}]
        return
    assert parts == [
        {"text": "Let me look."},
        {
            "functionCall": {"id": "call_0", "name": "get_weather", "args": {"city": "Paris"}},
            "thoughtSignature": "CiQB0e2Kb3d1pkiMOYds+/==",
        },
        {"functionCall": {"id": "call_1", "name": "get_weather", "args": {"city": "London"}}},
    ]


def test_calls_of_another_model_pass_unsigned_in_the_running_turn() -> None:
    old, new = call("c1"), call("c2")
    history = (
        Message.user("a"),
        calling(old),
        answered(old),
        Message.assistant("ok"),
        Message.user("b"),
        calling(new),
        answered(new),
    )
    signatures = [
        part.get("thoughtSignature")
        for turn in sent(*history, signs_calls=True)
        for part in turn["parts"]
        if "functionCall" in part
    ]
    assert signatures == [None, "skip_thought_signature_validator"]
    assert "skip_thought" not in json.dumps(sent(*history))


def test_thinking_of_others_is_dropped() -> None:
    parts = [
        ThinkingPart("hm", "sig", provider="anthropic"),
        ThinkingPart("hm", None, provider="google"),
        TextPart("A"),
    ]
    turns = sent(Message.user("a"), Message.assistant(parts), Message.user("b"))
    assert turns[1]["parts"] == [{"text": "A"}]


def test_system_messages_lead_or_are_told_in_their_place() -> None:
    encoded = body(
        Message.system("first"), Message.user("hi"), Message.system("now in French"), system="zero"
    )
    assert [part["text"] for part in encoded["systemInstruction"]["parts"]] == ["zero", "first"]
    assert encoded["contents"][1]["parts"][0]["text"] == "<system>\nnow in French\n</system>"


def test_the_first_turn_and_the_last_are_a_users() -> None:
    turns = sent(Message.assistant("Welcome!"))
    assert [turn["role"] for turn in turns] == ["user", "model", "user"]
    assert encode.contents((), signs_calls=True)[0]["role"] == "user"
    assert_valid(encode.body(ModelRequest("", ()), GeminiOptions(), signs_calls=True)["contents"])


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (ImagePart(data=PNG), {"inlineData": {"mimeType": "image/png", "data": PNG}}),
        (
            ImagePart(url=f"data:image/png;base64,{PNG}"),
            {"inlineData": {"mimeType": "image/png", "data": PNG}},
        ),
        (
            ImagePart(url="https://example.org/a.webp?x=1"),
            {
                "fileData": {
                    "mimeType": "image/webp",
                    "fileUri": "https://example.org/a.webp?x=1",
                }
            },
        ),
        (
            ImagePart(url="https://example.org/photo"),
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.org/photo"}},
        ),
        (
            FilePart(name="a.mp3", data="SUQz", mime_type="audio/mpeg"),
            {"inlineData": {"mimeType": "audio/mpeg", "data": "SUQz"}},
        ),
    ],
)
def test_images_and_files_are_parts(part: Any, wire: Any) -> None:
    one = call("c1")
    result = ToolResult("c1", "draw", (part,))
    turns = sent(Message.user(part), calling(one), Message.tool(result))
    assert turns[0]["parts"] == [wire]
    assert turns[-1]["parts"] == [{"text": "What draw returned:"}, wire]


@pytest.mark.parametrize(
    "part",
    [
        FilePart(name="a.docx", data="UEsDBA==", mime_type="application/msword"),
        FilePart(name="a", url="https://example.org/a"),
        ImagePart(data="R0lGODlh", mime_type="image/gif"),
        ImagePart(),
    ],
)
def test_what_cannot_be_sent_is_refused_once_and_noted_ever_after(part: Any) -> None:
    asked = Message.user([TextPart("look"), part])
    with pytest.raises(BadRequest, match="cannot take"):
        sent(asked)
    turns = sent(asked, Message.user("never mind"))
    assert "not readable by this model" in turns[0]["parts"][1]["text"]


@given(histories(), st.booleans(), st.text(max_size=3))
def test_every_history_is_valid_for_the_protocol(
    history: tuple[Message, ...], signs_calls: bool, system: str
) -> None:
    """Histories that mix providers, in any order and state of repair, are always sendable."""
    body(*history, Message.user("go on"), system=system, signs_calls=signs_calls)


def test_a_signature_that_came_before_everything_goes_back_there() -> None:
    """B058: on a part of its own, since there is none that it could stand on."""
    signed = ThinkingPart("", "sig", None, "google")
    reply = Message("assistant", (signed, TextPart("It is sunny.")), id="m")
    parts = sent(Message.user("hi"), reply, Message.user("thanks"), signs_calls=True)[1]["parts"]
    assert parts == [{"text": "", "thoughtSignature": "sig"}, {"text": "It is sunny."}]
