"""Budgets of a turn: model calls, tokens, time, failing batches; and asking for more."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    Approve,
    BudgetExceeded,
    BudgetRequest,
    Cancel,
    Completed,
    Edit,
    Failed,
    FunctionModel,
    Interrupted,
    InvalidResume,
    Message,
    Misconfigured,
    Paused,
    Reject,
    Respond,
    ScriptedModel,
    TokenUsage,
    ToolError,
    modes,
    serialize,
    steps,
    tool,
)
from sagents_app.engine.deltas import FinishDelta, TextDelta, ToolCallDelta, UsageDelta
from sagents_app.engine.errors import FailureLimitExceeded
from sagents_app.engine.middlewares import HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Notes, asked, call, calling, shape, told


def endless(name: str = "note") -> FunctionModel:
    """A model that calls a tool for ever, each time with other arguments."""
    return FunctionModel(lambda request: calling(call(f"c{len(request.messages)}", name, text="x")))


def spending(tokens: int, *calls: str, text: str = "") -> list[Any]:
    """A reply that costs `tokens`."""
    deltas: list[Any] = [TextDelta(text)] if text else []
    deltas += [
        ToolCallDelta(index=index, call_id=call_id, name="note", arguments="{}")
        for index, call_id in enumerate(calls)
    ]
    return [*deltas, UsageDelta(TokenUsage(input_tokens=tokens)), FinishDelta()]


def stored(state: AgentState) -> AgentState:
    return serialize.load_state(serialize.dump_state(state))


# model calls


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_n_calls_are_really_usable_and_the_tools_of_the_last_one_run(limit: int) -> None:
    """P-060, P-062, P-145, E-070."""
    notes = Notes()
    outcome = await Agent(model=endless(), tools=[notes.tool], max_runs=limit).execute(asked())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, BudgetExceeded)
    assert outcome.error.type == "exceeded_max_runs"
    assert f"Max number of automated turns reached ({limit}/{limit})" in str(outcome.error)
    assert notes.taken == ["x"] * limit
    assert outcome.state.messages[-1].role == "tool"
    assert outcome.state.runs_used == 0


async def test_a_turn_that_ends_with_its_last_call_completes() -> None:
    model = ScriptedModel(calling(call()), "done")
    outcome = await Agent(model=model, tools=[Notes().tool], max_runs=2).execute(asked())
    assert isinstance(outcome, Completed)


@dataclass(frozen=True)
class Limit:
    id: str
    of_agent: dict[str, int]
    of_call: dict[str, int]
    calls: int


@pytest.mark.parametrize(
    "case",
    [
        Limit("P-061: the call's own wins over the agent's", {"max_runs": 100}, {"max_runs": 1}, 1),
        Limit("P-063: then the agent's", {"max_runs": 4}, {}, 4),
        Limit("P-063: then fifty", {}, {}, 50),
        Limit("a larger one of the call wins too", {"max_runs": 2}, {"max_runs": 5}, 5),
    ],
    ids=lambda case: case.id,
)
async def test_which_limit_holds(case: Limit) -> None:
    notes = Notes()
    agent = Agent(model=endless(), tools=[notes.tool], **case.of_agent)
    outcome = await agent.execute(asked(), **case.of_call)
    assert isinstance(outcome, Failed)
    assert len(notes.taken) == case.calls


@pytest.mark.parametrize("limit", [0, -1, True, "3"])
async def test_a_budget_of_nothing_is_refused(limit: Any) -> None:
    """P-063: upstream falls through; here it is a mistake, at construction and at the call."""
    for option in ("max_runs", "max_tokens", "max_seconds", "max_tool_failures"):
        with pytest.raises(Misconfigured, match=f"{option} is a number above 0, got {limit!r}"):
            Agent(model=ScriptedModel(), **{option: limit})
    with pytest.raises(Misconfigured, match="max_runs is a number above 0"):
        await Agent(model=ScriptedModel()).execute(asked(), max_runs=limit)


async def test_calls_are_counted_over_every_approval_of_the_turn() -> None:
    """B106: max_runs=5, each call gated and approved by another worker; ends at the fifth."""
    notes = Notes()
    gate = HumanInTheLoop({"note": True})
    agent = Agent(model=endless(), tools=[notes.tool], middlewares=[gate], max_runs=5)
    outcome: Any = await agent.execute(asked())
    used = []
    while isinstance(outcome, Interrupted):
        used.append(outcome.state.runs_used)
        (request,) = outcome.interrupt.action_requests  # type: ignore[attr-defined]
        outcome = await agent.resume(stored(outcome.state), {request.tool_call_id: Approve()})
    assert isinstance(outcome, Failed)
    assert "(5/5)" in str(outcome.error)
    assert used == [1, 2, 3, 4, 5]
    assert len(notes.taken) == 5


async def test_calls_are_counted_over_every_pause_of_the_turn() -> None:
    """B106."""
    notes = Notes()
    agent = Agent(model=endless(), tools=[notes.tool], max_runs=3)
    outcome: Any = Paused(asked())
    while isinstance(outcome, Paused):
        questions = iter([False, False, True])
        outcome = await agent.execute(
            stored(outcome.state), should_pause=lambda q=questions: next(q, True)
        )
    assert isinstance(outcome, Failed)
    assert "(3/3)" in str(outcome.error)
    assert len(notes.taken) == 3


async def test_the_next_turn_begins_with_a_whole_budget() -> None:
    model = ScriptedModel(calling(call("c1")), "one", calling(call("c2")), "two")
    agent = Agent(model=model, tools=[Notes().tool], max_runs=2)
    first = await agent.execute(asked())
    assert isinstance(first, Completed)
    second = await agent.execute(first.state.add_message(Message.user("again")))
    assert isinstance(second, Completed)


async def test_a_user_who_moves_on_gives_the_turn_a_new_budget() -> None:
    gate = HumanInTheLoop({"note": True})
    model = ScriptedModel(calling(call("c1")), calling(call("c2")))
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[gate], max_runs=1)
    waiting = await agent.execute(asked(tool_failures=3, granted={"tokens": 5}, tokens_used=7))
    moved_on = waiting.state.cancel_pending_interrupts()
    assert (moved_on.runs_used, moved_on.tokens_used) == (0, 0)
    assert (moved_on.tool_failures, moved_on.granted) == (0, {})
    outcome = await agent.execute(moved_on.add_message(Message.user("other")))
    assert isinstance(outcome, Interrupted)
    assert outcome.state.runs_used == 1


async def test_a_mode_without_the_budget_step_is_held_to_it_by_the_call() -> None:
    """`call_model` itself refuses."""
    mode = modes.pipeline(steps.call_model, steps.execute_tools, steps.continue_or_done)
    notes = Notes()
    agent = Agent(model=endless(), tools=[notes.tool], mode=mode, max_runs=2)
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_runs"
    assert len(notes.taken) == 2


# tokens


async def test_tokens_are_added_up_and_end_the_turn_before_the_next_call() -> None:
    model = ScriptedModel(spending(60, "c1"), spending(40, "c2"), spending(1, text="never"))
    agent = Agent(model=model, tools=[Notes().tool], max_tokens=100)
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, BudgetExceeded)
    assert outcome.error.type == "exceeded_max_tokens"
    assert (outcome.error.limit, outcome.error.used, outcome.error.budget) == (100, 100, "tokens")
    assert (len(model.requests), set(told(outcome.state))) == (2, {"c1", "c2"})


async def test_tokens_are_counted_over_approvals_each_call_once() -> None:
    """B106."""
    model = ScriptedModel(spending(60, "c1"), spending(39, "c2"), spending(5, text="done"))
    gate = HumanInTheLoop({"note": True})
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[gate], max_tokens=100)
    first = await agent.execute(asked())
    assert first.state.tokens_used == 60
    second = await agent.resume(stored(first.state), {"c1": Approve()})
    assert second.state.tokens_used == 99
    done = await agent.resume(stored(second.state), {"c2": Approve()})
    assert isinstance(done, Completed)
    assert done.state.tokens_used == 0


async def test_a_final_reply_over_the_tokens_still_completes() -> None:
    model = ScriptedModel(spending(900, text="done"))
    outcome = await Agent(model=model, max_tokens=100).execute(asked())
    assert isinstance(outcome, Completed)


# time


async def test_time_that_is_used_up_ends_the_turn_before_the_next_call() -> None:
    """The limit is of wall time; the tool of the last call has run."""
    limit = 0.25

    @tool
    def work() -> str:
        """Work until the turn's time is over."""
        begun = time.monotonic()
        while time.monotonic() - begun <= limit:
            pass
        return "worked"

    model = ScriptedModel(calling(call("c1", "work")), "never")
    outcome = await Agent(model=model, tools=[work], max_seconds=limit).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_seconds"
    assert told(outcome.state) == {"c1": "worked"}
    assert len(model.requests) == 1


