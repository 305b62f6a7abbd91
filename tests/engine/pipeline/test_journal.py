"""The journal: begin and finish in order, stored results used, and what a failing host does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Answer,
    Approve,
    Completed,
    Edit,
    Failed,
    Halt,
    Interrupted,
    Message,
    Question,
    Reject,
    Respond,
    ScriptedModel,
    TextPart,
    ToolResult,
    UnknownOutcome,
    tool,
)
from sagents_app.engine.errors import ObserverFailed
from sagents_app.engine.interrupts import ActionRequest
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Events, Journal, Notes, asked, call, calling, results, shape, told

FAILED_BEFORE = "The turn failed before this call was run."


def stored(call_id: str = "c1", text: str = "from the journal", **fields: Any) -> ToolResult:
    return ToolResult(call_id, "note", (TextPart(text),), **fields)


async def test_a_call_is_begun_before_it_runs_and_finished_before_anything_else() -> None:
    """P3: journal and tool and host see one order."""
    order: list[str] = []

    class Telling(Journal):
        async def begin(self, call: Any) -> ToolResult | None:
            order.append(f"begin {call.call_id}")
            return None

        async def finish(self, call: Any, result: ToolResult) -> None:
            order.append(f"finish {call.call_id}")

    @tool
    async def note(text: str) -> str:
        """Note."""
        order.append(f"run {text}")
        return text

    def on_event(event: Any) -> None:
        name = type(event).__name__
        if name in ("ToolStarted", "ToolFinished", "MessageAdded"):
            order.append(name)

    model = ScriptedModel(calling(call("c1", text="a"), call("c2", text="b")), "done")
    agent = Agent(model=model, tools=[note])
    await agent.execute(asked(), journal=Telling(), on_event=on_event)
    assert order == [
        "MessageAdded",
        *("begin c1", "ToolStarted", "run a", "finish c1", "ToolFinished"),
        *("begin c2", "ToolStarted", "run b", "finish c2", "ToolFinished"),
        "MessageAdded",
        "MessageAdded",
    ]


async def test_each_result_is_recorded_at_once_and_never_waits_for_its_siblings() -> None:
    """P3: the second tool sees the first one's result in the journal already."""
    journal = Journal()
    seen: list[dict[str, ToolResult]] = []

    @tool
    async def look() -> str:
        """Look."""
        seen.append(dict(journal.results))
        return "looked"

    model = ScriptedModel(calling(call("c1", "look"), call("c2", "look")), "done")
    await Agent(model=model, tools=[look]).execute(asked(), journal=journal)
    assert [sorted(one) for one in seen] == [[], ["c1"]]


async def test_a_stored_result_is_used_and_nothing_runs() -> None:
    """B005, B015: recovery reads the journal."""
    notes, journal, events = Notes(), Journal(stored()), Events()
    model = ScriptedModel("done")
    state = asked(calling(call("c1", text="a"), call("c2", text="b")))
    outcome = await Agent(model=model, tools=[notes.tool]).execute(
        state, journal=journal, on_event=events
    )
    assert isinstance(outcome, Completed)
    assert notes.taken == ["b"]
    assert told(outcome.state) == {"c1": "from the journal", "c2": "noted b"}
    assert journal.log == [("begin", "c1"), ("begin", "c2"), ("finish", "c2")]
    assert events.names.count("ToolStarted") == 1


async def test_a_stored_state_change_and_a_stored_error_count_like_fresh_ones() -> None:
    journal = Journal(
        stored("c1", state_update={"metadata": {"seen": 1}}), stored("c2", is_error=True)
    )
    state = asked(calling(call("c1"), call("c2")))
    agent = Agent(model=ScriptedModel("done"), tools=[Notes().tool])
    outcome = await agent.execute(state, journal=journal)
    assert outcome.state.metadata == {"seen": 1}
    assert results(outcome.state)["c2"].is_error


async def test_a_stored_result_of_the_demanded_tool_ends_the_turn() -> None:
    agent = Agent(model=ScriptedModel(), tools=[Notes().tool])
    outcome = await agent.execute(
        asked(calling(call("c1"))), until_tool="note", journal=Journal(stored())
    )
    assert isinstance(outcome, Completed)
    assert outcome.tool_result == stored()


async def test_a_stored_placeholder_waits_again_and_nothing_runs() -> None:
    """P8: a halt or a question that was recorded and then lost from the state."""
    halt = Halt("enough", tool_call_id="c1")
    notes = Notes()
    journal = Journal(stored(is_interrupt=True, interrupt=halt))
    agent = Agent(model=ScriptedModel(), tools=[notes.tool])
    outcome = await agent.execute(asked(calling(call("c1"))), journal=journal)
    assert isinstance(outcome, Interrupted)
    assert (outcome.interrupt, notes.taken) == (halt, [])


