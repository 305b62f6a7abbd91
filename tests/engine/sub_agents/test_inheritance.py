"""What a sub-agent is made of, what it may see, and how its failures reach the parent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    AgentState,
    Cancelled,
    Completed,
    Failed,
    Interrupted,
    Middleware,
    Misconfigured,
    Reject,
    ScriptedModel,
    TextPart,
    Todo,
    ToolCall,
    ToolOutput,
    ToolResult,
    serialize,
    tool,
)
from sagents_app.engine.interrupts import open_call_ids
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent
from tests.engine.doubles import Gate, Journal, Notes, Switch, asked, call, calling, results, told

TASK = ToolCall("t", "task", {"instructions": "go", "task_name": "worker"})


def worker(*replies: Any, **options: Any) -> SubAgent:
    options.setdefault("system_prompt", "p")
    return SubAgent(name="worker", description="w", model=ScriptedModel(*replies), **options)


def boss(kind: SubAgent, *replies: Any, **options: Any) -> Agent:
    stack = [SubAgents([kind], general=False)]
    return Agent(model=ScriptedModel(calling(TASK), *replies), middlewares=stack, **options)


def requests(agent: Agent) -> list[Any]:
    return agent.setup.models[0].requests  # type: ignore[attr-defined,no-any-return]


async def test_a_minimal_kind_works_with_the_parents_model() -> None:
    """B-001, B-062: without messages, tools or a model of its own."""
    kind = SubAgent(name="worker", description="w", system_prompt="p")
    agent = Agent(
        model=ScriptedModel(calling(TASK), "answer", "done"),
        middlewares=[SubAgents([kind], general=False)],
    )
    outcome = await agent.execute(asked())
    assert told(outcome.state) == {"t": "answer"}
    assert [one.text for one in requests(agent)[1].messages] == ["go"]


def test_a_kind_that_cannot_be_built_stops_the_start() -> None:
    """B-005, B-022, B-044, B-159: what cannot work is found when the agent is made."""
    gate = HumanInTheLoop({"missing": True})
    with pytest.raises(Misconfigured, match="no tool 'missing'"):
        boss(worker(middlewares=(gate,)))
    with pytest.raises(Misconfigured, match="takes SubAgent objects, got 'worker'"):
        SubAgents(["worker"])  # type: ignore[list-item]


async def test_a_gate_of_one_kind_gates_that_kind_alone() -> None:
    """B-024, B-043, B-061: the parent's call of the same tool runs."""
    notes = Notes()
    kind = worker(
        calling(call("c", text="inner")), "ok",
        tools=(notes.tool,), middlewares=(HumanInTheLoop({"note": True}),),
    )  # fmt: skip
    agent = Agent(
        model=ScriptedModel(calling(call("c1", text="outer"), TASK), "done"),
        tools=[notes.tool],
        middlewares=[SubAgents([kind], general=False, blocked=(HumanInTheLoop,))],
    )
    waits = await agent.execute(asked())
    assert isinstance(waits, Interrupted)
    assert open_call_ids(waits.interrupt) == ("t-c",)
    assert notes.taken == ["outer"]
    assert isinstance(await agent.resume(waits.state, {"t-c": Reject()}), Completed)


async def test_a_kind_may_ask_where_it_names_the_middleware_itself() -> None:
    """B-041: what is inherited is without questions, what is named is not."""
    asking = calling(call("q", "ask_user", question="?", response_type="freeform"))
    waits = await boss(worker(asking, middlewares=(AskUserQuestion(),))).execute(asked())
    assert isinstance(waits, Interrupted)
    assert open_call_ids(waits.interrupt) == ("t-q",)


async def test_nothing_but_the_answer_reaches_the_parents_state() -> None:
    """B-069, B-064: todos and metadata of the sub-agent stay its own."""

    @tool
    async def plan() -> ToolOutput:
        """Plan."""
        return ToolOutput("ok", state={"todos": (Todo(1, "inner"),), "metadata": {"inner": 1}})

    kind = worker(calling(call("p", "plan")), "planned", tools=(plan,))
    outcome = await boss(kind, "done").execute(asked(metadata={"outer": 1}))
    assert isinstance(outcome, Completed)
    assert (outcome.state.todos, outcome.state.metadata) == ((), {"outer": 1})
    assert told(outcome.state) == {"t": "planned"}


