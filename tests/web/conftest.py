"""Somebody logged in, and agents whose models follow a script."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from django.test import Client

from sagents_app.engine import tool
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.models import Conversation
from sagents_app.services import agents
from tests import world

_names = itertools.count()


@tool
def pay(amount: int, memo: str = "") -> str:
    """Pay somebody."""
    return f"Paid {amount}."


@pytest.fixture
def owner(db: Any) -> Any:
    return world.person("ann")


@pytest.fixture
def stranger(db: Any) -> Any:
    return world.person("sam")


@pytest.fixture
def reviewer(db: Any) -> Any:
    return world.reviewer()


@pytest.fixture
def scripted() -> Any:
    """Register an agent for this test alone: `scripted(*replies, **configuration)` is its name."""
    made = []

    def register(*replies: Any, **configuration: Any) -> str:
        made.append(f"scripted-{next(_names)}")
        world.register(made[-1], *replies, **configuration)
        return made[-1]

    yield register
    for name in made:
        agents._registered.pop(name)


@pytest.fixture
def waiting(owner: Any, scripted: Any) -> Conversation:
    """A conversation whose agent waits for somebody to approve a payment."""
    name = scripted(
        world.calls(world.call("c1", "pay", amount=10, memo="as agreed")),
        "Done.",
        tools=[pay],
        middlewares=[HumanInTheLoop({"pay": True})],
    )
    return world.chat(name, owner, "pay ten")


def login(user: Any, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


def as_script(client: Client, path: str, **data: Any) -> Any:
    """Post as the pages' scripts do; the answer is JSON."""
    return client.post(path, data, headers={"Accept": "application/json"})
