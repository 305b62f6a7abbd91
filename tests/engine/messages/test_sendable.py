"""What is sent: each call with exactly one result, right behind it, whatever was stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Completed,
    Halt,
    Interrupted,
    Message,
    ScriptedModel,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolResult,
    serialize,
)
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Notes, asked, call, calling, shape, texts, told

UNANSWERED = "This call was never run: the turn ended before it."


def result(call_id: str = "c1", text: str = "ok", *, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, "note", (TextPart(text),), is_error=is_error)


def waiting(call_id: str) -> ToolResult:
    return ToolResult(
        call_id, "note", (TextPart("waiting"),), is_interrupt=True, interrupt=Halt("no")
    )


async def sent(*messages: Message) -> Sequence[Message]:
    """What the model gets for a history."""
    model = ScriptedModel("done")
    outcome = await Agent(model=model, tools=[Notes().tool]).execute(AgentState(messages))
    assert isinstance(outcome, Completed)
    assert list(outcome.state.messages[:-1]) == list(messages)
    return model.requests[0].messages


@dataclass(frozen=True)
class Case:
    id: str
    history: tuple[Message, ...]
    shape: list[str]
    told: dict[str, str]


HI, NEXT = Message.user("hi"), Message.user("next")
TWO = calling(call("c1"), call("c2"))
CASES = [
    Case(
        "a call without its result",
        (HI, calling(call("c1")), NEXT),
        ["U", "A(c1)", "T(c1)", "U"],
        {"c1": UNANSWERED},
    ),
    Case(
        "one of two",
        (HI, TWO, Message.tool(result("c2")), NEXT),
        ["U", "A(c1,c2)", "T(c1,c2)", "U"],
        {"c1": UNANSWERED, "c2": "ok"},
    ),
    Case(
        "results in another order",
        (HI, TWO, Message.tool(result("c2", "b"), result("c1", "a")), NEXT),
        ["U", "A(c1,c2)", "T(c1,c2)", "U"],
        {"c1": "a", "c2": "b"},
    ),
    Case(
        "results in two messages",
        (HI, TWO, Message.tool(result("c1", "a")), Message.tool(result("c2", "b")), NEXT),
        ["U", "A(c1,c2)", "T(c1,c2)", "U"],
        {"c1": "a", "c2": "b"},
    ),
    Case(
        "a doubled result: the first stands",
        (HI, calling(call("c1")), Message.tool(result(text="a"), result(text="b")), NEXT),
        ["U", "A(c1)", "T(c1)", "U"],
        {"c1": "a"},
    ),
    Case(
        "a result of no call",
        (HI, Message.tool(result("zz")), Message.assistant("so"), NEXT),
        ["U", "A", "U"],
        {},
    ),
    Case(
        "such a result beside a good one",
        (HI, calling(call("c1")), Message.tool(result("c1"), result("zz")), NEXT),
        ["U", "A(c1)", "T(c1)", "U"],
        {"c1": "ok"},
    ),
    Case(
        "something between a call and its result",
        (HI, calling(call("c1")), NEXT, Message.tool(result("c1", "late"))),
        ["U", "A(c1)", "T(c1)", "U"],
        {"c1": "late"},
    ),
    Case(
        "a result that belongs to a later call of that id",
        (HI, calling(call("c1")), NEXT, calling(call("c1")), Message.tool(result("c1", "second"))),
        ["U", "A(c1)", "T(c1)", "U", "A(c1)", "T(c1)"],
        {"c1": "second"},
    ),
    Case(
        "a fault behind a fault",
        (HI, calling(call("c1")), NEXT, Message.tool(result("zz")), TWO, NEXT),
        ["U", "A(c1)", "T(c1)", "U", "A(c1,c2)", "T(c1,c2)", "U"],
        {"c1": UNANSWERED, "c2": UNANSWERED},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_history_is_repaired_on_its_way_and_stays_as_it_is(case: Case) -> None:
    """B049, B051, B054, L-008: results first, the true cause in those that were missing."""
    messages = await sent(*case.history)
    assert shape(messages) == case.shape
    assert told(AgentState(tuple(messages))) == case.told


async def test_an_answer_that_the_engine_makes_up_is_an_error() -> None:
    messages = await sent(HI, calling(call("c1")), NEXT)
    assert messages[2].tool_results == (result("c1", UNANSWERED, is_error=True),)


async def test_a_placeholder_that_was_left_behind_counts_as_the_result() -> None:
    messages = await sent(HI, calling(call("c1")), Message.tool(waiting("c1")), NEXT)
    assert shape(messages) == ["U", "A(c1)", "T(c1)", "U"]
    assert told(AgentState(tuple(messages))) == {"c1": "waiting"}


async def test_a_message_that_comes_while_a_call_waits_is_sent_behind_its_result() -> None:
    """B049: the pending call is answered as superseded, then the user's words follow."""
    model = ScriptedModel(calling(call("c1")), "never mind then")
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[HumanInTheLoop({"note": True})])
    stopped = await agent.execute(asked())
    assert isinstance(stopped, Interrupted)
    moved_on = stopped.state.cancel_pending_interrupts().add_message(Message.user("never mind"))
    outcome = await agent.execute(moved_on)
    assert isinstance(outcome, Completed)
    assert shape(model.requests[1].messages) == ["U", "A(c1)", "T(c1)", "U"]
    assert told(outcome.state) == {
        "c1": "The user did not respond to this and sent something new. "
        "Proceed with the user's new request."
    }


