"""A batch at work: order, threads, time limits, events, failures in a row."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Approve,
    Cancelled,
    Completed,
    Edit,
    Failed,
    Interrupted,
    InvalidResume,
    Message,
    Misconfigured,
    Reject,
    Respond,
    ScriptedModel,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    UnknownOutcome,
    tool,
)
from sagents_app.engine.events import MessageAdded, ToolFinished, ToolStarted
from sagents_app.engine.middlewares import HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import (
    Events,
    Gate,
    Journal,
    Notes,
    Switch,
    asked,
    call,
    calling,
    results,
    shape,
    told,
)

PATIENCE = 10  # seconds after which a test that waits has failed


class Relay:
    """Tools that each wait until the test, or a sibling, lets them go on, and keep the order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.opened = {name: asyncio.Event() for name in "abc"}

    def tool(self, name: str, *, opens: str | None = None, **options: Any) -> Tool:
        async def work() -> str:
            self.log.append(f"{name} begins")
            if opens is not None:
                self.opened[opens].set()
            await self.opened[name].wait()
            self.log.append(f"{name} ends")
            return name

        return tool(name=name, **options)(work)


async def test_parallel_tools_run_together_and_their_results_are_in_call_order() -> None:
    """L-062: also where the last call ends first."""
    relay = Relay()
    relay.opened["c"].set()
    tools = [
        relay.tool("a", parallel=True),
        relay.tool("b", parallel=True, opens="a"),
        relay.tool("c", parallel=True, opens="b"),
    ]
    model = ScriptedModel(calling(call("c1", "a"), call("c2", "b"), call("c3", "c")), "done")
    async with asyncio.timeout(PATIENCE):
        outcome = await Agent(model=model, tools=tools).execute(asked())
    assert relay.log[:3] == ["a begins", "b begins", "c begins"]
    assert relay.log[3] == "c ends"
    assert list(told(outcome.state).items()) == [("c1", "a"), ("c2", "b"), ("c3", "c")]


async def test_other_tools_run_one_after_the_other() -> None:
    relay = Relay()
    for event in relay.opened.values():
        event.set()
    model = ScriptedModel(calling(call("c1", "a"), call("c2", "b")), "done")
    tools = [relay.tool("b"), relay.tool("a")]
    outcome = await Agent(model=model, tools=tools).execute(asked())
    assert relay.log == ["a begins", "a ends", "b begins", "b ends"]
    assert told(outcome.state) == {"c1": "a", "c2": "b"}


async def test_kinds_and_mistakes_may_be_mixed_and_the_order_is_the_models() -> None:
    """L-062: async, sync, parallel and unknown tools, and arguments that do not fit."""
    relay = Relay()
    relay.opened["a"].set()

    @tool
    def sync() -> str:
        return "sync"

    model = ScriptedModel(
        calling(
            call("c1", "nobody"),
            call("c2", "sync"),
            call("c3", "a"),
            call("c4", "sync", wrong=1),
            call("c5", "b"),
        ),
        "done",
    )
    tools = [relay.tool("a", opens="b"), relay.tool("b", parallel=True), sync]
    async with asyncio.timeout(PATIENCE):
        outcome = await Agent(model=model, tools=tools).execute(asked())
    assert shape(outcome.state) == ["U", "A(c1,c2,c3,c4,c5)", "T(c1,c2,c3,c4,c5)", "A"]
    assert [result.is_error for result in results(outcome.state).values()] == [
        True,
        False,
        False,
        True,
        False,
    ]


async def test_sync_tools_run_in_threads_so_that_the_loop_goes_on() -> None:
    """The loop answers while the tool waits for it."""
    loop = asyncio.get_running_loop()
    seen: list[bool] = []

    async def answer() -> str:
        return "from the loop"

    @tool
    def work() -> str:
        seen.append(threading.current_thread() is threading.main_thread())
        return asyncio.run_coroutine_threadsafe(answer(), loop).result(timeout=5)

    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", "work")), "done"), tools=[work]
    ).execute(asked())
    assert told(outcome.state) == {"c1": "from the loop"}
    assert seen == [False]


async def test_parallel_sync_tools_run_together() -> None:
    meeting = threading.Barrier(3, timeout=5)

    @tool(parallel=True)
    def meet(who: str) -> str:
        meeting.wait()
        return who

    calls = [call(f"c{at}", "meet", who=str(at)) for at in range(3)]
    outcome = await Agent(model=ScriptedModel(calling(*calls), "done"), tools=[meet]).execute(
        asked()
    )
    assert told(outcome.state) == {"c0": "0", "c1": "1", "c2": "2"}