async def test_the_journal_learns_the_arguments_that_really_run() -> None:
    journal, notes = Journal(), Notes()
    model = ScriptedModel(calling(call("c1", text="a")), "done")
    agent = Agent(model=model, tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    waiting = await agent.execute(asked(), journal=journal)
    assert journal.log == []
    await agent.resume(waiting.state, {"c1": Edit({"text": "b"})}, journal=journal)
    assert journal.calls["c1"].arguments == {"text": "b"}
    assert (notes.taken, journal.results["c1"].decision) == (["b"], "edit")


@dataclass(frozen=True)
class Unrun:
    id: str
    reply: Any
    decision: str | None
    is_error: bool


@pytest.mark.parametrize(
    "case",
    [
        Unrun("rejected", Reject("no"), "reject", True),
        Unrun("answered in its place", Respond("here"), "respond", False),
    ],
    ids=lambda case: case.id,
)
async def test_a_call_that_a_person_answers_is_recorded_without_a_begin(case: Unrun) -> None:
    journal = Journal()
    model = ScriptedModel(calling(call("c1")), "done")
    rule = {"allowed_decisions": ["reject", "respond"]}
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[HumanInTheLoop({"note": rule})])
    waiting = await agent.execute(asked())
    await agent.resume(waiting.state, {"c1": case.reply}, journal=journal)
    assert journal.log == [("finish", "c1")]
    assert journal.results["c1"].decision == case.decision
    assert journal.results["c1"].is_error is case.is_error


async def test_an_unknown_tool_is_recorded_as_answered() -> None:
    journal = Journal()
    model = ScriptedModel(calling(call("c1", "notes")), "done")
    await Agent(model=model, tools=[Notes().tool]).execute(asked(), journal=journal)
    assert journal.log == [("finish", "c1")]
    assert "Did you mean 'note'?" in journal.results["c1"].text


# a host that fails


@dataclass(frozen=True)
class Failing:
    id: str
    fails_on: str
    taken: list[str]
    told: dict[str, str]
    problem: str


@pytest.mark.parametrize(
    "case",
    [
        Failing(
            "begin",
            "begin c2",
            ["a"],
            {"c1": "noted a", "c2": FAILED_BEFORE, "c3": FAILED_BEFORE},
            "the journal could not record the start of call 'c2': no database",
        ),
        Failing(
            "finish",
            "finish c2",
            ["a", "b"],
            {"c1": "noted a", "c2": "noted b", "c3": FAILED_BEFORE},
            "the journal could not record the result of call 'c2': no database",
        ),
    ],
    ids=lambda case: case.id,
)
async def test_a_journal_that_raises_fails_the_turn_and_keeps_what_is_known(case: Failing) -> None:
    """P10: named, and the finished effect is never told as not run."""
    notes, journal = Notes(), Journal(fails_on=case.fails_on)
    batch = [call("c1", text="a"), call("c2", text="b"), call("c3", text="c")]
    model = ScriptedModel(calling(*batch), "never")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked(), journal=journal)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ObserverFailed)
    assert outcome.error.type == "observer_failed"
    assert str(outcome.error) == case.problem
    assert notes.taken == case.taken
    assert told(outcome.state) == case.told
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("event", "taken", "expected"),
    [("ToolStarted", [], FAILED_BEFORE), ("ToolFinished", ["a"], "noted a")],
)
async def test_an_observer_that_raises_at_a_tool_fails_the_turn(
    event: str, taken: list[str], expected: str
) -> None:
    def on_event(seen: Any) -> None:
        if type(seen).__name__ == event:
            raise ConnectionError("no database")

    notes = Notes()
    model = ScriptedModel(calling(call("c1", text="a")), "never")
    outcome = await Agent(model=model, tools=[notes.tool]).execute(asked(), on_event=on_event)
    assert isinstance(outcome, Failed)
    assert str(outcome.error) == f"on_event failed on {event}: no database"
    assert (notes.taken, told(outcome.state)) == (taken, {"c1": expected})


@pytest.mark.parametrize("event", ["MessageAdded", "Deltas", "UsageReported"])
async def test_an_observer_that_raises_while_a_reply_comes_asks_no_fallback(event: str) -> None:
    """What the host raises is no failure of the model: nothing is asked again."""
    from sagents_app.engine import TokenUsage
    from sagents_app.engine.deltas import FinishDelta, TextDelta, UsageDelta

    async def on_event(seen: Any) -> None:
        if type(seen).__name__ == event:
            raise ConnectionError("no database")

    usage = TokenUsage(input_tokens=1)
    model = ScriptedModel([TextDelta("hello"), UsageDelta(usage), FinishDelta()])
    spare = ScriptedModel("never")
    agent = Agent(model=model, fallback_models=[spare])
    outcome = await agent.execute(asked(), on_event=on_event)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ObserverFailed)
    assert spare.requests == []


