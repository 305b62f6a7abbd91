"""What was a bug once, upstream: each case with the better behaviour."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Answer,
    Completed,
    Failed,
    Halt,
    Interrupted,
    Message,
    Middleware,
    Misconfigured,
    MultipleInterrupts,
    Paused,
    Question,
    ScriptedModel,
    TextPart,
    ToolContext,
    ToolResult,
    interrupt_restorable,
    serialize,
    tool,
)
from sagents_app.engine.deltas import TextDelta
from sagents_app.engine.errors import StreamDied
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent, general_purpose
from tests.engine.doubles import Notes, asked, call, calling, results, shape, told


def kinds(agent: Agent, **options: Any) -> SubAgents:
    kind = SubAgent(name="helper", description="Helps.", agent=agent, **options)
    return SubAgents([kind], general=False)


def tasking(call_id: str = "c1") -> Message:
    return calling(call(call_id, "task", instructions="Do it.", task_name="helper"))


async def test_a_dead_stream_is_still_told_apart_from_a_cancel_after_a_restart() -> None:
    """G-004."""
    agent = Agent(model=ScriptedModel([TextDelta("Hel"), StreamDied("reset")]))
    failed = await agent.execute(asked())
    restored = serialize.load_state(serialize.dump_state(failed.state))
    message = restored.messages[-1]
    assert (message.text, message.status) == ("Hel", "stream_error")
    assert message.stream_failure is not None
    assert (message.stream_failure.type, message.stream_failure.message) == (
        "stream_error",
        "reset",
    )


async def test_a_dead_stream_fails_a_turn_with_a_demand_too() -> None:
    """G-006."""
    agent = Agent(
        model=ScriptedModel([TextDelta("Hel"), StreamDied("reset")]), tools=[Notes().tool]
    )
    outcome = await agent.execute(asked(), until_tool="note")
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "stream_error"


def test_an_empty_batch_of_interrupts_waits_for_nothing() -> None:
    """G-011: upstream counts it as restorable."""
    stack = [AskUserQuestion(), Haltable(), HumanInTheLoop({})]
    assert not interrupt_restorable(MultipleInterrupts(()), stack)
    assert interrupt_restorable(MultipleInterrupts((Halt("no"),)), stack)


def test_questions_to_the_user_are_not_inherited_by_sub_agents() -> None:
    """G-012: a general sub-agent has its parent's other tools alone."""
    agent = Agent(
        model=ScriptedModel(),
        tools=[Notes().tool],
        middlewares=[AskUserQuestion(), SubAgents()],
    )
    assert list(agent.tools) == ["note", "ask_user", "task"]
    assert list(general_purpose(agent.setup, "Do it.").tools) == ["note"]


async def test_a_halt_inside_a_sub_agent_halts_the_parent_without_another_call() -> None:
    """G-013: it is restorable, and its words are kept."""

    @tool
    async def stop() -> Halt:
        return Halt("The account is locked.")

    child = Agent(model=ScriptedModel(calling(call("x1", "stop"))), tools=[stop])
    model = ScriptedModel(tasking())
    agent = Agent(model=model, middlewares=[kinds(child), Haltable()])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Interrupted)
    assert len(model.requests) == 1
    assert isinstance(outcome.interrupt, Halt)
    assert outcome.interrupt.message == "The account is locked."
    restored = serialize.load_state(serialize.dump_state(outcome.state))
    kept = restored.clean_stale_interrupts(agent.middlewares)
    assert kept.interrupt == outcome.interrupt


@pytest.mark.parametrize("fails", [False, True])
async def test_a_demand_on_a_sub_agent_brings_its_tools_result(*, fails: bool) -> None:
    """G-014, G-023: success and failure alike; nothing of it goes on behind."""
    notes = Notes()
    last = "I would rather not." if fails else calling(call("x1", text="found"))
    child_model = ScriptedModel(last)
    child = Agent(model=child_model, tools=[notes.tool])
    agent = Agent(
        model=ScriptedModel(tasking(), "done"), middlewares=[kinds(child, until_tool="note")]
    )
    before = asyncio.all_tasks()
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    result = results(outcome.state)["c1"]
    assert result.is_error is fails
    assert ("noted found" in result.text) is not fails
    assert len(child_model.requests) == 1
    assert asyncio.all_tasks() == before
    assert dict(outcome.state.sub_agents) == {}


async def test_a_question_of_a_sub_agents_tool_is_answered_in_place() -> None:
    """G-015."""
    child = Agent(
        model=ScriptedModel(
            calling(call("x1", "ask_user", question="Which?", response_type="freeform")),
            "It is the blue one.",
        ),
        middlewares=[AskUserQuestion()],
    )
    agent = Agent(model=ScriptedModel(tasking(), "done"), middlewares=[kinds(child)])
    stopped = await agent.execute(asked())
    assert isinstance(stopped, Interrupted)
    restored = serialize.load_state(serialize.dump_state(stopped.state))
    outcome = await agent.resume(restored, {"c1-x1": Answer(other_text="blue")})
    assert isinstance(outcome, Completed)
    assert told(outcome.state) == {"c1": "It is the blue one."}