async def test_a_host_may_run_sync_tools_itself() -> None:
    """A parameter may have any name, also the runner's own."""
    ran: list[dict[str, Any]] = []

    async def run_sync(function: Callable[..., Any], /, **arguments: Any) -> Any:
        ran.append(arguments)
        return function(**arguments)

    @tool
    def work(function: str, self: int = 0, turn: int = 0) -> str:
        return f"{function} {self} {turn}"

    given = call("c1", "work", function="f", turn=5)
    agent = Agent(model=ScriptedModel(calling(given), "done"), tools=[work], run_sync=run_sync)
    outcome = await agent.execute(asked())
    assert told(outcome.state) == {"c1": "f 0 5"}
    assert ran == [{"function": "f", "turn": 5}]


async def test_a_host_may_take_an_agents_sync_tools_over_those_of_its_sub_agents_too() -> None:
    ran: list[dict[str, Any]] = []

    async def run_sync(function: Callable[..., Any], /, **arguments: Any) -> Any:
        ran.append(arguments)
        return function(**arguments)

    async def run_otherwise(function: Callable[..., Any], /, **arguments: Any) -> Any:
        raise AssertionError("the agent has a runner of its own")

    @tool
    def work(text: str) -> str:
        return text

    task = call("c2", "task", instructions="go", task_name="worker")
    inner = ScriptedModel(calling(call("c1", "work", text="inner")), "done")
    kind = SubAgent(name="worker", description="w", system_prompt="s", model=inner, tools=(work,))
    agent = Agent(
        model=ScriptedModel(calling(call("c1", "work", text="outer"), task), "done"),
        tools=[work],
        middlewares=[SubAgents([kind])],
    )
    hosted = agent.with_run_sync(run_sync)
    assert (hosted.name, list(hosted.tools)) == (agent.name, list(agent.tools))
    assert hosted.with_run_sync(run_otherwise) is hosted
    outcome = await hosted.execute(asked())
    assert isinstance(outcome, Completed)
    assert told(outcome.state) == {"c1": "outer", "c2": "done"}
    assert ran == [{"text": "outer"}, {"text": "inner"}]


# time limits


def hanging(**options: Any) -> Tool:
    @tool(timeout=0.01, **options)
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    return hang


@pytest.mark.parametrize("option", ["read_only", "retry_safe"])
async def test_a_harmless_tool_that_takes_too_long_is_an_error_result(option: str) -> None:
    """L-072: not the end of the run; the model may go on."""
    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", "hang")), "done"), tools=[hanging(**{option: True})]
    ).execute(asked())
    assert isinstance(outcome, Completed)
    assert told(outcome.state) == {"c1": "The tool did not finish within 0.01 s."}
    assert results(outcome.state)["c1"].is_error


async def test_another_tool_that_takes_too_long_has_an_unknown_outcome() -> None:
    """L-072, B005: it may have taken effect, so a person is asked and nothing is guessed."""
    journal = Journal()
    agent = Agent(model=ScriptedModel(calling(call("c1", "hang"))), tools=[hanging()])
    outcome = await agent.execute(asked(), journal=journal)
    assert isinstance(outcome, Interrupted)
    assert isinstance(outcome.interrupt, UnknownOutcome)
    assert outcome.interrupt.known == (
        "The tool did not finish within 0.01 s. Whether it took effect is not known."
    )
    assert outcome.interrupt.tool_call_id == "c1"
    assert journal.results["c1"].is_interrupt


@dataclass(frozen=True)
class Settled:
    id: str
    reply: Any
    text: str
    is_error: bool


SETTLED = [
    Settled("done", Respond("It was sent."), "It was sent.", False),
    Settled(
        "not done",
        Reject("look again"),
        "A person looked into it: this call was not carried out. Their note: look again",
        True,
    ),
]


@pytest.mark.parametrize("case", SETTLED, ids=lambda case: case.id)
async def test_a_person_says_whether_it_took_effect(case: Settled) -> None:
    agent = Agent(model=ScriptedModel(calling(call("c1", "hang")), "done"), tools=[hanging()])
    stopped = await agent.execute(asked())
    outcome = await agent.resume(stopped.state, {"c1": case.reply})
    assert isinstance(outcome, Completed)
    assert told(outcome.state) == {"c1": case.text}
    assert results(outcome.state)["c1"].is_error is case.is_error


