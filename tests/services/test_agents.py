"""The registry: agents are found, built and checked before anything runs (P9)."""

from __future__ import annotations

import pytest
from django.core.checks import run_checks

from sagents_app import checks
from sagents_app.engine import Agent, Misconfigured, ScriptedModel, tool
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.models import Conversation
from sagents_app.services import agents
from sagents_app.services.agents import ReviewRule
from sagents_app.services.errors import UnknownAgent


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


@pytest.fixture(autouse=True)
def _registry(monkeypatch) -> None:
    monkeypatch.setattr(agents, "_registered", {})


def offer(name: str = "one", review=(), gate=None, **options) -> None:
    @agents.register(name, review=review, **options)
    def build(conversation: Conversation) -> Agent:
        gates = [HumanInTheLoop(gate)] if gate is not None else []
        return Agent(model=ScriptedModel("x"), tools=[pay], middlewares=gates)


def problems() -> list[str]:
    return [message.msg for message in checks.check_agents()]


def test_every_agent_is_built_from_an_unsaved_conversation():
    seen = []

    @agents.register("one")
    def build(conversation: Conversation) -> Agent:
        seen.append((conversation._state.adding, conversation.agent_name))
        return Agent(model=ScriptedModel("x"))

    assert problems() == []
    assert seen == [(True, "one")]


def test_a_wrong_gate_names_agent_and_key():
    offer("shop", gate={"pya": True})
    (problem,) = problems()
    assert "'shop'" in problem
    assert "pya" in problem


def test_a_rule_for_a_tool_that_is_not_there_names_both():
    offer("shop", review=[ReviewRule(tools=("pya",))])
    (problem,) = problems()
    assert "'shop'" in problem
    assert "'pya'" in problem


def test_a_builder_that_raises_or_returns_something_else_is_named():
    @agents.register("raises")
    def raises(conversation: Conversation) -> Agent:
        raise KeyError("no key")

    @agents.register("forgets")
    def forgets(conversation: Conversation) -> Agent:
        return None

    first, second = problems()
    assert "'raises'" in first
    assert "no key" in first
    assert "'forgets'" in second
    assert "None" in second


def test_a_project_without_agents_is_told_so():
    (warning,) = checks.check_agents()
    assert warning.id == "sagents_app.W001"


def test_a_wrong_setting_stops_the_start(settings):
    settings.SAGENTS_HEARTBEAT_SECONDS = 20.0
    assert [message.id for message in checks.check_settings()] == ["sagents_app.E001"]


def test_the_checks_are_part_of_djangos():
    offer("shop", gate={"pya": True})
    assert "sagents_app.E002" in [message.id for message in run_checks()]


def test_a_name_that_another_module_has_taken_is_refused():
    offer("one")

    def build(conversation: Conversation) -> Agent:
        raise NotImplementedError

    build.__module__ = "another"
    with pytest.raises(Misconfigured, match="'one'"):
        agents.register("one")(build)
    with pytest.raises(Misconfigured):
        agents.register("")(build)


def test_an_unknown_agent_is_named_with_the_known_ones():
    offer("one")
    offer("two")
    with pytest.raises(UnknownAgent, match="no agent 'three'; there are: one, two"):
        agents.get("three")


def test_a_tools_rule_is_its_own_then_the_one_for_all_then_the_default():
    all_rule = ReviewRule(tools=("*",), permission="auth.view_user")
    own = ReviewRule(tools=("pay",), owner_may_decide=True)
    offer("one", review=[all_rule, own], label="One")
    registration = agents.get("one")
    assert registration.label == "One"
    assert registration.rule_for("pay") is own
    assert registration.rule_for("other") is all_rule
    offer("two", review=[own])
    default = agents.get("two").rule_for("other")
    assert (default.permission, default.owner_may_decide) == (agents.DECIDE, False)
