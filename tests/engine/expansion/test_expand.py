"""`expand`: what it takes, what it stores, what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Completed,
    ImagePart,
    InvalidExpansion,
    Message,
    ScriptedModel,
    TextPart,
    Todo,
    ToolOutput,
    ToolResult,
    expand,
    tool,
)
from sagents_app.engine.errors import ToolError
from tests.engine.doubles import asked, call, calling, results, told

MATERIAL = Message.user("material")


@dataclass(frozen=True)
class Content:
    id: str
    given: Any
    parts: tuple[Any, ...]


PICTURE = ImagePart(url="https://example.org/a.png")


@pytest.mark.parametrize(
    "case",
    [
        Content("a text is one part", "all", (TextPart("all"),)),
        Content("a part is a list of one", PICTURE, (PICTURE,)),
        Content("a list is kept", [TextPart("a"), PICTURE], (TextPart("a"), PICTURE)),
    ],
    ids=lambda case: case.id,
)
def test_the_content_is_the_full_material_in_parts(case: Content) -> None:
    """E-001."""
    assert expand(case.given, [MATERIAL]).content == case.parts


@pytest.mark.parametrize(
    "roles",
    ["u", "a", "ua", "au", "uu", "aa", "uauaua", "aaauuu"],
)
def test_messages_of_any_number_and_order_are_taken_as_given(roles: str) -> None:
    """E-002: text, role and order; the ids are new each time, so that they stay unique."""
    given = [
        Message.user(f"{n}") if role == "u" else Message.assistant(f"{n}")
        for n, role in enumerate(roles)
    ]
    first, second = expand("all", given).expansion, expand("all", given).expansion
    assert first is not None
    assert second is not None
    assert [(one.role, one.text) for one in first.messages] == [
        (one.role, one.text) for one in given
    ]
    ids = [one.id for one in (*first.messages, *second.messages)]
    assert len(set(ids)) == 2 * len(roles)


def test_the_result_keeps_a_short_note_unless_told_otherwise() -> None:
    """E-003: the note does not hold the material; None keeps the material itself."""
    default = expand("the material", [MATERIAL]).expansion
    assert default is not None
    assert default.result_content == (TextPart("The material of this result follows as messages."),)
    own = expand("the material", [MATERIAL], result_content="see below").expansion
    assert own is not None
    assert own.result_content == (TextPart("see below"),)
    kept = expand("the material", [MATERIAL], result_content=None).expansion
    assert kept is not None
    assert kept.result_content is None


@dataclass(frozen=True)
class Refused:
    id: str
    messages: Any
    problem: str


REFUSED = [
    Refused("a system message", [Message.system("be")], "got role 'system'"),
    Refused("a tool message", [Message.tool(ToolResult("c1", "note"))], "got role 'tool'"),
    Refused("calls", [calling(call())], "got role 'assistant'"),
    Refused("nothing", [], "at least one message"),
    Refused("a text", "material", "at least one message"),
    Refused("no list", 5, "at least one message"),
    Refused("None", None, "at least one message"),
    Refused("a list of texts", ["material"], "holds messages, got 'material'"),
    Refused("a dict", [{"role": "user"}], "holds messages, got"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_is_no_plain_message_is_refused(case: Refused) -> None:
    """E-004."""
    with pytest.raises(InvalidExpansion, match=case.problem) as caught:
        expand("all", case.messages)
    assert caught.value.type == "invalid_expansion"
    assert isinstance(caught.value, ToolError)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
async def test_a_refusal_inside_a_tool_is_an_ordinary_error_result(case: Refused) -> None:
    """E-006."""

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", case.messages)

    model = ScriptedModel(calling(call("c1", "load")), "done")
    outcome = await Agent(model=model, tools=[load]).execute(asked())
    assert isinstance(outcome, Completed)
    assert results(outcome.state)["c1"].is_error
    assert case.problem in told(outcome.state)["c1"]


async def test_messages_among_the_changes_follow_those_of_the_expansion() -> None:
    """E-007: both are material of one call, in this order."""

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", [MATERIAL], state={"messages": (Message.user("more"),)})

    model = ScriptedModel(calling(call("c1", "load")), "done")
    await Agent(model=model, tools=[load]).execute(asked())
    assert [one.text for one in model.requests[1].messages[3:]] == ["material", "more"]


async def test_a_tool_expands_and_changes_the_state_and_hands_a_value_over() -> None:
    """E-007: todos in the final state, the value on the result, the material exactly once."""
    todos = (Todo(1, "read it"),)

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", [MATERIAL], state={"todos": todos}, processed={"pages": 3})

    model = ScriptedModel(calling(call("c1", "load")), "done")
    outcome = await Agent(model=model, tools=[load]).execute(asked())
    assert isinstance(outcome, Completed)
    assert outcome.state.todos == todos
    assert results(outcome.state)["c1"].processed_content == {"pages": 3}
    assert [one.text for one in outcome.state.messages].count("material") == 1