async def test_a_call_of_unknown_outcome_may_be_run_again_under_the_same_key() -> None:
    keys: list[str] = []

    @tool(name="send", timeout=0.05)
    async def slow_first(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "sent"

    agent = Agent(model=ScriptedModel(calling(call("c1", "send")), "done"), tools=[slow_first])
    stopped = await agent.execute(asked(), conversation_id="conv")
    outcome = await agent.resume(stopped.state, {"c1": Approve()}, conversation_id="conv")
    assert told(outcome.state) == {"c1": "sent"}
    assert keys == ["conv:c1", "conv:c1"]


async def test_a_time_limit_holds_for_sync_tools_too() -> None:
    """The thread cannot be stopped; the turn does not wait for it."""
    let_go = threading.Event()

    @tool(timeout=0.01, read_only=True)
    def hang() -> str:
        let_go.wait(5)
        return "late"

    model = ScriptedModel(calling(call("c1", "hang")), "done")
    outcome = await Agent(model=model, tools=[hang]).execute(asked())
    let_go.set()
    assert told(outcome.state) == {"c1": "The tool did not finish within 0.01 s."}


async def test_each_tool_of_a_batch_has_its_own_time_limit() -> None:
    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", "hang"), call("c2", text="a")), "done"),
        tools=[hanging(read_only=True, parallel=True), Notes(parallel=True).tool],
    ).execute(asked())
    assert told(outcome.state) == {
        "c1": "The tool did not finish within 0.01 s.",
        "c2": "noted a",
    }


async def test_a_tool_that_ends_within_its_limit_is_not_disturbed() -> None:
    outcome = await Agent(
        model=ScriptedModel(calling(call("c1", text="a")), "done"), tools=[Notes(timeout=60).tool]
    ).execute(asked())
    assert told(outcome.state) == {"c1": "noted a"}


async def test_a_cancel_cuts_off_a_running_tool_and_keeps_what_had_finished() -> None:
    """B055: one of three done; the rest is answered with the true cause."""
    gate, switch, notes = Gate(), Switch(), Notes()

    @tool
    async def hang() -> str:
        await gate.wait()
        return "never"

    calls = (call("c1", text="a"), call("c2", "hang"), call("c3", text="b"))
    agent = Agent(model=ScriptedModel(calling(*calls), "next answer"), tools=[notes.tool, hang])
    running = asyncio.ensure_future(agent.execute(asked(), should_cancel=switch))
    async with asyncio.timeout(PATIENCE):
        await gate.reached.wait()
        switch.on = True
        outcome = await running
    assert isinstance(outcome, Cancelled)
    assert told(outcome.state) == {
        "c1": "noted a",
        "c2": "The turn was cancelled while this call ran; whether it took effect is not known.",
        "c3": "The turn was cancelled before this call was run.",
    }
    assert notes.taken == ["a"]
    after = await agent.execute(outcome.state.add_message(Message.user("next")))
    assert isinstance(after, Completed)


# what observers hear


async def test_observers_hear_of_a_tool_before_and_after_it_with_what_it_really_gets() -> None:
    """L-070, L-071, L-095, L-172: the call once it is seen, started, finished, then the message."""
    events, notes = Events(), Notes()
    given = call("c1", text="a")
    agent = Agent(model=ScriptedModel(calling(given), "done"), tools=[notes.tool])
    outcome = await agent.execute(asked(), on_event=events)
    assert events.names == [
        "MessageAdded",
        "ToolStarted",
        "ToolFinished",
        "MessageAdded",
        "Deltas",
        "MessageAdded",
    ]
    assert events.seen[1] == ToolStarted(given)
    assert events.seen[2] == ToolFinished(given, results(outcome.state)["c1"])
    assert events.seen[3] == MessageAdded(outcome.state.messages[2])


async def test_a_call_that_never_runs_is_finished_without_having_started() -> None:
    """L-070: unknown tools and bad arguments, in call order."""
    events = Events()
    calls = (call("c1", "nobody"), call("c2", wrong=1))
    agent = Agent(model=ScriptedModel(calling(*calls), "done"), tools=[Notes().tool])
    await agent.execute(asked(), on_event=events)
    assert events.names.count("ToolStarted") == 0
    assert events.names.count("ToolFinished") == 2


# failures in a row


def failing() -> Tool:
    @tool
    async def fail() -> str:
        raise ToolError("no")

    return fail


async def test_failures_in_a_row_end_the_turn_and_a_good_batch_starts_the_count_anew() -> None:
    """L-068, L-114, L-115: only batches of nothing but errors count, by a limit of the agent's."""
    bad, good = calling(call("", "fail")), calling(call("", text="a"))
    model = ScriptedModel(bad, bad, good, bad, bad, bad, "never")
    agent = Agent(model=model, tools=[failing(), Notes().tool], max_tool_failures=3)
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_failure_count"
    assert str(outcome.error) == "3 tool batches in a row brought only errors"
    assert len(model.requests) == 6


async def test_one_good_result_makes_a_good_batch() -> None:
    """L-068: upstream counts a batch with any error in it."""
    mixed = calling(call("", "fail"), call("", text="a"))
    model = ScriptedModel(mixed, mixed, mixed, "done")
    agent = Agent(model=model, tools=[failing(), Notes().tool], max_tool_failures=2)
    assert isinstance(await agent.execute(asked()), Completed)


