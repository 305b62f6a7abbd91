"""Arguments are validated strictly, before anything runs, in words that the model can act on."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict

from sagents_app.engine import (
    Agent,
    Completed,
    Interrupted,
    InvalidArguments,
    ScriptedModel,
    Tool,
    ToolCall,
    tool,
)
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Notes, asked, call, calling, results, told


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Line(BaseModel):
    sku: str
    level: Level = Level.LOW


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


def unlucky(value: str) -> str:
    raise KeyError(value)


def even(value: int) -> int:
    if value % 2:
        raise ValueError("the count has to be even")
    return value * 10


@tool
def work(
    count: int = 0,
    flag: bool = False,
    ratio: float = 0.0,
    text: str = "",
    amount: Decimal = Decimal(0),
    at: datetime | None = None,
    level: Level = Level.LOW,
    choice: Literal[1, "one"] = 1,
    maybe: Level | None = None,
    line: Line | None = None,
    lines: list[Line] = [],  # noqa: B006  # never changed
    pairs: dict[str, Literal[1, 2]] = {},  # noqa: B006  # never changed
    pair: tuple[Level, bool] = (Level.LOW, True),
    mixed: Level | bool = False,
    free: dict[str, Any] = {},  # noqa: B006  # never changed
) -> str:
    return "worked"


@dataclass(frozen=True)
class Case:
    arguments: str
    problem: str


REFUSED = [
    Case('{"flag": "yes"}', "flag: Input should be a valid boolean"),
    Case('{"flag": 1}', "flag: Input should be a valid boolean"),
    Case('{"count": true}', "count: Input should be a valid integer"),
    Case('{"count": "3"}', "count: Input should be a valid integer"),
    Case('{"count": 3.0}', "count: Input should be a valid integer"),
    Case('{"count": null}', "count: Input should be a valid integer"),
    Case('{"ratio": "0.5"}', "ratio: Input should be a valid number"),
    Case('{"text": 5}', "text: Input should be a valid string"),
    Case('{"at": 1700000000}', "at: Input should be a valid datetime"),
    Case('{"amount": "NaN"}', "amount: Input should be a finite number"),
    Case('{"level": true}', "level: Input should be 1 or 2"),
    Case('{"level": 1.0}', "level: Input should be 1 or 2"),
    Case('{"level": 3}', "level: Input should be 1 or 2"),
    Case('{"choice": true}', "choice: Input should be 1 or 'one'"),
    Case('{"maybe": true}', "maybe: Input should be of another type"),
    Case('{"line": {"sku": "a", "level": true}}', "line.level: Input should be 1 or 2"),
    Case('{"lines": [{"sku": "a"}, {"sku": 1}]}', "lines.1.sku: Input should be a valid string"),
    Case(
        '{"lines": [{"sku": "a"}, {"sku": "b", "level": true}]}',
        "lines.1.level: Input should be 1 or 2",
    ),
    Case('{"pairs": {"a": true}}', "pairs.a: Input should be 1 or 2"),
    Case('{"pair": [true, true]}', "pair.0: Input should be 1 or 2"),
    Case('{"line": {}}', "line.sku: Field required"),
    Case('{"line": {"sku": "a", "more": 1}}', "line.more: Extra inputs are not permitted"),
    Case('{"txt": "a"}', "txt: Extra inputs are not permitted (did you mean 'text'?)"),
    Case(
        '{"flag": "yes", "count": true}',
        "count: Input should be a valid integer\nflag: Input should be a valid boolean",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.arguments)
def test_what_does_not_fit_exactly_is_refused_by_its_place(case: Case) -> None:
    with pytest.raises(InvalidArguments) as refused:
        work.validate(ToolCall("c1", "work", case.arguments))
    assert str(refused.value) == case.problem


@dataclass(frozen=True)
class Taken:
    arguments: str
    values: dict[str, Any]


TAKEN = [
    Taken("{}", {}),
    Taken('{"ratio": 1}', {"ratio": 1.0}),
    Taken('{"amount": "1.10"}', {"amount": Decimal("1.10")}),
    Taken('{"level": 2, "choice": "one"}', {"level": Level.HIGH, "choice": "one"}),
    Taken('{"maybe": null}', {"maybe": None}),
    Taken('{"maybe": 2}', {"maybe": Level.HIGH}),
    Taken('{"pair": [2, false]}', {"pair": (Level.HIGH, False)}),
    Taken('{"mixed": true}', {"mixed": True}),
    Taken('{"free": {"a": true, "b": [1.0]}}', {"free": {"a": True, "b": [1.0]}}),
    Taken('{"pairs": {"a": 2}}', {"pairs": {"a": 2}}),
    Taken('{"count": 123456789012345678901234567890}', {"count": 123456789012345678901234567890}),
]


@pytest.mark.parametrize("case", TAKEN, ids=lambda case: case.arguments)
def test_what_fits_is_given_typed_and_only_what_was_given(case: Taken) -> None:
    assert work.validate(ToolCall("c1", "work", case.arguments)) == case.values


async def test_an_unknown_argument_without_a_near_name_lists_the_known_ones() -> None:
    """L-047: the hint is about the arguments, not about the tool's inside."""
    notes = Notes()
    model = ScriptedModel(calling(call("c1", body="x")), "done")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked())
    assert told(outcome.state) == {
        "c1": "The arguments do not fit; the call was not run.\n"
        "body: Extra inputs are not permitted (known are text)"
    }
    assert notes.taken == []


