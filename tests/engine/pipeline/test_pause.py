"""Pause: at which boundaries a turn stops, with which cause, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Approve,
    Completed,
    Interrupted,
    Message,
    ModelError,
    Paused,
    Reject,
    ScriptedModel,
    ToolOutput,
    expand,
    serialize,
    tool,
)
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Notes, asked, call, calling, shape, told


def on_question(number: int, reason: Any = "draining") -> Callable[[], Any]:
    """A host that asks to pause when it is asked for the `number`th time, from 1, and after."""
    asked_so_far = [0]

    def should_pause() -> Any:
        asked_so_far[0] += 1
        return reason if asked_so_far[0] >= number else False

    return should_pause


@dataclass(frozen=True)
class Boundary:
    id: str
    question: int
    history: tuple[str, ...]
    calls: int
    taken: tuple[str, ...]


BOUNDARIES = [
    Boundary("before the first call", 1, ("U",), 0, ()),
    Boundary("P-151: behind the call, before the tools", 2, ("U", "A(c1)"), 1, ()),
    Boundary("before the second call", 3, ("U", "A(c1)", "T(c1)"), 1, ("a",)),
    Boundary("behind the second call", 4, ("U", "A(c1)", "T(c1)", "A(c2)"), 2, ("a",)),
]


@pytest.mark.parametrize("case", BOUNDARIES, ids=lambda case: case.id)
async def test_a_turn_pauses_at_each_boundary_and_goes_on_from_there(case: Boundary) -> None:
    """Nothing is run twice, no call is repeated, and the cause is gone afterwards."""
    notes = Notes()
    model = ScriptedModel(
        calling(call("c1", text="a")), calling(call("c2", text="b")), "done", "never"
    )
    agent = Agent(model=model, tools=[notes.tool])
    paused = await agent.execute(asked(), should_pause=on_question(case.question))
    assert isinstance(paused, Paused)
    assert (paused.reason, paused.state.pause_reason) == ("draining", "draining")
    assert shape(paused.state) == list(case.history)
    assert (len(model.requests), tuple(notes.taken)) == (case.calls, case.taken)
    assert paused.state.runs_used == case.calls
    stored = serialize.load_state(serialize.dump_state(paused.state))
    done = await agent.execute(stored)
    assert isinstance(done, Completed)
    assert shape(done.state) == ["U", "A(c1)", "T(c1)", "A(c2)", "T(c2)", "A"]
    assert done.state.pause_reason is None
    assert (len(model.requests), notes.taken) == (3, ["a", "b"])


async def test_a_reply_that_needs_nothing_more_completes_drain_or_not() -> None:
    model = ScriptedModel("done")
    outcome = await Agent(model=model).execute(asked(), should_pause=on_question(2))
    assert isinstance(outcome, Completed)


async def test_a_pause_without_a_reason_has_none() -> None:
    """P-050."""
    outcome = await Agent(model=ScriptedModel()).execute(asked(), should_pause=lambda: True)
    assert isinstance(outcome, Paused)
    assert (outcome.reason, outcome.state.pause_reason) == (None, None)
    assert shape(outcome.state) == ["U"]


async def test_the_cause_of_a_pause_may_be_any_json() -> None:
    """P-051."""
    reason = {"cause": "store_unreachable"}
    outcome = await Agent(model=ScriptedModel()).execute(asked(), should_pause=lambda: reason)
    assert isinstance(outcome, Paused)
    assert outcome.state.pause_reason == reason
    assert serialize.load_state(serialize.dump_state(outcome.state)).pause_reason == reason


async def test_a_new_drive_clears_the_cause_of_the_last_pause() -> None:
    """P-040: upstream keeps it."""
    state = asked(pause_reason="draining")
    outcome = await Agent(model=ScriptedModel("done")).execute(state)
    assert outcome.state.pause_reason is None
    gate = HumanInTheLoop({"note": True})
    agent = Agent(model=ScriptedModel(), tools=[Notes().tool], middlewares=[gate])
    waiting = await agent.execute(asked(calling(call()), pause_reason="draining"))
    assert isinstance(waiting, Interrupted)
    assert waiting.state.pause_reason is None


async def test_a_resumed_turn_pauses_too_and_keeps_the_decisions() -> None:
    """Before anything has run; the decisions are part of the state until their calls have run."""
    notes = Notes()
    model = ScriptedModel(calling(call("c1", text="a"), call("c2", text="b")), "done")
    agent = Agent(model=model, tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    replies = {"c1": Approve(), "c2": Reject("no")}
    paused = await agent.resume(waiting.state, replies, should_pause=lambda: "draining")
    assert isinstance(paused, Paused)
    assert paused.reason == "draining"
    assert (notes.taken, paused.state.decisions) == ([], replies)
    assert paused.state.interrupt is None
    stored = serialize.load_state(serialize.dump_state(paused.state))
    done = await agent.execute(stored)
    assert isinstance(done, Completed)
    assert notes.taken == ["a"]
    assert told(done.state)["c2"].endswith("Their note: no")
    assert len(model.requests) == 2


async def test_a_pause_behind_an_approved_call_goes_on_without_a_second_question() -> None:
    notes = Notes()
    model = ScriptedModel(calling(call("c1", text="a")), "done")
    agent = Agent(model=model, tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    waiting = await agent.execute(asked())
    # The questions: behind the call (its boundary is where a resumed turn enters), before the next.
    paused = await agent.resume(
        waiting.state, {"c1": Approve()}, should_pause=on_question(2, "draining")
    )
    assert isinstance(paused, Paused)
    assert shape(paused.state) == ["U", "A(c1)", "T(c1)"]
    done = await agent.execute(paused.state)
    assert isinstance(done, Completed)
    assert (notes.taken, len(model.requests)) == (["a"], 2)


async def test_a_pause_is_no_error_and_asks_no_fallback() -> None:
    """One shape everywhere: a pause between a failing model and its fallback does not exist."""
    first = ScriptedModel(calling(call("c1")), name="first")
    second = ScriptedModel("never", name="second")
    agent = Agent(model=first, fallback_models=[second], tools=[Notes().tool])
    outcome = await agent.execute(asked(), should_pause=on_question(2))
    assert isinstance(outcome, Paused)
    assert second.requests == []


async def test_a_fallbacks_reply_is_paused_behind_like_any_other() -> None:
    first = ScriptedModel(ModelError("down"), name="first")
    second = ScriptedModel(calling(call("c1")), name="second")
    agent = Agent(model=first, fallback_models=[second], tools=[Notes().tool])
    outcome = await agent.execute(asked(), should_pause=on_question(2))
    assert isinstance(outcome, Paused)
    assert shape(outcome.state) == ["U", "A(c1)"]


async def test_a_pause_behind_an_expansion_has_it_applied_exactly_once() -> None:
    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", [Message.user("material")])

    model = ScriptedModel(calling(call(name="load")), "done")
    agent = Agent(model=model, tools=[load])
    paused = await agent.execute(asked(), should_pause=on_question(3))
    assert isinstance(paused, Paused)
    assert shape(paused.state) == ["U", "A(c1)", "T(c1)", "U"]
    stored = serialize.load_state(serialize.dump_state(paused.state))
    done = await agent.execute(stored)
    assert shape(done.state) == ["U", "A(c1)", "T(c1)", "U", "A"]
    assert [one.text for one in model.requests[1].messages].count("material") == 1


@pytest.mark.parametrize("status", ["stream_error", "cancelled", "length"])
async def test_a_dead_reply_of_an_earlier_turn_does_not_disturb_a_pause_or_an_interrupt(
    status: Any,
) -> None:
    """P-077: what is looked at is how this turn's own reply ended."""
    dead = Message.assistant("Hel", status=status)
    model = ScriptedModel(calling(call("c1")))
    gate = HumanInTheLoop({"note": True})
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[gate])
    state = asked(dead, Message.user("go on"))
    assert isinstance(await agent.execute(state, should_pause=lambda: True), Paused)
    assert isinstance(await agent.execute(state), Interrupted)


async def test_pausing_again_and_again_loses_and_repeats_nothing() -> None:
    """One boundary at a time, as a drain that hands on at once would."""
    notes = Notes()
    replies = [calling(call(f"c{n}", text=str(n))) for n in range(5)]
    model = ScriptedModel(*replies, "done")
    agent = Agent(model=model, tools=[notes.tool])
    outcome: Any = Paused(asked())
    drives = 0
    while isinstance(outcome, Paused):
        drives += 1
        outcome = await agent.execute(outcome.state, should_pause=on_question(2))
    assert isinstance(outcome, Completed)
    assert notes.taken == ["0", "1", "2", "3", "4"]
    assert len(model.requests) == 6
    assert drives > 5


async def test_a_should_pause_that_raises_fails_the_turn_by_name() -> None:
    def broken() -> bool:
        raise ConnectionError("no database")

    model = ScriptedModel("never")
    outcome = await Agent(model=model).execute(asked(), should_pause=broken)
    assert type(outcome).__name__ == "Failed"
    assert str(outcome.error) == "ConnectionError: no database"
    assert model.requests == []
