"""The page of a request in a real browser: keys, what Enter does, and news from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from sagents_app.models import Interrupt
from tests.admin.conftest import CALLED, Desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
ARGUMENTS = {"number": "1001", "amount": 10, "memo": "as agreed\u202e"}


@pytest.fixture
def page(browser: Browser, live_server: Any, desk: Desk) -> Iterator[Page]:
    """The reviewer's page; whatever the content security policy refuses fails the test."""
    context = browser.new_context(base_url=live_server.url)
    session = desk.client.cookies["sessionid"].value
    context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.on("pageerror", lambda error: refused.append(str(error)))
    yield page
    context.close()
    assert not [text for text in refused if "Content Security Policy" in text or "Error:" in text]


def open_request(page: Page, desk: Desk) -> Interrupt:
    row = desk.ask(pay=ARGUMENTS)
    page.goto(reverse("admin:sagents_app_interrupt_change", args=[row.pk]))
    return row


def test_a_reviewer_approves_with_the_keyboard(page: Page, desk: Desk) -> None:
    row = open_request(page, desk)
    keys = [button.get_attribute("accesskey") for button in page.locator("[accesskey]").all()]
    assert keys == ["a", "r", "w", "e"]
    page.get_by_label("Note").fill("go ahead")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("Approved by rita").wait_for()
    desk.work(row.conversation)
    assert CALLED[0][1]["amount"] == 10
    page.reload()
    page.get_by_role("columnheader", name="Executed").wait_for()


def test_enter_in_a_field_decides_nothing(page: Page, desk: Desk) -> None:
    row = open_request(page, desk)
    page.get_by_role("link", name="change arguments").click()
    page.get_by_label("amount").fill("7")
    page.get_by_label("amount").press("Enter")
    page.wait_for_timeout(300)
    row.refresh_from_db()
    assert row.is_pending
    page.get_by_role("button", name="Approve with changes").click()
    page.get_by_text("Approved with changes by rita").wait_for()
    desk.work(row.conversation)
    assert CALLED[0][1]["amount"] == 7
    assert CALLED[0][1]["memo"] == "as agreed\u202e"


def test_a_change_is_not_lost_by_a_press_on_approve(page: Page, desk: Desk) -> None:
    row = open_request(page, desk)
    page.locator("#sa-edit > summary").click()
    page.get_by_label("amount").fill("7")
    page.get_by_role("button", name="Approve", exact=False).and_(
        page.locator("[value=approve]")
    ).click()
    page.get_by_role("alert").get_by_text("Approve with changes").wait_for()
    assert page.get_by_label("amount").input_value() == "7"
    row.refresh_from_db()
    assert row.is_pending


def test_an_open_page_says_when_somebody_was_faster(page: Page, desk: Desk) -> None:
    row = open_request(page, desk)
    elsewhere = Desk(Client(), desk.owner).login(User.objects.get(username="rita"))
    elsewhere.decide(row, "reject")
    notice = page.get_by_text("This request was decided meanwhile.")
    notice.wait_for(timeout=15_000)
    page.get_by_role("link", name="See what happened").click()
    page.get_by_text("Rejected by rita").wait_for()


def test_what_is_hidden_is_seen(page: Page, desk: Desk) -> None:
    open_request(page, desk)
    mark = page.locator(".sa-arguments .sa-mark")
    assert mark.inner_text() == "U+202E"
    assert mark.get_attribute("title") == "RIGHT-TO-LEFT OVERRIDE"
