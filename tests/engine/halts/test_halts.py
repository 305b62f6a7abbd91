"""Halts: terminal, stronger than what stands beside them, and told of once."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    Approve,
    Cancel,
    Completed,
    Halt,
    Interrupted,
    InvalidResume,
    Message,
    Middleware,
    MultipleInterrupts,
    Question,
    ScriptedModel,
    ToolResult,
    interrupt_restorable,
    serialize,
    session,
    tool,
)
from sagents_app.engine.interrupts import SubAgentInterrupt, has_halt
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Notes, asked, call, calling, results, shape, told

HALTED = "The tool halted the workflow: {}\nProceed with the user's new request."
MOVED_ON = (
    "The user did not respond to this and sent something new. Proceed with the user's new request."
)


@tool
async def stop(reason: str = "not allowed") -> Halt:
    """Stop the workflow."""
    return Halt(reason)


@tool(asks_person=True)
async def ask() -> Question:
    """Ask."""
    return Question("Which?")


def agent(*replies: Any, tools: Any = (), **options: Any) -> Agent:
    options.setdefault("middlewares", [Haltable()])
    return Agent(model=ScriptedModel(*replies), tools=[stop, ask, *tools], **options)


def stored(state: AgentState) -> AgentState:
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


def requests(one: Agent) -> int:
    return len(one.setup.models[0].requests)  # type: ignore[attr-defined]


class TestTheMiddleware:
    def test_it_adds_neither_prompt_nor_tools(self):
        """I-001, I-002: it has nothing to configure."""
        one = Agent(model=ScriptedModel(), middlewares=[Haltable()])
        assert (one.system_prompt, dict(one.tools)) == ("", {})
        with pytest.raises(TypeError, match="takes no arguments"):
            Haltable(custom=True)  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        ("interrupt", "claimed"),
        [
            pytest.param(Halt("x"), True, id="I-003 a halt"),
            pytest.param(
                MultipleInterrupts((Question("?"), Halt("x"))), True, id="I-003 a batch with one"
            ),
            pytest.param(
                MultipleInterrupts((MultipleInterrupts((Halt("x"),)), Question("?"))),
                True,
                id="I-003 deep in a batch",
            ),
            pytest.param(MultipleInterrupts((Question("?"),)), False, id="I-006 a batch without"),
            pytest.param(MultipleInterrupts(()), False, id="I-006 an empty batch"),
            pytest.param(Question("?"), False, id="I-003 a question"),
            pytest.param(
                SubAgentInterrupt("a", path=("b", "a"), inner=Question("?")),
                False,
                id="I-003 a sub-agent's",
            ),
        ],
    )
    def test_it_claims_halts_and_batches_that_hold_one(self, interrupt: Any, claimed: bool):
        assert Haltable().restorable_interrupt(interrupt) is claimed
        assert interrupt_restorable(interrupt, [Haltable()]) is claimed

    @pytest.mark.parametrize(
        ("stack", "kept"), [([Haltable()], True), ([], False)], ids=["with", "without"]
    )
    async def test_a_cold_start_keeps_a_halt_only_with_it(self, stack: Any, kept: bool):
        """I-011, I-012: without it a halt stops all the same, and does not survive clean-up."""
        one = agent(calling(call("c1", "stop")), middlewares=stack)
        outcome = await one.execute(asked())
        assert isinstance(outcome, Interrupted)
        cold = stored(outcome.state).clean_stale_interrupts(stack)
        assert (cold.interrupt is not None) is kept
        assert results(cold)["c1"].is_interrupt is kept


class TestHalting:
    async def test_a_halt_ends_the_turn_without_another_model_call(self):
        """I-009: the placeholder has the message, the halt its call and tool."""
        one = agent(calling(call("c1", "stop", reason="fix the outline")), "never")
        outcome = await one.execute(asked())
        halt = Halt("fix the outline", source_tool="stop", tool_call_id="c1")
        assert outcome == Interrupted(outcome.state, halt)
        assert outcome.state.interrupt == halt
        result = results(outcome.state)["c1"]
        assert (result.text, result.is_interrupt) == ("fix the outline", True)
        assert requests(one) == 1

    async def test_named_sources_are_kept(self):
        """The keys of the contract: `source_tool`, or `source` where no tool halted."""

        @tool
        async def gate() -> Halt:
            """Gate."""
            return Halt("x", source="quality gate")

        one = agent(calling(call("c1", "gate")), tools=[gate])
        outcome = await one.execute(asked())
        assert isinstance(outcome, Interrupted)
        assert outcome.interrupt == Halt("x", source="quality gate", tool_call_id="c1")

    @pytest.mark.parametrize("restart", [False, True])
    async def test_a_halt_is_shown_again_without_a_call(self, restart: bool):
        """I-004, I-008, I-026: a cold start shows the very same halt."""
        one = agent(calling(call("c1", "stop")), "never")
        first = await one.execute(asked())
        state = stored(first.state) if restart else first.state
        again = await one.execute(state)
        assert again == first
        assert requests(one) == 1

    @pytest.mark.parametrize(
        "reply", [Approve(), Answer(other_text="go on"), Cancel()], ids=lambda one: one.type
    )
    async def test_no_reply_resumes_a_halt(self, reply: Any):
        """I-007: whatever the payload; the halt stays."""
        one = agent(calling(call("c1", "stop")), "never")
        state = (await one.execute(asked())).state
        with pytest.raises(InvalidResume, match="the workflow was halted"):
            await one.resume(state, {"c1": reply})
        assert (await one.execute(state)).state == state

    @pytest.mark.parametrize(
        ("reason", "answer"), [("fix it", HALTED.format("fix it")), ("", MOVED_ON)]
    )
    async def test_the_users_next_message_starts_a_new_turn(self, reason: str, answer: str):
        """I-010: the halted call is an error that keeps the reason; one without has none."""
        one = agent(calling(call("c1", "stop", reason=reason)), "as you like")
        halted = await one.execute(asked())
        moved = halted.state.cancel_pending_interrupts()
        assert moved.interrupt is None
        outcome = await one.execute(moved.add_message(Message.user("leave it")))
        assert isinstance(outcome, Completed)
        assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "U", "A"]
        assert told(outcome.state) == {"c1": answer}
        assert results(outcome.state)["c1"].is_error


class TestHaltWins:
    @pytest.fixture
    async def batch(self) -> tuple[Agent, AgentState]:
        one = agent(
            calling(
                call("c1", "ask"), call("c2", "stop", reason="first"),
                call("c3", "note", text="x"), call("c4", "stop", reason="second"),
            ),
            "new turn",
            tools=[Notes().tool],
            middlewares=[Haltable(), AskUserQuestion()],
        )  # fmt: skip
        outcome = await one.execute(asked())
        return one, outcome.state

    async def test_a_batch_with_a_halt_keeps_every_member(self, batch: tuple[Agent, AgentState]):
        """I-108: in call order, each with its call; finished results stay."""
        _, state = batch
        assert isinstance(state.interrupt, MultipleInterrupts)
        assert [(one.type, one.tool_call_id) for one in state.interrupt.interrupts] == [
            ("ask_user_question", "c1"),
            ("halt", "c2"),
            ("halt", "c4"),
        ]
        assert told(state)["c3"] == "noted x"

    async def test_only_the_halts_are_shown(self, batch: tuple[Agent, AgentState]):
        """I-023, I-148: each halt, and no question that nobody can answer any more."""
        _, state = batch
        shown = session.shown(state.interrupt)
        assert [halt.message for halt in shown.halts] == ["first", "second"]
        assert shown == session.Shown(halts=shown.halts)

    async def test_it_survives_a_restart_whole(self, batch: tuple[Agent, AgentState]):
        """I-108: `Haltable` alone claims the batch."""
        one, state = batch
        cold = stored(state).clean_stale_interrupts([Haltable()])
        assert cold == state
        assert await one.execute(cold) == Interrupted(state, state.interrupt)
        assert requests(one) == 1

    async def test_nothing_in_it_can_be_answered(self, batch: tuple[Agent, AgentState]):
        one, state = batch
        replies = {"c1": Answer(other_text="x"), "c2": Cancel(), "c4": Cancel()}
        for some in (replies, {"c1": replies["c1"]}, {}):
            with pytest.raises(InvalidResume, match="halted"):
                await one.resume(state, some)

    async def test_moving_on_answers_every_member(self, batch: tuple[Agent, AgentState]):
        one, state = batch
        outcome = await one.execute(
            state.cancel_pending_interrupts().add_message(Message.user("next"))
        )
        assert told(outcome.state) == {
            "c1": MOVED_ON,
            "c2": HALTED.format("first"),
            "c3": "noted x",
            "c4": HALTED.format("second"),
        }

    async def test_an_early_halt_wins_over_an_undecided_approval(self):
        """A free tool that halts before its gated sibling is decided: both are kept, none runs."""
        notes = Notes()
        one = agent(
            calling(call("c1", text="x"), call("c2", "stop")),
            "new turn",
            tools=[notes.tool],
            middlewares=[HumanInTheLoop({"note": True}, early_start=True), Haltable()],
        )
        outcome = await one.execute(asked())
        assert isinstance(outcome, Interrupted)
        assert has_halt(outcome.interrupt)
        assert [member.type for member in outcome.interrupt.members] == ["halt", "approval"]
        with pytest.raises(InvalidResume, match="halted"):
            await one.resume(outcome.state, {"c1": Approve()})
        moved = outcome.state.cancel_pending_interrupts()
        assert told(moved) == {"c1": MOVED_ON, "c2": HALTED.format("not allowed")}
        assert notes.taken == []


class HaltsItself(Middleware):
    def after_model(self, state: AgentState) -> Halt:
        return Halt("over the line", source="policy")


def task(kind: SubAgent, *, replies: Any = ()) -> Agent:
    delegating = calling(call("t", "task", instructions="go", task_name=kind.name))
    return Agent(
        name="boss",
        model=ScriptedModel(delegating, *replies),
        middlewares=[SubAgents([kind], general=False), Haltable()],
    )


def stopper(*calls: Any) -> SubAgent:
    model = ScriptedModel(calling(*calls))
    return SubAgent(name="worker", description="w", system_prompt="p", model=model, tools=(stop,))


class TestTelemetry:
    @pytest.fixture(autouse=True)
    def _logs(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "sagents.halt")

    @staticmethod
    def records(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
        names = ("agent", "source", "source_task", "call_id", "halt_message")
        return [
            tuple(getattr(record, name) for name in names)
            for record in caplog.records
            if record.name == "sagents.halt"
        ]

    async def test_each_halt_is_logged_once_and_not_when_it_is_shown_again(
        self, caplog: pytest.LogCaptureFixture
    ):
        """Two in one batch are two records; neither a restart nor a lost interrupt adds one."""
        batch = calling(call("c1", "stop", reason="a"), call("c2", "stop", reason="b"))
        one = agent(batch, "next", name="writer")
        state = (await one.execute(asked())).state
        expected = [("writer", "stop", None, "c1", "a"), ("writer", "stop", None, "c2", "b")]
        assert self.records(caplog) == expected
        await one.execute(stored(state))
        # a state that lost its open interrupt finds it again in its placeholders
        lost = await one.execute(AgentState(state.messages))
        assert lost.state.interrupt == state.interrupt
        await one.execute(state.cancel_pending_interrupts().add_message(Message.user("x")))
        assert self.records(caplog) == expected

    async def test_a_hooks_halt_names_its_source(self, caplog: pytest.LogCaptureFixture):
        one = Agent(model=ScriptedModel("hi"), middlewares=[HaltsItself(), Haltable()], name="a")
        outcome = await one.execute(asked())
        assert isinstance(outcome, Interrupted)
        assert self.records(caplog) == [("a", "policy", None, None, "over the line")]

    async def test_a_sub_agents_halt_is_logged_as_its_parents(
        self, caplog: pytest.LogCaptureFixture
    ):
        await task(stopper(call("h", "stop", reason="x"))).execute(asked())
        assert self.records(caplog) == [("boss", "stop", "worker", "t", "x")]

    async def test_other_interrupts_are_not_logged(self, caplog: pytest.LogCaptureFixture):
        """I-024."""
        await agent(calling(call("c1", "ask"))).execute(asked())
        assert self.records(caplog) == []


async def test_several_halts_of_a_sub_agent_are_all_kept() -> None:
    """I-023, B-226: one each, with the task they came from; the demoted call keeps all reasons."""
    one = task(stopper(call("h", "stop", reason="a"), call("i", "stop", reason="b")))
    outcome = await one.execute(asked())
    assert isinstance(outcome, Interrupted)
    assert session.shown(outcome.interrupt).halts == (
        Halt("a", source_tool="stop", source_task="worker", tool_call_id="t"),
        Halt("b", source_tool="stop", source_task="worker", tool_call_id="t"),
    )
    assert stored(outcome.state) == outcome.state
    assert outcome.state.clean_stale_interrupts(one.middlewares) == outcome.state
    moved = outcome.state.cancel_pending_interrupts()
    assert told(moved) == {"t": HALTED.format("a\nb")}


def test_a_member_of_an_unreadable_kind_hides_no_halt() -> None:
    """I-013: the scan never trips over a member that today's code cannot read."""
    data = {
        "type": "multiple_interrupts",
        "interrupts": [{"type": "from_the_future", "x": 1}, {"type": "halt", "message": "m"}],
    }
    interrupt = serialize.load_interrupt(data)
    assert Haltable().restorable_interrupt(interrupt)
    assert session.shown(interrupt) == session.Shown(halts=(Halt("m"),))


async def test_a_demoted_halt_is_no_placeholder_any_more() -> None:
    """I-025: moving on changes the result alone; the halt's words are in the history for good."""
    one = agent(calling(call("c1", "stop", reason="r")))
    moved = (await one.execute(asked())).state.cancel_pending_interrupts()
    result: ToolResult = results(moved)["c1"]
    assert (result.interrupt, result.is_interrupt) == (None, False)
    assert session.shown(moved.interrupt) == session.CLEARED