async def test_parallel_siblings_of_a_failing_journal_are_told_the_truth() -> None:
    from tests.engine.doubles import Gate

    gate, notes = Gate(), Notes(parallel=True)

    @tool(parallel=True)
    async def hang() -> str:
        """Hang."""
        await gate.wait()
        return "too late"

    model = ScriptedModel(calling(call("c1", "hang"), call("c2", text="a")))
    journal = Journal(fails_on="finish c2")
    agent = Agent(model=model, tools=[notes.tool, hang])
    outcome = await agent.execute(asked(), journal=journal)
    assert isinstance(outcome, Failed)
    assert told(outcome.state) == {
        "c1": "The turn ended while this call ran; whether it took effect is not known.",
        "c2": "noted a",
    }


# calls that go on, or are run again


def unknown(call_id: str = "c1") -> UnknownOutcome:
    return UnknownOutcome(
        ActionRequest(call_id, "note", '{"text":"a"}'), known="?", tool_call_id=call_id
    )


@dataclass(frozen=True)
class Settled:
    id: str
    reply: Any
    taken: list[str]
    text: str
    decision: str
    is_error: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Settled("run again", Approve(), ["a"], "noted a", "approve"),
        Settled("done", Respond("it was sent"), [], "it was sent", "respond"),
        Settled(
            "not done",
            Reject("the bank knows nothing"),
            [],
            "A person looked into it: this call was not carried out."
            " Their note: the bank knows nothing",
            "reject",
            True,
        ),
    ],
    ids=lambda case: case.id,
)
async def test_an_unknown_outcome_is_settled_by_a_person(case: Settled) -> None:
    """P3: run again although the journal has the placeholder, or answered and never run."""
    notes = Notes()
    waiting = stored("c1", "Waiting", is_interrupt=True, interrupt=unknown())
    journal = Journal(waiting)
    state = asked(calling(call("c1", text="a")), Message.tool(waiting), interrupt=unknown())
    model = ScriptedModel("done")
    agent = Agent(model=model, tools=[notes.tool])
    outcome = await agent.resume(state, {"c1": case.reply}, journal=journal)
    assert isinstance(outcome, Completed)
    assert notes.taken == case.taken
    result = results(outcome.state)["c1"]
    assert (result.text, result.decision, result.is_error) == (
        case.text,
        case.decision,
        case.is_error,
    )
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "A"]


async def test_a_sub_agent_goes_on_although_the_journal_has_its_placeholder() -> None:
    """B007: the journal returns all it knows; finished siblings are not run again."""

    class Remembering(Journal):
        async def finish(self, call: Any, result: ToolResult) -> None:
            await super().finish(call, result)
            self.stored[call.call_id] = result

    inner, outer = Notes("send"), Notes()
    kind = SubAgent(
        name="mailer",
        description="Sends.",
        system_prompt="Send.",
        model=ScriptedModel(calling(call("i1", "send", text="x")), "sent"),
        tools=(inner.tool,),
        middlewares=(HumanInTheLoop({"send": True}),),
    )
    task = call("t1", "task", instructions="go", task_name="mailer")
    model = ScriptedModel(calling(task, call("c2", text="a")), "done")
    agent = Agent(model=model, tools=[outer.tool], middlewares=[SubAgents([kind])])
    journal = Remembering()
    waiting = await agent.execute(asked(), journal=journal)
    assert isinstance(waiting, Interrupted)
    outcome = await agent.resume(waiting.state, {"t1-i1": Approve()}, journal=journal)
    assert isinstance(outcome, Completed)
    assert (inner.taken, outer.taken) == (["x"], ["a"])
    assert told(outcome.state) == {"t1": "sent", "c2": "noted a"}
    assert [entry for entry in journal.log if entry[1] == "c2"] == [
        ("begin", "c2"),
        ("finish", "c2"),
    ]


async def test_an_answered_question_is_not_asked_again_although_the_journal_has_it() -> None:
    asks = AskUserQuestion()
    question = Question("sure?", tool_call_id="c1")
    waiting = replace(stored(is_interrupt=True, interrupt=question), name="ask_user")
    asking = call("c1", "ask_user", question="sure?", response_type="freeform")
    state = asked(calling(asking), Message.tool(waiting), interrupt=question)
    journal = Journal(waiting)
    agent = Agent(model=ScriptedModel("done"), middlewares=[asks])
    outcome = await agent.resume(state, {"c1": Answer(other_text="yes")}, journal=journal)
    assert isinstance(outcome, Completed)
    assert told(outcome.state) == {"c1": 'User responded: "yes"'}
    assert journal.log == []
