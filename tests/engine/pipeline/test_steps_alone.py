"""Each step by itself on a `Turn`: what it changes, what it leaves alone, how it ends a turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    ApprovalRequest,
    Approve,
    Cancel,
    Completed,
    Failed,
    Halt,
    Interrupted,
    Message,
    Misconfigured,
    MultipleInterrupts,
    Paused,
    Question,
    Reject,
    ScriptedModel,
    TextPart,
    Todo,
    ToolOutput,
    ToolResult,
    Turn,
    expand,
    steps,
    tool,
)
from sagents_app.engine.errors import BudgetExceeded, StepFailed
from sagents_app.engine.interrupts import ReviewConfig
from sagents_app.engine.messages import Expansion
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Events, Notes, asked, call, calling, shape, told

ANSWERED = (calling(call("c1")), Message.tool(ToolResult("c1", "note", (TextPart("ok"),))))


def result(call_id: str = "c1", name: str = "note", text: str = "ok", **fields: Any) -> ToolResult:
    return ToolResult(call_id, name, (TextPart(text),), **fields)


def agent(*replies: Any, **options: Any) -> Agent:
    options.setdefault("tools", [Notes().tool])
    return Agent(model=ScriptedModel(*replies), **options)


def ended_in(*results: ToolResult) -> AgentState:
    calls = [call(one.tool_call_id, one.name) for one in results]
    return asked(calling(*calls), Message.tool(*results))


# expand_tool_results


async def test_expansion_puts_the_material_behind_the_result_and_trims_it() -> None:
    """E-021, E-023, E-024: [U, A, T] becomes [U, A, T(trimmed), A(material), U(anchor)]."""
    material = (Message.assistant("material"), Message.user("anchor"))
    kept = (TextPart("short"),)
    state = ended_in(result(text="all of it", expansion=Expansion(material, kept)))
    turn = agent().turn(state)
    after = await steps.expand_tool_results(turn)
    assert isinstance(after, Turn)
    assert shape(after.state) == ["U", "A(c1)", "T(c1)", "A", "U"]
    assert [message.text for message in after.state.messages[3:]] == ["material", "anchor"]
    assert told(after.state) == {"c1": "short"}
    assert after.state.messages[2].tool_results[0].expansion is None
    assert after.state.messages[2].id == state.messages[2].id
    assert shape(turn.state) == ["U", "A(c1)", "T(c1)"]


@dataclass(frozen=True)
class Unchanged:
    id: str
    state: AgentState


WAITING = result(
    is_interrupt=True,
    interrupt=Halt("stop"),
    expansion=Expansion((Message.user("material"),), None),
)


@pytest.mark.parametrize(
    "case",
    [
        Unchanged("E-020: last is a user message", asked()),
        Unchanged("E-020: last is an answer", asked(Message.assistant("hello"))),
        Unchanged("E-020: last is open calls", asked(calling(call()))),
        Unchanged("E-025: no expansion", ended_in(result())),
        Unchanged("E-025: an interrupted result", ended_in(WAITING)),
        Unchanged(
            "E-020: a call behind the results",
            asked(*ANSWERED, Message.user("more"), Message.assistant("hello")),
        ),
    ],
    ids=lambda case: case.id,
)
async def test_expansion_leaves_everything_else_as_it_is(case: Unchanged) -> None:
    turn = agent().turn(case.state)
    assert await steps.expand_tool_results(turn) is turn


# check_pause


@dataclass(frozen=True)
class Pause:
    id: str
    answer: Any
    reason: Any


@pytest.mark.parametrize(
    "case",
    [
        Pause("P-050: True has no reason", True, None),
        Pause("P-051: a text is the reason", "draining", "draining"),
        Pause("P-051: a mapping is the reason", {"cause": "store"}, {"cause": "store"}),
        Pause("an empty text is a reason", "", ""),
        Pause("zero is a reason", 0, 0),
    ],
    ids=lambda case: case.id,
)
async def test_a_pause_carries_its_reason_on_the_outcome_and_on_the_state(case: Pause) -> None:
    """P-176: one shape everywhere."""
    turn = agent().turn(asked(runs_used=3), should_pause=lambda: case.answer)
    outcome = await steps.check_pause(turn)
    assert isinstance(outcome, Paused)
    assert (outcome.reason, outcome.state.pause_reason) == (case.reason, case.reason)
    assert type(outcome.reason) is type(case.reason)
    assert shape(outcome.state) == ["U"]
    assert outcome.state.runs_used == 3


@pytest.mark.parametrize("answer", [False, None])
async def test_no_reason_to_pause_goes_on(answer: Any) -> None:
    turn = agent().turn(asked(), should_pause=lambda: answer)
    assert await steps.check_pause(turn) is turn


async def test_a_reply_that_needs_nothing_more_is_not_paused() -> None:
    turn = agent().turn(asked(Message.assistant("done")), should_pause=lambda: True)
    assert await steps.check_pause(turn) is turn


async def test_nobody_who_pauses_goes_on() -> None:
    turn = agent().turn(asked())
    assert await steps.check_pause(turn) is turn


# check_max_runs


async def test_the_budget_lets_a_turn_under_it_pass() -> None:
    turn = agent(max_runs=3).turn(asked(runs_used=2))
    assert await steps.check_max_runs()(turn) is turn


async def test_the_budget_fails_a_turn_that_needs_one_call_too_many() -> None:
    """P-060, P-062, P-145."""
    turn = agent(max_runs=3).turn(asked(runs_used=3))
    outcome = await steps.check_max_runs()(turn)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, BudgetExceeded)
    assert (outcome.error.type, outcome.error.limit, outcome.error.used) == (
        "exceeded_max_runs",
        3,
        3,
    )
    assert "Max number of automated turns reached (3/3)" in str(outcome.error)
    assert outcome.state.runs_used == 0


async def test_a_limit_of_the_steps_own_comes_before_the_agents() -> None:
    turn = agent(max_runs=9).turn(asked(runs_used=2))
    assert isinstance(await steps.check_max_runs(2)(turn), Failed)
    assert await steps.check_max_runs(3)(turn) is turn


async def test_the_budget_fails_no_turn_that_is_done() -> None:
    """It may stand behind the tools: a final reply at the limit still completes."""
    turn = agent(max_runs=1).turn(asked(Message.assistant("done"), runs_used=1))
    assert await steps.check_max_runs()(turn) is turn


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "3"])
def test_a_limit_that_is_no_number_above_zero_is_refused(limit: Any) -> None:
    with pytest.raises(Misconfigured, match="max_runs is a number above 0"):
        steps.check_max_runs(limit)


# call_model


async def test_a_model_call_appends_the_reply_and_counts_it() -> None:
    """P-033: the prompt goes with the request and never into the history."""
    model = ScriptedModel("hello")
    turn = Agent(model=model, system_prompt="Be kind.").turn(asked())
    after = await steps.call_model(turn)
    assert isinstance(after, Turn)
    assert shape(after.state) == ["U", "A"]
    assert after.state.messages[-1].text == "hello"
    assert after.state.runs_used == 1
    assert model.requests[0].system == "Be kind."
    assert shape(model.requests[0].messages) == ["U"]


async def test_a_model_call_beyond_the_budget_is_refused() -> None:
    """E-070: whatever the mode."""
    model = ScriptedModel("hello")
    turn = Agent(model=model, max_runs=2).turn(asked(runs_used=2))
    outcome = await steps.call_model(turn)
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_runs"
    assert model.requests == []


async def test_a_model_call_answers_every_orphan_call_in_what_it_sends() -> None:
    """P2: two faults, one early and one at the end; the history itself keeps its messages."""
    model = ScriptedModel("hello")
    state = asked(
        calling(call("c1"), call("c2")),
        Message.tool(result("c2")),
        Message.user("go on"),
        calling(call("c3")),
        Message.user("and now?"),
    )
    after = await steps.call_model(Agent(model=model).turn(state))
    assert isinstance(after, Turn)
    sent = model.requests[0].messages
    assert shape(sent) == ["U", "A(c1,c2)", "T(c1,c2)", "U", "A(c3)", "T(c3)", "U"]
    answers = {one.tool_call_id: one for message in sent for one in message.tool_results}
    assert answers["c2"].text == "ok"
    assert answers["c1"].is_error
    assert answers["c1"].text == "This call was never run: the turn ended before it."
    assert shape(after.state)[:-1] == shape(state)


async def test_results_without_their_calls_are_not_sent() -> None:
    model = ScriptedModel("hello")
    state = asked(Message.assistant("hm"), Message.tool(result("gone")), Message.user("go on"))
    await steps.call_model(Agent(model=model).turn(state))
    assert shape(model.requests[0].messages) == ["U", "A", "U"]


# check_approval


def gated(*replies: Any, **options: Any) -> Agent:
    notes = [Notes().tool, Notes("free").tool]
    return agent(*replies, tools=notes, middlewares=[HumanInTheLoop({"note": True})], **options)


async def test_approval_stops_for_the_gated_calls_only() -> None:
    """P-170: a matching call interrupts, with its arguments; a free one beside it does not."""
    state = asked(calling(call("c1", text="a"), call("c2", "free")))
    outcome = await steps.check_approval(gated().turn(state))
    assert isinstance(outcome, Interrupted)
    assert isinstance(outcome.interrupt, ApprovalRequest)
    (request,) = outcome.interrupt.action_requests
    assert (request.tool_call_id, request.tool_name, request.arguments) == (
        "c1",
        "note",
        {"text": "a"},
    )
    assert outcome.state.interrupt == outcome.interrupt
    assert outcome.state.verdicts == {"c1": True, "c2": False}
    assert outcome.interrupt.review_configs == {"note": ReviewConfig()}


@pytest.mark.parametrize(
    "case",
    [
        Unchanged("P-170: no calls", asked(Message.assistant("done"))),
        Unchanged("P-170: the call is answered", asked(*ANSWERED)),
        Unchanged(
            "P-171: an open call behind which the user went on",
            asked(calling(call()), Message.user("go on")),
        ),
        Unchanged("P-170: decided", asked(calling(call()), decisions={"c1": Approve()})),
        Unchanged(
            "a reply that was cut short",
            asked(Message.assistant(tool_calls=[call()], status="length")),
        ),
        Unchanged("an unknown tool", asked(calling(call(name="nobody")))),
    ],
    ids=lambda case: case.id,
)
async def test_approval_lets_pass_what_waits_for_nobody(case: Unchanged) -> None:
    after = await steps.check_approval(gated().turn(case.state))
    assert isinstance(after, Turn)
    assert shape(after.state) == shape(case.state)


async def test_without_a_gate_approval_asks_about_nothing() -> None:
    """P-170: no middleware, or none that gates."""
    turn = agent().turn(asked(calling(call())))
    assert await steps.check_approval(turn) is turn


async def test_the_gate_is_found_anywhere_in_the_stack() -> None:
    """P-170."""
    from sagents_app.engine.middlewares import AskUserQuestion, Haltable

    stack = [AskUserQuestion(), HumanInTheLoop({"note": True}), Haltable()]
    turn = agent(middlewares=stack).turn(asked(calling(call())))
    assert isinstance(await steps.check_approval(turn), Interrupted)


# execute_tools


async def test_tools_run_once_and_answer_in_call_order() -> None:
    notes = Notes(parallel=True)
    state = asked(calling(call("c1", text="a"), call("c2", text="b"), call("c3", text="c")))
    after = await steps.execute_tools(agent(tools=[notes.tool]).turn(state))
    assert isinstance(after, Turn)
    assert shape(after.state) == ["U", "A(c1,c2,c3)", "T(c1,c2,c3)"]
    assert told(after.state) == {"c1": "noted a", "c2": "noted b", "c3": "noted c"}
    assert sorted(notes.taken) == ["a", "b", "c"]


async def test_results_of_no_batch_change_nothing() -> None:
    turn = agent().turn(asked())
    assert await turn.put_results({"c1": result()}) is turn


async def test_a_message_that_a_step_replaces_is_sent_as_it_stands_now() -> None:
    turn = agent("one", "two").turn(asked())
    turn = await steps.call_model(turn)  # type: ignore[assignment]  # a reply is a turn
    turn = await turn.replace_message(0, Message.user("other"))
    turn = await turn.add_message(Message.user("more"))
    after = await steps.call_model(turn)
    assert isinstance(after, Turn)
    first, second = after.setup.models[0].requests  # type: ignore[attr-defined]  # scripted
    assert [one.text for one in first.messages] == ["hi"]
    assert [one.text for one in second.messages] == ["other", "one", "more"]


@pytest.mark.parametrize("reply", [Cancel(), Answer(other_text="yes")], ids=["cancel", "answer"])
async def test_a_gated_call_with_an_odd_decision_is_declined(reply: Any) -> None:
    """P9: what approves nothing runs nothing."""
    notes = Notes()
    gated = agent(tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    turn = gated.turn(asked(calling(call("c1")), decisions={"c1": reply}))
    after = await steps.execute_tools(turn)
    assert isinstance(after, Turn)
    assert told(after.state) == {"c1": "A person declined this call. Do not repeat it."}
    assert notes.taken == []


async def test_tools_that_have_a_result_are_not_run_again() -> None:
    notes = Notes()
    state = asked(calling(call("c1", text="a"), call("c2", text="b")), Message.tool(result("c1")))
    after = await steps.execute_tools(agent(tools=[notes.tool]).turn(state))
    assert isinstance(after, Turn)
    assert shape(after.state) == ["U", "A(c1,c2)", "T(c1,c2)"]
    assert told(after.state) == {"c1": "ok", "c2": "noted b"}
    assert notes.taken == ["b"]
    assert after.state.messages[2].id == state.messages[2].id


async def test_no_gated_call_runs_without_a_decision_whatever_the_mode() -> None:
    """P9: used alone, without `check_approval` before it."""
    notes = Notes()
    one = agent(tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    after = await steps.execute_tools(one.turn(asked(calling(call()))))
    assert isinstance(after, Turn)
    assert notes.taken == []
    assert told(after.state) == {
        "c1": "This call needs a person's approval, which it does not have; it was not run."
    }


async def test_a_decided_call_runs_and_a_rejected_one_is_answered() -> None:
    notes = Notes()
    one = agent(tools=[notes.tool], middlewares=[HumanInTheLoop({"note": True})])
    state = asked(
        calling(call("c1", text="a"), call("c2", text="b")),
        decisions={"c1": Approve(), "c2": Reject("too dear")},
    )
    after = await steps.execute_tools(one.turn(state))
    assert isinstance(after, Turn)
    assert notes.taken == ["a"]
    assert told(after.state) == {
        "c1": "noted a",
        "c2": "A person declined this call. Do not repeat it. Their note: too dear",
    }
    assert after.state.decisions == {}


@pytest.mark.parametrize(
    "case",
    [
        Unchanged("no calls", asked()),
        Unchanged("all answered", asked(*ANSWERED)),
        Unchanged("cut short", asked(Message.assistant(tool_calls=[call()], status="length"))),
    ],
    ids=lambda case: case.id,
)
async def test_tools_leave_alone_what_is_not_to_run(case: Unchanged) -> None:
    turn = agent().turn(case.state)
    assert await steps.execute_tools(turn) is turn


# propagate_state


async def test_state_changes_are_applied_in_call_order_and_once() -> None:
    """P-034, P-172, P-196: the last one wins where two change the same field."""
    first, second = (Todo(1, "one"),), (Todo(1, "two"),)
    state = ended_in(
        result("c1", state_update={"todos": first, "metadata": {"a": {"x": 1}}}),
        result("c2", state_update={"todos": second, "metadata": {"a": {"y": 2}}}),
    )
    after = await steps.propagate_state(agent().turn(state))
    assert isinstance(after, Turn)
    assert after.state.todos == second
    assert after.state.metadata == {"a": {"x": 1, "y": 2}}
    assert [one.state_update for one in after.state.messages[-1].tool_results] == [None, None]
    assert await steps.propagate_state(after) is after


@pytest.mark.parametrize(
    "case",
    [
        Unchanged("P-172: no change in the results", asked(*ANSWERED)),
        Unchanged("P-172: no results", asked()),
        Unchanged(
            "P-173: results of an earlier batch",
            asked(
                calling(call("c0")),
                Message.tool(result("c0", state_update={"metadata": {"a": 1}})),
                Message.assistant("so"),
                Message.user("go on"),
            ),
        ),
    ],
    ids=lambda case: case.id,
)
async def test_without_changes_the_state_stays(case: Unchanged) -> None:
    turn = agent().turn(case.state)
    assert await steps.propagate_state(turn) is turn


async def test_changes_are_found_behind_a_user_message_that_came_meanwhile() -> None:
    state = ended_in(result(state_update={"metadata": {"a": 1}})).add_message(Message.user("more"))
    after = await steps.propagate_state(agent().turn(state))
    assert isinstance(after, Turn)
    assert after.state.metadata == {"a": 1}
    assert shape(after.state) == ["U", "A(c1)", "T(c1)", "U"]


async def test_messages_among_the_changes_are_material_for_the_next_call() -> None:
    """They stand behind all results, so that the batch stays whole until then."""
    state = ended_in(
        result("c1", state_update={"messages": (Message.user("material"),)}),
        result("c2", is_interrupt=True, interrupt=Question("sure?", tool_call_id="c2")),
    )
    turn = agent().turn(state)
    after = await steps.propagate_state(turn)
    assert isinstance(after, Turn)
    assert shape(after.state) == ["U", "A(c1,c2)", "T(c1,c2)"]
    assert isinstance(await steps.check_tool_interrupts(after), Interrupted)
    expanded = await steps.expand_tool_results(after)
    assert isinstance(expanded, Turn)
    assert [message.text for message in expanded.state.messages[3:]] == ["material"]
    assert told(expanded.state)["c1"] == "ok"


@dataclass(frozen=True)
class Unusable:
    id: str
    update: Any


@pytest.mark.parametrize(
    "case",
    [
        Unusable("no field", {"mood": "good"}),
        Unusable("the engine's own", {"decisions": {"c9": Approve()}}),
        Unusable("no list of todos", {"todos": 5}),
        Unusable("no mapping", {"metadata": 5}),
    ],
    ids=lambda case: case.id,
)
async def test_an_unusable_change_fails_the_turn_once_and_is_not_tried_again(
    case: Unusable,
) -> None:
    notes = tool(name="note")(make_changing(case.update))
    model = ScriptedModel(calling(call()), "never", "second turn")
    one = Agent(model=model, tools=[notes])
    outcome = await one.execute(asked())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, StepFailed)
    assert "tool 'note' made an unusable state change" in str(outcome.error)
    assert told(outcome.state) == {"c1": "done"}
    again = await one.execute(outcome.state.add_message(Message.user("go on")))
    assert isinstance(again, Completed)


def make_changing(update: Any) -> Callable[[], ToolOutput]:
    def note(text: str = "") -> ToolOutput:
        """Change the state."""
        return ToolOutput("done", state=update)

    return note


async def test_changed_todos_are_told_to_the_host() -> None:
    events = Events()
    state = ended_in(result(state_update={"todos": (Todo(1, "one"),)}))
    await steps.propagate_state(agent().turn(state, on_event=events))
    assert events.names == ["MessageReplaced", "TodosChanged"]


# check_tool_interrupts


async def test_one_waiting_tool_stops_the_turn_with_its_own_interrupt() -> None:
    halt = Halt("enough", tool_call_id="c1", source_tool="note")
    state = ended_in(result(is_interrupt=True, interrupt=halt))
    outcome = await steps.check_tool_interrupts(agent().turn(state))
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == halt
    assert outcome.state.interrupt == halt


async def test_several_waiting_tools_stop_it_together_in_call_order() -> None:
    first, second = Question("a?", tool_call_id="c1"), Question("b?", tool_call_id="c3")
    state = ended_in(
        result("c1", is_interrupt=True, interrupt=first),
        result("c2"),
        result("c3", is_interrupt=True, interrupt=second),
    )
    outcome = await steps.check_tool_interrupts(agent().turn(state))
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == MultipleInterrupts((first, second))


@pytest.mark.parametrize(
    "state", [asked(), asked(*ANSWERED), asked(calling(call()))], ids=["U", "T", "A"]
)
async def test_nobody_waiting_goes_on(state: AgentState) -> None:
    turn = agent().turn(state)
    assert await steps.check_tool_interrupts(turn) is turn


# check_until_tool


@dataclass(frozen=True)
class Until:
    id: str
    results: tuple[ToolResult, ...]
    found: str | None
    success: bool = False


UNTIL = [
    Until("P-174: a matching result", (result("c1", "submit"),), "c1"),
    Until("P-174: a matching success", (result("c1", "submit"),), "c1", True),
    Until("P-174: an error counts as called", (result("c1", "submit", is_error=True),), "c1"),
    Until("P-174: an error is no success", (result("c1", "submit", is_error=True),), None, True),
    Until("P-174: no match", (result("c1", "note"),), None),
    Until(
        "P-174: the success among an error and a success",
        (result("c1", "submit", is_error=True), result("c2", "submit")),
        "c2",
        True,
    ),
    Until(
        "rejected by a person", (result("c1", "submit", is_error=True, decision="reject"),), None
    ),
    Until("answered in its place", (result("c1", "submit", decision="respond"),), None),
    Until("approved by a person", (result("c1", "submit", decision="approve"),), "c1"),
    Until("edited by a person", (result("c1", "submit", decision="edit"),), "c1"),
    Until("it waits", (result("c1", "submit", is_interrupt=True, interrupt=Halt("no")),), None),
]


@pytest.mark.parametrize("case", UNTIL, ids=lambda case: case.id)
async def test_the_demanded_tool_ends_the_turn_with_its_own_result(case: Until) -> None:
    one = agent(tools=[Notes().tool, Notes("submit").tool])
    option = "until_tool_success" if case.success else "until_tool"
    turn = one.turn(ended_in(*case.results), **{option: "submit"})
    outcome = await steps.check_until_tool(turn)
    if case.found is None:
        assert outcome is turn
    else:
        assert isinstance(outcome, Completed)
        assert outcome.tool_result is not None
        assert outcome.tool_result.tool_call_id == case.found


@pytest.mark.parametrize("names", [None, (), []])
async def test_without_a_demand_no_tool_ends_the_turn(names: Any) -> None:
    """P-149."""
    turn = agent().turn(asked(*ANSWERED), until_tool=names)
    assert await steps.check_until_tool(turn) is turn


async def test_a_demanded_tool_further_up_does_not_count() -> None:
    """P-174: last is not a tool message."""
    turn = agent().turn(asked(*ANSWERED, Message.user("go on")), until_tool="note")
    assert await steps.check_until_tool(turn) is turn


# continue_or_done


async def test_a_final_reply_completes_the_turn() -> None:
    """P-175."""
    outcome = await steps.continue_or_done(agent().turn(asked(Message.assistant("x"), runs_used=4)))
    assert isinstance(outcome, Completed)
    assert outcome.tool_result is None
    assert outcome.state.runs_used == 0


@pytest.mark.parametrize(
    "state", [asked(), asked(calling(call())), asked(*ANSWERED)], ids=["U", "A(c1)", "T(c1)"]
)
async def test_what_waits_for_the_model_goes_another_round(state: AgentState) -> None:
    """P-175."""
    turn = agent().turn(state)
    assert await steps.continue_or_done(turn) is turn


async def test_a_final_reply_without_the_demanded_tool_fails() -> None:
    """P-096, P-142, P-175: the error lists the names."""
    one = agent(tools=[Notes("submit").tool, Notes("give_up").tool])
    turn = one.turn(asked(Message.assistant("x")), until_tool=["submit", "give_up"])
    outcome = await steps.continue_or_done(turn)
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "until_tool_not_called"
    assert str(outcome.error) == "the model stopped without calling submit or give_up"


async def test_a_batch_that_waits_is_never_talked_past() -> None:
    """Also in a mode without `check_tool_interrupts`."""
    state = ended_in(result(is_interrupt=True, interrupt=Halt("enough")))
    outcome = await steps.continue_or_done(agent().turn(state))
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == Halt("enough")


async def test_a_step_returns_another_turn_and_leaves_the_old_one() -> None:
    turn = agent("hello").turn(asked())
    after = await steps.call_model(turn)
    assert isinstance(after, Turn)
    assert shape(turn.state) == ["U"]
    assert replace(turn, state=after.state) == after


async def test_an_expanding_tools_output_is_what_the_step_reads() -> None:
    """E-001, E-003: from the tool's own return value."""

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all of it", [Message.user("material")])

    turn = agent(tools=[load]).turn(asked(calling(call(name="load"))))
    after = await steps.execute_tools(turn)
    assert isinstance(after, Turn)
    assert told(after.state) == {"c1": "all of it"}
    expanded = await steps.expand_tool_results(after)
    assert isinstance(expanded, Turn)
    assert told(expanded.state) == {"c1": "The material of this result follows as messages."}
