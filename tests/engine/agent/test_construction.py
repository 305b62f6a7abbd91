"""Construction: what an agent is made of, and which mistakes are refused with the culprit named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from sagents_app.engine import (
    Agent,
    Approve,
    Completed,
    Interrupted,
    Message,
    Middleware,
    Misconfigured,
    ScriptedModel,
    Tool,
    modes,
    tool,
)
from sagents_app.engine.middlewares import AskUserQuestion, Haltable, HumanInTheLoop
from tests.engine.doubles import Notes, asked, call, calling


class Prompting(Middleware):
    """A middleware with a prompt and a tool of its own."""

    def __init__(self, name: str, *texts: str) -> None:
        self._name = name
        self._texts = texts
        self._tool = Notes(f"{name}_tool").tool

    @property
    def key(self) -> str:
        return self._name

    def system_prompt(self) -> tuple[str, ...]:
        return self._texts

    def tools(self) -> tuple[Tool, ...]:
        return (self._tool,)


def test_a_model_alone_makes_an_agent_with_nothing_hidden() -> None:
    """P-001, P-007, P-008: no default middleware unless it is given; the stack is the stack."""
    agent = Agent(model=ScriptedModel())
    assert (agent.middlewares, dict(agent.tools), agent.system_prompt) == ((), {}, "")
    assert agent.mode is modes.agent_execution
    assert agent.max_runs == 50


def test_a_model_is_required() -> None:
    """P-002."""
    with pytest.raises(TypeError, match="model"):
        Agent()  # type: ignore[call-arg]
    with pytest.raises(Misconfigured, match="a model has a name and a stream method, got None"):
        Agent(model=None)  # type: ignore[arg-type]


def test_the_prompt_is_assembled_in_stack_order() -> None:
    """P-003: a blank line between the parts, empty ones left out."""
    stack = [Prompting("a", "First.", ""), Prompting("b"), Prompting("c", "Last.")]
    agent = Agent(model=ScriptedModel(), system_prompt="You are helpful.", middlewares=stack)
    assert agent.system_prompt == "You are helpful.\n\nFirst.\n\nLast."


def test_the_name_is_kept() -> None:
    """P-004."""
    assert Agent(model=ScriptedModel(), name="support").name == "support"
    assert "'support'" in repr(Agent(model=ScriptedModel(), name="support"))


def test_the_agents_own_tools_come_first_and_then_the_stacks() -> None:
    """P-005."""
    stack = [Prompting("a"), AskUserQuestion()]
    agent = Agent(model=ScriptedModel(), tools=[Notes().tool], middlewares=stack)
    assert list(agent.tools) == ["note", "a_tool", "ask_user"]


def test_the_stack_keeps_its_order() -> None:
    """P-006, P-017: the place of a gate in it is the caller's."""
    stack = (HumanInTheLoop({}), Prompting("a"), Haltable())
    assert Agent(model=ScriptedModel(), middlewares=stack).middlewares == stack


def test_a_middleware_that_cannot_work_is_refused_with_its_own_words() -> None:
    """P-010, P-011: never a crash."""

    class Broken(Middleware):
        def check(self, tools: Any) -> None:
            raise Misconfigured("Broken: no tool 'reed_file'; known are read_file")

    with pytest.raises(Misconfigured, match=r"reed_file.*known are read_file"):
        Agent(model=ScriptedModel(), middlewares=[Broken()])


async def test_fallbacks_and_the_hook_before_them_are_kept_and_used() -> None:
    """P-013."""
    from sagents_app.engine import ModelError

    told: list[Any] = []
    first = ScriptedModel(ModelError("down"), name="first")
    second = ScriptedModel("hello", name="second")
    agent = Agent(
        model=first,
        fallback_models=[second],
        before_fallback=lambda model, request: told.append((model.name, len(request.messages))),
    )
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    assert told == [("second", 1)]
    assert isinstance(await Agent(model=ScriptedModel("hi")).execute(asked()), Completed)