async def test_a_repair_goes_on_over_the_rounds_of_a_turn() -> None:
    """Each message is checked once; what the turn adds stands behind what was repaired."""
    model = ScriptedModel(calling(call("c2", text="a")), calling(call("c3", text="b")), "done")
    agent = Agent(model=model, tools=[Notes().tool])
    await agent.execute(AgentState((HI, calling(call("c1")), NEXT)))
    repaired = ["U", "A(c1)", "T(c1)", "U"]
    assert [shape(request.messages) for request in model.requests] == [
        repaired,
        [*repaired, "A(c2)", "T(c2)"],
        [*repaired, "A(c2)", "T(c2)", "A(c3)", "T(c3)"],
    ]


async def test_signed_reasoning_comes_back_byte_for_byte_before_its_call() -> None:
    """B058: over a pause and a restart; the block is the first part of the message."""
    thinking = ThinkingPart("hm \n", "c2lnbmF0dXJl==", provider="anthropic")
    hidden = ThinkingPart("", None, "AAEC", "anthropic")
    reply = Message.assistant(
        [thinking, hidden, TextPart("I will.")], tool_calls=[call("c1", text="a")]
    )
    model = ScriptedModel(reply, "done")
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[HumanInTheLoop({"note": True})])
    stopped = await agent.execute(asked())
    restored = serialize.load_state(serialize.dump_state(stopped.state))
    await agent.resume(restored, {"c1": Approve()})
    assert model.requests[1].messages[1].content == (thinking, hidden, TextPart("I will."))
    assert model.requests[1].messages[1].tool_calls == (call("c1", text="a"),)


async def test_what_a_resumed_turn_appends_makes_the_whole_history() -> None:
    """B059: an append-only store misses nothing and doubles nothing."""
    free, gated = Notes("free"), Notes("gated")
    model = ScriptedModel(
        calling(call("c1", "free")), calling(call("c2", "free"), call("c3", "gated")), "done"
    )
    agent = Agent(
        model=model,
        tools=[free.tool, gated.tool],
        middlewares=[HumanInTheLoop({"gated": True})],
    )
    stopped = await agent.execute(asked())
    store = list(stopped.state.messages)
    outcome = await agent.resume(stopped.state, {"c3": Approve()})
    store += outcome.state.messages[len(store) :]
    assert store == list(outcome.state.messages)
    assert shape(store) == ["U", "A(c1)", "T(c1)", "A(c2,c3)", "T(c2,c3)", "A"]