async def test_the_cause_of_a_pause_is_kept() -> None:
    """G-017."""
    agent = Agent(model=ScriptedModel(calling(call("c1")), "done"), tools=[Notes().tool])
    outcome = await agent.execute(asked(), should_pause=lambda: "draining")
    assert isinstance(outcome, Paused)
    assert (outcome.reason, outcome.state.pause_reason) == ("draining", "draining")


def test_a_middleware_that_cannot_start_says_why_at_once() -> None:
    """G-018."""

    class Broken(Middleware):
        def check(self, tools: Any) -> None:
            raise Misconfigured("Broken: no folder '/x'")

    with pytest.raises(Misconfigured, match="Broken: no folder '/x'"):
        Agent(model=ScriptedModel(), middlewares=[Broken()])


async def test_a_halt_of_an_earlier_turn_is_in_no_later_interrupt() -> None:
    """G-021."""

    @tool
    async def stop() -> Halt:
        return Halt("no")

    @tool
    async def ask() -> Question:
        return Question("Which?")

    model = ScriptedModel(calling(call("c1", "stop")), calling(call("c2", "ask")))
    agent = Agent(model=model, tools=[stop, ask], middlewares=[Haltable(), AskUserQuestion()])
    halted = await agent.execute(asked())
    moved_on = halted.state.cancel_pending_interrupts().add_message(Message.user("next"))
    outcome = await agent.execute(moved_on)
    assert isinstance(outcome, Interrupted)
    assert outcome.interrupt == Question("Which?", tool_call_id="c2")
    assert results(outcome.state)["c1"].is_error


async def test_the_hosts_values_reach_a_sub_agents_tools_and_no_store() -> None:
    """G-024, G-026."""
    seen: list[Any] = []
    secret = object()

    @tool
    async def look(ctx: ToolContext) -> str:
        seen.append((ctx.tool_context.get("secret"), ctx.scope, ctx.acting_user))
        return "seen"

    kind = SubAgent(
        name="helper",
        description="Helps.",
        system_prompt="Help.",
        model=ScriptedModel(calling(call("x1", "look")), "helped"),
        tools=(look,),
    )
    agent = Agent(
        model=ScriptedModel(tasking(), "done"),
        middlewares=[SubAgents([kind], general=False)],
        tool_context={"secret": secret},
        scope="acme",
    )
    outcome = await agent.execute(asked(), acting_user="ann")
    assert isinstance(outcome, Completed)
    assert seen == [(secret, "acme", "ann")]
    assert "secret" not in str(serialize.dump_state(outcome.state))


async def test_an_open_question_survives_a_cold_start() -> None:
    """G-027: upstream once demoted every interrupt on loading."""
    asking = calling(call("c1", "ask_user", question="Which?", response_type="freeform"))
    agent = Agent(model=ScriptedModel(asking, "done"), middlewares=[AskUserQuestion()])
    stopped = await agent.execute(asked())
    restored = serialize.load_state(serialize.dump_state(stopped.state))
    kept = restored.clean_stale_interrupts(agent.middlewares)
    assert kept.interrupt == stopped.state.interrupt
    outcome = await agent.resume(kept, {"c1": Answer(other_text="blue")})
    assert told(outcome.state) == {"c1": 'User responded: "blue"'}


def test_a_state_that_calls_tasks_by_their_old_name_is_read() -> None:
    """G-028."""
    arguments = {"instructions": "llamas", "subagent_type": "researcher"}
    old_call = {"call_id": "c1", "type": "function", "name": "task", "arguments": arguments}
    reply = {"role": "assistant", "content": None, "status": "complete", "tool_calls": [old_call]}
    loaded = serialize.load_state({"version": 1, "state": {"messages": [reply]}})
    assert loaded.messages[0].tool_calls[0].arguments == {
        "instructions": "llamas",
        "task_name": "researcher",
    }


async def test_a_placeholder_without_its_interrupt_crashes_nothing() -> None:
    """G-106: it is a result like any other, and the turn goes on behind it."""
    lost = ToolResult("c1", "note", (TextPart("waiting"),), is_interrupt=True)
    agent = Agent(model=ScriptedModel("done"), tools=[Notes().tool])
    outcome = await agent.execute(asked(calling(call("c1")), Message.tool(lost)))
    assert isinstance(outcome, Completed)
    assert shape(outcome.state) == ["U", "A(c1)", "T(c1)", "A"]


async def test_the_turn_is_the_same_where_nothing_is_wrong() -> None:
    """The double of the cases above: a task, an answer, an end."""
    child = Agent(model=ScriptedModel("helped"))
    agent = Agent(model=ScriptedModel(tasking(), "done"), middlewares=[kinds(child)])
    outcome = await agent.execute(AgentState((Message.user("hi"),)))
    assert told(outcome.state) == {"c1": "helped"}
