"""What a page shows at any moment is what is saved, however one got there."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site
from tests.browser.steps import begin, expect_live, open_live, rows, say, streamed, watch_stream

pytestmark = pytest.mark.browser
WHOLE = "".join(f"word{number} " for number in range(60)).strip()


def expect_whole(page: Page) -> None:
    """The slow answer stands there once, complete, and nothing streams any more."""
    answers = page.locator("#rows > .assistant_text")
    expect(answers).to_have_count(1, timeout=20_000)
    expect(answers.locator(".markdown")).to_have_text(WHOLE)
    expect(page.locator("#stream")).to_be_hidden()


def test_a_reload_in_mid_stream_equals_staying(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    say(page, "slow please")
    expect(page.locator("#stream-text")).to_contain_text("word5")
    page.reload()
    expect(page.locator("#stream-text")).to_contain_text("word5")
    expect_whole(page)


def test_a_tab_that_joins_late_sees_what_the_first_one_sees(site: Site) -> None:
    first = site.person("customer")
    begin(first)
    say(first, "slow please")
    expect(first.locator("#stream-text")).to_contain_text("word5")
    second = first.context.new_page()
    open_live(second, first.url)
    watch_stream(second)
    for page in (first, second):
        expect_whole(page)
    assert rows(first) == rows(second)
    for text in streamed(second):
        assert WHOLE.startswith(text.strip())

    say(second, "and again")
    expect(first.locator(".bubble").last).to_contain_text("and again")
    expect(first.locator(".assistant_text").last).to_contain_text("You said: and again")


def test_a_cut_connection_is_told_and_healed_without_gap_or_duplicate(site: Site) -> None:
    page = site.person("customer")
    cuts: list[object] = []
    open_sockets: list[object] = []

    def through(socket: object) -> None:
        open_sockets.append(socket)
        if cuts and cuts[-1] == "down":
            socket.close(code=1013)  # type: ignore[attr-defined]
        else:
            socket.connect_to_server()  # type: ignore[attr-defined]

    page.route_web_socket("**/ws/**", through)
    begin(page)
    watch_stream(page)
    say(page, "slow please")
    expect(page.locator("#stream-text")).to_contain_text("word3")
    cuts.append("down")
    open_sockets[-1].close(code=1013)  # type: ignore[attr-defined]
    expect(page.locator("#connection")).to_contain_text("Connection lost")
    cuts.append("up")
    expect_whole(page)
    expect(page.locator("#connection")).to_be_hidden()
    for text in streamed(page):
        assert WHOLE.startswith(text.strip())


def test_a_message_that_does_not_get_through_stays_and_is_one_when_sent_again(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    lost = []

    def lose_the_answer(route: object) -> None:
        if lost:
            route.continue_()  # type: ignore[attr-defined]
            return
        lost.append(route.fetch())  # type: ignore[attr-defined]
        route.abort()  # type: ignore[attr-defined]

    page.route("**/messages/", lose_the_answer)
    say(page, "only once")
    expect(page.locator("#composer-error")).to_contain_text("did not reach the server")
    expect(page.get_by_label("Your message")).to_have_value("only once")
    page.get_by_label("Your message").press("Enter")
    expect(page.get_by_label("Your message")).to_have_value("")
    expect(page.locator(".assistant_text")).to_have_count(1)
    expect(page.locator(".bubble")).to_have_count(1)


def test_a_refused_message_stays_in_the_composer(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    page.get_by_label("Your message").fill("x" * 100_001)
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#composer-error")).to_contain_text("at most 100000")
    assert len(page.get_by_label("Your message").input_value()) == 100_001
    expect(page.locator(".bubble")).to_have_count(0)


def test_a_draft_survives_a_reload(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    page.get_by_label("Your message").fill("half a thou")
    page.reload()
    expect(page.get_by_label("Your message")).to_have_value("half a thou")


def test_logging_out_elsewhere_is_told(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    other = page.context.new_page()
    other.goto("/")
    other.get_by_role("button", name="Log out").click()
    expect(page.locator("#connection")).to_contain_text("logged out", timeout=10_000)
    page.get_by_label("Your message").fill("anybody there?")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#composer-error")).to_be_visible()
    expect(page.get_by_label("Your message")).to_have_value("anybody there?")


def test_a_run_is_stopped_from_another_tab(site: Site) -> None:
    first = site.person("customer")
    begin(first)
    say(first, "slow please")
    expect(first.locator("#stream-text")).to_contain_text("word3")
    second = first.context.new_page()
    open_live(second, first.url)
    second.get_by_role("button", name="Stop").click()
    for page in (first, second):
        expect(page.locator(".notification")).to_contain_text("The agent was stopped.")
        expect(page.get_by_role("button", name="Try again")).to_be_visible()
        expect(page.locator("#stream")).to_be_hidden()
    assert rows(first) == rows(second)
    kept = rows(first)
    first.reload()
    assert rows(first) == kept


def test_a_message_while_the_agent_works_is_queued_and_answered(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    say(page, "slow please")
    expect(page.locator("#stream-text")).to_contain_text("word3")
    say(page, "one more thing")
    expect(page.locator(".user_text.is-queued")).to_contain_text("one more thing")
    say(page, "never mind")
    expect(page.locator(".user_text.is-queued")).to_have_count(2)
    page.locator(".is-queued", has_text="never mind").get_by_role(
        "button", name="Take back"
    ).click()
    expect(page.locator(".user_text.is-withdrawn")).to_contain_text("never mind")
    expect(page.locator(".assistant_text").last).to_contain_text(
        "You said: one more thing", timeout=20_000
    )
    expect(page.locator(".is-queued")).to_have_count(0)


def test_scrolled_up_readers_stay_where_they_are(site: Site) -> None:
    page = site.person("customer", viewport={"width": 800, "height": 500})
    begin(page)
    say(page, "hostile")
    expect(page.locator(".assistant_text")).to_be_visible()
    say(page, "slow please")
    expect(page.locator("#stream-text")).to_contain_text("word1")
    page.evaluate("document.getElementById('scroll').scrollTop = 0")
    expect(page.get_by_role("button", name="New messages")).to_be_visible(timeout=10_000)
    assert page.evaluate("document.getElementById('scroll').scrollTop") == 0
    page.get_by_role("button", name="New messages").click()
    expect(page.get_by_role("button", name="New messages")).to_be_hidden()


def test_the_list_follows_what_happens(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    say(page, "pay for the list")
    listing = page.context.new_page()
    site.listen(listing)
    listing.goto("/")
    entry = listing.locator(".entry", has_text="pay for the list").first
    expect(entry).to_contain_text("Waiting for a reviewer", timeout=12_000)
    page.get_by_role("button", name="Withdraw the request").click()
    expect(entry).not_to_contain_text("Waiting for a reviewer", timeout=12_000)
    expect_live(page)
