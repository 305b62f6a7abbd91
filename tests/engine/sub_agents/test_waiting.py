"""Sub-agents that wait for a person: shown with their path, decided in place, stored in between."""

from __future__ import annotations

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
    Decision,
    Edit,
    Interrupted,
    InvalidResume,
    Message,
    Middleware,
    MultipleInterrupts,
    Paused,
    Question,
    Reject,
    ScriptedModel,
    SubAgentInterrupt,
    ToolCall,
    serialize,
    tool,
)
from sagents_app.engine.interrupts import open_call_ids
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop, SubAgents
from sagents_app.engine.sub_agents import SubAgent

RUNS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _fresh() -> None:
    RUNS.clear()


@tool
def send(to: str) -> str:
    """Send."""
    RUNS[f"send {to}"] += 1
    return f"sent to {to}"


@tool
def note(text: str) -> str:
    """Note."""
    RUNS[f"note {text}"] += 1
    return "noted"


def calling(*calls: ToolCall) -> Message:
    return Message.assistant(tool_calls=calls)


def task(call_id: str, name: str) -> ToolCall:
    return ToolCall(call_id, "task", {"instructions": "go", "task_name": name})


def gated(name: str, *replies: Any) -> tuple[SubAgent, ScriptedModel]:
    model = ScriptedModel(*replies)
    kind = SubAgent(
        name=name,
        description=name,
        system_prompt="p",
        model=model,
        tools=(send,),
        middlewares=(HumanInTheLoop({"send": True}),),
    )
    return kind, model


def sending(to: str, call_id: str = "s") -> Message:
    return calling(ToolCall(call_id, "send", {"to": to}))


def restarted(state: AgentState) -> AgentState:
    return serialize.load_state(json.loads(json.dumps(serialize.dump_state(state))))


def texts(state: AgentState) -> dict[str, str]:
    return {
        result.tool_call_id: result.text
        for message in state.messages
        for result in message.tool_results
    }


async def begin(agent: Agent) -> Interrupted:
    outcome = await agent.execute(AgentState((Message.user("hi"),)))
    assert isinstance(outcome, Interrupted)
    return outcome


async def test_a_gated_call_inside_is_shown_with_the_path_of_agents() -> None:
    """B-153, B010, B072."""
    kind, _ = gated("mailer", sending("ann"), "ok")
    agent = Agent(
        name="boss",
        model=ScriptedModel(calling(task("t", "mailer"))),
        middlewares=[SubAgents([kind])],
    )
    interrupt = (await begin(agent)).interrupt
    assert isinstance(interrupt, SubAgentInterrupt)
    assert (interrupt.task_name, interrupt.path) == ("mailer", ("boss", "mailer"))
    assert interrupt.tool_call_id == "t"
    assert open_call_ids(interrupt) == ("t-s",)
    assert RUNS == {}


@pytest.mark.parametrize(
    ("reply", "runs", "told"),
    [
        (Approve(), {"send ann": 1}, "sent to ann"),
        (Edit({"to": "bob"}, note="not ann"), {"send bob": 1}, "not ann"),
        (Reject("use the sandbox"), {}, "use the sandbox"),
    ],
    ids=["approve", "edit", "reject"],
)
async def test_each_decision_reaches_the_tool_inside_after_a_restart(
    reply: Decision, runs: Mapping[str, int], told: str
) -> None:
    """B009, B107, B-221: one result for the parent's call in each case."""
    kind, inner = gated("mailer", sending("ann"), "all done")
    outer = ScriptedModel(calling(task("t", "mailer")), "end")
    agent = Agent(model=outer, middlewares=[SubAgents([kind])])
    waiting = restarted((await begin(agent)).state)
    outcome = await agent.resume(waiting, {"t-s": reply})
    assert isinstance(outcome, Completed)
    assert runs == RUNS
    assert texts(outcome.state) == {"t": "all done"}
    assert told in inner.requests[1].messages[-1].tool_results[0].text
    assert outcome.state.sub_agents == {}
    assert len(outer.requests) == 2