async def test_waiting_for_a_person_costs_no_time() -> None:
    """The clock belongs to one drive."""
    model = ScriptedModel(calling(call("c1")), "done")
    gate = HumanInTheLoop({"note": True})
    agent = Agent(model=model, tools=[Notes().tool], middlewares=[gate], max_seconds=30)
    waiting = await agent.execute(asked())
    assert isinstance(await agent.resume(waiting.state, {"c1": Approve()}), Completed)


# failing batches


def failing(name: str = "fail") -> Any:
    @tool(name=name)
    def fail(text: str = "") -> str:
        """Fail."""
        raise ToolError("no")

    return fail


async def test_failing_batches_in_a_row_end_the_turn() -> None:
    agent = Agent(model=endless("fail"), tools=[failing()], max_tool_failures=3)
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, FailureLimitExceeded)
    assert outcome.error.type == "exceeded_failure_count"
    assert outcome.error.failures == 3
    assert shape(outcome.state) == [
        "U",
        *("A(c1)", "T(c1)"),
        *("A(c3)", "T(c3)"),
        *("A(c5)", "T(c5)"),
    ]


async def test_one_success_in_a_batch_starts_the_count_again() -> None:
    fail, notes = failing(), Notes()
    rounds = [
        calling(call("c1", "fail")),
        calling(call("c2", "fail"), call("c3")),
        calling(call("c4", "fail")),
        "done",
    ]
    agent = Agent(model=ScriptedModel(*rounds), tools=[fail, notes.tool], max_tool_failures=2)
    assert isinstance(await agent.execute(asked()), Completed)


