"""Expansion in a turn: on the very next call, behind all results, exactly once, come what may."""

from __future__ import annotations

from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Completed,
    Edit,
    Failed,
    Halt,
    Interrupted,
    Message,
    ModelError,
    Paused,
    Reject,
    ScriptedModel,
    ToolError,
    ToolOutput,
    ToolResult,
    expand,
    modes,
    serialize,
    steps,
    tool,
)
from sagents_app.engine.messages import Expansion
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Events, Journal, Notes, asked, call, calling, shape, told

NOTE = "The material of this result follows as messages."


def loading(count: list[int] | None = None, **options: Any) -> Any:
    """A tool `load(title)`: hands over "<title> material" and the anchor "<title> anchor"."""

    @tool(**options)
    def load(title: str = "x") -> ToolOutput:
        """Load."""
        if count is not None:
            count.append(1)
        messages = [Message.assistant(f"{title} material"), Message.user(f"{title} anchor")]
        return expand(f"all of {title}", messages)

    return load


def stored(state: AgentState) -> AgentState:
    return serialize.load_state(serialize.dump_state(state))


def sent(model: ScriptedModel, index: int) -> list[str]:
    return [message.text for message in model.requests[index].messages]


async def test_the_very_next_call_has_the_material_and_ends_with_the_anchor() -> None:
    """E-040, E-021: once; the result shows only the short content."""
    model = ScriptedModel(calling(call("c1", "load")), calling(call("c2", "note")), "done")
    outcome = await Agent(model=model, tools=[loading(), Notes().tool]).execute(asked())
    assert isinstance(outcome, Completed)
    assert shape(model.requests[1].messages) == ["U", "A(c1)", "T(c1)", "A", "U"]
    assert sent(model, 1)[3:] == ["x material", "x anchor"]
    assert sent(model, 2).count("x material") == 1
    assert told(outcome.state)["c1"] == NOTE
    assert shape(outcome.state) == [
        *("U", "A(c1)", "T(c1)", "A", "U"),
        *("A(c2)", "T(c2)", "A"),
    ]


async def test_two_expanding_results_stand_in_result_order_behind_the_whole_batch() -> None:
    """E-021, E-025, B054: all results first, then the material; a sibling stays as it is."""
    batch = [call("c1", "load", title="first"), call("c2"), call("c3", "load", title="second")]
    model = ScriptedModel(calling(*batch), "done")
    outcome = await Agent(model=model, tools=[loading(parallel=True), Notes().tool]).execute(
        asked()
    )
    assert isinstance(outcome, Completed)
    assert shape(model.requests[1].messages) == [
        *("U", "A(c1,c2,c3)", "T(c1,c2,c3)"),
        *("A", "U", "A", "U"),
    ]
    assert sent(model, 1)[3:] == [
        *("first material", "first anchor"),
        *("second material", "second anchor"),
    ]
    assert told(outcome.state) == {"c1": NOTE, "c2": "noted", "c3": NOTE}


async def test_a_turn_that_met_its_target_expands_nothing_into_itself() -> None:
    """E-026, E-041: the last message is the tool message, with the full material in it."""
    model = ScriptedModel(calling(call("c1", "load")), "never")
    outcome = await Agent(model=model, tools=[loading()]).execute(asked(), until_tool="load")
    assert isinstance(outcome, Completed)
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)"]
    assert outcome.tool_result is not None
    assert outcome.tool_result.text == "all of x"
    assert len(model.requests) == 1


async def test_an_interrupted_turn_expands_nothing_into_itself() -> None:
    """E-042: a gated sibling; nothing ran, nothing expanded."""
    count: list[int] = []
    model = ScriptedModel(calling(call("c1", "load"), call("c2")), "done")
    gate = HumanInTheLoop({"note": True})
    agent = Agent(model=model, tools=[loading(count), Notes().tool], middlewares=[gate])
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert (count, shape(waiting.state)) == ([], ["U", "A(c1,c2)"])
    done = await agent.resume(stored(waiting.state), {"c2": Reject("no")})
    assert isinstance(done, Completed)
    assert sent(model, 1)[3:] == ["x material", "x anchor"]
    assert count == [1]


async def test_beside_a_question_the_fallback_stays_readable_until_it_is_answered() -> None:
    """E-042: through storage; then on the first call after the answer."""
    from sagents_app.engine import Answer

    asking = call("c2", "ask_user", question="sure?", response_type="freeform")
    model = ScriptedModel(calling(call("c1", "load"), asking), "done")
    agent = Agent(model=model, tools=[loading()], middlewares=[AskUserQuestion()])
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert shape(waiting.state) == ["U", "A(c1,c2)", "T(c1,c2)"]
    assert told(waiting.state)["c1"] == "all of x"
    done = await agent.resume(stored(waiting.state), {"c2": Answer(other_text="yes")})
    assert isinstance(done, Completed)
    assert sent(model, 1)[3:] == ["x material", "x anchor"]
    assert told(done.state) == {"c1": NOTE, "c2": 'User responded: "yes"'}