async def test_a_rejection_is_no_failure() -> None:
    """L-091: the count stays; a person's word is no fault of the tool."""
    model = ScriptedModel(*[calling(call("", text=str(at))) for at in range(3)], "done")
    gate = HumanInTheLoop({"note": True})
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[gate], max_tool_failures=1)
    outcome = await agent.execute(asked())
    for _ in range(3):
        assert isinstance(outcome, Interrupted)
        open_id = outcome.interrupt.action_requests[0].tool_call_id  # type: ignore[attr-defined]
        outcome = await agent.resume(outcome.state, {open_id: Reject("no")})
    assert isinstance(outcome, Completed)


def test_two_tools_of_one_name_are_refused() -> None:
    """L-073: upstream silently takes the later one."""
    with pytest.raises(Misconfigured, match="two tools are named 'note'"):
        Agent(model=ScriptedModel(), tools=[Notes().tool, Notes().tool])


async def test_a_turn_without_calls_runs_no_tool() -> None:
    """L-060."""
    notes = Notes()
    outcome = await Agent(model=ScriptedModel("hello"), tools=[notes.tool]).execute(asked())
    assert shape(outcome.state) == ["U", "A"]
    assert notes.taken == []


async def test_decisions_are_by_call_id_so_that_none_can_be_left_out() -> None:
    """L-090, L-096: upstream pairs them by position and drops what is too much."""
    notes = Notes()
    calls = [call(f"c{at}", text=str(at)) for at in range(3)]
    agent = Agent(
        model=ScriptedModel(calling(*calls), "done"),
        tools=[notes.tool],
        middlewares=[HumanInTheLoop({"note": True})],
    )
    stopped = await agent.execute(asked())
    with pytest.raises(InvalidResume, match="without a reply: 'c2'"):
        await agent.resume(stopped.state, {"c0": Approve(), "c1": Approve()})
    assert notes.taken == []
    replies = {"c2": Reject("no"), "c1": Edit({"text": "one"}), "c0": Approve()}
    outcome = await agent.resume(stopped.state, replies)
    assert shape(outcome.state) == ["U", "A(c0,c1,c2)", "T(c0,c1,c2)", "A"]
    assert notes.taken == ["0", "one"]
    rejected = results(outcome.state)["c2"]
    assert rejected.text == "A person declined this call. Do not repeat it. Their note: no"
    assert (rejected.is_error, rejected.decision) == (True, "reject")


async def test_a_denial_without_a_note_is_told_in_words() -> None:
    """B050: the result is never empty."""
    agent = Agent(
        model=ScriptedModel(calling(call("c1", text="a")), "done"),
        tools=[Notes().tool],
        middlewares=[HumanInTheLoop({"note": True})],
    )
    stopped = await agent.execute(asked())
    outcome = await agent.resume(stopped.state, {"c1": Reject()})
    assert told(outcome.state) == {"c1": "A person declined this call. Do not repeat it."}


async def test_an_unknown_tool_is_never_gated_and_is_answered() -> None:
    """L-092: nobody is asked about what cannot run."""
    agent = Agent(
        model=ScriptedModel(calling(call("c1", "notes")), "done"),
        tools=[Notes().tool],
        middlewares=[HumanInTheLoop({"note": True}, default=True)],
    )
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert told(outcome.state)["c1"].startswith("Tool 'notes' not found. Did you mean 'note'?")


async def test_a_rejected_call_of_a_tool_that_is_gone_is_an_ordinary_rejection() -> None:
    """L-092, B022."""
    gate = HumanInTheLoop({"note": True})
    first = Agent(
        model=ScriptedModel(calling(call("c1", text="a"))), tools=[Notes().tool], middlewares=[gate]
    )
    stopped = await first.execute(asked())
    second = Agent(model=ScriptedModel("done"), middlewares=[HumanInTheLoop({})])
    outcome = await second.resume(stopped.state, {"c1": Reject("gone anyway")})
    assert told(outcome.state) == {
        "c1": "A person declined this call. Do not repeat it. Their note: gone anyway"
    }
    approved = await second.resume(stopped.state, {"c1": Approve()})
    assert told(approved.state) == {"c1": "Tool 'note' not found. Available are: none."}


async def test_equal_calls_of_one_batch_are_two_calls() -> None:
    notes = Notes()
    twice = (ToolCall("c1", "note", {"text": "a"}), ToolCall("c2", "note", {"text": "a"}))
    outcome = await Agent(model=ScriptedModel(calling(*twice), "done"), tools=[notes.tool]).execute(
        asked()
    )
    assert notes.taken == ["a", "a"]
    assert told(outcome.state) == {"c1": "noted a", "c2": "noted a"}
