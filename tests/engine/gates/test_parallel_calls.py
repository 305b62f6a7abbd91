"""Several calls in one message: each is decided, run and answered on its own."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    Approve,
    Completed,
    Edit,
    Interrupted,
    InvalidResume,
    Message,
    MultipleInterrupts,
    Question,
    Reject,
    ScriptedModel,
    SubAgentInterrupt,
    ToolCall,
    serialize,
    tool,
)
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent

HI = Message.user("hi")


class Till:
    """Tools that count what they did: `refund` is gated, `note` is free, `ask` asks."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool
        async def refund(order: int, note: str = "") -> str:
            """Refund an order."""
            self.done.append(f"refund {order}")
            return f"refunded {order}"

        @tool
        async def note(text: str) -> str:
            """Write a note."""
            self.done.append(f"note {text}")
            return f"noted {text}"

        @tool(asks_person=True)
        async def ask(question: str) -> Question:
            """Ask the user."""
            return Question(question)

        self.tools = [refund, note, ask]

    def agent(self, *replies: Any, **gates: Any) -> Agent:
        return Agent(
            model=ScriptedModel(*replies),
            tools=self.tools,
            middlewares=[HumanInTheLoop({"refund": True}, **gates), AskUserQuestion()],
        )


def refund(call_id: str, order: int = 1) -> ToolCall:
    return ToolCall(call_id, "refund", {"order": order})


def note(call_id: str, text: str = "x") -> ToolCall:
    return ToolCall(call_id, "note", {"text": text})


def ask(call_id: str, question: str = "Which?") -> ToolCall:
    return ToolCall(call_id, "ask", {"question": question})


def calling(*calls: ToolCall) -> Message:
    return Message.assistant(tool_calls=calls)


async def started(agent: Agent) -> Interrupted:
    outcome = await agent.execute(AgentState((HI,)))
    assert isinstance(outcome, Interrupted)
    return outcome


def reloaded(state: AgentState) -> AgentState:
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


def answers(state: AgentState, index: int = 2) -> list[tuple[str, str, bool]]:
    return [
        (result.tool_call_id, result.text, result.is_error)
        for result in state.messages[index].tool_results
    ]


DECLINED = "A person declined this call. Do not repeat it."


class TestOneResultPerCall:
    async def test_rejecting_the_gated_call_runs_the_free_one(self):
        """B025: one gated, one free; the rejection has the reviewer's note."""
        till = Till()
        agent = till.agent(calling(refund("c1"), note("c2")), "done")
        waits = await started(agent)
        assert till.done == []
        outcome = await agent.resume(waits.state, {"c1": Reject("too much")})
        assert isinstance(outcome, Completed)
        assert answers(outcome.state) == [
            ("c1", f"{DECLINED} Their note: too much", True),
            ("c2", "noted x", False),
        ]
        assert till.done == ["note x"]
        assert [message.role for message in outcome.state.messages] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]

    async def test_approving_one_and_rejecting_the_other(self):
        """B025, B043: the approved ran once, the note stands on the rejected call only."""
        till = Till()
        agent = till.agent(calling(refund("c1", 1), refund("c2", 2)), "done")
        waits = await started(agent)
        outcome = await agent.resume(waits.state, {"c1": Approve(), "c2": Reject("not this one")})
        assert answers(outcome.state) == [
            ("c1", "refunded 1", False),
            ("c2", f"{DECLINED} Their note: not this one", True),
        ]
        assert till.done == ["refund 1"]

    async def test_what_is_sent_next_has_one_result_for_each_call(self):
        """B025: the model's next request holds both, right behind their message."""
        till = Till()
        agent = till.agent(calling(refund("c1"), note("c2")), "done")
        waits = await started(agent)
        await agent.resume(waits.state, {"c1": Reject()})
        sent = agent.setup.models[0].requests[1].messages  # type: ignore[attr-defined]
        assert [message.role for message in sent] == ["user", "assistant", "tool"]
        assert [result.tool_call_id for result in sent[2].tool_results] == ["c1", "c2"]

    @pytest.mark.parametrize("order", list(itertools.permutations(["c1", "c2", "c3"])))
    async def test_each_call_has_its_own_outcome_in_any_order(self, order: tuple[str, ...]):
        """B026: approve, edit, reject; the order of the replies does not matter."""
        till = Till()
        agent = till.agent(calling(refund("c1", 1), refund("c2", 2), refund("c3", 3)), "done")
        waits = await started(agent)
        replies = {"c1": Approve(), "c2": Edit({"order": 20}), "c3": Reject()}
        outcome = await agent.resume(waits.state, {call_id: replies[call_id] for call_id in order})
        assert answers(outcome.state) == [
            ("c1", "refunded 1", False),
            (
                "c2",
                'A person changed the arguments before the call ran, to {"order":20}.\nrefunded 20',
                False,
            ),
            ("c3", DECLINED, True),
        ]
        assert till.done == ["refund 1", "refund 20"]