async def test_no_limit_of_failures_is_no_limit() -> None:
    agent = Agent(model=endless("fail"), tools=[failing()], max_tool_failures=None, max_runs=12)
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_runs"


async def test_approved_calls_that_fail_are_counted_over_approvals() -> None:
    """B106: the count is in the state, and the approval does not hide the failure."""
    gate = HumanInTheLoop({"fail": True})
    agent = Agent(model=endless("fail"), tools=[failing()], middlewares=[gate], max_tool_failures=3)
    outcome: Any = await agent.execute(asked())
    failures = []
    while isinstance(outcome, Interrupted):
        failures.append(outcome.state.tool_failures)
        (request,) = outcome.interrupt.action_requests  # type: ignore[attr-defined]
        outcome = await agent.resume(stored(outcome.state), {request.tool_call_id: Approve()})
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_failure_count"
    assert failures == [0, 1, 2]


async def test_what_people_declined_is_no_failure_of_the_tools() -> None:
    gate = HumanInTheLoop({"note": True})
    replies = [calling(call(f"c{n}", text=str(n))) for n in range(3)]
    agent = Agent(
        model=ScriptedModel(*replies, "done"),
        tools=[Notes().tool],
        middlewares=[gate],
        max_tool_failures=1,
    )
    outcome: Any = await agent.execute(asked())
    for n in range(3):
        outcome = await agent.resume(outcome.state, {f"c{n}": Reject("no")})
    assert isinstance(outcome, Completed)


