"""Rows: what the database itself refuses, and the words in which rows are asked for."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import IntegrityError, transaction

from sagents_app.engine import tool
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.models import (
    AgentMessage,
    Conversation,
    DisplayMessage,
    Event,
    InboxMessage,
    Interrupt,
    InterruptDecision,
    Run,
    ToolExecution,
)
from sagents_app.services import conversations
from tests.world import call, calls, chat, operator, person, register, reviewer

pytestmark = pytest.mark.django_db


@tool
async def pay(amount: int) -> str:
    """Pay."""
    return f"Paid {amount}."


@pytest.fixture
def conversation() -> Conversation:
    return Conversation.objects.create(owner=person(), agent_name="plain")


@dataclass(frozen=True)
class Case:
    model: Any
    wrong: dict[str, Any]
    right: dict[str, Any] = field(default_factory=dict)


SAYS = {"message_type": "user", "content_type": "text"}
ASKS = {"run_id": uuid.uuid4(), "batch": uuid.uuid4(), "tool_call_id": "c1", "digest": "0"}
CASES = {
    "run status": Case(Run, {"status": "done"}, {"trigger": "message"}),
    "run trigger": Case(Run, {"trigger": "magic"}),
    "row author": Case(DisplayMessage, {"message_type": "robot"}, {**SAYS, "number": 1}),
    "row kind": Case(DisplayMessage, {"content_type": "video"}, {**SAYS, "number": 1}),
    "row status": Case(DisplayMessage, {"status": "done"}, {**SAYS, "number": 1}),
    "interrupt kind": Case(Interrupt, {"kind": "riddle"}, ASKS),
    "interrupt status": Case(Interrupt, {"status": "open"}, {**ASKS, "kind": "approval"}),
    "execution status": Case(
        ToolExecution,
        {"status": "lost"},
        {
            "run_id": uuid.uuid4(),
            "call_id": "c1",
            "tool_name": "pay",
            "arguments": "{}",
            "started_at": "2026-01-01T00:00:00Z",
        },
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_value_that_nobody_knows_is_refused_by_the_database(case, conversation):
    """PS-06."""
    with pytest.raises(IntegrityError), transaction.atomic():
        case.model.objects.create(conversation=conversation, **{**case.right, **case.wrong})


def test_a_conversation_has_only_known_statuses(conversation):
    with pytest.raises(IntegrityError), transaction.atomic():
        Conversation.objects.filter(pk=conversation.pk).update(status="not_running")


def test_a_conversation_has_one_live_run(conversation):
    """I1, B100: by constraint, whatever the code does."""
    Run.objects.create(conversation=conversation, trigger="message", status="running")
    Run.objects.create(conversation=conversation, trigger="message", status="completed")
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.create(conversation=conversation, trigger="message", status="queued")


@pytest.mark.parametrize(
    ("model", "values"),
    [
        (Event, {"number": 1, "type": "custom"}),
        (DisplayMessage, {**SAYS, "number": 1}),
        (AgentMessage, {"position": 0, "data": {}}),
    ],
)
def test_numbers_are_unique_in_their_conversation_and_only_there(model, values, conversation):
    """B077, I3, I4."""
    model.objects.create(conversation=conversation, **values)
    other = Conversation.objects.create(owner=conversation.owner, agent_name="plain")
    model.objects.create(conversation=other, **values)
    with pytest.raises(IntegrityError), transaction.atomic():
        model.objects.create(conversation=conversation, **values)


def test_a_call_has_one_row_one_halt_one_execution_and_one_pending_request(conversation):
    """HP-06, IR-26, MT-42."""

    def rows():
        number = DisplayMessage.objects.count() + 1
        for kind in ("tool_call", "tool_result", "halt"):
            yield DisplayMessage(
                conversation=conversation,
                message_type="assistant",
                content_type=kind,
                tool_call_id="c1",
                number=number,
            )
            number += 1

    DisplayMessage.objects.bulk_create(rows())
    call_row, result, halt = rows()
    for row in (call_row, halt):
        with pytest.raises(IntegrityError), transaction.atomic():
            row.save()
    result.save()
    Interrupt.objects.create(conversation=conversation, kind="approval", **ASKS)
    with pytest.raises(IntegrityError), transaction.atomic():
        Interrupt.objects.create(conversation=conversation, kind="approval", **ASKS)
    Interrupt.objects.update(status="superseded")
    Interrupt.objects.create(conversation=conversation, kind="unknown_outcome", **ASKS)


def test_ids_cannot_be_guessed():
    for model in (Conversation, DisplayMessage, Run, Interrupt, InboxMessage):
        assert model._meta.pk.get_internal_type() == "UUIDField"


class TestWhoSeesWhat:
    """PS-03, PS-04, PS-05."""

    @pytest.fixture(autouse=True)
    def _agent(self) -> None:
        register(
            "gated",
            calls(call("c1", "pay", amount=5)),
            "Done.",
            tools=[pay],
            middlewares=[HumanInTheLoop({"pay": True})],
        )

    def test_a_person_sees_their_own(self):
        ann, bob = person(), person("bob")
        mine = conversations.create_conversation(agent="gated", owner=ann)
        assert list(Conversation.objects.visible_to(ann)) == [mine]
        assert list(Conversation.objects.owned_by(ann)) == [mine]
        assert list(Conversation.objects.visible_to(bob)) == []

    def test_nobody_sees_nothing(self):
        ann = person()
        conversations.create_conversation(agent="gated", owner=ann)
        ann.is_active = False
        for nobody in (AnonymousUser(), ann):
            assert list(Conversation.objects.visible_to(nobody)) == []
            assert list(Conversation.objects.owned_by(nobody)) == []
            assert list(Interrupt.objects.reviewable_by(nobody)) == []

    def test_an_operator_sees_all_and_a_reviewer_what_they_may_review(self):
        waiting = chat("gated", person())
        idle = conversations.create_conversation(agent="gated", owner=person("bob"))
        assert set(Conversation.objects.visible_to(operator())) == {waiting, idle}
        assert list(Conversation.objects.visible_to(reviewer())) == [waiting]
        assert list(Conversation.objects.owned_by(operator("ole"))) == []

    def test_a_tenant_is_kept_from_creation_and_filters_every_word(self, settings):
        settings.SAGENTS_TENANT = "tests.models.test_rows.tenant"
        mine = conversations.create_conversation(agent="gated", owner=person("a.ann"))
        conversations.create_conversation(agent="gated", owner=person("b.bob"))
        assert mine.tenant == "a"
        assert list(Conversation.objects.visible_to(operator("a.otto"))) == [mine]
        assert list(Conversation.objects.of_tenant(person("a.al"))) == [mine]


def tenant(user: Any) -> str:
    return user.username.partition(".")[0]


def test_deleting_an_owner_deletes_their_conversations_and_a_reviewer_leaves_their_decisions():
    """PS-01."""
    register("plain", "Hello.")
    conversation = chat("plain", person())
    rita = reviewer()
    row = Interrupt.objects.create(
        conversation=conversation, kind="approval", status="approved", decided_by=rita, **ASKS
    )
    InterruptDecision.objects.create(interrupt=row, actor=rita, outcome="accepted")
    rita.delete()
    row.refresh_from_db()
    assert row.decided_by is None
    assert row.decisions.count() == 1
    conversation.owner.delete()
    assert not Conversation.objects.exists()
    assert not InterruptDecision.objects.exists()
    assert not Event.objects.exists()


@pytest.mark.parametrize("model", [Conversation, Run, Interrupt, DisplayMessage, Event])
def test_a_row_says_what_it_is(model, conversation):
    register(
        "gated",
        calls(call("c1", "pay", amount=5)),
        tools=[pay],
        middlewares=[HumanInTheLoop({"pay": True})],
    )
    chat("gated", person("bob"), "Pay it")
    assert "object" not in str(model.objects.last())