# whatever the history is like

IDS = st.sampled_from(["c1", "c2", "c3", "c4"])
CALLS = st.lists(IDS, min_size=1, max_size=3, unique=True).map(
    lambda ids: calling(*(ToolCall(one, "note") for one in ids))
)
RESULTS = st.lists(
    st.tuples(IDS, st.sampled_from(["result", "error", "waiting"])), min_size=1, max_size=4
).map(lambda given: Message.tool(*(_result(*one) for one in given)))
WORDS = st.sampled_from([HI, NEXT, Message.assistant("so"), Message.assistant()])
HISTORIES = st.lists(WORDS | CALLS | CALLS | RESULTS | RESULTS, max_size=12)


def _result(call_id: str, kind: str) -> ToolResult:
    return waiting(call_id) if kind == "waiting" else result(call_id, is_error=kind == "error")


@settings(max_examples=150)
@given(HISTORIES)
def test_whatever_was_stored_what_is_sent_has_one_result_a_call_right_behind_it(
    history: list[Message],
) -> None:
    """P2."""
    asyncio.run(_check([*history, NEXT]))


@settings(max_examples=60)
@given(HISTORIES, st.sampled_from(["cancel", "clean"]))
def test_so_it_is_after_a_move_on_and_after_a_cold_start(history: list[Message], how: str) -> None:
    state = AgentState((HI, *history))
    state = state.cancel_pending_interrupts() if how == "cancel" else state.clean_stale_interrupts()
    asyncio.run(_check([*state.messages, NEXT]))


async def _check(history: list[Message]) -> None:
    model = ScriptedModel("done", "again")
    agent = Agent(model=model, tools=[Notes().tool])
    state = AgentState(tuple(history))
    outcome = await agent.execute(state)
    assert isinstance(outcome, Completed)
    assert list(outcome.state.messages[:-1]) == history
    await agent.execute(outcome.state.add_message(Message.user("more")))
    for request in model.requests:
        assert_paired(request.messages)
    # nothing that somebody said is lost, and nothing that ran is told to have not
    said = [message for message in history if message.role != "tool"]
    assert [message for message in model.requests[0].messages if message.role != "tool"] == said


def assert_paired(messages: Sequence[Message]) -> None:
    position = 0
    while position < len(messages):
        message = messages[position]
        assert message.role != "tool", "a result without its call"
        if message.tool_calls:
            position += 1
            behind = messages[position]
            assert behind.role == "tool"
            assert [one.tool_call_id for one in behind.tool_results] == [
                one.call_id for one in message.tool_calls
            ]
        position += 1


@given(st.lists(st.lists(st.sampled_from(["", "a", "b", "x" * 65, "ä"]), max_size=3), max_size=5))
def test_used_call_ids_are_unique_over_the_conversation_whatever_the_model_sends(
    batches: list[list[str]],
) -> None:
    """B056, B057: over rounds and turns, and each call has run once under its own id."""
    asyncio.run(_check_ids(batches))


async def _check_ids(batches: list[list[str]]) -> None:
    notes = Notes()
    state = AgentState()
    expected: list[str] = []
    for turn, batch in enumerate(batches):
        calls = [call(given, text=f"{turn} {at}") for at, given in enumerate(batch)]
        expected += [f"{turn} {at}" for at in range(len(batch))]
        model = ScriptedModel(calling(*calls), "done")
        outcome = await Agent(model=model, tools=[notes.tool]).execute(
            state.add_message(Message.user("hi"))
        )
        assert isinstance(outcome, Completed)
        state = outcome.state
    ids = [one.call_id for message in state.messages for one in message.tool_calls]
    assert len(set(ids)) == len(ids)
    assert notes.taken == expected
    assert list(told(state).values()) == [f"noted {text}" for text in expected]


async def test_text_is_sent_as_it_was_said() -> None:
    messages = await sent(HI, Message.assistant("so"), NEXT)
    assert texts(messages) == ["hi", "so", "next"]