@pytest.mark.parametrize("limit", [3, 20])
async def test_a_model_that_repeats_a_rejected_call_asks_once_and_ends_cleanly(limit: int) -> None:
    """B103: told plainly, refused unasked from then on, and counted against the limit."""
    gate = HumanInTheLoop({"note": True})
    same = FunctionModel(lambda request: calling(call(f"c{len(request.messages)}", text="same")))
    notes = Notes()
    agent = Agent(model=same, tools=[notes.tool], middlewares=[gate], max_runs=limit)
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    outcome = await agent.resume(stored(waiting.state), {"c1": Reject()})
    assert isinstance(outcome, Failed)
    assert outcome.error.type in ("exceeded_max_runs", "exceeded_failure_count")
    answers = told(outcome.state)
    assert answers.pop("c1") == "A person declined this call. Do not repeat it."
    assert len(answers) >= 2
    assert all("c1" in text for text in answers.values())
    assert notes.taken == []


# asking for more


def asking(model: Any, *, gate: bool = False, **options: Any) -> tuple[Agent, Notes]:
    notes = Notes()
    stack = [HumanInTheLoop({"note": True})] if gate else []
    options = {"max_runs": 2, **options}
    agent = Agent(
        model=model, tools=[notes.tool], middlewares=stack, ask_when_over_budget=True, **options
    )
    return agent, notes


async def test_a_used_up_budget_is_put_to_a_person() -> None:
    """The turn waits with all its work done; it survives storage."""
    agent, notes = asking(endless())
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == BudgetRequest(2, used=2)
    assert outcome.state.interrupt == outcome.interrupt
    assert len(notes.taken) == 2
    again = await agent.execute(stored(outcome.state))
    assert again == Interrupted(stored(outcome.state), BudgetRequest(2, used=2))


@dataclass(frozen=True)
class Granted:
    id: str
    reply: Any
    used: int
    limit: int


@pytest.mark.parametrize(
    "case",
    [
        Granted("approved: as many again", Approve(), 4, 4),
        Granted("edited: up to the new limit", Edit({"limit": 3}), 3, 3),
        Granted("edited far beyond", Edit({"limit": 9}), 9, 9),
    ],
    ids=lambda case: case.id,
)
async def test_a_granted_budget_is_used_up_and_asked_about_again(case: Granted) -> None:
    agent, notes = asking(endless())
    waiting = await agent.execute(asked())
    outcome = await agent.resume(stored(waiting.state), {"budget": case.reply})
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == BudgetRequest(case.limit, used=case.used)
    assert len(notes.taken) == case.used


@pytest.mark.parametrize("reply", [Approve(), Edit({"limit": 4}), Reject("no")], ids=str)
async def test_a_reply_that_was_accepted_and_stored_is_settled_by_whoever_drives_on(
    reply: Any,
) -> None:
    """B015: a host stores the reply first; the request stands beside it until then."""
    agent, notes = asking(endless())
    waiting = await agent.execute(asked())
    accepted = stored(agent.accept(waiting.state, {"budget": reply}))
    again = stored(agent.accept(accepted, {"budget": reply}))
    assert again == accepted
    outcome = await agent.execute(again)
    assert outcome.state.decisions == {}
    if isinstance(reply, Reject):
        assert isinstance(outcome, Failed)
        assert str(outcome.error).endswith(": no")
    else:
        assert isinstance(outcome, Interrupted)
        assert outcome.interrupt == BudgetRequest(4, used=4)
    assert len(notes.taken) == (2 if isinstance(reply, Reject) else 4)


async def test_a_second_approval_grants_the_same_amount_again() -> None:
    agent, notes = asking(endless())
    outcome: Any = await agent.execute(asked())
    limits = []
    for _ in range(3):
        limits.append(outcome.interrupt.limit)
        outcome = await agent.resume(stored(outcome.state), {"budget": Approve()})
    assert limits == [2, 4, 6]
    assert len(notes.taken) == 8


async def test_a_refused_budget_fails_the_turn_with_the_reason() -> None:
    agent, notes = asking(endless())
    waiting = await agent.execute(asked())
    outcome = await agent.resume(waiting.state, {"budget": Reject("too dear")})
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_runs"
    assert str(outcome.error) == "A person granted no more runs (2/2): too dear"
    assert (len(notes.taken), outcome.state.runs_used) == (2, 0)
    assert outcome.state.interrupt is None


