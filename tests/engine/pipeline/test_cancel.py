"""Cancel: what stands, what is answered with which cause, and that the history stays usable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Cancelled,
    Completed,
    FunctionModel,
    Halt,
    Message,
    ScriptedModel,
    TextPart,
    Todo,
    ToolOutput,
    modes,
    steps,
    tool,
)
from sagents_app.engine.deltas import FinishDelta, TextDelta, ThinkingDelta, ToolCallDelta
from sagents_app.engine.events import Deltas, Event, ToolFinished
from tests.engine.doubles import (
    Events,
    Gate,
    Journal,
    Notes,
    Switch,
    asked,
    call,
    calling,
    shape,
    told,
)

BEFORE = "The turn was cancelled before this call was run."
DURING = "The turn was cancelled while this call ran; whether it took effect is not known."


async def sent_next(agent: Agent, state: Any) -> list[str]:
    """What the model is sent when the user goes on: it has to be complete (P2)."""
    model = agent.setup.models[0]
    assert isinstance(model, ScriptedModel)
    outcome = await agent.execute(state.add_message(Message.user("go on")))
    assert isinstance(outcome, Completed)
    return shape(model.requests[-1].messages)


async def test_a_turn_that_is_cancelled_at_once_calls_nothing() -> None:
    model = ScriptedModel("never")
    outcome = await Agent(model=model).execute(asked(), should_cancel=lambda: True)
    assert isinstance(outcome, Cancelled)
    assert shape(outcome.state) == ["U"]
    assert model.requests == []


async def test_a_cancel_between_two_steps_answers_the_open_calls() -> None:
    """B055."""
    switch = Switch()

    async def cancel_here(turn: Any) -> Any:
        switch.on = True
        return turn

    mode = modes.pipeline(
        steps.call_model, cancel_here, steps.execute_tools, steps.continue_or_done
    )
    notes = Notes()
    model = ScriptedModel(calling(call("c1"), call("c2")), "fine")
    agent = Agent(model=model, tools=[notes.tool], mode=mode)
    outcome = await agent.execute(asked(runs_used=3), should_cancel=switch)
    assert isinstance(outcome, Cancelled)
    assert shape(outcome.state) == ["U", "A(c1,c2)", "T(c1,c2)"]
    assert told(outcome.state) == {"c1": BEFORE, "c2": BEFORE}
    assert (notes.taken, outcome.state.runs_used) == ([], 0)
    assert await sent_next(agent, outcome.state) == ["U", "A(c1,c2)", "T(c1,c2)", "U"]


def after_deltas(number: int, switch: Switch) -> Callable[[Event], None]:
    """A host whose user cancels as soon as `number` batches of deltas were shown."""
    seen: list[Event] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Deltas):
            seen.append(event)
            switch.on = switch.on or len(seen) >= number

    return on_event


async def test_a_cancel_between_deltas_keeps_the_partial_text() -> None:
    """P-071: its own status and its own outcome, no error."""
    switch = Switch()
    model = ScriptedModel([ThinkingDelta(text="hm"), TextDelta("Hel", 1), TextDelta("lo", 1)])
    outcome = await Agent(model=model).execute(
        asked(), should_cancel=switch, on_event=after_deltas(2, switch)
    )
    assert isinstance(outcome, Cancelled)
    partial = outcome.state.messages[-1]
    assert (partial.role, partial.text, partial.status) == ("assistant", "Hel", "cancelled")


async def test_a_cancel_while_arguments_stream_answers_the_half_call() -> None:
    """B055 (a): the call that was never complete is answered and never run."""
    switch = Switch()
    notes = Notes()
    half = [
        ToolCallDelta(index=0, call_id="c1", name="note", arguments='{"te'),
        ToolCallDelta(index=0, arguments='xt": "a"}'),
    ]
    model = ScriptedModel(half, "fine")
    agent = Agent(model=model, tools=[notes.tool])
    outcome = await agent.execute(asked(), should_cancel=switch, on_event=after_deltas(1, switch))
    assert isinstance(outcome, Cancelled)
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)"]
    assert outcome.state.messages[1].status == "cancelled"
    assert told(outcome.state) == {"c1": BEFORE}
    assert notes.taken == []
    done = await agent.execute(outcome.state.add_message(Message.user("go on")))
    assert isinstance(done, Completed)
    assert shape(model.requests[-1].messages) == ["U", "A(c1)", "T(c1)", "U"]


async def test_a_cancel_before_the_first_delta_leaves_no_message() -> None:
    """P-076: nothing that could be shown."""
    switch = Switch()
    started = asyncio.Event()

    async def stream(_request: Any) -> AsyncGenerator[Sequence[Any]]:
        started.set()
        await asyncio.Event().wait()
        yield (FinishDelta(),)

    agent = Agent(model=FunctionModel(stream))
    task = asyncio.create_task(agent.execute(asked(), should_cancel=switch))
    await started.wait()
    switch.on = True
    outcome = await task
    assert isinstance(outcome, Cancelled)
    assert shape(outcome.state) == ["U"]


async def test_a_step_of_ones_own_that_waits_is_given_up_with_the_turn() -> None:
    switch, gate = Switch(), Gate()

    async def wait(turn: Any) -> Any:
        return await turn.uninterrupted(gate.wait())

    model = ScriptedModel("never")
    agent = Agent(model=model, mode=modes.pipeline(wait, steps.call_model, steps.continue_or_done))
    task = asyncio.create_task(agent.execute(asked(), should_cancel=switch))
    await gate.reached.wait()
    switch.on = True
    outcome = await task
    assert isinstance(outcome, Cancelled)
    assert shape(outcome.state) == ["U"]
    assert model.requests == []


async def test_a_call_that_was_cut_off_is_told_as_finished_with_what_is_known() -> None:
    switch, gate, events = Switch(), Gate(), Events()

    @tool
    async def hang() -> str:
        """Hang."""
        await gate.wait()
        return "too late"

    agent = Agent(model=ScriptedModel(calling(call("c1", "hang"))), tools=[hang])
    task = asyncio.create_task(agent.execute(asked(), should_cancel=switch, on_event=events))
    await gate.reached.wait()
    switch.on = True
    assert isinstance(await task, Cancelled)
    (finished,) = [event for event in events.seen if isinstance(event, ToolFinished)]
    assert (finished.call.call_id, finished.result.text) == ("c1", DURING)


@dataclass(frozen=True)
class Batch:
    id: str
    parallel: bool
    expected: dict[str, str]


@pytest.mark.parametrize(
    "case",
    [
        Batch("one after the other", False, {"c1": "noted a", "c2": DURING, "c3": BEFORE}),
        Batch("side by side", True, {"c1": "noted a", "c2": DURING, "c3": "noted c"}),
    ],
    ids=lambda case: case.id,
)
async def test_a_cancel_during_one_of_three_tools_keeps_what_is_finished(case: Batch) -> None:
    """B055 (c): the rest is answered with the true cause; the cut-off call has no end recorded."""
    switch, gate, journal = Switch(), Gate(), Journal()
    notes = Notes(parallel=case.parallel)

    @tool(parallel=case.parallel)
    async def hang() -> str:
        """Hang."""
        await gate.wait()
        return "too late"

    batch = [call("c1", text="a"), call("c2", "hang"), call("c3", text="c")]
    model = ScriptedModel(calling(*batch), "fine")
    agent = Agent(model=model, tools=[notes.tool, hang])
    task = asyncio.create_task(
        agent.execute(asked(), should_cancel=switch, journal=journal, conversation_id="v")
    )
    await gate.reached.wait()
    switch.on = True
    outcome = await task
    assert isinstance(outcome, Cancelled)
    assert told(outcome.state) == case.expected
    assert shape(outcome.state) == ["U", "A(c1,c2,c3)", "T(c1,c2,c3)"]
    assert ("begin", "c2") in journal.log
    assert ("finish", "c2") not in journal.log
    assert ("finish", "c1") in journal.log
    assert await sent_next(agent, outcome.state) == ["U", "A(c1,c2,c3)", "T(c1,c2,c3)", "U"]


async def test_a_cancel_before_the_first_tool_returns_answers_every_call() -> None:
    """B055 (b)."""
    switch, gate = Switch(), Gate()

    @tool
    async def hang() -> str:
        """Hang."""
        await gate.wait()
        return "too late"

    model = ScriptedModel(calling(call("c1", "hang"), call("c2", "hang")))
    agent = Agent(model=model, tools=[hang])
    task = asyncio.create_task(agent.execute(asked(), should_cancel=switch))
    await gate.reached.wait()
    switch.on = True
    outcome = await task
    assert isinstance(outcome, Cancelled)
    assert told(outcome.state) == {"c1": DURING, "c2": BEFORE}


async def test_a_tool_that_finishes_as_the_cancel_comes_keeps_its_result() -> None:
    switch = Switch()

    @tool
    async def quick() -> str:
        """Finish, and be cancelled in the same moment."""
        switch.on = True
        return "done"

    model = ScriptedModel(calling(call("c1", "quick")), "never")
    outcome = await Agent(model=model, tools=[quick]).execute(asked(), should_cancel=switch)
    assert isinstance(outcome, Cancelled)
    assert told(outcome.state) == {"c1": "done"}
    assert len(model.requests) == 1


async def test_the_state_change_of_a_finished_tool_survives_the_cancel() -> None:
    switch, gate = Switch(), Gate()

    @tool
    def plan() -> ToolOutput:
        """Plan."""
        return ToolOutput("planned", state={"todos": (Todo(1, "one"),)})

    @tool
    async def hang() -> str:
        """Hang."""
        await gate.wait()
        return "too late"

    model = ScriptedModel(calling(call("c1", "plan"), call("c2", "hang")))
    agent = Agent(model=model, tools=[plan, hang])
    task = asyncio.create_task(agent.execute(asked(), should_cancel=switch))
    await gate.reached.wait()
    switch.on = True
    outcome = await task
    assert isinstance(outcome, Cancelled)
    assert outcome.state.todos == (Todo(1, "one"),)
    assert [one.state_update for one in outcome.state.messages[-1].tool_results] == [None, None]


async def test_a_cancelled_state_can_be_driven_again() -> None:
    model = ScriptedModel("fine")
    agent = Agent(model=model)
    outcome = await agent.execute(asked(), should_cancel=lambda: True)
    done = await agent.execute(outcome.state)
    assert isinstance(done, Completed)
    assert len(model.requests) == 1


async def test_a_cancel_beats_a_halt_that_was_returned_beside_it() -> None:
    switch = Switch()

    @tool
    def stop() -> Halt:
        """Stop."""
        switch.on = True
        return Halt("enough")

    model = ScriptedModel(calling(call("c1", "stop")))
    outcome = await Agent(model=model, tools=[stop]).execute(asked(), should_cancel=switch)
    assert isinstance(outcome, Cancelled)
    assert outcome.state.interrupt is None


# a task that is cancelled from outside


async def test_a_task_cancelled_from_outside_raises_after_the_journal_got_what_is_finished() -> (
    None
):
    """P3: the finished call has its end recorded, the one that ran has a begin and no end."""
    gate, journal, notes = Gate(), Journal(), Notes(parallel=True)

    @tool
    async def hang() -> str:
        """Hang."""
        await gate.wait()
        return "too late"

    model = ScriptedModel(calling(call("c1", text="a"), call("c2", "hang"), call("c3", "hang")))
    agent = Agent(model=model, tools=[notes.tool, hang])
    task = asyncio.create_task(agent.execute(asked(), journal=journal))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert journal.results["c1"].text == "noted a"
    assert ("begin", "c2") in journal.log
    assert set(journal.results) == {"c1"}


async def test_a_result_that_is_being_recorded_is_recorded_before_the_cancel_goes_on() -> None:
    """P3: the tool has returned, the journal is in the middle of writing."""
    gate = Gate()
    written: list[str] = []

    class Slow(Journal):
        async def finish(self, call: Any, result: Any) -> None:
            await gate.wait()
            written.append(result.text)

    model = ScriptedModel(calling(call("c1", text="a")))
    task = asyncio.create_task(
        Agent(model=model, tools=[Notes().tool]).execute(asked(), journal=Slow())
    )
    await gate.reached.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert written == []
    gate.opened.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert written == ["noted a"]


async def test_a_tool_that_raises_a_cancellation_of_its_own_is_an_error_result() -> None:
    """Nobody cancelled the turn, so it goes on."""

    @tool
    async def broken() -> str:
        """Await something that was given up."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    for should_cancel in (None, lambda: False):
        model = ScriptedModel(calling(call("c1", "broken")), "done")
        outcome = await Agent(model=model, tools=[broken]).execute(
            asked(), should_cancel=should_cancel
        )
        assert isinstance(outcome, Completed)
        assert told(outcome.state) == {"c1": "CancelledError"}


async def test_the_partial_text_of_a_cancelled_turn_goes_back_to_the_model() -> None:
    switch = Switch()
    model = ScriptedModel([TextDelta("Hel"), TextDelta("lo")], "fine")
    agent = Agent(model=model)
    outcome = await agent.execute(asked(), should_cancel=switch, on_event=after_deltas(1, switch))
    await agent.execute(outcome.state.add_message(Message.user("go on")))
    sent = model.requests[-1].messages
    assert [(one.role, one.text) for one in sent] == [
        ("user", "hi"),
        ("assistant", "Hel"),
        ("user", "go on"),
    ]
    assert sent[1].content == (TextPart("Hel"),)
