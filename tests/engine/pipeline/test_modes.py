"""Modes: what a pipeline may be made of, a user's own steps, and where a turn enters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Completed,
    Failed,
    Halt,
    Interrupted,
    Message,
    Misconfigured,
    Paused,
    ScriptedModel,
    TextPart,
    ToolOutput,
    ToolResult,
    Turn,
    expand,
    modes,
    steps,
    tool,
)
from sagents_app.engine.errors import StepFailed
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.engine.outcomes import Outcome
from tests.engine.doubles import Notes, asked, call, calling, shape, told

ORDER = (
    "expand_tool_results",
    "check_pause",
    "check_budget",
    "call_model",
    "check_pause",
    "check_approval",
    "execute_tools",
    "propagate_state",
    "check_tool_interrupts",
    "check_until_tool",
    "continue_or_done",
)
SMALL = (steps.call_model, steps.check_approval, steps.execute_tools, steps.continue_or_done)


async def pass_on(turn: Turn) -> Turn | Outcome:
    return turn


# composition


def test_the_default_mode_has_its_steps_in_the_stated_order() -> None:
    """P-042: the default of an agent that names no mode."""
    one = Agent(model=ScriptedModel())
    assert one.mode is modes.agent_execution
    assert tuple(step.__name__ for step in modes.agent_execution.steps) == ORDER  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Refused:
    id: str
    parts: tuple[Any, ...]
    problem: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("without an end", (steps.call_model, steps.execute_tools), "would never end"),
        Refused("without a call", (steps.execute_tools, steps.continue_or_done), "call_model"),
        Refused("empty", (), "call_model"),
        Refused("no step", (*SMALL, "check_pause"), "made of steps"),
    ],
    ids=lambda case: case.id,
)
def test_a_pipeline_that_cannot_work_is_refused(case: Refused) -> None:
    with pytest.raises(Misconfigured, match=case.problem):
        modes.pipeline(*case.parts)


def test_a_mode_that_is_no_function_is_refused() -> None:
    """P-014: what is given is kept, or refused."""
    with pytest.raises(Misconfigured, match=r"a mode is made with modes\.pipeline, got 'fast'"):
        Agent(model=ScriptedModel(), mode="fast")  # type: ignore[arg-type]


async def unchecked(turn: Turn) -> Outcome:
    return Completed(turn.state)


async def own_approval(turn: Turn) -> Turn | Outcome:
    return await steps.check_approval(turn)


@pytest.mark.parametrize(
    "case",
    [
        Refused(
            "no approval at all",
            (steps.call_model, steps.execute_tools, steps.continue_or_done),
            "no check_approval precedes execute_tools",
        ),
        Refused(
            "approval behind the tools",
            (steps.call_model, steps.execute_tools, steps.check_approval, steps.continue_or_done),
            "no check_approval precedes execute_tools",
        ),
        Refused(
            "tools before and behind it",
            (steps.execute_tools, *SMALL),
            "no check_approval precedes execute_tools",
        ),
        Refused(
            "neither approval nor tools",
            (steps.call_model, steps.continue_or_done),
            "the mode has no check_approval",
        ),
        Refused(
            "an approval that cannot be seen through",
            (steps.call_model, own_approval, steps.execute_tools, steps.continue_or_done),
            "no check_approval precedes execute_tools",
        ),
    ],
    ids=lambda case: case.id,
)
def test_a_mode_that_skips_a_configured_gate_is_refused(case: Refused) -> None:
    """P9: at construction; the same mode is fine where no gate is configured."""
    notes, mode = Notes().tool, modes.pipeline(*case.parts)
    with pytest.raises(Misconfigured, match=case.problem):
        Agent(
            model=ScriptedModel(),
            tools=[notes],
            mode=mode,
            middlewares=[HumanInTheLoop({"note": True})],
        )
    Agent(model=ScriptedModel(), tools=[notes], mode=mode)


def test_a_mode_that_is_no_pipeline_is_refused_where_a_gate_is_configured() -> None:
    """P-043: what cannot be inspected counts as skipping it."""
    with pytest.raises(Misconfigured, match="has to be a pipeline"):
        Agent(
            model=ScriptedModel(),
            tools=[Notes().tool],
            mode=unchecked,
            middlewares=[HumanInTheLoop({"note": True})],
        )


async def test_a_mode_of_ones_own_drives_the_turn_and_sees_its_options() -> None:
    """P-041, P-154: middlewares, pause, budget and demand are all there."""
    seen: list[Any] = []

    async def own(turn: Turn) -> Outcome:
        options = turn.options
        seen.append((options.max_runs, options.until_tool, options.require_tool_success))
        seen.append((turn.setup.middlewares, options.should_pause is not None))
        return Completed(turn.state)

    one = Agent(model=ScriptedModel(), tools=[Notes().tool], mode=own)
    outcome = await one.execute(asked(), until_tool_success="note", should_pause=lambda: True)
    assert isinstance(outcome, Completed)
    assert seen == [(50, ("note",), True), ((), True)]


@pytest.mark.parametrize("answer", [None, AgentState(), "done"])
async def test_a_mode_that_returns_no_outcome_fails_the_turn(answer: Any) -> None:
    async def own(turn: Turn) -> Any:
        return answer

    outcome = await Agent(model=ScriptedModel(), mode=own).execute(asked())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, StepFailed)
    assert "a mode has to return an outcome" in str(outcome.error)


async def test_a_step_that_returns_neither_turn_nor_outcome_fails_it_with_its_name() -> None:
    async def forgetful(turn: Turn) -> Any:
        return None

    mode = modes.pipeline(forgetful, *SMALL)
    outcome = await Agent(model=ScriptedModel("x"), mode=mode).execute(asked())
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == "step forgetful has to return a Turn or an outcome, got None"


async def test_a_step_that_raises_fails_the_turn_and_keeps_what_is_finished() -> None:
    async def broken(turn: Turn) -> Turn:
        raise RuntimeError("no")

    mode = modes.pipeline(steps.call_model, steps.execute_tools, broken, steps.continue_or_done)
    model = ScriptedModel(calling(call(text="a")), "never")
    outcome = await Agent(model=model, tools=[Notes().tool], mode=mode).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "step_failed"
    assert str(outcome.error) == "RuntimeError: no"
    assert told(outcome.state) == {"c1": "noted a"}


async def test_a_step_that_replaces_the_state_by_hand_loses_nothing_in_a_failure() -> None:
    async def mark(turn: Turn) -> Turn:
        return replace(turn, state=turn.state.put_metadata("marked", True))

    async def broken(turn: Turn) -> Turn:
        raise RuntimeError("no")

    mode = modes.pipeline(mark, broken, *SMALL)
    outcome = await Agent(model=ScriptedModel("x"), mode=mode).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.state.metadata == {"marked": True}


async def test_a_users_own_step_runs_among_the_engines_in_every_round() -> None:
    seen: list[list[str]] = []

    async def look(turn: Turn) -> Turn | Outcome:
        seen.append(shape(turn.state))
        return turn

    mode = modes.pipeline(steps.call_model, look, *SMALL[1:])
    model = ScriptedModel(calling(call()), "done")
    outcome = await Agent(model=model, tools=[Notes().tool], mode=mode).execute(asked())
    assert isinstance(outcome, Completed)
    assert seen == [["U", "A(c1)"], ["U", "A(c1)", "T(c1)", "A"]]


async def test_a_users_own_step_may_end_the_turn() -> None:
    """P-050, P-051: a pause of its own, with its cause."""

    async def at_night(turn: Turn) -> Turn | Outcome:
        return Paused(replace(turn.state, pause_reason="night"), "night")

    model = ScriptedModel("never")
    outcome = await Agent(model=model, mode=modes.pipeline(at_night, *SMALL)).execute(asked())
    assert isinstance(outcome, Paused)
    assert (outcome.reason, outcome.state.pause_reason) == ("night", "night")
    assert shape(outcome.state) == ["U"]
    assert model.requests == []


async def test_a_mode_without_tool_interrupts_still_stops_for_a_halt() -> None:
    @tool
    def stop() -> Halt:
        """Stop."""
        return Halt("enough")

    model = ScriptedModel(calling(call(name="stop")), "never")
    outcome = await Agent(model=model, tools=[stop], mode=modes.pipeline(*SMALL)).execute(asked())
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == Halt("enough", tool_call_id="c1", source_tool="stop")
    assert len(model.requests) == 1


async def test_a_budget_behind_the_tools_lets_a_final_reply_at_the_limit_complete() -> None:
    mode = modes.pipeline(*SMALL[:3], steps.check_max_runs(2), steps.continue_or_done)
    model = ScriptedModel(calling(call()), "done", "never")
    outcome = await Agent(model=model, tools=[Notes().tool], mode=mode).execute(asked())
    assert isinstance(outcome, Completed)
    assert len(model.requests) == 2


# collapse_until_tool


@pytest.mark.parametrize(
    ("called", "success", "expected"),
    [
        ("a", None, (("a",), False)),
        (["a", "b"], None, (("a", "b"), False)),
        (None, "b", (("b",), True)),
        (None, None, ((), False)),
        ([], None, ((), False)),
        ("a", "b", (("b",), True)),
    ],
    ids=["called", "called several", "success", "neither", "P-149 empty", "both: success wins"],
)
def test_the_two_options_collapse_into_names_and_success(
    called: Any, success: Any, expected: tuple[tuple[str, ...], bool]
) -> None:
    """P-153."""
    assert modes.collapse_until_tool(called, success) == expected


# entry points


def result(call_id: str, name: str = "note", **fields: Any) -> ToolResult:
    return ToolResult(call_id, name, (TextPart(f"stored {call_id}"),), **fields)


@dataclass(frozen=True)
class Entry:
    id: str
    state: AgentState
    history: tuple[str, ...]
    taken: tuple[str, ...]
    calls: int


ENTRIES = [
    Entry(
        "open calls: the tools run first",
        asked(calling(call("c1", text="a"), call("c2", text="b"))),
        ("U", "A(c1,c2)", "T(c1,c2)", "A"),
        ("a", "b"),
        1,
    ),
    Entry(
        "a partial batch: what is missing runs, what is there stays",
        asked(
            calling(call("c1", text="a"), call("c2", text="b"), call("c3", text="c")),
            Message.tool(result("c2")),
        ),
        ("U", "A(c1,c2,c3)", "T(c1,c2,c3)", "A"),
        ("a", "c"),
        1,
    ),
    Entry(
        "E-071: results last: nothing runs again, the model goes on",
        asked(calling(call("c1", text="a")), Message.tool(result("c1"))),
        ("U", "A(c1)", "T(c1)", "A"),
        (),
        1,
    ),
    Entry(
        "a user message behind open calls: they are never run",
        asked(calling(call("c1", text="a")), Message.user("never mind")),
        ("U", "A(c1)", "U", "A"),
        (),
        1,
    ),
    Entry(
        "P-039: an answer last: the model is called all the same",
        asked(Message.assistant("already said")),
        ("U", "A", "A"),
        (),
        1,
    ),
    Entry(
        "a reply that was cut short: its calls are never run",
        asked(
            Message.assistant(tool_calls=[call("c1", text="a")], status="length"),
            Message.tool(result("c1", is_error=True)),
        ),
        ("U", "A(c1)", "T(c1)", "A"),
        (),
        1,
    ),
]


@pytest.mark.parametrize("case", ENTRIES, ids=lambda case: case.id)
async def test_a_turn_enters_where_its_history_stopped(case: Entry) -> None:
    notes = Notes()
    model = ScriptedModel("done")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(case.state)
    assert isinstance(outcome, Completed)
    assert shape(outcome.state) == list(case.history)
    assert tuple(notes.taken) == case.taken
    assert len(model.requests) == case.calls


async def test_open_calls_still_pass_the_gate() -> None:
    """They enter behind the model call and before approval."""
    notes, model = Notes(), ScriptedModel("done")
    one = Agent(model=model, tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    outcome = await one.execute(asked(calling(call(text="a"))))
    assert isinstance(outcome, Interrupted)
    assert (notes.taken, model.requests) == ([], [])
    outcome = await one.resume(outcome.state, {"c1": Approve()})
    assert isinstance(outcome, Completed)
    assert notes.taken == ["a"]


async def test_a_demanded_result_that_ends_the_history_ends_the_turn_without_a_call() -> None:
    """E-071, P-099."""
    model = ScriptedModel("never")
    one = Agent(model=model, tools=[Notes().tool])
    state = asked(calling(call("c1")), Message.tool(result("c1")))
    outcome = await one.execute(state, until_tool="note")
    assert isinstance(outcome, Completed)
    assert outcome.tool_result == result("c1")
    assert model.requests == []


async def test_a_stored_halt_that_ends_the_history_stops_the_turn_without_a_call() -> None:
    model = ScriptedModel("never")
    halt = Halt("enough", tool_call_id="c1")
    state = asked(
        calling(call("c1")), Message.tool(result("c1", is_interrupt=True, interrupt=halt))
    )
    outcome = await Agent(model=model, tools=[Notes().tool]).execute(state)
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == halt
    assert model.requests == []


async def test_an_unapplied_expansion_goes_before_a_user_message_that_came_meanwhile() -> None:
    """E-044, E-049: exactly once, and the message stays last."""

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", [Message.assistant("material"), Message.user("anchor")])

    loaded = await Agent(model=ScriptedModel(calling(call(name="load"))), tools=[load]).execute(
        asked(), until_tool="load"
    )
    assert shape(loaded.state) == ["U", "A(c1)", "T(c1)"]
    model = ScriptedModel("first", "second")
    one = Agent(model=model, tools=[load])
    outcome = await one.execute(loaded.state.add_message(Message.user("more")))
    assert [one.text for one in model.requests[0].messages[3:]] == ["material", "anchor", "more"]
    again = await one.execute(outcome.state.add_message(Message.user("again")))
    sent = [one.text for one in model.requests[1].messages]
    assert sent.count("material") == 1
    assert isinstance(again, Completed)


async def test_a_change_that_a_cancelled_turn_left_is_there_when_the_next_begins() -> None:
    model = ScriptedModel("done")
    left = result("c1", state_update={"metadata": {"seen": 1}})
    state = asked(calling(call("c1")), Message.tool(left), Message.user("go on"))
    outcome = await Agent(model=model, tools=[Notes().tool]).execute(state)
    assert isinstance(outcome, Completed)
    assert outcome.state.metadata == {"seen": 1}


async def test_an_empty_history_is_refused_before_anything_happens() -> None:
    """P-038."""
    with pytest.raises(Misconfigured, match="at least one message"):
        await Agent(model=ScriptedModel()).execute(AgentState())


def test_every_step_is_documented_and_public() -> None:
    exported: list[Callable[..., Any]] = [getattr(steps, name) for name in steps.__all__]
    assert len(exported) == 10
    assert all(step.__doc__ for step in exported)