async def test_a_model_that_allows_more_than_its_fields_gets_more() -> None:
    seen: list[Any] = []

    @tool
    async def keep(more: Open) -> str:
        seen.append(more)
        return "kept"

    model = ScriptedModel(calling(call("c1", "keep", more={"name": "a", "age": 5})), "done")
    outcome = await Agent(model=model, tools=[keep]).execute(asked())
    assert told(outcome.state) == {"c1": "kept"}
    assert seen == [Open(name="a", age=5)]  # type: ignore[call-arg]


async def test_only_the_first_eight_problems_are_told() -> None:
    @tool
    async def many(numbers: list[int]) -> str:
        return "never"

    model = ScriptedModel(calling(call("c1", "many", numbers=["x"] * 10)), "done")
    outcome = await Agent(model=model, tools=[many]).execute(asked())
    lines = told(outcome.state)["c1"].splitlines()
    assert len(lines) == 10
    assert lines[1] == "numbers.0: Input should be a valid integer"
    assert lines[-1] == "and 2 more"


async def test_a_validator_that_raises_anything_answers_the_call_and_runs_nothing() -> None:
    """L-046, B023: its own words where it has some, also for a gated tool, which asks nobody."""
    ran: list[str] = []

    @tool
    async def pick(key: Annotated[str, AfterValidator(unlucky)]) -> str:
        ran.append(key)
        return "never"

    for middlewares in ([], [HumanInTheLoop({"pick": True})]):
        model = ScriptedModel(calling(call("c1", "pick", key="a")), "done")
        agent = Agent(model=model, tools=[pick], middlewares=middlewares)
        outcome = await agent.execute(asked())
        assert isinstance(outcome, Completed)
        assert told(outcome.state) == {
            "c1": "The arguments do not fit; the call was not run.\n"
            "the arguments could not be checked: 'a'"
        }
    assert ran == []


async def test_a_validator_says_why_in_its_own_words() -> None:
    """L-046: an error is text for the model; the body is not run."""

    seen: list[int] = []

    @tool
    async def buy(count: Annotated[int, AfterValidator(even)]) -> str:
        seen.append(count)
        return "bought"

    calls = (call("c1", "buy", count=3), call("c2", "buy", count=4))
    outcome = await Agent(model=ScriptedModel(calling(*calls), "done"), tools=[buy]).execute(
        asked()
    )
    assert told(outcome.state) == {
        "c1": "The arguments do not fit; the call was not run.\n"
        "count: Value error, the count has to be even",
        "c2": "bought",
    }
    assert seen == [40]


async def test_no_arguments_are_an_empty_object() -> None:
    """L-045: none, null and the empty text."""
    notes = Notes()
    calls = [ToolCall("c1", "note"), ToolCall("c2", "note", None), ToolCall("c3", "note", "")]
    outcome = await Agent(model=ScriptedModel(calling(*calls), "done"), tools=[notes.tool]).execute(
        asked()
    )
    assert told(outcome.state) == dict.fromkeys(("c1", "c2", "c3"), "noted")
    assert notes.taken == ["", "", ""]


async def test_arguments_are_validated_before_a_gate_asks_anybody() -> None:
    notes = Notes()
    model = ScriptedModel(calling(call("c1", text=5), call("c2", text="a")), "done")
    agent = Agent(model=model, tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Interrupted)
    assert [one.tool_call_id for one in outcome.interrupt.action_requests] == ["c2"]  # type: ignore[attr-defined]


async def test_an_unknown_tool_is_answered_with_a_near_name_and_the_known_ones() -> None:
    """L-092: a misspelt and a hopeless name; nothing runs."""
    search, note = Notes("search_orders"), Notes("note")
    calls = (call("c1", "search_order"), call("c2", "zzz"))
    agent = Agent(model=ScriptedModel(calling(*calls), "done"), tools=[search.tool, note.tool])
    outcome = await agent.execute(asked())
    assert told(outcome.state) == {
        "c1": "Tool 'search_order' not found. Did you mean 'search_orders'? "
        "Available are: search_orders, note.",
        "c2": "Tool 'zzz' not found. Available are: search_orders, note.",
    }
    assert all(result.is_error for result in results(outcome.state).values())
    assert (search.taken, note.taken) == ([], [])


async def test_an_agent_without_tools_says_so() -> None:
    outcome = await Agent(model=ScriptedModel(calling(call("c1")), "done")).execute(asked())
    assert told(outcome.state) == {"c1": "Tool 'note' not found. Available are: none."}


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-3, 3)
    | st.sampled_from(["1", "one", "true", "2026-01-01"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["sku", "level", "a"]), inner, max_size=2)
    ),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from([*work.parameters["properties"], "wrong"]), JSON)


def alike(sent: Any, got: Any) -> bool:
    """Whether a value is what JSON sent, with no boolean made of a number or the reverse."""
    if isinstance(sent, bool) or isinstance(got, bool):
        return sent is got
    if isinstance(sent, list):
        return len(sent) == len(got) and all(map(alike, sent, got))
    if isinstance(got, BaseModel):
        return all(alike(one, getattr(got, name)) for name, one in sent.items())
    if isinstance(sent, dict):
        return all(alike(one, got[name]) for name, one in sent.items())
    if isinstance(got, enum.Enum | str | int | float):
        return bool(sent == got)
    return got is None or isinstance(got, Decimal | datetime)


@given(ARGUMENTS)
def test_no_value_is_ever_taken_for_one_of_another_type(arguments: dict[str, Any]) -> None:
    checked: Tool = work
    try:
        values = checked.validate(ToolCall("c1", "work", json.dumps(arguments)))
    except InvalidArguments:
        return
    assert values.keys() == arguments.keys()
    assert all(alike(arguments[name], values[name]) for name in values)