async def test_an_edit_inside_a_general_task_is_checked_with_its_own_tools() -> None:
    """B-155: also of the kind that is made anew for each task."""
    agent = Agent(
        model=ScriptedModel(calling(task("t", "general-purpose")), sending("ann"), "ok", "done"),
        tools=[send],
        middlewares=[SubAgents(), HumanInTheLoop({"send": True})],
    )
    state = restarted((await begin(agent)).state)
    with pytest.raises(InvalidResume, match="the edited arguments of 'send' do not fit"):
        await agent.resume(state, {"t-s": Edit({"to": 5})})
    assert RUNS == {}
    done = await agent.resume(state, {"t-s": Edit({"to": "bob"})})
    assert isinstance(done, Completed)
    assert RUNS == {"send bob": 1}


async def test_what_a_middleware_knows_nothing_about_is_checked_with_the_agents_own_tools() -> None:
    class Claiming(Middleware):
        def restorable_interrupt(self, interrupt: Any) -> bool:
            return True

    kind, _ = gated("mailer", sending("ann"), "ok")
    agent = Agent(
        model=ScriptedModel(calling(task("t", "mailer"))),
        middlewares=[Claiming(), SubAgents([kind])],
    )
    state = (await begin(agent)).state
    with pytest.raises(InvalidResume, match="tool 'send' is gone"):
        await agent.resume(state, {"t-s": Edit({"to": "bob"})})


def test_only_a_sub_agents_interrupt_has_an_agent_inside() -> None:
    middleware = SubAgents([gated("mailer")[0]])
    agent = Agent(model=ScriptedModel(), middlewares=[middleware])
    question = Question("Which?")
    waits = SubAgentInterrupt("mailer", path=("agent", "mailer"), inner=question)
    gone = SubAgentInterrupt("gone", path=("agent", "gone"), inner=question)
    inside = [middleware.setup_inside(one) for one in (waits, gone, question)]
    assert [None if one is None else one.name for one in inside] == ["mailer", None, None]
    assert SubAgents().setup_inside(waits) is None
    assert agent.setup.name == "agent"


async def test_a_second_gate_inside_asks_again_without_a_call_of_the_parents_model() -> None:
    """B-154, B-115, P-115."""
    kind, _ = gated("mailer", sending("ann"), sending("bob", "u"), "all done")
    outer = ScriptedModel(calling(task("t", "mailer")), "end")
    agent = Agent(model=outer, middlewares=[SubAgents([kind])])
    again = await agent.resume((await begin(agent)).state, {"t-s": Approve()})
    assert isinstance(again, Interrupted)
    assert open_call_ids(again.interrupt) == ("t-u",)
    assert again.state.interrupt == again.interrupt
    assert len(outer.requests) == 1
    outcome = await agent.resume(restarted(again.state), {"t-u": Approve()})
    assert isinstance(outcome, Completed)
    assert RUNS == {"send ann": 1, "send bob": 1}


async def test_finished_siblings_are_never_run_again() -> None:
    """B007: a plain tool and a finished task keep their results while another task waits."""
    waiting, _ = gated("waiting", sending("ann"), "mailed")
    finished = SubAgent(
        name="finished",
        description="f",
        system_prompt="p",
        model=ScriptedModel(calling(ToolCall("n", "note", {"text": "x"})), "noted it"),
        tools=(note,),
    )
    batch = calling(
        ToolCall("plain", "note", {"text": "y"}), task("a", "finished"), task("b", "waiting")
    )
    agent = Agent(
        model=ScriptedModel(batch, "end"),
        tools=[note],
        middlewares=[SubAgents([waiting, finished])],
    )
    state = restarted((await begin(agent)).state)
    outcome = await agent.resume(state, {"b-s": Approve()})
    assert isinstance(outcome, Completed)
    assert RUNS == {"note y": 1, "note x": 1, "send ann": 1}
    assert texts(outcome.state) == {"plain": "noted", "a": "noted it", "b": "mailed"}