@pytest.mark.parametrize(
    "replies",
    [
        {},
        {"budget": Edit({"limit": 2})},
        {"budget": Edit({"limit": "9"})},
        {"budget": Edit({"limit": True})},
        {"budget": Edit({})},
        {"budget": Respond("9")},
        {"budget": Answer(other_text="9")},
        {"budget": Cancel()},
        {"c1": Approve()},
    ],
    ids=str,
)
async def test_a_reply_that_grants_nothing_is_refused_and_changes_nothing(replies: Any) -> None:
    agent, notes = asking(endless())
    waiting = await agent.execute(asked())
    with pytest.raises(InvalidResume):
        await agent.resume(waiting.state, replies)
    assert len(notes.taken) == 2
    assert waiting.state.interrupt == BudgetRequest(2, used=2)


async def test_what_was_granted_ends_with_the_turn() -> None:
    replies = [calling(call("c1")), calling(call("c2")), "done", calling(call("c3"))]
    model = ScriptedModel(*replies, calling(call("c4")))
    agent, _ = asking(model)
    waiting = await agent.execute(asked())
    done = await agent.resume(waiting.state, {"budget": Approve()})
    assert isinstance(done, Completed)
    assert done.state.granted == {}
    again = await agent.execute(done.state.add_message(Message.user("more")))
    assert isinstance(again, Interrupted)
    assert again.interrupt == BudgetRequest(2, used=2)


async def test_what_was_granted_holds_over_later_approvals() -> None:
    agent, notes = asking(endless(), gate=True, max_runs=1)
    outcome: Any = await agent.execute(asked())
    outcome = await agent.resume(stored(outcome.state), {"c1": Approve()})
    assert outcome.interrupt == BudgetRequest(1, used=1)
    outcome = await agent.resume(stored(outcome.state), {"budget": Edit({"limit": 3})})
    outcome = await agent.resume(stored(outcome.state), {"c3": Approve()})
    outcome = await agent.resume(stored(outcome.state), {"c5": Approve()})
    assert outcome.interrupt == BudgetRequest(3, used=3)
    assert len(notes.taken) == 3


async def test_tokens_are_asked_about_too() -> None:
    model = ScriptedModel(spending(100, "c1"), spending(50, "c2"), spending(60, text="done"))
    agent, _ = asking(model, max_runs=9, max_tokens=100)
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert waiting.interrupt == BudgetRequest(100, used=100, budget="tokens")
    more = await agent.resume(stored(waiting.state), {"budget": Edit({"limit": 150})})
    assert isinstance(more, Interrupted)
    assert more.interrupt == BudgetRequest(150, used=150, budget="tokens")
    done = await agent.resume(stored(more.state), {"budget": Approve()})
    assert isinstance(done, Completed)


async def test_a_limit_of_the_mode_is_asked_about_like_the_agents() -> None:
    mode = modes.pipeline(
        steps.check_max_runs(1), steps.call_model, steps.execute_tools, steps.continue_or_done
    )
    agent, notes = asking(endless(), mode=mode, max_runs=9)
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert waiting.interrupt == BudgetRequest(1, used=1)
    more = await agent.resume(waiting.state, {"budget": Approve()})
    assert isinstance(more, Interrupted)
    assert more.interrupt == BudgetRequest(2, used=2)
    assert len(notes.taken) == 2


async def test_failures_and_time_are_never_asked_about() -> None:
    agent = Agent(
        model=endless("fail"), tools=[failing()], max_tool_failures=2, ask_when_over_budget=True
    )
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_failure_count"


async def test_a_sub_agent_asks_nobody_and_its_limit_holds() -> None:
    """E-072: its task fails, and the parent's model goes on."""
    inner, notes = asking(endless())
    kind = SubAgent(name="worker", description="Works.", agent=inner, max_runs=1)
    task = call("t1", "task", instructions="go", task_name="worker")
    model = ScriptedModel(calling(task), "done")
    agent = Agent(model=model, middlewares=[SubAgents([kind])], ask_when_over_budget=True)
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert len(notes.taken) == 1
    assert "exceeded_max_runs" in told(outcome.state)["t1"]
