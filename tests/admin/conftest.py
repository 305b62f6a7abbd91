"""An agent that asks for whatever it is told, people around it, and the admin's addresses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from sagents_app.engine import Agent, FunctionModel, Halt, Message, ModelRequest, ToolCall, tool
from sagents_app.engine.middlewares import Haltable, HumanInTheLoop
from sagents_app.models import Conversation, Interrupt, Run
from sagents_app.services import agents, conversations, runs

CALLED: list[tuple[str, dict[str, Any]]] = []
"""What the tools were really called with."""


@tool(display_text="Pay an invoice")
async def pay(
    number: str,
    amount: int,
    price: Decimal | None = None,
    dry_run: bool = False,
    ids: list[int] | None = None,
    memo: str | None = None,
) -> str:
    """Pay.

    Args:
        number: The invoice's number.
        amount: Whole euros.
    """
    given = {"number": number, "amount": amount, "dry_run": dry_run, "ids": ids, "memo": memo}
    CALLED.append(("pay", given))
    return f"Paid {amount}."


@tool
async def shred(number: str) -> str:
    """Shred an invoice."""
    CALLED.append(("shred", {"number": number}))
    return "Shredded."


@tool
async def stop(message: str) -> Halt:
    """Stop the whole workflow."""
    return Halt(message)


def answer(request: ModelRequest) -> Message | str:
    """Call what the person's message names as JSON; tell of the results otherwise."""
    last = request.messages[-1]
    if last.role == "tool":
        return " ".join(result.text for result in last.tool_results)
    try:
        wanted = json.loads(last.text)
    except ValueError:
        return f"You said: {last.text}"
    said = wanted.pop("say", "One moment.")
    calls = [
        ToolCall(f"call_{len(request.messages)}_{name}", name, arguments)
        for name, arguments in wanted.items()
    ]
    return Message.assistant(said, tool_calls=calls)


@agents.register(
    "clerk",
    review=[
        agents.ReviewRule(tools=("shred",), permission="auth.view_group"),
        agents.ReviewRule(tools=("*",)),
    ],
)
def build(conversation: Conversation) -> Agent:
    gate = HumanInTheLoop(
        {
            "pay": {"allowed_decisions": ["approve", "edit", "reject", "respond"]},
            "shred": {"allowed_decisions": ["approve", "reject"]},
        }
    )
    return Agent(
        name="clerk",
        model=FunctionModel(answer),
        tools=[pay, shred, stop],
        middlewares=[gate, Haltable()],
    )


@dataclass
class Desk:
    """A browser at the admin, and the office around it."""

    client: Client
    owner: User
    waiting: list[Interrupt] = field(default_factory=list)

    def ask(self, text: str = "", *, owner: User | None = None, **calls: Any) -> Interrupt:
        """Have the agent call tools, given by name with their arguments; return what waits."""
        owner = owner or self.owner
        conversation = conversations.create_conversation(agent="clerk", owner=owner)
        self.say(conversation, text or json.dumps(calls))
        row = Interrupt.objects.filter(conversation=conversation).order_by("position").first()
        assert row is not None
        return row

    def say(self, conversation: Conversation, text: str) -> None:
        actor = conversation.owner
        conversations.post_message(conversation=conversation, text=text, actor=actor)
        self.work(conversation)

    def work(self, conversation: Conversation) -> None:
        """Do what a worker does with what is queued."""
        for run in Run.objects.live().filter(conversation=conversation):
            runs.drive_run(run_id=run.pk)

    def login(self, user: User) -> Desk:
        self.client.force_login(user)
        return self

    def queue(self, **query: str) -> HttpResponse:
        return self.client.get(reverse("admin:sagents_app_interrupt_changelist"), query)

    def page(self, row: Interrupt) -> HttpResponse:
        return self.client.get(reverse("admin:sagents_app_interrupt_change", args=[row.pk]))

    def fields(self, row: Interrupt) -> dict[str, str]:
        """Return what a browser sends of the request's page as it is shown now."""
        form = self.page(row).context["form"]
        shown = {name: form[name].value() for name in form.fields}
        return {name: str(value) for name, value in shown.items() if value is not None}

    def decide(
        self, row: Interrupt, decision: str, *, fields: dict[str, str] | None = None, **more: str
    ) -> HttpResponse:
        """Press a button on the page that was read as `fields`, or is read now."""
        data = (self.fields(row) if fields is None else fields) | {"decision": decision} | more
        url = reverse("admin:sagents_app_interrupt_decision", args=[row.pk])
        return self.client.post(url, data, follow=True)

    def bulk(self, action: str, rows: list[Interrupt], **more: str) -> HttpResponse:
        """Select rows of the queue as it is shown now."""
        data = {f"digest-{row.pk}": row.digest for row in rows}
        chosen = {"action": action, "_selected_action": [str(row.pk) for row in rows]}
        url = reverse("admin:sagents_app_interrupt_changelist")
        return self.client.post(url, {**data, **chosen, **more}, follow=True)


def told(response: HttpResponse) -> list[str]:
    """Return the messages on a page."""
    return [str(message) for message in response.context["messages"]]


@pytest.fixture(autouse=True)
def _nothing_called() -> None:
    CALLED.clear()


@pytest.fixture
def make_user(db: None) -> Callable[..., User]:
    def make(name: str, *permissions: str, **fields: Any) -> User:
        user = User.objects.create_user(name, is_staff=True, **fields)
        for permission in permissions:
            app, codename = permission.split(".")
            found = Permission.objects.get(content_type__app_label=app, codename=codename)
            user.user_permissions.add(found)
        return user

    return make


@pytest.fixture
def owner(make_user: Callable[..., User]) -> User:
    return make_user("olga")


@pytest.fixture
def reviewer(make_user: Callable[..., User]) -> User:
    return make_user("rita", "sagents_app.decide_interrupt")


@pytest.fixture
def desk(client: Client, owner: User, reviewer: User) -> Desk:
    """The reviewer's desk."""
    return Desk(client, owner).login(reviewer)
