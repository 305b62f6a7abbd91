"""Interrupts that a cold start cannot keep, and those that the user leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagents_app.engine import (
    ActionRequest,
    AgentState,
    ApprovalRequest,
    Approve,
    Halt,
    Interrupt,
    Message,
    Middleware,
    MultipleInterrupts,
    Question,
    SubAgentInterrupt,
    TextPart,
    ToolCall,
    ToolResult,
    UnknownInterrupt,
    interrupt_restorable,
)
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop, SubAgents

PROCESS_BOUND = "The tool was interrupted and could not be resumed; its work was lost."
INCOMPATIBLE = (
    "The tool was interrupted, and the stored interrupt is incompatible with this version."
)
MOVED_ON = (
    "The user did not respond to this and sent something new. Proceed with the user's new request."
)
ASK, HALT, HITL, TASKS = AskUserQuestion(), Haltable(), HumanInTheLoop({}), SubAgents()
QUESTION = Question("Which one?", tool_call_id="c1")
SECOND = Question("And then?", tool_call_id="c2")
HALTED = Halt("Budget exceeded", tool_call_id="c1")
TASK = SubAgentInterrupt(
    "mailer",
    path=("agent", "mailer"),
    inner=ApprovalRequest(action_requests=(ActionRequest("c1-a", "send"),)),
    tool_call_id="c1",
)


class Raises(Middleware):
    """Cannot even say whether it knows an interrupt."""

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        raise RuntimeError("no idea")


class Truthy(Middleware):
    """Answers something that is merely true."""

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        return 1  # type: ignore[return-value]


def waiting(call_id: str, interrupt: Interrupt | None) -> ToolResult:
    text = (TextPart("Waiting."),)
    return ToolResult(call_id, "work", text, is_interrupt=True, interrupt=interrupt)


def done(call_id: str) -> ToolResult:
    return ToolResult(call_id, "work", (TextPart("done"),))


def error(call_id: str, text: str) -> ToolResult:
    return ToolResult(call_id, "work", (TextPart(text),), is_error=True)


def state_with(*results: ToolResult, **options: Any) -> AgentState:
    calls = [ToolCall(result.tool_call_id, result.name) for result in results]
    messages = (
        Message.user("hi"),
        Message.assistant(tool_calls=calls),
        Message.tool(*results),
    )
    return AgentState(messages, **options)


def results_of(state: AgentState) -> list[ToolResult]:
    return [result for message in state.messages for result in message.tool_results]


@dataclass(frozen=True)
class CleanCase:
    id: str
    results: tuple[ToolResult, ...]
    middlewares: tuple[Middleware, ...]
    cleaned: tuple[ToolResult, ...]


CLEAN = [
    CleanCase(
        "S-070 a sub-agent's interrupt without middleware is demoted",
        (waiting("c1", TASK),),
        (),
        (error("c1", PROCESS_BOUND),),
    ),
    CleanCase("S-071 a normal result is untouched", (done("c1"),), (), (done("c1"),)),
    CleanCase(
        "S-071 an error result is untouched",
        (error("c1", "broken"),),
        (),
        (error("c1", "broken"),),
    ),
    CleanCase(
        "S-072 only the interrupt of a mixed message changes, order kept",
        (waiting("c1", TASK), done("c2")),
        (),
        (error("c1", PROCESS_BOUND), done("c2")),
    ),
    CleanCase(
        "S-074 no middleware demotes even a question",
        (waiting("c1", QUESTION),),
        (),
        (error("c1", PROCESS_BOUND),),
    ),
    CleanCase(
        "S-075 a question that its middleware claims is kept as it is",
        (waiting("c1", QUESTION),),
        (ASK,),
        (waiting("c1", QUESTION),),
    ),
    CleanCase(
        "S-076 a sub-agent's interrupt is not the question middleware's",
        (waiting("c1", TASK),),
        (ASK,),
        (error("c1", PROCESS_BOUND),),
    ),
    CleanCase(
        "S-076 nor is it restorable by whoever claims only what is inside",
        (waiting("c1", TASK),),
        (HITL, ASK, HALT),
        (error("c1", PROCESS_BOUND),),
    ),
    CleanCase(
        "S-076 a sub-agent's interrupt is kept by the sub-agents' middleware",
        (waiting("c1", TASK),),
        (TASKS,),
        (waiting("c1", TASK),),
    ),
    CleanCase(
        "S-077 a placeholder without its interrupt is called incompatible",
        (waiting("c1", None),),
        (ASK,),
        (error("c1", INCOMPATIBLE),),
    ),
    CleanCase(
        "S-078 two questions in one wrapper are kept whole",
        (waiting("c1", MultipleInterrupts((QUESTION, SECOND))),),
        (ASK,),
        (waiting("c1", MultipleInterrupts((QUESTION, SECOND))),),
    ),
    CleanCase(
        "S-079 a wrapper with a part that nobody claims is demoted whole",
        (waiting("c1", MultipleInterrupts((QUESTION, TASK))),),
        (ASK,),
        (error("c1", PROCESS_BOUND),),
    ),
    CleanCase(
        "S-080 a halt is kept by its middleware",
        (waiting("c1", HALTED),),
        (HALT,),
        (waiting("c1", HALTED),),
    ),
    CleanCase(
        "S-080 a halt without its middleware is demoted",
        (waiting("c1", HALTED),),
        (ASK,),
        (error("c1", PROCESS_BOUND),),
    ),
    CleanCase(
        "S-081 each result of a batch is kept or demoted on its own merits",
        (waiting("c1", TASK), waiting("c2", SECOND)),
        (ASK,),
        (error("c1", PROCESS_BOUND), waiting("c2", SECOND)),
    ),
    CleanCase(
        "M-082 a hook that raises claims nothing",
        (waiting("c1", QUESTION),),
        (Raises(),),
        (error("c1", PROCESS_BOUND),),
    ),
]


class TestColdStart:
    @pytest.mark.parametrize("case", CLEAN, ids=[case.id for case in CLEAN])
    def test_cold_start_keeps_only_what_can_be_resumed(self, case: CleanCase):
        state = state_with(*case.results)
        cleaned = state.clean_stale_interrupts(case.middlewares)
        assert tuple(results_of(cleaned)) == case.cleaned
        assert list(cleaned.messages[:2]) == list(state.messages[:2])
        assert cleaned.messages[2].id == state.messages[2].id
        assert cleaned.clean_stale_interrupts(case.middlewares) == cleaned

    @pytest.mark.parametrize("state", [AgentState(), state_with(done("c1"))])
    def test_nothing_to_clean_changes_nothing(self, state: AgentState):
        """S-073: no interrupts, or an empty state: a no-op."""
        assert state.clean_stale_interrupts() == state

    def test_an_approval_is_left_alone_by_a_cold_start(self):
        """S-082: a gated call has no result; the open interrupt is part of the state."""
        approval = ApprovalRequest(action_requests=(ActionRequest("c1", "work"),))
        messages = (Message.user("hi"), Message.assistant(tool_calls=[ToolCall("c1", "work")]))
        state = AgentState(messages, interrupt=approval)
        assert state.clean_stale_interrupts() == state

    @pytest.mark.parametrize(
        ("interrupt", "left"),
        [(QUESTION, None), (MultipleInterrupts((TASK, SECOND)), SECOND)],
        ids=["one", "a part of a batch"],
    )
    def test_what_was_demoted_is_not_waited_for(self, interrupt: Interrupt, left: Any):
        """S-081: the state waits only for what is still open, and lost work leaves no state."""
        results = (
            (waiting("c1", QUESTION),)
            if left is None
            else (waiting("c1", TASK), waiting("c2", SECOND))
        )
        state = state_with(
            *results, interrupt=interrupt, sub_agents={"c1": AgentState(), "c9": AgentState()}
        )
        cleaned = state.clean_stale_interrupts(() if left is None else (ASK,))
        assert cleaned.interrupt == left
        assert cleaned.sub_agents == {"c9": AgentState()}

    def test_an_open_interrupt_that_is_restorable_stays_open(self):
        """S-075: the state waits for it as before."""
        state = state_with(waiting("c1", QUESTION), interrupt=QUESTION)
        assert state.clean_stale_interrupts((ASK,)) == state

    def test_a_lost_placeholder_of_an_earlier_batch_leaves_what_is_open_alone(self):
        """S-081: only what waits for the lost call is given up."""
        batch = MultipleInterrupts((TASK, SECOND))
        state = state_with(waiting("c9", HALTED), interrupt=batch)
        cleaned = state.clean_stale_interrupts((ASK,))
        assert results_of(cleaned) == [error("c9", PROCESS_BOUND)]
        assert cleaned.interrupt == batch

    def test_a_batch_with_a_halt_survives_whole(self):
        """S-096: halt wins, so the members beside it are kept although nobody claims them."""
        batch = MultipleInterrupts((HALTED, SECOND))
        state = state_with(waiting("c1", HALTED), waiting("c2", SECOND), interrupt=batch)
        assert state.clean_stale_interrupts((HALT,)) == state

    def test_a_host_may_give_any_object_that_restores(self):
        """S-099: any interrupt is kept when any one of them claims it."""

        class Host:
            def restorable_interrupt(self, interrupt: Interrupt) -> bool:
                return isinstance(interrupt, UnknownInterrupt)

        state = state_with(waiting("c1", UnknownInterrupt("legacy", tool_call_id="c1")))
        assert state.clean_stale_interrupts((ASK, Host())) == state


@dataclass(frozen=True)
class Restorable:
    id: str
    interrupt: Interrupt | None
    middlewares: Sequence[Middleware]
    restorable: bool


RESTORABLE = [
    Restorable("S-090 nothing", None, (ASK, HALT), False),
    Restorable("S-091 no middleware", QUESTION, (), False),
    Restorable("S-092 question, its middleware", QUESTION, (ASK,), True),
    Restorable("S-092 question, another one", QUESTION, (HALT,), False),
    Restorable("S-093 halt", HALTED, (HALT,), True),
    Restorable("S-095 two questions", MultipleInterrupts((QUESTION, SECOND)), (ASK,), True),
    Restorable("S-095 question and task", MultipleInterrupts((QUESTION, TASK)), (ASK, HITL), False),
    Restorable(
        "S-095 question and task, claimed", MultipleInterrupts((QUESTION, TASK)), (ASK, TASKS), True
    ),
    Restorable(
        "S-096 question and halt, both", MultipleInterrupts((QUESTION, HALTED)), (ASK, HALT), True
    ),
    Restorable(
        "S-096 question and halt, question only",
        MultipleInterrupts((QUESTION, HALTED)),
        (ASK,),
        False,
    ),
    Restorable(
        "S-096 question and halt, halt only: the halt ends the whole batch",
        MultipleInterrupts((QUESTION, HALTED)),
        (HALT,),
        True,
    ),
    Restorable("S-097 an empty batch", MultipleInterrupts(()), (ASK, HALT, HITL, TASKS), False),
    Restorable("S-099 one of several claims it", HALTED, (ASK, HITL, HALT), True),
    Restorable("M-080 no hook", QUESTION, (Middleware(),), False),
    Restorable("M-081 another type", TASK, (ASK,), False),
    Restorable("M-082 a raising hook", QUESTION, (Raises(),), False),
    Restorable("M-082 a raising hook beside one that claims", QUESTION, (Raises(), ASK), True),
    Restorable("M-083 an unreadable one", UnknownInterrupt("legacy"), (ASK, HALT, HITL), False),
    Restorable("M-084 only exactly True is a claim", QUESTION, (Truthy(),), False),
]


class TestRestorable:
    @pytest.mark.parametrize("case", RESTORABLE, ids=[case.id for case in RESTORABLE])
    def test_only_what_a_middleware_claims_is_restorable(self, case: Restorable):
        assert interrupt_restorable(case.interrupt, case.middlewares) is case.restorable

    @pytest.mark.parametrize("case", RESTORABLE, ids=[case.id for case in RESTORABLE])
    def test_a_cold_start_does_what_the_predicate_says(self, case: Restorable):
        """S-098: predicate and clean-up agree on every kind."""
        state = state_with(waiting("c1", case.interrupt))
        cleaned = state.clean_stale_interrupts(case.middlewares)
        assert (cleaned == state) is case.restorable


@dataclass(frozen=True)
class CancelCase:
    id: str
    results: tuple[ToolResult, ...]
    cancelled: tuple[ToolResult, ...]


HALT_TEXT = "The tool halted the workflow: Budget exceeded\nProceed with the user's new request."
CANCEL = [
    CancelCase("S-110 one question", (waiting("c1", QUESTION),), (error("c1", MOVED_ON),)),
    CancelCase(
        "S-111 two in one message",
        (waiting("c1", QUESTION), waiting("c2", SECOND)),
        (error("c1", MOVED_ON), error("c2", MOVED_ON)),
    ),
    CancelCase("S-114 nothing waits", (done("c1"),), (done("c1"),)),
    CancelCase(
        "S-115 a halt keeps its reason", (waiting("c1", HALTED),), (error("c1", HALT_TEXT),)
    ),
    CancelCase(
        "S-116 what is no halt does not sound like one",
        (waiting("c1", HALTED), waiting("c2", SECOND), done("c3")),
        (error("c1", HALT_TEXT), error("c2", MOVED_ON), done("c3")),
    ),
    CancelCase(
        "S-117 a halt without a message", (waiting("c1", Halt()),), (error("c1", MOVED_ON),)
    ),
    CancelCase(
        "S-117 a placeholder without its interrupt",
        (waiting("c1", None),),
        (error("c1", MOVED_ON),),
    ),
]


class TestMovedOn:
    @pytest.mark.parametrize("case", CANCEL, ids=[case.id for case in CANCEL])
    def test_what_waits_is_answered_when_the_user_moves_on(self, case: CancelCase):
        """S-113: the state's own interrupt is cleared with it, whatever it is."""
        state = state_with(*case.results, interrupt=QUESTION)
        cancelled = state.cancel_pending_interrupts()
        assert tuple(results_of(cancelled)) == case.cancelled
        assert cancelled.interrupt is None

    def test_the_interrupt_is_cleared_without_messages(self):
        """S-113: even where there is no message."""
        assert AgentState(interrupt=QUESTION).cancel_pending_interrupts() == AgentState()

    def test_the_wording_follows_each_result_and_not_the_wrapper(self):
        """S-118: the state says halt, the result says question."""
        state = state_with(waiting("c1", QUESTION), interrupt=HALTED)
        (result,) = results_of(state.cancel_pending_interrupts())
        assert result.text == MOVED_ON

    def test_a_halt_inside_a_batch_of_one_result_keeps_its_reason(self):
        batch = MultipleInterrupts((QUESTION, HALTED))
        (result,) = results_of(state_with(waiting("c1", batch)).cancel_pending_interrupts())
        assert result.text == HALT_TEXT

    def test_undecided_gated_calls_are_answered_and_decisions_forgotten(self):
        """The exit from an approval: every call has its result, nothing decided stays behind."""
        calls = [ToolCall("c1", "work"), ToolCall("c2", "work")]
        messages = (Message.user("hi"), Message.assistant(tool_calls=calls))
        approval = ApprovalRequest(action_requests=(ActionRequest("c1", "work"),))
        state = AgentState(
            messages,
            interrupt=approval,
            decisions={"c2": Approve()},
            verdicts={"c1": True, "c2": True},
            runs_used=3,
            tokens_used=9,
            sub_agents={"c1": AgentState()},
        )
        cancelled = state.cancel_pending_interrupts()
        assert results_of(cancelled) == [error("c1", MOVED_ON), error("c2", MOVED_ON)]
        assert replace(cancelled, messages=()) == AgentState()