def test_a_middleware_learns_the_whole_agent() -> None:
    """P-015: model, tools and name, once all are known."""
    seen: list[Any] = []

    class Curious(Middleware):
        def attach(self, setup: Any) -> None:
            seen.append((setup.name, setup.models, list(setup.tools)))

    model = ScriptedModel()
    Agent(model=model, tools=[Notes().tool], middlewares=[Curious()], name="support")
    assert seen == [("support", (model,), ["note"])]


def test_an_unknown_option_is_refused() -> None:
    """P-018, E-073: upstream ignores it in silence."""
    for option in ("replace_default_middleware", "interrupt_on", "middleware"):
        with pytest.raises(TypeError, match=option):
            Agent(model=ScriptedModel(), **{option: True})


def test_a_gate_that_is_no_rule_is_refused() -> None:
    """P-019."""
    with pytest.raises(Misconfigured, match="HumanInTheLoop: 'note' is True, False or a rule"):
        HumanInTheLoop({"note": "yes"})  # type: ignore[dict-item]


@tool(name="note")
def other_note() -> str:
    """Another tool of that name."""
    return ""


@dataclass(frozen=True)
class Mistake:
    id: str
    options: dict[str, Any]
    problem: str


MISTAKES = [
    Mistake(
        "tools of one name", {"tools": [Notes().tool, other_note]}, "two tools are named 'note'"
    ),
    Mistake(
        "a tool of a middleware's name",
        {"tools": [Notes("a_tool").tool], "middlewares": [Prompting("a")]},
        "two tools are named 'a_tool'",
    ),
    Mistake("a plain function", {"tools": [len]}, "tools are made with @tool"),
    Mistake("no middleware", {"middlewares": [Haltable]}, "middlewares are Middleware objects"),
    Mistake(
        "two middlewares of one key",
        {"middlewares": [Haltable(), Haltable()]},
        "two middlewares have the key 'Haltable'",
    ),
    Mistake("a prompt that is no text", {"system_prompt": None}, "system_prompt is a text"),
    Mistake("a fallback that is no model", {"fallback_models": ["gpt"]}, "a model has a name"),
]


@pytest.mark.parametrize("case", MISTAKES, ids=lambda case: case.id)
def test_a_mistake_is_refused_at_construction_with_the_culprit_named(case: Mistake) -> None:
    with pytest.raises(Misconfigured, match=case.problem):
        Agent(model=ScriptedModel(), **case.options)


async def test_one_agent_drives_many_states_and_keeps_nothing_of_them() -> None:
    """It is configuration: what one conversation did is not seen by another."""
    notes = Notes()
    gate = HumanInTheLoop({"note": True})
    model = ScriptedModel(calling(call("c1", text="a")), calling(call("c1", text="b")), "A", "B")
    agent = Agent(model=model, tools=[notes.tool], middlewares=[gate])
    first = await agent.execute(asked(text="one"))
    second = await agent.execute(asked(text="two"))
    assert isinstance(first, Interrupted)
    assert isinstance(second, Interrupted)
    done_second = await agent.resume(second.state, {"c1": Approve()})
    done_first = await agent.resume(first.state, {"c1": Approve()})
    assert [one.text for one in done_first.state.messages][::3] == ["one", "B"]
    assert [one.text for one in done_second.state.messages][::3] == ["two", "A"]
    assert notes.taken == ["b", "a"]


def test_messages_that_are_no_messages_are_refused_with_the_culprit() -> None:
    """P-037: at construction of the state where it is no sequence, else before the turn."""
    from sagents_app.engine import AgentState

    with pytest.raises(Misconfigured, match="messages are a sequence of Message"):
        AgentState("hi")  # type: ignore[arg-type]
    with pytest.raises(Misconfigured, match="expected a Message, got 'hi'"):
        AgentState().add_message("hi")  # type: ignore[arg-type]
    with pytest.raises(Misconfigured):
        Message.user("")
