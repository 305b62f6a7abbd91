"""Rounds of a turn: what is run, what is called, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Completed,
    Failed,
    Message,
    Misconfigured,
    ScriptedModel,
    Tool,
    ToolError,
    Turn,
    modes,
    steps,
    tool,
)
from sagents_app.engine.errors import AuthenticationFailed, BadRequest, ContextTooLong, Overloaded
from tests.engine.doubles import Notes, asked, call, calling, results, shape, told


def flaky(*outcomes: str) -> Tool:
    """A tool `submit` that raises where its next outcome is empty."""
    left = list(outcomes)

    @tool
    async def submit() -> str:
        if not (outcome := left.pop(0)):
            raise ToolError("not yet")
        return outcome

    return submit


async def test_a_turn_needs_a_message() -> None:
    """L-110."""
    model = ScriptedModel("never")
    with pytest.raises(Misconfigured, match="a turn needs at least one message"):
        await Agent(model=model).execute(AgentState())
    assert model.requests == []


async def test_a_reply_without_deltas_is_an_empty_answer() -> None:
    """L-113, G-110, G-112: no crash, no loop; it can be stored and followed."""
    model = ScriptedModel([], "second")
    agent = Agent(model=model)
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert outcome.state.messages[-1].is_empty
    after = await agent.execute(outcome.state.add_message(Message.user("and?")))
    assert after.state.messages[-1].text == "second"


@dataclass(frozen=True)
class Case:
    id: str
    replies: list[Message]
    outcomes: list[str]
    calls: int
    text: str | None


SUBMIT = calling(call("", "submit"))
CASES = [
    Case("at once", [SUBMIT], ["ok"], 1, "ok"),
    Case("the second time", [SUBMIT, SUBMIT], ["", "ok"], 2, "ok"),
    Case("the third time", [SUBMIT] * 3, ["", "", "ok"], 3, "ok"),
    Case(
        "one of several",
        [calling(call("", "submit"), call("", "submit"))],
        ["", "ok"],
        1,
        "ok",
    ),
    Case("never", [SUBMIT] * 3, ["", "", ""], 3, None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_turn_goes_on_until_the_demanded_tool_succeeds(case: Case) -> None:
    """L-119, L-202: failures are told to the model; the first success is the result."""
    model = ScriptedModel(*case.replies)
    agent = Agent(model=model, tools=[flaky(*case.outcomes)], max_tool_failures=3)
    outcome = await agent.execute(asked(), until_tool_success="submit")
    assert len(model.requests) == case.calls
    if case.text is None:
        assert isinstance(outcome, Failed)
        assert outcome.error.type == "exceeded_failure_count"
    else:
        assert isinstance(outcome, Completed)
        assert outcome.tool_result is not None
        assert outcome.tool_result.text == case.text


async def test_the_first_result_of_the_demanded_tool_counts_error_or_not() -> None:
    """L-202."""
    agent = Agent(
        model=ScriptedModel(calling(call("c1", "submit"), call("c2", "submit"))),
        tools=[flaky("", "ok")],
    )
    outcome = await agent.execute(asked(), until_tool="submit")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result == results(outcome.state)["c1"]
    assert outcome.tool_result.is_error


@pytest.mark.parametrize("names", ["note", ["note"], ["other", "note"], ("note", "other")])
async def test_one_of_several_tools_may_be_demanded(names: Any) -> None:
    """L-121."""
    agent = Agent(
        model=ScriptedModel(calling(call("c1", text="a")), "never"),
        tools=[Notes().tool, Notes("other").tool],
    )
    outcome = await agent.execute(asked(), until_tool=names)
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert (outcome.tool_result.tool_call_id, outcome.tool_result.text) == ("c1", "noted a")


async def test_a_demanded_tool_that_nobody_has_is_refused() -> None:
    """L-121."""
    model = ScriptedModel("never")
    with pytest.raises(Misconfigured, match="'nots'"):
        await Agent(model=model, tools=[Notes().tool]).execute(asked(), until_tool="nots")
    assert model.requests == []


async def test_the_target_may_be_reached_with_the_last_call() -> None:
    """L-121, G-104: the tools of the last permitted reply run, and count."""
    agent = Agent(model=ScriptedModel(calling(call("c1", text="a"))), tools=[Notes().tool])
    outcome = await agent.execute(asked(), until_tool="note", max_runs=1)
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None


async def test_a_target_that_is_not_reached_names_the_budget() -> None:
    """L-121: three of three."""
    model = ScriptedModel(*[calling(call("", text="a"))] * 3)
    agent = Agent(model=model, tools=[Notes().tool, Notes("other").tool])
    outcome = await agent.execute(asked(), until_tool="other", max_runs=3)
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_runs"
    assert "(3/3)" in str(outcome.error)
    assert len(model.requests) == 3


async def test_a_step_at_a_time_calls_or_runs_and_stops() -> None:
    """L-120, L-200: each step alone; a failing tool is a result."""
    agent = Agent(model=ScriptedModel(calling(call("c1", "submit")), "done"), tools=[flaky("")])
    turn = agent.turn(asked())
    called = await steps.call_model(turn)
    assert isinstance(called, Turn)
    assert shape(called.state) == ["U", "A(c1)"]
    assert called.state.runs_used == 1
    ran = await steps.execute_tools(called)
    assert isinstance(ran, Turn)
    assert shape(ran.state) == ["U", "A(c1)", "T(c1)"]
    assert told(ran.state) == {"c1": "not yet"}
    answered = await steps.call_model(ran)
    assert isinstance(answered, Turn)
    assert shape(answered.state) == ["U", "A(c1)", "T(c1)", "A"]
    assert answered.state.runs_used == 2
    assert await steps.execute_tools(answered) is answered


async def test_a_composed_mode_takes_two_calls_for_a_tool_and_an_answer() -> None:
    """L-201."""
    model = ScriptedModel(calling(call("c1", text="a")), "done")
    mode = modes.pipeline(
        steps.call_model, steps.execute_tools, steps.check_max_runs(5), steps.continue_or_done
    )
    outcome = await Agent(model=model, tools=[Notes().tool], mode=mode).execute(asked())
    assert isinstance(outcome, Completed)
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "A"]
    assert len(model.requests) == 2


async def test_the_count_of_failures_ends_with_its_turn() -> None:
    """L-116."""
    bad = calling(call("", "submit"))
    model = ScriptedModel(bad, "sorry", bad, "sorry")
    agent = Agent(model=model, tools=[flaky("", "")], max_tool_failures=2)
    first = await agent.execute(asked())
    assert isinstance(first, Completed)
    assert first.state.tool_failures == 0
    second = await agent.execute(first.state.add_message(Message.user("again")))
    assert isinstance(second, Completed)


@pytest.mark.parametrize(
    "error",
    [Overloaded("busy"), AuthenticationFailed("no key"), BadRequest("odd"), ContextTooLong("long")],
    ids=lambda error: error.type,
)
async def test_a_fallback_is_asked_whatever_the_first_model_failed_of(error: Any) -> None:
    """L-144: another model may have another key, window or taste; `retryable` is for retries."""
    agent = Agent(model=ScriptedModel(error), fallback_models=[ScriptedModel("hello")])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert outcome.state.messages[-1].text == "hello"
