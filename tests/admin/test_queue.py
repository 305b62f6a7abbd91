"""The review queue: what a reviewer sees of it, and many requests decided at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from sagents_app.engine import canonical
from sagents_app.models import Conversation, Interrupt
from tests.admin.conftest import Desk, told

LIST = "admin:sagents_app_interrupt_changelist"


def make_rows(owner: User, number: int, **fields: Any) -> list[Interrupt]:
    """Insert requests, each in a conversation of its own, a minute apart, the oldest first."""
    conversations = Conversation.objects.bulk_create(
        Conversation(owner=owner, agent_name="clerk", title=f"Matter {index}", status="interrupted")
        for index in range(number)
    )
    arguments = canonical.dump({"number": "1001", "amount": 10})
    now = timezone.now()
    rows = [
        Interrupt(
            **{
                "conversation": conversation,
                "run_id": uuid.uuid4(),
                "batch": uuid.uuid4(),
                "kind": "approval",
                "tool_call_id": f"call_{index}",
                "tool_name": "pay",
                "display_text": "Pay an invoice",
                "arguments": arguments,
                "digest": canonical.digest(f"call_{index}", "pay", arguments),
                "allowed_decisions": ["approve", "edit", "reject"],
                "path": ["clerk"],
                "payload": {},
            }
            | fields
        )
        for index, conversation in enumerate(conversations)
    ]
    Interrupt.objects.bulk_create(rows)
    for index, row in enumerate(rows):
        row.created_at = now - timedelta(minutes=number - index)
    Interrupt.objects.bulk_update(rows, ["created_at"])
    return rows


def listed(response: HttpResponse) -> list[uuid.UUID]:
    return [row.pk for row in response.context["cl"].result_list]


def tabs(response: HttpResponse) -> dict[str, int]:
    return {tab.label: tab.count for tab in response.context["status_tabs"]}


def test_what_waits_longest_comes_first_and_tells_what_would_happen(desk: Desk) -> None:
    rows = make_rows(desk.owner, 3)
    response = desk.queue()
    assert listed(response) == [row.pk for row in rows]
    page = response.content.decode()
    for words in ("Pay an invoice", "amount: 10 · number: 1001", "Matter 0", "olga", "3 minutes"):
        assert words in page.replace("\N{NO-BREAK SPACE}", " ")


def test_what_is_settled_stands_behind_a_tab_and_after_what_waits(desk: Desk) -> None:
    waiting = make_rows(desk.owner, 2)
    settled = make_rows(desk.owner, 1, status="approved")
    Interrupt.objects.filter(pk=settled[0].pk).update(created_at=timezone.now() - timedelta(days=9))
    response = desk.queue()
    assert tabs(response) == {"Waiting": 2, "Approved": 1, "All": 3}
    assert listed(desk.queue(status="approved")) == [settled[0].pk]
    assert listed(desk.queue(status="all")) == [row.pk for row in [*waiting, *settled]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"tool": "pay"}, 1),
        ({"tool": "shred"}, 1),
        ({"agent": "clerk"}, 2),
        ({"agent": "nobody"}, 0),
        ({"kind": "unknown_outcome"}, 1),
        ({"older": "1"}, 0),
        ({"older": "nonsense"}, 2),
        ({"by": "me"}, 0),
        ({"q": "10555"}, 1),
        ({"q": "olga"}, 2),
        ({"q": "nowhere"}, 0),
    ],
)
def test_filters_and_search_narrow_it(desk: Desk, query: dict[str, str], found: int) -> None:
    make_rows(desk.owner, 1)
    make_rows(
        desk.owner, 1, tool_name="shred", kind="unknown_outcome", arguments='{"number":"10555"}'
    )
    assert len(listed(desk.queue(**query))) == found


@pytest.mark.parametrize("number", [10, 200])
def test_its_queries_do_not_grow_with_it(
    desk: Desk, number: int, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    make_rows(desk.owner, number)
    desk.queue()
    # session, user; permissions of the user and of its groups; the agents and tools to filter
    # by, count, rows and tabs, with the user's groups for four of them
    with django_assert_max_num_queries(13):
        assert desk.queue().status_code == 200


def test_nothing_is_added_edited_or_deleted_by_hand(desk: Desk) -> None:
    (row,) = make_rows(desk.owner, 1)
    assert desk.client.get(reverse("admin:sagents_app_interrupt_add")).status_code == 403
    delete = reverse("admin:sagents_app_interrupt_delete", args=[row.pk])
    assert desk.client.post(delete, {"post": "yes"}).status_code == 403
    change = reverse("admin:sagents_app_interrupt_change", args=[row.pk])
    assert desk.client.post(change, {"status": "approved"}).status_code == 405


def test_staff_without_the_permission_see_no_queue(
    client: Client, owner: User, make_user: Callable[..., User]
) -> None:
    (row,) = make_rows(owner, 1)
    client.force_login(make_user("nosy"))
    assert client.get(reverse(LIST)).status_code == 403
    assert "Review requests" not in client.get(reverse("admin:index")).content.decode()
    page = reverse("admin:sagents_app_interrupt_change", args=[row.pk])
    assert client.get(page).status_code == 404


def test_whoever_asked_does_not_see_the_request(desk: Desk, make_user: Callable[..., User]) -> None:
    owner = make_user("otto", "sagents_app.decide_interrupt")
    row = desk.ask(pay={"number": "1", "amount": 1}, owner=owner)
    seen = desk.fields(row)
    desk.login(owner)
    assert listed(desk.queue()) == []
    assert desk.page(row).status_code == 404
    response = desk.decide(row, "approve", fields=seen)
    assert told(response) == ["You asked for this yourself, so somebody else has to decide."]
    row.refresh_from_db()
    assert row.is_pending


def test_a_tool_with_a_permission_of_its_own_is_decided_by_that_one(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    row = desk.ask(shred={"number": "1"})
    assert listed(desk.queue()) == []
    desk.login(make_user("gus", "auth.view_group"))
    assert listed(desk.queue()) == [row.pk]


def by_first_letter(user: User) -> str:
    return user.get_username()[:1]


def test_another_tenants_requests_look_missing(
    desk: Desk, settings: Any, make_user: Callable[..., User]
) -> None:
    settings.SAGENTS_TENANT = "tests.admin.test_queue.by_first_letter"
    row = desk.ask(pay={"number": "1", "amount": 1}, owner=make_user("rolf"))
    seen = desk.fields(row)
    desk.login(make_user("xena", "sagents_app.decide_interrupt"))
    assert listed(desk.queue()) == []
    assert desk.page(row).status_code == 404
    missing = told(desk.decide(Interrupt(pk=uuid.uuid4()), "approve", fields=seen))
    assert told(desk.decide(row, "approve", fields=seen)) == missing
    status = reverse("admin:sagents_app_interrupt_status", args=[row.pk])
    assert desk.client.get(status).status_code == 404
    row.refresh_from_db()
    assert row.is_pending


def test_an_open_page_learns_that_its_request_was_decided(desk: Desk) -> None:
    row = desk.ask(pay={"number": "1", "amount": 1})
    status = reverse("admin:sagents_app_interrupt_status", args=[row.pk])
    assert desk.client.get(status).json() == {"status": "pending"}
    desk.decide(row, "reject")
    assert desk.client.get(status).json() == {"status": "rejected"}


def test_an_address_that_names_no_request_is_not_found(desk: Desk) -> None:
    for key in ("nonsense", str(uuid.uuid4())):
        page = reverse("admin:sagents_app_interrupt_change", args=[key])
        assert desk.client.get(page).status_code == 404


def test_selected_requests_are_decided_and_each_is_told_of(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    first, second, third = (desk.ask(pay={"number": str(i), "amount": i}) for i in (1, 2, 3))
    seen = {f"digest-{third.pk}": "0" * 64}
    runs_on = desk.fields(second)
    desk.decide(second, "reject", fields=runs_on)
    response = desk.bulk("approve_selected", [first, second, third], note="all fine", **seen)
    messages = told(response)
    assert messages[0] == f"Approve: Pay an invoice ({first.conversation})."
    assert [text.split(".")[0] for text in messages[1:]] == [
        f"Not decided: Pay an invoice ({row.conversation})" for row in (second, third)
    ]
    statuses = [Interrupt.objects.get(pk=row.pk).status for row in (first, second, third)]
    assert statuses == ["approved", "rejected", "pending"]
    assert Interrupt.objects.get(pk=first.pk).note == "all fine"


def test_selected_requests_that_are_not_the_reviewers_change_nothing(
    desk: Desk, make_user: Callable[..., User]
) -> None:
    foreign = desk.ask(pay={"number": "1", "amount": 1}, owner=User.objects.get(username="rita"))
    own = desk.ask(pay={"number": "2", "amount": 2})
    response = desk.bulk("reject_selected", [foreign, own])
    assert told(response) == [
        f"Reject: Pay an invoice ({own.conversation}).",
        "1 request is not there any more, or is not yours to decide.",
    ]
    foreign.refresh_from_db()
    assert foreign.is_pending


def test_requests_beyond_the_page_are_not_selected(desk: Desk) -> None:
    row = desk.ask(pay={"number": "1", "amount": 1})
    response = desk.bulk("approve_selected", [row], select_across="1")
    assert told(response) == ["Select the requests that you have read, page by page."]
    row.refresh_from_db()
    assert row.is_pending


def test_a_kind_that_nobody_knows_is_shown_as_stored_and_can_be_cancelled(desk: Desk) -> None:
    payload = {"type": "from_the_future", "data": {"why": "<b>because\u202e</b>"}}
    row = desk.ask(pay={"number": "1", "amount": 1})
    Interrupt.objects.filter(pk=row.pk).update(
        kind="unknown", payload=payload, allowed_decisions=["cancel"], tool_name=""
    )
    assert desk.queue().status_code == 200
    page = desk.page(row).content.decode()
    assert "from_the_future" in page
    assert "<b>because" not in page
    assert "Cancel the request" in page
    desk.decide(row, "cancel")
    row.refresh_from_db()
    assert row.status == "cancelled"
