"""Messages, parts, calls, results and usage as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    AgentState,
    FilePart,
    ImagePart,
    Message,
    Misconfigured,
    TextPart,
    ThinkingPart,
    TokenUsage,
    ToolCall,
    ToolResult,
)
from tests.engine.doubles import call, calling, shape


@dataclass(frozen=True)
class Case:
    id: str
    content: Any
    parts: tuple[Any, ...]


IMAGE = ImagePart(url="https://example.org/a.png")
CONTENTS = [
    Case("a text", "hi", (TextPart("hi"),)),
    Case("a blank text", " \n", (TextPart(" \n"),)),
    Case("a part", IMAGE, (IMAGE,)),
    Case("a list", [TextPart("see"), IMAGE], (TextPart("see"), IMAGE)),
    Case("an empty part", TextPart(""), (TextPart(""),)),
]


@pytest.mark.parametrize("case", CONTENTS, ids=lambda case: case.id)
def test_content_is_a_tuple_of_parts(case: Case) -> None:
    """L-002, L-010, L-020: one text is one part, a part is a list of one; empty parts are kept."""
    for make in (Message.user, Message.system, Message.assistant):
        assert make(case.content).content == case.parts


def test_content_may_be_any_iterable() -> None:
    assert Message.user(part for part in [IMAGE, IMAGE]).content == (IMAGE, IMAGE)


@pytest.mark.parametrize("content", ["", [], (), None], ids=repr)
def test_users_and_instructions_need_content_and_assistants_do_not(content: Any) -> None:
    """L-002, L-003, L-011."""
    assert Message.assistant(content).content == ()
    with pytest.raises(Misconfigured, match="a user message needs content"):
        Message.user(content)
    with pytest.raises(Misconfigured, match="a system message needs content"):
        Message.system(content)


@pytest.mark.parametrize("content", [5, b"hi", {"type": "text"}, ["hi"], [None]], ids=repr)
def test_what_is_no_content_is_refused(content: Any) -> None:
    """L-003, L-020: upstream's type-tagged mappings included."""
    with pytest.raises(Misconfigured, match="content is a string or message parts"):
        Message.user(content)


def test_a_tool_message_is_made_of_results() -> None:
    """L-003, L-009."""
    result = ToolResult("c1", "note", (TextPart("ok"),))
    assert Message.tool(result).tool_results == (result,)
    for wrong in ((), ("text",), (TextPart("x"),)):
        with pytest.raises(Misconfigured, match="a tool message is made of tool results"):
            Message.tool(*wrong)  # type: ignore[arg-type]


def test_each_message_has_an_id_of_its_own() -> None:
    ids = {Message.user("hi").id, Message.user("hi").id, Message.assistant().id}
    assert len(ids) == 3
    assert all(len(one) == 24 for one in ids)


def test_a_cancelled_assistant_may_be_made() -> None:
    """L-010."""
    message = Message.assistant("Hel", status="cancelled")
    assert (message.text, message.status) == ("Hel", "cancelled")


@pytest.mark.parametrize(
    ("message", "empty"),
    [
        (Message.assistant(), True),
        (Message.assistant(""), True),
        (Message.assistant(" "), False),
        (Message.assistant(TextPart("")), False),
        (calling(call()), False),
        (Message.user("x"), False),
        (Message.tool(ToolResult("c1", "note")), False),
    ],
    ids=["nothing", "no text", "a blank", "an empty part", "a call", "words", "a result"],
)
def test_a_message_is_empty_where_nothing_is_in_it(message: Message, *, empty: bool) -> None:
    """L-007."""
    assert message.is_empty is empty


def test_the_text_of_a_message_is_its_text_parts_a_line_each() -> None:
    message = Message.assistant([ThinkingPart("hm"), TextPart("one"), IMAGE, TextPart("two")])
    assert message.text == "one\ntwo"


def test_a_result_is_replaced_by_its_calls_id() -> None:
    """L-008: others and other messages stay; an unknown id changes nothing."""
    one, two = ToolResult("c1", "note"), ToolResult("c2", "note")
    state = AgentState(
        (Message.user("hi"), calling(call("c1"), call("c2")), Message.tool(one, two))
    )
    new = ToolResult("c2", "note", (TextPart("new"),))
    assert state.replace_tool_result(new).messages[2].tool_results == (one, new)
    assert list(state.replace_tool_result(new).messages[:2]) == list(state.messages[:2])
    assert state.replace_tool_result(ToolResult("zz", "note")).messages == state.messages
    assert shape(state) == ["U", "A(c1,c2)", "T(c1,c2)"]


@dataclass(frozen=True)
class Arguments:
    given: Any
    kept: str
    parsed: dict[str, Any]
    problem: str | None = None