EDITED = 'A person changed the arguments before the call ran, to {"title":"y"}.\n'


@pytest.mark.parametrize(
    ("reply", "title", "note"),
    [(Approve(), "x", NOTE), (Edit({"title": "y"}), "y", EDITED + NOTE)],
    ids=["approve", "edit"],
)
async def test_a_gated_expanding_tool_expands_on_the_first_call_after_the_approval(
    reply: Any, title: str, note: str
) -> None:
    """E-043: at the interrupt nothing ran; afterwards the material is there, the result trimmed.

    The model still reads that a person changed the arguments.
    """
    count: list[int] = []
    model = ScriptedModel(calling(call("c1", "load", title="x")), "done")
    gate = HumanInTheLoop({"load": True})
    agent = Agent(model=model, tools=[loading(count)], middlewares=[gate])
    waiting = await agent.execute(asked())
    assert isinstance(waiting, Interrupted)
    assert count == []
    done = await agent.resume(stored(waiting.state), {"c1": reply})
    assert isinstance(done, Completed)
    assert sent(model, 1)[3:] == [f"{title} material", f"{title} anchor"]
    assert told(done.state)["c1"] == note
    assert (count, len(model.requests)) == ([1], 2)


async def test_a_stored_history_that_ends_in_material_is_expanded_before_the_first_call() -> None:
    """E-044, E-045: an unapplied expansion survives storage, against upstream."""
    first = Agent(model=ScriptedModel(calling(call("c1", "load"))), tools=[loading()])
    loaded = await first.execute(asked(), until_tool="load")
    model = ScriptedModel("done", "again")
    agent = Agent(model=model, tools=[loading()])
    done = await agent.execute(stored(loaded.state))
    assert sent(model, 0)[3:] == ["x material", "x anchor"]
    again = await agent.execute(stored(done.state).add_message(Message.user("more")))
    assert sent(model, 1).count("x material") == 1
    assert told(again.state) == {"c1": NOTE}


async def test_material_goes_between_its_result_and_a_message_that_was_queued() -> None:
    """E-049: also where two messages waited, and after a storage round trip."""
    first = Agent(model=ScriptedModel(calling(call("c1", "load"))), tools=[loading()])
    loaded = await first.execute(asked(), until_tool="load")
    queued = loaded.state.add_message(Message.user("and"), Message.user("this"))
    model = ScriptedModel("done")
    events = Events()
    done = await Agent(model=model, tools=[loading()]).execute(stored(queued), on_event=events)
    assert sent(model, 0)[3:] == ["x material", "x anchor", "and", "this"]
    assert [one.id for one in done.state.messages[5:7]] == [one.id for one in queued.messages[3:]]
    assert events.names.count("MessageAdded") == 3


async def test_a_message_queued_behind_an_approved_expanding_call_comes_last() -> None:
    model = ScriptedModel(calling(call("c1", "load")), "done")
    gate = HumanInTheLoop({"load": True})
    agent = Agent(model=model, tools=[loading()], middlewares=[gate])
    waiting = await agent.execute(asked())
    questions = iter([False, "draining"])
    paused = await agent.resume(
        waiting.state, {"c1": Approve()}, should_pause=lambda: next(questions, "draining")
    )
    assert isinstance(paused, Paused)
    done = await agent.execute(stored(paused.state.add_message(Message.user("queued"))))
    assert isinstance(done, Completed)
    assert sent(model, 1)[3:] == ["x material", "x anchor", "queued"]


async def test_a_recovered_result_expands_like_a_fresh_one() -> None:
    """The journal keeps the expansion; nothing runs again."""
    count: list[int] = []
    kept = ToolResult("c1", "load", expansion=Expansion((Message.user("material"),), None))
    recovered = serialize.load_result(serialize.dump_result(kept))
    model = ScriptedModel("done")
    await Agent(model=model, tools=[loading(count)]).execute(
        asked(calling(call("c1", "load"))), journal=Journal(recovered)
    )
    assert (sent(model, 0)[-1], count) == ("material", [])


async def test_material_outlives_a_failed_call_and_is_there_once_when_it_is_made_again() -> None:
    model = ScriptedModel(calling(call("c1", "load")), ModelError("down"), "done")
    agent = Agent(model=model, tools=[loading()])
    failed = await agent.execute(asked())
    assert isinstance(failed, Failed)
    done = await agent.execute(stored(failed.state))
    assert isinstance(done, Completed)
    assert sent(model, 2)[3:] == ["x material", "x anchor"]


