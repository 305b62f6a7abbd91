"""`until_tool` and `until_tool_success`: validated, honoured across interrupts, met by a result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Approve,
    Completed,
    Edit,
    Failed,
    Halt,
    Interrupted,
    Middleware,
    Misconfigured,
    Paused,
    Reject,
    Respond,
    ScriptedModel,
    Tool,
    ToolError,
    serialize,
    tool,
)
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Notes, asked, call, calling, shape, told

SUBMIT = call("c1", "submit", text="report")


def agent(*replies: Any, gates: dict[str, Any] | None = None, **options: Any) -> Agent:
    options.setdefault("tools", [Notes("search").tool, Notes("submit").tool])
    stack = [HumanInTheLoop(gates)] if gates else []
    return Agent(model=ScriptedModel(*replies), middlewares=stack, **options)


def calls_made(one: Agent) -> int:
    model = one.setup.models[0]
    assert isinstance(model, ScriptedModel)
    return len(model.requests)


# validation


@dataclass(frozen=True)
class Wrong:
    id: str
    options: dict[str, Any]
    problem: str


WRONG = [
    Wrong(
        "P-091: an unknown tool",
        {"until_tool": "sumbit"},
        "until_tool: tool 'sumbit' not found; known are search, submit",
    ),
    Wrong(
        "P-091: of a list only the missing ones",
        {"until_tool": ["search", "x", "submit", "y"]},
        "until_tool: tool 'x', 'y' not found",
    ),
    Wrong(
        "P-092: the other option is named too",
        {"until_tool_success": "x"},
        "until_tool_success: tool 'x' not found",
    ),
    Wrong(
        "P-093, P-257: both, even with the same name",
        {"until_tool": "submit", "until_tool_success": "submit"},
        "until_tool and until_tool_success are mutually exclusive",
    ),
    Wrong("P-094: a number", {"until_tool": 5}, "a tool's name or a list of them, got 5"),
    Wrong("P-094: a list with a number", {"until_tool": ["submit", 5]}, "a tool's name or a list"),
    Wrong("P-094: a dict", {"until_tool_success": {"submit": 1}}, "a tool's name or a list"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.id)
async def test_a_wrong_demand_is_refused_before_anything_happens(case: Wrong) -> None:
    one = agent("never")
    with pytest.raises(Misconfigured, match=case.problem):
        await one.execute(asked(), **case.options)
    waiting = asked(calling(SUBMIT), interrupt=Halt("x"))
    with pytest.raises(Misconfigured, match=case.problem):
        await one.resume(waiting, {}, **case.options)
    assert calls_made(one) == 0


@pytest.mark.parametrize("name", ["submit", ["submit"], ("submit",), {"submit"}], ids=repr)
async def test_a_demand_may_be_a_name_or_several(name: Any) -> None:
    """P-090, P-141."""
    outcome = await agent(calling(SUBMIT), "never").execute(asked(), until_tool=name)
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None


async def test_a_tool_of_a_middleware_may_be_demanded() -> None:
    """P-094."""
    submit = Notes("submit").tool

    class Bringing(Middleware):
        def tools(self) -> tuple[Tool, ...]:
            return (submit,)

    one = Agent(model=ScriptedModel(calling(SUBMIT)), middlewares=[Bringing()])
    assert isinstance(await one.execute(asked(), until_tool="submit"), Completed)


# in the loop


async def test_the_demanded_call_ends_the_turn_with_its_result() -> None:
    """P-073, P-095: one call; the last message is the tool message."""
    one = agent(calling(SUBMIT), "never")
    outcome = await one.execute(asked(), until_tool="submit")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert (outcome.tool_result.name, outcome.tool_result.text) == ("submit", "noted report")
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)"]
    assert calls_made(one) == 1


async def test_a_text_in_its_place_fails_the_turn() -> None:
    """P-096, P-142."""
    outcome = await agent("I would rather not.").execute(asked(), until_tool="submit")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "until_tool_not_called"
    assert "submit" in str(outcome.error)
    assert shape(outcome.state) == ["U", "A"]


async def test_other_tools_may_come_first() -> None:
    """P-097, P-143."""
    one = agent(calling(call("c0", "search")), calling(SUBMIT), "never")
    outcome = await one.execute(asked(), until_tool=["submit"])
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert outcome.tool_result.tool_call_id == "c1"
    assert shape(outcome.state) == ["U", "A(c0)", "T(c0)", "A(c1)", "T(c1)"]


async def test_any_of_several_demands_ends_the_turn() -> None:
    """P-141."""
    outcome = await agent(calling(call("c0", "search")), "never").execute(
        asked(), until_tool=["submit", "search"]
    )
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert outcome.tool_result.name == "search"


async def test_a_demand_that_is_never_met_ends_at_the_budget() -> None:
    """P-145."""
    one = agent(*(calling(call(f"c{n}", "search")) for n in range(3)), "never")
    outcome = await one.execute(asked(), until_tool="submit", max_runs=3)
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_runs"
    assert "(3/3)" in str(outcome.error)
    assert calls_made(one) == 3


async def test_a_demand_that_is_met_by_the_last_call_counts() -> None:
    """E-070."""
    one = agent(calling(call("c0", "search")), calling(SUBMIT))
    outcome = await one.execute(asked(), until_tool="submit", max_runs=2)
    assert isinstance(outcome, Completed)


def picky() -> Any:
    @tool
    def submit(text: str) -> str:
        """Submit."""
        if text != "good":
            raise ToolError("not good enough")
        return "taken"

    return submit


async def test_a_demand_of_success_goes_on_after_an_error() -> None:
    """P-146: two calls, and the result is the success."""
    replies = [
        calling(call("c1", "submit", text="bad")),
        calling(call("c2", "submit", text="good")),
    ]
    one = agent(*replies, "never", tools=[picky()])
    outcome = await one.execute(asked(), until_tool_success="submit")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert (outcome.tool_result.is_error, outcome.tool_result.text) == (False, "taken")
    assert calls_made(one) == 2


async def test_a_mere_demand_ends_with_the_error() -> None:
    one = agent(calling(call("c1", "submit", text="bad")), "never", tools=[picky()])
    outcome = await one.execute(asked(), until_tool="submit")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert outcome.tool_result.is_error


async def test_an_interrupt_in_the_same_batch_wins() -> None:
    """P-150: the demand is met once nothing waits any more."""

    @tool
    def stop() -> Halt:
        """Stop."""
        return Halt("enough")

    one = agent(calling(SUBMIT, call("c2", "stop")), tools=[Notes("submit").tool, stop])
    outcome = await one.execute(asked(), until_tool="submit")
    assert isinstance(outcome, Interrupted)
    assert told(outcome.state)["c1"] == "noted report"


# across interrupts and pauses


async def test_a_demand_is_passed_again_on_resume_and_met_by_a_later_call() -> None:
    """P-098."""
    replies = [calling(call("c0", "search")), calling(SUBMIT), "never"]
    one = agent(*replies, gates={"search": True})
    waiting = await one.execute(asked(), until_tool="submit")
    assert isinstance(waiting, Interrupted)
    outcome = await one.resume(waiting.state, {"c0": Approve()}, until_tool="submit")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert outcome.tool_result.tool_call_id == "c1"
    assert calls_made(one) == 2


async def test_a_demand_that_is_not_passed_again_is_no_demand() -> None:
    replies = [calling(call("c0", "search")), "done"]
    one = agent(*replies, gates={"search": True})
    waiting = await one.execute(asked(), until_tool="submit")
    outcome = await one.resume(waiting.state, {"c0": Approve()})
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is None


@pytest.mark.parametrize("option", ["until_tool", "until_tool_success"])
@pytest.mark.parametrize("reply", [Approve(), Edit({"text": "better"})], ids=["approve", "edit"])
async def test_the_approved_call_itself_meets_the_demand_without_another_call(
    reply: Any, option: str
) -> None:
    """P-099, E-071: also through storage, where another process resumes."""
    one = agent(calling(SUBMIT), "never", gates={"submit": True})
    waiting = await one.execute(asked(), **{option: "submit"})
    assert isinstance(waiting, Interrupted)
    stored = serialize.load_state(serialize.dump_state(waiting.state))
    outcome = await one.resume(stored, {"c1": reply}, **{option: "submit"})
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert outcome.tool_result.tool_call_id == "c1"
    assert calls_made(one) == 1


@pytest.mark.parametrize("reply", [Reject("no"), Respond("I did it")], ids=["reject", "respond"])
async def test_a_call_that_a_person_answered_does_not_meet_the_demand(reply: Any) -> None:
    gates = {"submit": {"allowed_decisions": ["reject", "respond"]}}
    one = agent(calling(SUBMIT), "done", gates=gates)
    waiting = await one.execute(asked(), until_tool="submit")
    outcome = await one.resume(waiting.state, {"c1": reply}, until_tool="submit")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "until_tool_not_called"
    assert calls_made(one) == 2


async def test_a_demand_is_met_behind_a_pause() -> None:
    one = agent(calling(SUBMIT), "never")
    questions = iter([False, "draining"])
    paused = await one.execute(asked(), until_tool="submit", should_pause=lambda: next(questions))
    assert isinstance(paused, Paused)
    outcome = await one.execute(paused.state, until_tool="submit")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is not None
    assert calls_made(one) == 1
