"""`extract` and the readers: a demanded tool's value, its arguments, the final text."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Cancelled,
    Completed,
    Failed,
    Halt,
    Interrupted,
    Message,
    Misconfigured,
    ModelError,
    NoAnswer,
    Paused,
    ScriptedModel,
    TextPart,
    ToolError,
    ToolOutput,
    ToolResult,
    extract,
    extraction,
    tool,
)
from sagents_app.engine.errors import EngineError, UntilToolNotCalled
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Events, Notes, asked, call, calling

# extract


@tool
def submit(title: str, price: Decimal = Decimal(0)) -> str:
    """Submit an offer."""
    if title == "bad":
        raise ToolError("a better title, please")
    return f"took {title}"


@tool(name="submit")
def submit_processed(title: str) -> ToolOutput:
    """Submit an offer."""
    return ToolOutput("taken", processed={"id": 42, "title": title.upper()})


def offering(*titles: str, tools: Any = (submit,), **options: Any) -> Agent:
    replies = [
        calling(call(f"c{n}", "submit", title=title, **options)) for n, title in enumerate(titles)
    ]
    return Agent(model=ScriptedModel(*replies, "done"), tools=tools)


@pytest.mark.parametrize("option", ["until_tool", "until_tool_success"])
async def test_extract_returns_the_typed_arguments_of_the_demanded_call(option: str) -> None:
    """P-250, P-251: by parameter name; only those that were sent."""
    agent = offering("good", price="9.90")
    assert await extract(agent, asked(), **{option: "submit"}) == {
        "title": "good",
        "price": Decimal("9.90"),
    }
    assert await extract(offering("good"), asked(), **{option: "submit"}) == {"title": "good"}


async def test_extract_takes_a_system_message_of_the_history() -> None:
    """P-252."""
    agent = offering("good")
    state = AgentState((Message.system("Extract."), Message.user("an offer")))
    assert await extract(agent, state, until_tool="submit") == {"title": "good"}
    model = agent.setup.models[0]
    assert isinstance(model, ScriptedModel)
    assert model.requests[0].messages[0].text == "Extract."


async def test_extract_prefers_the_value_that_the_tool_handed_over() -> None:
    """P-253."""
    agent = offering("good", tools=[submit_processed])
    assert await extract(agent, asked(), until_tool_success="submit") == {
        "id": 42,
        "title": "GOOD",
    }


@pytest.mark.parametrize("value", [0, "", False, [], {}], ids=repr)
async def test_a_falsy_value_is_a_value(value: Any) -> None:
    """B003; None alone means that the tool handed nothing over."""

    @tool(name="submit")
    def judge(title: str) -> ToolOutput:
        """Judge."""
        return ToolOutput("judged", processed=value)

    result = await extract(offering("good", tools=[judge]), asked(), until_tool="submit")
    assert result == value
    assert type(result) is type(value)


async def test_extract_passes_the_options_of_execute_on() -> None:
    """P-255."""
    events = Events()
    await extract(offering("good"), asked(), until_tool="submit", on_event=events)
    assert "ToolFinished" in events.names


async def test_extract_of_success_goes_on_until_the_tool_accepts() -> None:
    """P-256: two calls, and the accepted arguments."""
    agent = offering("bad", "good")
    assert await extract(agent, asked(), until_tool_success="submit") == {"title": "good"}


async def test_extract_never_returns_what_was_never_accepted() -> None:
    """P-256."""
    with pytest.raises(EngineError) as caught:
        await extract(
            offering("bad", "bad", "bad"), asked(), until_tool_success="submit", max_runs=2
        )
    assert caught.value.type == "exceeded_max_runs"


async def test_extract_gives_up_after_five_calls_unless_told_otherwise() -> None:
    agent = offering(*["bad"] * 9)
    with pytest.raises(EngineError) as caught:
        await extract(agent, asked(), until_tool_success="submit")
    assert "(5/5)" in str(caught.value)


async def test_arguments_that_do_not_fit_are_returned_as_they_were_sent() -> None:
    """A mere demand is met by the refused call too."""
    agent = offering("good", price="cheap")
    assert await extract(agent, asked(), until_tool="submit") == {"title": "good", "price": "cheap"}


async def test_extract_needs_exactly_one_demand() -> None:
    """P-257."""
    with pytest.raises(Misconfigured, match="extract needs until_tool or until_tool_success"):
        await extract(offering("good"), asked())
    with pytest.raises(Misconfigured, match="mutually exclusive"):
        await extract(offering("good"), asked(), until_tool="submit", until_tool_success="submit")


async def test_extract_raises_the_error_of_a_failed_turn() -> None:
    with pytest.raises(UntilToolNotCalled):
        await extract(offering(), asked(), until_tool="submit")
    agent = Agent(model=ScriptedModel(ModelError("down")), tools=[submit])
    with pytest.raises(ModelError, match="down"):
        await extract(agent, asked(), until_tool="submit")


@dataclass(frozen=True)
class Stopped:
    id: str
    options: dict[str, Any]
    kind: type
    type: str


@pytest.mark.parametrize(
    "case",
    [
        Stopped("P-232: interrupted", {}, Interrupted, "interrupted"),
        Stopped("P-232: paused", {"should_pause": lambda: "draining"}, Paused, "paused"),
        Stopped("cancelled", {"should_cancel": lambda: True}, Cancelled, "cancelled"),
    ],
    ids=lambda case: case.id,
)
async def test_extract_says_what_stopped_the_turn(case: Stopped) -> None:
    """The outcome goes along, so that the caller may resume it."""
    agent = Agent(
        model=ScriptedModel(calling(call("c1", "submit", title="good"))),
        tools=[submit],
        middlewares=[HumanInTheLoop({"submit": True})],
    )
    with pytest.raises(NoAnswer) as caught:
        await extract(agent, asked(), until_tool="submit", **case.options)
    assert caught.value.type == case.type
    assert isinstance(caught.value.outcome, case.kind)


# the readers


def result(call_id: str, name: str = "note", **fields: Any) -> ToolResult:
    return ToolResult(call_id, name, (TextPart(f"text of {call_id}"),), **fields)


TWO = asked(
    calling(call("c1", text="a")),
    Message.tool(result("c1", processed_content=1)),
    calling(call("c2", "search", text="b"), call("c3", text="c")),
    Message.tool(
        result("c2", "search"),
        result("c3", is_interrupt=True, interrupt=Halt("x", tool_call_id="c3")),
    ),
    Message.assistant("the end"),
)


def test_the_demanded_result_comes_first() -> None:
    """P-230, P-233: the element of the outcome, and the arguments of its own call."""
    outcome = Completed(TWO, result("c1", processed_content=1))
    assert extraction.tool_result(outcome).tool_call_id == "c1"
    assert extraction.tool_arguments(outcome) == {"text": "a"}
    assert extraction.processed(outcome) == 1


@pytest.mark.parametrize("source", [Completed(TWO), TWO], ids=["outcome", "state"])
def test_without_a_demand_the_newest_usable_result_is_read(source: Any) -> None:
    """P-230, P-233: never a placeholder; the arguments are those of the last call."""
    assert extraction.tool_result(source).tool_call_id == "c2"
    assert extraction.tool_result(source, "note").tool_call_id == "c1"
    assert extraction.tool_arguments(source) == {"text": "c"}
    assert extraction.processed(source) is None
    assert extraction.processed(source, "note") == 1


def test_typed_arguments_need_the_tools() -> None:
    state = asked(calling(call("c1", "submit", title="x", price="1.5")))
    assert extraction.tool_arguments(state) == {"title": "x", "price": "1.5"}
    typed = extraction.tool_arguments(state, {"submit": submit})
    assert typed == {"title": "x", "price": Decimal("1.5")}


@dataclass(frozen=True)
class Missing:
    id: str
    read: Any
    source: Any
    type: str


MISSING = [
    Missing("P-230: no result", extraction.tool_result, asked(), "no_tool_result"),
    Missing("P-230: no result of that tool",
            lambda source: extraction.tool_result(source, "x"), TWO, "no_tool_result"),
    Missing("P-233: no call", extraction.tool_arguments, asked(), "no_tool_arguments"),
    Missing("no processed value of no tool", extraction.processed, asked(), "no_tool_result"),
    Missing("P-235: last is no answer", extraction.final_text, asked(), "no_text"),
    Missing("P-235: no messages", extraction.final_text, AgentState(), "no_text"),
    Missing("P-235: last is a call", extraction.final_text, asked(calling(call())), "no_text"),
    Missing("P-236: cut by length", extraction.final_text,
            asked(Message.assistant("Hel", status="length")), "no_text"),
    Missing("P-236: cancelled", extraction.final_text,
            asked(Message.assistant("Hel", status="cancelled")), "no_text"),
    Missing("P-232: interrupted", extraction.final_text,
            Interrupted(TWO, Halt("x")), "interrupted"),
    Missing("P-232: paused", extraction.tool_result, Paused(TWO), "paused"),
    Missing("cancelled", extraction.tool_arguments, Cancelled(TWO), "cancelled"),
]  # fmt: skip


@pytest.mark.parametrize("case", MISSING, ids=lambda case: case.id)
def test_what_is_not_there_is_a_named_error(case: Missing) -> None:
    with pytest.raises(NoAnswer) as caught:
        case.read(case.source)
    assert caught.value.type == case.type
    assert caught.value.outcome is case.source


def test_a_failed_turn_raises_its_own_error() -> None:
    """P-232: it passes through unchanged."""
    error = ModelError("down")
    for read in (extraction.tool_result, extraction.tool_arguments, extraction.final_text):
        with pytest.raises(ModelError) as caught:
            read(Failed(TWO, error))
        assert caught.value is error


@pytest.mark.parametrize("source", [Completed(TWO), TWO, Completed(TWO, result("c1"))])
def test_the_final_text_is_the_last_answers(source: Any) -> None:
    """P-235."""
    assert extraction.final_text(source) == "the end"


def test_an_answer_without_text_is_an_empty_text() -> None:
    """P-237: upstream returns nothing at all."""
    assert extraction.final_text(asked(Message.assistant())) == ""


def test_what_is_no_outcome_is_refused() -> None:
    with pytest.raises(Misconfigured, match="expected an outcome or a state"):
        extraction.final_text(Notes())  # type: ignore[arg-type]
