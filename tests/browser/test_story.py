"""The story: an end user asks, watches, and sees what a reviewer decides, without reloading."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.browser.steps import begin, expect_live, open_live, rows, say, streamed, watch_stream

pytestmark = pytest.mark.browser


def play_a_refund(site: Site) -> None:
    customer = site.person("customer")
    begin(customer, "support")
    watch_stream(customer)
    customer.evaluate("window.isTheSamePage = true")

    say(customer, "Please refund order 1001")
    expect(customer.locator(".bubble")).to_have_text(re.compile("Please refund order 1001"))
    waiting = customer.get_by_role("article", name="Waiting for a reviewer: Refund")
    expect(waiting).to_contain_text("1001")
    expect(waiting.get_by_role("button", name="Approve")).to_have_count(0)
    expect(customer.locator("#badge")).to_contain_text("Waiting for a reviewer")
    seen = streamed(customer)
    assert any(text.startswith("Let me") and not text.endswith("1001.") for text in seen), seen

    reviewer = site.person("reviewer")
    reviewer.get_by_role("link", name="Review queue").click()
    reviewer.get_by_role("link", name="Refund").first.click()
    reviewer.get_by_label("Note").fill("Have a nice day.")
    reviewer.get_by_role("button", name="Approve", exact=False).and_(
        reviewer.locator("[value=approve]")
    ).click()

    expect(customer.get_by_text("Approved by reviewer")).to_be_visible()
    expect(customer.get_by_text("Have a nice day.")).to_be_visible()
    expect(customer.locator(".assistant_text").last).to_contain_text("Refunded")
    expect(waiting).to_have_count(0)
    expect(customer.locator("#badge .badge")).to_have_count(0)
    assert customer.evaluate("window.isTheSamePage")

    stayed = rows(customer)
    customer.reload()
    expect_live(customer)
    assert rows(customer) == stayed


def test_one_process_with_sqlite(site: Site) -> None:
    play_a_refund(site)


@pytest.mark.postgres
@pytest.mark.redis
def test_postgres_redis_and_a_worker_of_its_own(production: Site) -> None:
    play_a_refund(production)


def test_a_reviewer_decides_on_the_live_page(site: Site) -> None:
    customer, reviewer = site.person("customer"), site.person("reviewer")
    begin(customer)
    say(customer, "pay me")
    expect(customer.get_by_role("article", name="Waiting for a reviewer: Pay")).to_be_visible()
    open_live(reviewer, customer.url)
    expect(reviewer.get_by_label("Your message")).to_have_count(0)
    card = reviewer.get_by_role("article", name="May the agent do this: Pay?")
    expect(card).to_contain_text("U+202E")

    card.get_by_text("Change the arguments").click()
    card.get_by_label("Arguments as JSON").fill('{"amount": 7}')
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(card.get_by_role("alert")).to_contain_text("You changed arguments")
    card.get_by_label("Arguments as JSON").fill("{")
    card.get_by_role("button", name="Approve with these changes").click()
    expect(card.get_by_role("alert")).to_contain_text("not JSON")
    card.get_by_label("Arguments as JSON").fill('{"amount": "a lot"}')
    card.get_by_role("button", name="Approve with these changes").click()
    expect(card.get_by_role("alert")).to_contain_text("amount")
    card.get_by_label("Arguments as JSON").fill('{"amount": 7}')
    card.get_by_role("button", name="Approve with these changes").click()

    expect(customer.get_by_text("Approved with changes by reviewer")).to_be_visible()
    for page in (customer, reviewer):
        expect(page.locator(".assistant_text").last).to_contain_text("Paid 7.")


def test_a_rejection_comes_with_its_note(site: Site) -> None:
    customer, reviewer = site.person("customer"), site.person("reviewer")
    begin(customer)
    say(customer, "pay me")
    expect(customer.locator(".request")).to_be_visible()
    open_live(reviewer, customer.url)
    reviewer.get_by_label("Note").fill("Not today.")
    reviewer.get_by_role("button", name="Reject").click()
    expect(customer.get_by_text("Declined by reviewer")).to_be_visible()
    expect(customer.locator(".decided blockquote")).to_have_text("Not today.")


def test_a_halt_stays_in_the_transcript_after_it_was_dismissed(site: Site) -> None:
    customer = site.person("customer")
    begin(customer, "support")
    say(customer, "My card was charged twice for order 1004")
    expect(customer.locator(".request.halt")).to_be_visible()
    customer.get_by_role("button", name="Dismiss").click()
    expect(customer.locator(".request.halt")).to_have_count(0)
    customer.reload()
    told = customer.locator(".halted", has_text="The bank is looking into the payment")
    expect(told).to_have_count(1)

    say(customer, "Where is order 1002?")
    expect(customer.locator(".markdown table")).to_be_visible()
    expect(told).to_have_count(1)
