"""Conversations and runs in the admin: everything to read, and what an operator may do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.urls import reverse

from sagents_app.models import Conversation, DisplayMessage, Interrupt
from sagents_app.services import conversations
from tests.admin.conftest import Desk, told

OPERATOR = (
    "sagents_app.operate_conversation",
    "sagents_app.view_conversation",
    "sagents_app.decide_interrupt",
)
PAY = {"number": "1", "amount": 1}


@pytest.fixture
def operator(make_user: Callable[..., User]) -> User:
    return make_user("otto", *OPERATOR)


def show(desk: Desk, conversation: Conversation, **query: str) -> HttpResponse:
    url = reverse("admin:sagents_app_conversation_change", args=[conversation.pk])
    return desk.client.get(url, query)


def operate(desk: Desk, conversation: Conversation, noun: str) -> HttpResponse:
    url = reverse(f"admin:sagents_app_conversation_{noun}", args=[conversation.pk])
    return desk.client.post(url, follow=True)


def test_a_halted_conversation_is_read_with_the_halts_words(desk: Desk, operator: User) -> None:
    row = desk.ask(stop={"message": "The bank looks into it."})
    page = show(desk.login(operator), row.conversation).content.decode()
    assert page.count("The bank looks into it.") >= 2  # in the transcript, and as what it waits for
    assert "clerk stops here" in page
    assert "Dismiss the halt" in page


def test_an_operator_dismisses_a_halt_and_its_words_stay(desk: Desk, operator: User) -> None:
    row = desk.ask(stop={"message": "The bank looks into it."})
    response = operate(desk.login(operator), row.conversation, "dismissal")
    assert told(response) == [f"{row.conversation}: the halt is dismissed."]
    assert "The bank looks into it." in response.content.decode()
    assert "Dismiss the halt" not in response.content.decode()
    again = operate(desk, row.conversation, "dismissal")
    assert told(again) == [f"{row.conversation}: No halt is open."]


def test_an_operator_stops_what_waits_and_has_it_go_on(desk: Desk, operator: User) -> None:
    row = desk.ask(pay=PAY)
    response = operate(desk.login(operator), row.conversation, "cancellation")
    assert told(response) == [f"{row.conversation}: asked to stop."]
    row.refresh_from_db()
    assert row.status == "cancelled"
    again = operate(desk, row.conversation, "cancellation")
    assert "Nothing to stop" in told(again)[0]
    assert told(operate(desk, row.conversation, "retry")) == [f"{row.conversation}: goes on."]


def test_a_reviewer_reads_what_is_theirs_to_review_and_operates_nothing(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    row = desk.ask(pay=PAY)
    page = show(desk, row.conversation).content.decode()
    assert "Stop the agent" not in page
    assert reverse("admin:sagents_app_interrupt_change", args=[row.pk]) in page
    refused = operate(desk, row.conversation, "cancellation")
    assert "Only the conversation" in told(refused)[0]
    row.refresh_from_db()
    assert row.is_pending
    foreign = conversations.create_conversation(agent="clerk", owner=desk.owner)
    assert show(desk, foreign).status_code == 404
    assert operate(desk, foreign, "cancellation").status_code == 404


def test_staff_without_permissions_see_neither_conversations_nor_runs(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    row = desk.ask(pay=PAY)
    desk.login(make_user("nosy"))
    assert show(desk, row.conversation).status_code == 404
    for model in ("conversation", "run"):
        url = reverse(f"admin:sagents_app_{model}_changelist")
        assert desk.client.get(url).status_code == 403


def test_hostile_words_are_inert_and_visible(desk: Desk, operator: User) -> None:
    row = desk.ask(pay=PAY, say="<script>alert(1)</script>\u202eevil")
    Conversation.objects.filter(pk=row.conversation_id).update(title="<b>x</b>\u202e")
    page = show(desk.login(operator), row.conversation).content.decode()
    assert "<script>alert(1)" not in page
    assert "<b>x</b>" not in page
    assert "RIGHT-TO-LEFT OVERRIDE" in page
    for model in ("conversation", "interrupt", "run"):
        page += desk.client.get(reverse(f"admin:sagents_app_{model}_changelist")).content.decode()
    assert "\u202e" not in page


def test_a_long_transcript_comes_in_pages_with_as_many_queries(
    desk: Desk, operator: User, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    conversation = conversations.create_conversation(agent="clerk", owner=desk.owner)
    DisplayMessage.objects.bulk_create(
        DisplayMessage(
            conversation=conversation,
            number=number,
            message_type="user",
            content_type="text",
            content={"text": f"Line {number}."},
        )
        for number in range(1, 451)
    )
    desk.login(operator)
    with django_assert_max_num_queries(10):
        page = show(desk, conversation)
    rows = page.context["page"].rows
    assert (rows[0].number, rows[-1].number) == (251, 450)
    earlier = page.context["page"].earlier
    rows = show(desk, conversation, before=str(earlier)).context["page"].rows
    assert (rows[0].number, rows[-1].number) == (51, 250)
    assert show(desk, conversation, before="nonsense").status_code == 200


def test_lists_are_flat_and_searchable(
    desk: Desk, make_user: Callable[..., User], django_assert_max_num_queries: Callable[..., Any]
) -> None:
    desk.login(make_user("otto", *OPERATOR, "sagents_app.view_run"))
    rows = [desk.ask(pay=PAY) for _ in range(5)]
    for model in ("conversation", "run"):
        url = reverse(f"admin:sagents_app_{model}_changelist")
        with django_assert_max_num_queries(10):
            assert len(desk.client.get(url, {"q": "pay"}).context["cl"].result_list) == 5
    (run,) = rows[0].conversation.runs.all()
    page = desk.client.get(reverse("admin:sagents_app_run_change", args=[run.pk]))
    assert page.status_code == 200
    assert 'name="_save"' not in page.content.decode()


def test_selected_conversations_are_stopped(desk: Desk, operator: User) -> None:
    rows = [desk.ask(pay=PAY) for _ in range(2)]
    desk.login(operator)
    chosen = [str(row.conversation_id) for row in rows]
    data = {"action": "cancel_selected", "_selected_action": chosen}
    url = reverse("admin:sagents_app_conversation_changelist")
    response = desk.client.post(url, data, follow=True)
    assert len(told(response)) == 2
    assert not Interrupt.objects.pending().exists()


def test_what_was_decided_and_executed_is_told_beside_the_transcript(
    desk: Desk, operator: User
) -> None:
    row = desk.ask(pay=PAY)
    desk.decide(row, "approve", note="as agreed")
    desk.work(row.conversation)
    page = show(desk.login(operator), row.conversation).content.decode()
    assert "as agreed" in page
    assert "rita" in page
    assert "Paid 1." in page
    assert json.dumps("1") in page.replace("&quot;", '"')