async def test_an_error_result_may_expand_too() -> None:
    """E-027: only a waiting result does not."""
    kept = ToolResult(
        "c1", "load", is_error=True, expansion=Expansion((Message.user("material"),), None)
    )
    model = ScriptedModel("done")
    state = asked(calling(call("c1", "load")), Message.tool(kept))
    outcome = await Agent(model=model, tools=[loading()]).execute(state)
    assert isinstance(outcome, Completed)
    assert sent(model, 0)[-1] == "material"


async def test_beside_a_halt_nothing_is_expanded_until_the_user_moves_on() -> None:
    """E-042; the halted call is demoted, the material then stands before the new message."""

    @tool
    def stop() -> Halt:
        """Stop."""
        return Halt("enough")

    model = ScriptedModel(calling(call("c1", "load"), call("c2", "stop")), "done")
    agent = Agent(model=model, tools=[loading(), stop])
    halted = await agent.execute(asked())
    assert isinstance(halted, Interrupted)
    assert shape(halted.state) == ["U", "A(c1,c2)", "T(c1,c2)"]
    moved_on = stored(halted.state).cancel_pending_interrupts()
    done = await agent.execute(moved_on.add_message(Message.user("new")))
    assert isinstance(done, Completed)
    assert sent(model, 1)[3:] == ["x material", "x anchor", "new"]


async def test_a_mode_without_the_step_shows_the_full_material_in_the_result() -> None:
    """E-001, E-047."""
    mode = modes.pipeline(steps.call_model, steps.execute_tools, steps.continue_or_done)
    model = ScriptedModel(calling(call("c1", "load")), "done")
    outcome = await Agent(model=model, tools=[loading()], mode=mode).execute(asked())
    assert isinstance(outcome, Completed)
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "A"]
    assert told(outcome.state) == {"c1": "all of x"}


async def test_material_that_ends_on_an_assistant_message_is_read_all_the_same() -> None:
    """E-024, E-051: the call is made in any case; a prefill is allowed and not corrected."""

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", [Message.assistant("material")])

    model = ScriptedModel(calling(call("c1", "load")), "done")
    outcome = await Agent(model=model, tools=[load]).execute(asked())
    assert isinstance(outcome, Completed)
    assert (len(model.requests), sent(model, 1)[-1]) == (2, "material")
    assert outcome.state.messages[-1].text == "done"


async def test_at_the_budgets_end_material_is_in_the_history_and_no_call_is_made() -> None:
    """E-070: also where the material ends on an assistant message."""

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", [Message.assistant("material")])

    model = ScriptedModel(calling(call("c1", "load")), "never")
    outcome = await Agent(model=model, tools=[load], max_runs=1).execute(asked())
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "exceeded_max_runs"
    assert len(model.requests) == 1


async def test_inserted_messages_are_told_to_the_host_as_what_they_are() -> None:
    """E-028 is upstream's: here rows are the host's business, so it hears of each message."""
    events = Events()
    model = ScriptedModel(calling(call("c1", "load")), "done")
    await Agent(model=model, tools=[loading()]).execute(asked(), on_event=events)
    relevant = [name for name in events.names if name.startswith("Message")]
    assert relevant == [
        *("MessageAdded", "MessageAdded"),  # calls, results
        "MessageReplaced",  # the trimmed result
        *("MessageAdded", "MessageAdded"),  # the material
        "MessageAdded",  # the answer
    ]


async def test_sub_agents_expand_too() -> None:
    """E-050."""
    inner = ScriptedModel(calling(call("c1", "load")), "read it")
    kind = SubAgent(
        name="reader", description="Reads.", system_prompt="Read.", model=inner, tools=(loading(),)
    )
    task = call("t1", "task", instructions="go", task_name="reader")
    agent = Agent(model=ScriptedModel(calling(task), "done"), middlewares=[SubAgents([kind])])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert [one.text for one in inner.requests[1].messages][3:] == ["x material", "x anchor"]
    assert told(outcome.state) == {"t1": "read it"}


async def test_the_same_constant_messages_may_be_handed_over_again_and_again() -> None:
    """Their ids stay unique in the conversation."""
    anchor = Message.user("anchor")

    @tool
    def load() -> ToolOutput:
        """Load."""
        return expand("all", [anchor])

    model = ScriptedModel(calling(call("c1", "load")), calling(call("c2", "load")), "done")
    outcome = await Agent(model=model, tools=[load]).execute(asked())
    ids = [message.id for message in outcome.state.messages]
    assert len(set(ids)) == len(ids) == 8


async def test_a_failing_load_expands_nothing() -> None:
    @tool
    def load() -> ToolOutput:
        """Load."""
        raise ToolError("not there")

    model = ScriptedModel(calling(call("c1", "load")), "done")
    outcome = await Agent(model=model, tools=[load]).execute(asked())
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "A"]
    assert told(outcome.state) == {"c1": "not there"}
