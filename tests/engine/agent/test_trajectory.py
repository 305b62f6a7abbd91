"""The trajectory: which tools, in which order, with which arguments, results and decisions."""

from __future__ import annotations

from sagents_app.engine import (
    Agent,
    Approve,
    Completed,
    Edit,
    Interrupted,
    Message,
    Reject,
    ScriptedModel,
    trajectory,
)
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Notes, asked, call, calling


async def test_a_trajectory_tells_the_whole_story_of_the_calls() -> None:
    notes = [Notes("search").tool, Notes("refund").tool]
    replies = [
        calling(call("c1", "search", text="a"), call("c2", "search", text="b")),
        calling(call("c3", "refund", text="c"), call("c4", "refund", text="d")),
        calling(call("c5", "nobody")),
        "done",
    ]
    agent = Agent(
        model=ScriptedModel(*replies), tools=notes, middlewares=[HumanInTheLoop({"refund": True})]
    )
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert trajectory.names(waiting) == ("search", "search", "refund", "refund")
    assert [visit.is_waiting for visit in trajectory.read(waiting)] == [False, False, True, True]
    done = await agent.resume(waiting.state, {"c3": Edit({"text": "x"}), "c4": Reject("no")})
    assert isinstance(done, Completed)
    visits = trajectory.read(done)
    assert [(one.call.call_id, one.name, one.arguments) for one in visits] == [
        ("c1", "search", {"text": "a"}),
        ("c2", "search", {"text": "b"}),
        ("c3", "refund", {"text": "c"}),
        ("c4", "refund", {"text": "d"}),
        ("c5", "nobody", {}),
    ]
    assert [one.round for one in visits] == [0, 0, 1, 1, 2]
    assert [one.turn for one in visits] == [0] * 5
    assert [one.decision for one in visits] == [None, None, "edit", "reject", None]
    assert [one.is_error for one in visits] == [False, False, False, True, True]
    assert visits[0].text == "noted a"
    assert visits[2].text is not None
    assert visits[2].text.endswith("noted x")


async def test_turns_are_counted_by_what_the_user_said() -> None:
    replies = [calling(call("c1")), "one", calling(call("c2")), calling(call("c3")), "two"]
    agent = Agent(model=ScriptedModel(*replies), tools=[Notes().tool])
    first = await agent.execute(asked())
    more = first.state.add_message(Message.user("and"), Message.user("this"))
    second = await agent.execute(more)
    assert [(one.call.call_id, one.turn, one.round) for one in trajectory.read(second)] == [
        ("c1", 0, 0),
        ("c2", 1, 0),
        ("c3", 1, 1),
    ]


def test_a_state_and_a_bare_history_can_be_read_too() -> None:
    state = asked(calling(call("c1")))
    assert trajectory.names(state) == trajectory.names(list(state.messages)) == ("note",)
    (visit,) = trajectory.read(state)
    assert (visit.result, visit.text, visit.is_error, visit.decision) == (None, None, False, None)
    assert visit.is_waiting
    assert trajectory.read([]) == ()


async def test_an_approved_call_says_so() -> None:
    agent = Agent(
        model=ScriptedModel(calling(call("c1")), "done"),
        tools=[Notes().tool],
        middlewares=[HumanInTheLoop({"note": True})],
    )
    waiting = await agent.execute(asked())
    done = await agent.resume(waiting.state, {"c1": Approve()})
    assert trajectory.read(done)[0].decision == "approve"
