"""A reviewer decides one request on its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from sagents_app.engine import canonical
from sagents_app.models import DisplayMessage, Interrupt, InterruptDecision
from sagents_app.services import runs
from tests.admin.conftest import CALLED, Desk, told

ARGUMENTS = {"number": "1001", "amount": 10, "dry_run": False, "ids": [1, 2], "memo": None}


def test_an_approved_call_runs_as_it_was_shown(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    response = desk.decide(row, "approve", note="go ahead")
    assert told(response) == [f"Approved: Pay an invoice ({row.conversation})."]
    desk.work(row.conversation)
    assert CALLED == [("pay", ARGUMENTS)]
    row.refresh_from_db()
    assert (row.status, row.note, row.decided_by.username) == ("approved", "go ahead", "rita")
    assert json.loads(row.executed_arguments) == ARGUMENTS


def test_an_edited_call_runs_with_what_was_typed_and_nothing_else_changes(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    form = desk.page(row).context["form"]
    names = {argument.name: name for name, argument in form.arguments.items()}
    desk.decide(row, "edit", **{names["amount"]: "7"}, note="half of it")
    desk.work(row.conversation)
    assert CALLED == [("pay", ARGUMENTS | {"amount": 7})]
    page = desk.page(row).content.decode()
    assert "Proposed by the agent" in page
    assert "Decided" in page
    assert "Executed" in page
    assert page.count("sa-changed") == 2  # the row that differs, and the hidden notice


def test_edited_json_may_leave_an_argument_out(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    desk.decide(row, "edit", arguments='{"number": "1001", "amount": 10}')
    desk.work(row.conversation)
    row.refresh_from_db()
    assert json.loads(row.executed_arguments) == {"number": "1001", "amount": 10}


def test_a_rejected_call_does_not_run_and_the_agent_reads_the_note(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    response = desk.decide(row, "reject", note="use the sandbox")
    assert told(response) == [f"Rejected: Pay an invoice ({row.conversation})."]
    desk.work(row.conversation)
    assert not CALLED
    last = DisplayMessage.objects.filter(conversation=row.conversation).order_by("number").last()
    assert "use the sandbox" in last.content["text"]


def test_an_answer_in_the_tools_place_is_the_result(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    desk.decide(row, "respond", answer="Paid by hand.")
    desk.work(row.conversation)
    assert not CALLED
    last = DisplayMessage.objects.filter(conversation=row.conversation).order_by("number").last()
    assert last.content["text"] == "Paid by hand."


def test_a_value_that_does_not_fit_comes_back_with_the_reason_beside_it(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    form = desk.page(row).context["form"]
    names = {argument.name: name for name, argument in form.arguments.items()}
    response = desk.decide(row, "edit", **{names["ids"]: '["one"]'}, note="kept")
    form = response.context["form"]
    assert list(form.errors) == [names["ids"]]
    assert form[names["ids"]].value() == '["one"]'
    assert form["note"].value() == "kept"
    row.refresh_from_db()
    assert row.is_pending


def test_changed_arguments_are_not_lost_by_a_press_on_approve(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    response = desk.decide(row, "approve", arguments='{"number": "1"}')
    assert "Approve with changes" in str(response.context["form"].non_field_errors())
    row.refresh_from_db()
    assert row.is_pending


def test_a_decision_on_something_else_than_what_is_open_changes_nothing(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    response = desk.decide(row, "approve", digest="0" * 64)
    assert told(response)[0].startswith("Nothing was changed: Pay an invoice")
    row.refresh_from_db()
    assert row.is_pending
    tried = row.decisions.get()
    assert (tried.outcome, tried.cause) == ("refused", "decision_mismatch")
    assert "refused: something else was shown" in desk.page(row).content.decode()


def test_the_second_reviewer_reads_who_was_faster(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    row = desk.ask(pay=ARGUMENTS)
    second = make_user("sam", "sagents_app.decide_interrupt")
    seen = desk.login(second).fields(row)
    desk.login(User.objects.get(username="rita")).decide(row, "reject", note="no")
    response = desk.login(second).decide(row, "approve", fields=seen)
    assert "rita was faster: rejected" in told(response)[0]
    assert response.context["form"] is None
    page = response.content.decode()
    assert "Rejected by rita" in page
    assert "refused: it was decided already" in page
    row.refresh_from_db()
    assert row.status == "rejected"


def test_a_double_click_decides_once(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    seen = desk.fields(row)
    desk.decide(row, "approve", fields=seen)
    desk.decide(row, "approve", fields=seen)
    desk.work(row.conversation)
    assert len(CALLED) == 1
    accepted = row.decisions.filter(outcome=InterruptDecision.Outcome.ACCEPTED)
    assert accepted.count() == 1


def test_a_request_that_was_superseded_is_not_decided(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    seen = desk.fields(row)
    runs.cancel_run(conversation=row.conversation, actor=desk.owner)
    response = desk.decide(row, "approve", fields=seen)
    assert told(response)[0].startswith("Nothing was changed: Pay an invoice")
    desk.work(row.conversation)
    assert not CALLED


def test_whoever_lost_the_permission_a_second_ago_decides_nothing(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    seen = desk.fields(row)
    User.objects.get(username="rita").user_permissions.clear()
    response = desk.decide(row, "approve", fields=seen)
    assert told(response) == ["There is no such request, or you may not decide it."]
    row.refresh_from_db()
    assert row.is_pending
    assert row.decisions.get().cause == "not_allowed"


def test_a_decision_that_the_request_does_not_take_is_refused(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    row = desk.ask(shred={"number": "1001"})
    desk.login(make_user("gus", "auth.view_group"))
    seen = desk.fields(row)
    response = desk.decide(row, "edit", fields=seen, arguments="{}")
    assert "decision" in response.context["form"].errors
    row.refresh_from_db()
    assert row.is_pending


def test_calls_of_one_batch_are_decided_one_by_one(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    desk.login(make_user("gus", "auth.view_group", "sagents_app.decide_interrupt"))
    first = desk.ask(pay=ARGUMENTS, shred={"number": "7"})
    second = Interrupt.objects.get(batch=first.batch, position=1)
    response = desk.decide(first, "reject")
    assert not CALLED
    assert "Asked together" in response.content.decode()
    desk.decide(second, "approve")
    desk.work(first.conversation)
    assert CALLED == [("shred", {"number": "7"})]


def test_a_megabyte_of_arguments_is_shown_folded_and_approved(desk: Desk) -> None:
    row = desk.ask(pay=ARGUMENTS)
    arguments = canonical.dump(ARGUMENTS | {"memo": "m" * 1_000_000})
    digest = canonical.digest(row.tool_call_id, "pay", arguments)
    Interrupt.objects.filter(pk=row.pk).update(arguments=arguments, digest=digest)
    assert "Show all 1000000 characters" in desk.page(row).content.decode()
    assert desk.queue().status_code == 200
    desk.decide(row, "approve")
    row.refresh_from_db()
    assert row.status == "approved"


def test_hostile_text_is_inert_and_visible(desk: Desk) -> None:
    evil = "<script>alert(1)</script> \u202egnp.exe \x1b[2J approved by rita"
    row = desk.ask(pay=ARGUMENTS | {"memo": evil}, say="<img src=x onerror=alert(1)>\u202e")
    page = desk.page(row).content.decode()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert "RIGHT-TO-LEFT OVERRIDE" in page
    assert "U+001B" in page


@pytest.mark.parametrize("method", ["get", "put"])
def test_a_decision_is_only_ever_posted(desk: Desk, method: str) -> None:
    row = desk.ask(pay=ARGUMENTS)
    url = reverse("admin:sagents_app_interrupt_decision", args=[row.pk])
    assert getattr(desk.client, method)(url).status_code == 405


def test_a_page_asks_as_much_for_a_long_story_as_for_a_short_one(
    desk: Desk, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    row = desk.ask(pay=ARGUMENTS, shred={"number": "1"})
    conversation = row.conversation
    DisplayMessage.objects.bulk_create(
        DisplayMessage(
            conversation=conversation,
            number=1000 + number,
            message_type="user",
            content_type="text",
            content={"text": "x" * 2000},
        )
        for number in range(300)
    )
    InterruptDecision.objects.bulk_create(
        InterruptDecision(interrupt=row, actor=desk.owner, outcome="refused", cause="not_allowed")
        for _ in range(50)
    )
    with django_assert_max_num_queries(15):
        assert desk.page(row).status_code == 200
