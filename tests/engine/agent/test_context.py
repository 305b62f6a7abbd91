"""What a tool may know beyond its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Approve,
    Completed,
    Interrupted,
    Message,
    ScriptedModel,
    Todo,
    Tool,
    ToolContext,
    ToolOutput,
    tool,
)
from sagents_app.engine.events import Custom
from sagents_app.engine.middlewares import HumanInTheLoop
from tests.engine.doubles import Events, Notes, asked, call, calling, shape, told


def looking(read: Callable[[ToolContext], Any]) -> tuple[Tool, list[Any]]:
    """A tool `look` that keeps what `read` sees of its context."""
    seen: list[Any] = []

    @tool
    async def look(ctx: ToolContext, text: str = "") -> str:
        """Look."""
        seen.append(read(ctx))
        return "looked"

    return look, seen


async def test_a_tool_sees_the_hosts_values_as_they_were_given() -> None:
    """P-190: by one name, not flattened, so that nothing can hide something of the engine's."""
    look, seen = looking(lambda ctx: dict(ctx.tool_context))
    context = {"user_id": 42, "tenant": "acme", "state": "mine", "agent_name": "mine"}
    model = ScriptedModel(calling(call("c1", "look")), "done")
    await Agent(model=model, tools=[look], tool_context=context).execute(asked())
    assert seen == [context]


async def test_a_tool_sees_conversation_user_scope_and_agent() -> None:
    """P-191 to P-194: None outside a conversation; nothing of the host's overrides them."""
    look, seen = looking(
        lambda ctx: (ctx.conversation_id, ctx.acting_user, ctx.scope, ctx.agent_name, ctx.call_id)
    )
    model = ScriptedModel(calling(call("c1", "look")), "x", calling(call("c2", "look")), "x")
    context = {"agent_name": "mine", "conversation_id": "mine"}
    agent = Agent(
        model=model, tools=[look], name="support", scope={"tenant": 1}, tool_context=context
    )
    await agent.execute(asked())
    await agent.execute(asked(), conversation_id="v7", acting_user="ann")
    assert seen == [
        (None, None, {"tenant": 1}, "support", "c1"),
        ("v7", "ann", {"tenant": 1}, "support", "c2"),
    ]


async def test_the_idempotency_key_is_the_same_whenever_the_same_call_runs_again() -> None:
    """P3: unique to the call of that conversation."""
    look, seen = looking(lambda ctx: ctx.idempotency_key)
    state = asked(calling(call("c1", "look"), call("c2", "look")))
    agent = Agent(model=ScriptedModel("x", "x", "x"), tools=[look])
    await agent.execute(state, conversation_id="v1")
    await agent.execute(state, conversation_id="v1")
    await agent.execute(state, conversation_id="v2")
    assert seen == ["v1:c1", "v1:c2", "v1:c1", "v1:c2", "v2:c1", "v2:c2"]


async def test_the_context_is_not_shown_to_the_model() -> None:
    look, _ = looking(lambda ctx: None)
    assert look.parameters["properties"].keys() == {"text"}


async def test_a_tool_sees_the_changes_of_every_earlier_batch() -> None:
    """P-195, P-212: the second plan sees the first one's todos."""

    @tool
    def plan(content: str, ctx: ToolContext) -> ToolOutput:
        """Plan."""
        todos = (*ctx.state.todos, Todo(len(ctx.state.todos) + 1, content))
        return ToolOutput("planned", state={"todos": todos})

    replies = [calling(call(f"c{n}", "plan", content=str(n))) for n in range(3)]
    outcome = await Agent(model=ScriptedModel(*replies, "done"), tools=[plan]).execute(asked())
    assert [todo.content for todo in outcome.state.todos] == ["0", "1", "2"]


@pytest.mark.parametrize("parallel", [False, True])
async def test_tools_of_one_batch_all_see_the_state_it_began_with(parallel: bool) -> None:
    """P-196: stated, so that the order of running never matters; the last change wins."""
    seen: list[int] = []

    @tool(parallel=parallel)
    async def plan(content: str, ctx: ToolContext) -> ToolOutput:
        """Plan."""
        seen.append(len(ctx.state.todos))
        return ToolOutput("planned", state={"todos": (Todo(1, content),)})

    batch = [call(f"c{n}", "plan", content=str(n)) for n in range(3)]
    outcome = await Agent(model=ScriptedModel(calling(*batch), "x"), tools=[plan]).execute(asked())
    assert seen == [0, 0, 0]
    assert [todo.content for todo in outcome.state.todos] == ["2"]


async def test_a_tool_sees_the_history_up_to_its_own_call() -> None:
    """P-197: upstream shows the history of the turn's start."""
    look, seen = looking(lambda ctx: shape(ctx.state))
    model = ScriptedModel(calling(call("c1", "look")), calling(call("c2", "look")), "done")
    await Agent(model=model, tools=[look]).execute(asked())
    assert seen == [["U", "A(c1)"], ["U", "A(c1)", "T(c1)", "A(c2)"]]


async def test_a_predicate_of_a_gate_gets_the_same_context() -> None:
    seen: list[Any] = []

    def when(arguments: Any, ctx: ToolContext) -> bool:
        seen.append((ctx.call_id, ctx.acting_user, ctx.conversation_id, ctx.agent_name))
        return True

    agent = Agent(
        model=ScriptedModel(calling(call("c1")), "done"),
        tools=[Notes().tool],
        middlewares=[HumanInTheLoop({"note": {"when": when}})],
        name="support",
    )
    waiting = await agent.execute(asked(), acting_user="ann", conversation_id="v1")
    assert isinstance(waiting, Interrupted)
    assert seen == [("c1", "ann", "v1", "support")]
    assert isinstance(await agent.resume(waiting.state, {"c1": Approve()}), Completed)


async def test_a_tool_may_tell_the_host_of_its_progress() -> None:
    @tool
    async def work(ctx: ToolContext) -> str:
        """Work."""
        assert ctx.emit is not None
        await ctx.emit(Custom("progress", {"percent": 50}))
        return "worked"

    events = Events()
    model = ScriptedModel(calling(call("c1", "work")), "done")
    await Agent(model=model, tools=[work]).execute(asked(), on_event=events)
    at = events.names.index("Custom")
    assert events.seen[at] == Custom("progress", {"percent": 50})
    assert events.names[at - 1 : at + 2] == ["ToolStarted", "Custom", "ToolFinished"]


async def test_the_hosts_values_are_never_stored() -> None:
    import json

    from sagents_app.engine import serialize

    look, _ = looking(lambda ctx: None)
    model = ScriptedModel(calling(call("c1", "look")), "done")
    agent = Agent(model=model, tools=[look], tool_context={"key": "s3cret"}, scope="s3cret-scope")
    outcome = await agent.execute(asked(), acting_user="s3cret-user")
    assert "s3cret" not in json.dumps(serialize.dump_state(outcome.state))
    assert told(outcome.state) == {"c1": "looked"}
    assert Message.user("x").id != Message.user("x").id