ARGUMENTS = [
    Arguments({"b": 1, "a": "ä"}, '{"a":"ä","b":1}', {"a": "ä", "b": 1}),
    Arguments('{ "b": 1, "a": [1.50] }', '{"a":[1.5],"b":1}', {"a": [1.5], "b": 1}),
    Arguments(
        '{"n":123456789012345678901234567890}',
        '{"n":123456789012345678901234567890}',
        {"n": 123456789012345678901234567890},
    ),
    Arguments('{"text": " a  b "}', '{"text":" a  b "}', {"text": " a  b "}),
    Arguments(None, "{}", {}),
    Arguments("", "{}", {}),
    Arguments("null", "null", {}, "the arguments are not a JSON object but NoneType"),
    Arguments("[1]", "[1]", {}, "the arguments are not a JSON object but list"),
    Arguments('"{}"', '"{}"', {}, "the arguments are not a JSON object but str"),
    Arguments(
        '{"a": ',
        '{"a": ',
        {},
        "the arguments are not valid JSON (Expecting value: line 1 column 7 (char 6))",
    ),
    Arguments('{"a": NaN}', '{"a": NaN}', {}, "the arguments are not valid JSON (NaN is not JSON)"),
    Arguments(
        '{"a": 1e400}',
        '{"a": 1e400}',
        {},
        "the arguments are not valid JSON (1e400 is beyond the range of a float)",
    ),
    Arguments(
        '{"a": 1, "a": 2}',
        '{"a": 1, "a": 2}',
        {},
        "the arguments are not valid JSON (the key 'a' is doubled)",
    ),
]


@pytest.mark.parametrize("case", ARGUMENTS, ids=lambda case: str(case.given))
def test_arguments_are_kept_in_one_form_or_as_they_came_with_the_reason(case: Arguments) -> None:
    """L-005, L-023, G-102, B051: an object in canonical form; what is none is never run."""
    made = ToolCall("c1", "note", case.given)
    assert (made.arguments_json, made.arguments, made.problem) == (
        case.kept,
        case.parsed,
        case.problem,
    )


def test_arguments_are_parsed_anew_for_each_reader() -> None:
    made = ToolCall("c1", "note", {"list": [1]})
    made.arguments["list"].append(2)
    assert made.arguments == {"list": [1]}


def test_the_digest_is_of_id_name_and_arguments_whatever_their_order() -> None:
    made = ToolCall("c1", "note", {"a": 1, "b": 2})
    same = ToolCall("c1", "note", '{"b":2,"a":1}', provider_id="other")
    assert made.digest == same.digest
    others = [
        ToolCall("c2", "note", {"a": 1, "b": 2}),
        ToolCall("c1", "not", {"a": 1, "b": 2}),
        ToolCall("c1", "note", {"a": 1, "b": 2.0}),
        ToolCall("c1", "note", {"a": 1, "b": "2"}),
    ]
    assert len({made.digest, *(one.digest for one in others)}) == 5


def test_a_result_has_its_defaults() -> None:
    """L-025."""
    result = ToolResult("c1", "note", (TextPart("one"), IMAGE, TextPart("two")))
    assert (result.is_error, result.is_interrupt, result.interrupt) == (False, False, None)
    assert (result.processed_content, result.decision, result.text) == (None, None, "one\ntwo")


def test_usage_adds_up() -> None:
    """L-027: input and output, and the parts of them."""
    one = TokenUsage(input_tokens=5, output_tokens=2, cached_tokens=1, reasoning_tokens=1)
    two = TokenUsage(input_tokens=3)
    assert one.total_tokens == 7
    assert one + two == TokenUsage(
        input_tokens=8, output_tokens=2, cached_tokens=1, reasoning_tokens=1
    )


@pytest.mark.parametrize(
    "field", ["input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"]
)
def test_negative_usage_is_refused(field: str) -> None:
    """L-027."""
    with pytest.raises(ValueError, match="token counts cannot be negative"):
        TokenUsage(**{field: -1})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: TextPart(None), "TextPart: text is a text, got None"),
        (lambda: ThinkingPart("x", signature=5), "ThinkingPart: signature is a text, got 5"),
        (lambda: ImagePart(url=b"x"), "ImagePart: url is a text, got b'x'"),
        (lambda: FilePart(name=None), "FilePart: name is a text, got None"),
    ],
    ids=["text", "thinking", "image", "file"],
)
def test_a_part_that_holds_no_text_is_refused(make: Any, problem: str) -> None:
    """L-020."""
    with pytest.raises(Misconfigured) as refused:
        make()
    assert str(refused.value) == problem