@pytest.mark.parametrize("order", [("one", "two", "three"), ("three", "one", "two")])
async def test_decisions_of_parallel_sub_agents_reach_their_own(order: tuple[str, ...]) -> None:
    """B029, B033: three wait at once, and one mapping in any order decides."""
    kinds = [gated(name, sending(name), f"{name} mailed")[0] for name in ("one", "two", "three")]
    batch = calling(*(task(name, name) for name in ("one", "two", "three")))
    agent = Agent(model=ScriptedModel(batch, "end"), middlewares=[SubAgents(kinds)])
    waiting = await begin(agent)
    assert isinstance(waiting.interrupt, MultipleInterrupts)
    replies = {f"{name}-s": Reject() if name == "two" else Approve() for name in order}
    outcome = await agent.resume(restarted(waiting.state), replies)
    assert isinstance(outcome, Completed)
    assert RUNS == {"send one": 1, "send three": 1}
    assert list(texts(outcome.state)) == ["one", "two", "three"]


async def test_a_reply_that_does_not_fit_inside_changes_nothing() -> None:
    """P4: an unknown inner call, a missing one, a kind that the rule does not allow."""
    kind, inner = gated("mailer", sending("ann"), "ok")
    agent = Agent(
        model=ScriptedModel(calling(task("t", "mailer"))), middlewares=[SubAgents([kind])]
    )
    state = (await begin(agent)).state
    wrong: list[Mapping[str, Decision]] = [{}, {"t": Approve()}, {"t-s": Answer(("x",))}]
    for replies in wrong:
        with pytest.raises(InvalidResume):
            await agent.resume(state, replies)
    assert RUNS == {}
    assert len(inner.requests) == 1


async def test_a_question_inside_is_answered_in_place() -> None:
    asking = calling(ToolCall("q", "ask_user", {"question": "Which?", "response_type": "freeform"}))
    model = ScriptedModel(asking, "thanks")
    kind = SubAgent(
        name="asker",
        description="a",
        system_prompt="p",
        model=model,
        middlewares=(AskUserQuestion(),),
    )
    agent = Agent(
        model=ScriptedModel(calling(task("t", "asker")), "end"), middlewares=[SubAgents([kind])]
    )
    waiting = await begin(agent)
    assert isinstance(waiting.interrupt, SubAgentInterrupt)
    assert isinstance(waiting.interrupt.inner, Question)
    outcome = await agent.resume(restarted(waiting.state), {"t-q": Answer(other_text="0")})
    assert isinstance(outcome, Completed)
    assert model.requests[1].messages[-1].tool_results[0].text == 'User responded: "0"'


async def test_a_pause_inside_pauses_the_parent_and_goes_on_where_it_stopped() -> None:
    """B-094: what a draining worker stops is never taken for an answer."""
    draining: list[str] = []

    @tool
    def drain(to: str) -> str:
        """Begin to drain."""
        RUNS["drain"] += 1
        draining.append("draining")
        return "drained"

    model = ScriptedModel(calling(ToolCall("d", "drain", {"to": "x"})), "after the pause")
    kind = SubAgent(name="mailer", description="m", system_prompt="p", model=model, tools=(drain,))
    outer = ScriptedModel(calling(task("t", "mailer")), "end")
    agent = Agent(model=outer, middlewares=[SubAgents([kind])])
    state = AgentState((Message.user("hi"),))
    paused = await agent.execute(state, should_pause=lambda: draining[0] if draining else False)
    assert isinstance(paused, Paused)
    assert paused.reason == "draining"
    assert list(paused.state.sub_agents) == ["t"]
    outcome = await agent.execute(restarted(paused.state))
    assert isinstance(outcome, Completed)
    assert RUNS == {"drain": 1}
    assert texts(outcome.state) == {"t": "after the pause"}