class Counting(Middleware):
    """Counts its hooks."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before_model(self, state: AgentState) -> AgentState:
        self.seen.append("before_model")
        return state

    def after_model(self, state: AgentState) -> AgentState:
        self.seen.append("after_model")
        return state


async def test_the_hooks_of_a_sub_agents_middlewares_run() -> None:
    """B-092, B-095: upstream leaves them out; each call has each hook once, after a resume too."""
    counting = Counting()
    kind = worker(
        calling(call("c")), "ok",
        tools=(Notes().tool,), middlewares=(HumanInTheLoop({"note": True}), counting),
    )  # fmt: skip
    agent = boss(kind, "done")
    waits = await agent.execute(asked())
    assert counting.seen == ["before_model", "after_model"]
    await agent.resume(waits.state, {"t-c": Reject()})
    assert counting.seen == ["before_model", "after_model"] * 2


async def test_a_limit_of_calls_spans_the_resumes_of_a_task() -> None:
    """B-097, B-098, B106: two calls are two, whatever waited in between."""
    kind = worker(
        calling(call("c")), calling(call("d", text="x")),
        tools=(Notes().tool,), middlewares=(HumanInTheLoop({"note": True}),), max_runs=2,
    )  # fmt: skip
    agent = boss(kind, "done")
    first = await agent.execute(asked())
    second = await agent.resume(first.state, {"t-c": Reject()})
    outcome = await agent.resume(second.state, {"t-d": Reject()})
    assert isinstance(outcome, Completed)
    assert told(outcome.state)["t"].startswith("Task 'worker' failed (exceeded_max_runs)")


async def test_a_targets_own_result_is_the_program_s_value() -> None:
    """B-113, B-156: the result stands in `processed_content`, its parts in the answer."""

    @tool
    async def submit() -> ToolOutput:
        """Submit."""
        return ToolOutput((TextPart("text"),), processed={"answer": 42})

    kind = worker(calling(call("s", "submit")), tools=(submit,), until_tool="submit")
    outcome = await boss(kind, "done").execute(asked())
    result = results(outcome.state)["t"]
    assert result.text == "text"
    assert isinstance(result.processed_content, ToolResult)
    assert result.processed_content.processed_content == {"answer": 42}


async def test_a_prompt_for_a_named_task_is_ignored() -> None:
    """B-171."""
    kind = worker("ok", system_prompt="its own")
    task = ToolCall(
        "t", "task", {"instructions": "go", "task_name": "worker", "system_prompt": "mine"}
    )
    agent = Agent(
        model=ScriptedModel(calling(task), "done"),
        middlewares=[SubAgents([kind], general=False)],
    )
    await agent.execute(asked())
    system = kind.model.requests[0].system  # type: ignore[union-attr]
    assert system.endswith("its own")
    assert "mine" not in system


async def test_a_lost_state_of_a_waiting_task_starts_it_anew() -> None:
    """B-222: what cannot be found is not guessed: its gate asks again, nothing has run."""
    notes = Notes()
    kind = worker(
        calling(call("c", text="a")), calling(call("c", text="a")), "ok",
        tools=(notes.tool,), middlewares=(HumanInTheLoop({"note": True}),),
    )  # fmt: skip
    agent = boss(kind, "done")
    state = (await agent.execute(asked())).state
    data = serialize.dump_state(state)
    data["sub_agents"] = {}
    again = await agent.resume(
        serialize.load_state(json.loads(json.dumps(data))), {"t-c": Reject()}
    )
    assert isinstance(again, Interrupted)
    assert open_call_ids(again.interrupt) == ("t-c",)
    assert notes.taken == []


async def test_a_cancel_of_the_parent_ends_the_task_at_once() -> None:
    """B-266: the task's call is answered with the cause, and nothing goes on."""
    gate, switch, ended = Gate(), Switch(), []

    @tool
    async def wait() -> str:
        """Wait."""
        try:
            await gate.wait()
        finally:
            ended.append("ended")
        return "never"

    async def press() -> None:
        await gate.reached.wait()
        switch.on = True

    import asyncio

    agent = boss(worker(calling(call("w", "wait")), tools=(wait,)))
    outcome, _ = await asyncio.gather(agent.execute(asked(), should_cancel=switch), press())
    assert isinstance(outcome, Cancelled)
    assert "cancelled while this call ran" in told(outcome.state)["t"]
    assert ended == ["ended"]
    assert outcome.state.sub_agents == {}


@pytest.mark.parametrize("fails_on", ["begin t-c", "finish t-c"])
async def test_a_journal_that_fails_inside_a_task_fails_the_turn(fails_on: str) -> None:
    """P3: it is no answer of the task's, and the parent's model is not asked about it."""
    kind = worker(calling(call("c")), "ok", tools=(Notes().tool,))
    agent = boss(kind, "never")
    outcome = await agent.execute(asked(), journal=Journal(fails_on=fails_on))
    assert isinstance(outcome, Failed)
    assert outcome.error.type == "observer_failed"
    assert len(requests(agent)) == 1
    assert told(outcome.state)["t"].startswith("The turn ended while this call ran")