class TestDecisionsBelongToTheirCall:
    async def test_a_decision_for_an_earlier_call_is_refused(self):
        """B027: A was decided, B is open; approving A again runs nothing."""
        till = Till()
        agent = till.agent(calling(refund("a", 1)), calling(refund("b", 2)), "done")
        first = await started(agent)
        second = await agent.resume(first.state, {"a": Reject()})
        assert isinstance(second, Interrupted)
        with pytest.raises(InvalidResume, match=r"not open: 'a'; without a reply: 'b' \(open are"):
            await agent.resume(second.state, {"a": Approve()})
        with pytest.raises(InvalidResume, match="not open: 'a'"):
            await agent.resume(second.state, {"a": Approve(), "b": Approve()})
        assert till.done == []

    async def test_a_decision_for_a_call_that_is_not_there_yet_is_refused(self):
        """B027: approving B while only A waits."""
        till = Till()
        agent = till.agent(calling(refund("a")), "done")
        waits = await started(agent)
        with pytest.raises(InvalidResume, match="not open: 'b'; without a reply: 'a'"):
            await agent.resume(waits.state, {"b": Approve()})
        assert till.done == []

    @pytest.mark.parametrize("order", [("c1", "c2"), ("c2", "c1")])
    async def test_two_calls_of_one_tool_are_told_apart(self, order: tuple[str, str]):
        """B028: by call id, never by tool name; both run once, results in call order."""
        till = Till()
        agent = till.agent(calling(refund("c1", 1), refund("c2", 2)), "done")
        waits = await started(agent)
        outcome = await agent.resume(waits.state, dict.fromkeys(order, Approve()))
        assert answers(outcome.state) == [("c1", "refunded 1", False), ("c2", "refunded 2", False)]
        assert till.done == ["refund 1", "refund 2"]

    @pytest.mark.parametrize("order", [("c1", "c2"), ("c2", "c1")])
    async def test_two_calls_of_one_tool_decided_one_by_one(self, order: tuple[str, str]):
        """B028: in turn, with early start: the second decision still finds its call."""
        till = Till()
        agent = till.agent(calling(refund("c1", 1), refund("c2", 2)), "done", early_start=True)
        waits: Any = await started(agent)
        for call_id in order:
            waits = await agent.resume(reloaded(waits.state), {call_id: Approve()})
        assert isinstance(waits, Completed)
        assert answers(waits.state) == [("c1", "refunded 1", False), ("c2", "refunded 2", False)]
        assert sorted(till.done) == ["refund 1", "refund 2"]

    async def test_equal_calls_of_one_message_are_decided_one_by_one(self):
        """B028: same tool, same arguments: two requests, two decisions."""
        till = Till()
        agent = till.agent(calling(refund("c1", 1), refund("c2", 1)), "done")
        waits = await started(agent)
        outcome = await agent.resume(waits.state, {"c1": Reject(), "c2": Approve()})
        assert answers(outcome.state) == [("c1", DECLINED, True), ("c2", "refunded 1", False)]


def helper(name: str, order: int) -> tuple[SubAgent, list[str]]:
    till = Till()
    agent = till.agent(calling(refund("inner", order)), f"{name} done")
    return SubAgent(name=name, description=f"Refunds as {name}.", agent=agent), till.done


def task(call_id: str, name: str) -> ToolCall:
    return ToolCall(call_id, "task", {"instructions": "go", "task_name": name})


class TestSubAgents:
    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    async def test_each_decision_reaches_its_own_child(self, order: tuple[int, ...]):
        """B029, B033: three children wait; one entry a call, one resume, any order."""
        helpers = [helper(name, place) for place, name in enumerate("abc", 1)]
        parent = Agent(
            model=ScriptedModel(calling(*(task(f"t{one}", one) for one in "abc")), "done"),
            middlewares=[SubAgents([kind for kind, _ in helpers], general=False)],
        )
        waits = await started(parent)
        assert isinstance(waits.interrupt, MultipleInterrupts)
        members = waits.interrupt.interrupts
        assert [type(member) for member in members] == [SubAgentInterrupt] * 3
        assert [member.tool_call_id for member in members] == ["ta", "tb", "tc"]
        replies = [
            ("ta-inner", Approve()),
            ("tb-inner", Edit({"order": 22})),
            ("tc-inner", Reject()),
        ]
        outcome = await parent.resume(
            reloaded(waits.state), dict(replies[place] for place in order)
        )
        assert isinstance(outcome, Completed)
        assert answers(outcome.state) == [
            ("ta", "a done", False),
            ("tb", "b done", False),
            ("tc", "c done", False),
        ]
        assert [done for _, done in helpers] == [["refund 1"], ["refund 22"], []]

    async def test_a_plain_answer_for_several_waiting_children_is_refused(self):
        """B033: a named error that lists what is open, not a crash; nothing runs."""
        helpers = [helper(name, 1) for name in "ab"]
        parent = Agent(
            model=ScriptedModel(calling(task("ta", "a"), task("tb", "b")), "done"),
            middlewares=[SubAgents([kind for kind, _ in helpers], general=False)],
        )
        waits = await started(parent)
        with pytest.raises(InvalidResume, match="without a reply: 'tb-inner'"):
            await parent.resume(waits.state, {"ta-inner": Approve()})
        assert [done for _, done in helpers] == [[], []]


class TestSeveralResumes:
    @pytest.mark.parametrize("order", [("c2", "c4"), ("c4", "c2")])
    async def test_no_result_is_lost_or_doubled_over_several_resumes(self, order: tuple[str, str]):
        """B034: free, gated, free, gated, decided one by one: four results, each once."""
        till = Till()
        agent = till.agent(
            calling(note("c1", "a"), refund("c2", 2), note("c3", "b"), refund("c4", 4)),
            "done",
            early_start=True,
        )
        waits: Any = await started(agent)
        for call_id in order:
            waits = await agent.resume(reloaded(waits.state), {call_id: Approve()})
        assert isinstance(waits, Completed)
        assert answers(waits.state) == [
            ("c1", "noted a", False),
            ("c2", "refunded 2", False),
            ("c3", "noted b", False),
            ("c4", "refunded 4", False),
        ]
        assert Counter(till.done) == {"note a": 1, "refund 2": 1, "note b": 1, "refund 4": 1}

    async def test_only_pending_calls_need_a_reply(self):
        """B035: one immediate call and two gated: the two replies are enough."""
        till = Till()
        agent = till.agent(calling(note("c1"), refund("c2", 2), refund("c3", 3)), "done")
        waits = await started(agent)
        outcome = await agent.resume(waits.state, {"c2": Approve(), "c3": Reject()})
        assert isinstance(outcome, Completed)
        assert answers(outcome.state) == [
            ("c1", "noted x", False),
            ("c2", "refunded 2", False),
            ("c3", DECLINED, True),
        ]

    async def test_a_reply_for_a_call_that_needs_none_is_refused(self):
        """B035: an extra reply is as wrong as a missing one."""
        till = Till()
        agent = till.agent(calling(note("c1"), refund("c2")), "done")
        waits = await started(agent)
        with pytest.raises(InvalidResume, match="not open: 'c1'"):
            await agent.resume(waits.state, {"c1": Approve(), "c2": Approve()})
        assert till.done == []

    async def test_a_question_beside_an_approval_waits_for_its_own_answer(self):
        """B035: the approval is decided first, the question that the batch then asks after it."""
        till = Till()
        agent = till.agent(calling(refund("c1", 1), ask("c2")), "done")
        waits = await started(agent)
        asked = await agent.resume(waits.state, {"c1": Approve()})
        assert isinstance(asked, Interrupted)
        assert asked.interrupt == Question("Which?", tool_call_id="c2")
        outcome = await agent.resume(reloaded(asked.state), {"c2": Answer((), "that one")})
        assert isinstance(outcome, Completed)
        assert answers(outcome.state) == [
            ("c1", "refunded 1", False),
            ("c2", 'User responded: "that one"', False),
        ]
        assert till.done == ["refund 1"]


async def test_the_requests_stand_in_call_order():
    """B036: one entry a call, with its own id and arguments."""
    till = Till()
    agent = till.agent(calling(refund("c1", 1), note("c2"), refund("c3", 3)), "done")
    waits = await started(agent)
    requests: Mapping[str, Any] = {
        request.tool_call_id: (request.tool_name, request.arguments, request.display_text)
        for request in waits.interrupt.action_requests  # type: ignore[attr-defined]
    }
    assert list(requests.items()) == [
        ("c1", ("refund", {"order": 1}, "Refund")),
        ("c3", ("refund", {"order": 3}, "Refund")),
    ]
    assert reloaded(waits.state).interrupt == waits.interrupt
