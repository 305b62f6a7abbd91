"""Reading and writing for everyone: keys, screen readers, phones, hostile text, no scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests import programs
from tests.browser.conftest import PASSWORD, Site
from tests.browser.steps import begin, open_live, rows, say

pytestmark = pytest.mark.browser


def test_hostile_markdown_does_nothing(site: Site) -> None:
    page = site.person("customer")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    begin(page)
    say(page, "hostile")
    answer = page.locator(".assistant_text")
    expect(answer).to_contain_text("<script>")
    expect(page).not_to_have_title("owned")
    expect(answer.locator("img, script")).to_have_count(0)
    assert [link.get_attribute("href") for link in answer.locator("a").all()] == [
        "https://fine.example/"
    ]
    expect(answer.locator("pre")).to_contain_text("<b>not bold</b>")
    assert not [url for url in asked if "example" in url]


def test_code_can_be_copied(site: Site) -> None:
    page = site.person("customer", permissions=["clipboard-read", "clipboard-write"])
    begin(page)
    say(page, "hostile")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == 'print("<b>not bold</b>")\n'


def test_thinking_and_tools_are_folded_and_open_with_the_keyboard(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    say(page, "think")
    thinking = page.locator("#rows details.thinking")
    expect(thinking.get_by_text("Let me see.")).to_be_hidden()
    thinking.locator("summary").press("Enter")
    expect(thinking.get_by_text("Let me see.")).to_be_visible()

    say(page, "look")
    expect(page.locator(".tool_call")).to_contain_text("Done")
    page.locator(".tool > summary").press("Enter")
    more = page.get_by_text("Show all 5000 characters").or_(
        page.get_by_text("Show all 5,000 characters")
    )
    more.click()
    expect(page.locator(".tool-result .value").last).to_have_text(re.compile("x{5000}"))


def test_a_question_is_answered_in_the_chat(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    say(page, "ask me")
    card = page.get_by_role("article", name="Which colour?")
    card.get_by_role("button", name="Answer").click()
    expect(card.get_by_role("alert")).to_be_visible()
    card.get_by_label("Blue").check()
    card.get_by_role("button", name="Answer").click()
    expect(page.locator(".assistant_text").last).to_contain_text("blue")
    expect(card).to_have_count(0)

    say(page, "ask me")
    expect(card).to_be_visible()
    card.get_by_role("button", name="Skip this question").click()
    expect(card).to_have_count(0)
    expect(page.locator(".notification")).to_contain_text("put aside")


def test_several_requests_wait_for_one_another(site: Site) -> None:
    customer, reviewer = site.person("customer"), site.person("reviewer")
    begin(customer)
    say(customer, "pay-twice")
    expect(customer.locator(".request")).to_have_count(2)
    open_live(reviewer, customer.url)
    expect(reviewer.get_by_text("2 requests are open")).to_be_visible()
    second = reviewer.locator(".request").nth(1)
    second.get_by_label("Note").fill("I am still thinking about this one")
    reviewer.locator(".request").nth(0).get_by_role("button", name="Reject").click()
    expect(reviewer.locator(".request")).to_have_count(1)
    expect(reviewer.get_by_label("Note")).to_have_value("I am still thinking about this one")
    reviewer.get_by_role("button", name="Approve", exact=True).click()
    expect(customer.locator(".assistant_text").last).to_contain_text("Paid 2.")


def test_what_fails_is_told_and_can_be_tried_again(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    say(page, "break")
    expect(page.locator(".failure")).to_contain_text("the agent could not go on")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".failure")).to_have_count(2)
    say(page, "hello")
    expect(page.locator(".assistant_text").last).to_contain_text("You said: hello")


def test_finished_messages_and_requests_are_announced_once(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    page.evaluate(
        """() => {
          window.told = [];
          const region = document.getElementById("announcements");
          new MutationObserver(() => window.told.push(region.textContent))
            .observe(region, { childList: true });
        }"""
    )
    say(page, "slow please")
    expect(page.locator(".assistant_text")).to_be_visible(timeout=20_000)
    say(page, "pay")
    expect(page.locator(".request")).to_be_visible()
    expect(page.locator("#announcements")).to_contain_text("Waiting for a reviewer: Pay")
    # What arrives close together is told in one breath; how it falls is the clock's affair.
    told = " ".join(page.evaluate("window.told"))
    assert told.startswith("word0 word1")
    assert told.count("word0 word1") == 1
    assert told.count("Waiting for a reviewer: Pay") == 1


def test_the_whole_chat_works_from_the_keyboard(site: Site) -> None:
    page = site.person("customer")
    begin(page)
    expect(page.get_by_label("Your message")).to_be_focused()
    page.keyboard.type("first line")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("second line")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".bubble")).to_contain_text("first line\nsecond line")
    expect(page.locator(".assistant_text")).to_be_visible()
    page.get_by_text("More").or_(page.get_by_label("More")).first.press("Enter")
    title = page.get_by_label("Title")
    title.fill("By hand")
    title.press("Enter")
    expect(page.get_by_role("heading", name="By hand")).to_be_visible()
    expect(title).to_be_hidden()
    page.get_by_label("More").first.press("Enter")
    page.get_by_label("Title").press("Escape")
    expect(title).to_be_hidden()
    page.keyboard.press("Home")


def test_a_phone_shows_everything_within_its_width(site: Site) -> None:
    page = site.person("customer", viewport={"width": 390, "height": 800}, has_touch=True)
    begin(page)
    say(page, "hostile")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".assistant_text")).to_be_visible()
    page.get_by_label("Your message").fill("pay")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".request")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_without_scripts_one_can_read_write_and_decide(site: Site) -> None:
    page = site.person("customer", java_script_enabled=False)
    page.goto("/")
    card = page.locator("button[name=agent][value=playground]")
    if card.count():
        card.click()
    else:
        page.get_by_label("Agent", exact=True).select_option("playground")
        page.get_by_role("button", name="New conversation").click()
    page.get_by_label("Your message").fill("pay")
    page.get_by_role("button", name="Send").click()
    waiting = page.get_by_role("article", name="Waiting for a reviewer: Pay")
    reload_until(page, lambda: waiting.count() == 1)

    reviewer = site.person("reviewer", java_script_enabled=False)
    reviewer.goto(page.url)
    reviewer.get_by_text("Change the arguments").click()
    reviewer.get_by_label("Arguments as JSON").fill('{"amount": "much"}')
    reviewer.get_by_label("Note").fill("kept")
    reviewer.get_by_role("button", name="Approve with these changes").click()
    expect(reviewer.get_by_role("alert").first).to_contain_text("amount")
    expect(reviewer.get_by_label("Note")).to_have_value("kept")
    reviewer.get_by_label("Arguments as JSON").fill('{"amount": 3}')
    reviewer.get_by_role("button", name="Approve with these changes").click()
    reload_until(page, lambda: "Paid 3." in " ".join(rows(page)))


def reload_until(page: Page, is_there: object) -> None:
    for _ in range(100):
        if is_there():  # type: ignore[operator]
            return
        page.goto(page.url)
    raise AssertionError(page.content())


def test_a_stranger_gets_the_404_of_a_missing_page(site: Site) -> None:
    customer, stranger = site.person("customer"), site.person("stranger")
    begin(customer)
    missing = re.sub(r"[0-9a-f]{8}-", "00000000-", customer.url, count=1)
    for url in (customer.url, missing):
        assert stranger.request.get(url).status == 404


@pytest.mark.node
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_complain_about(site: Site, scheme: str) -> None:
    customer = site.person("customer", color_scheme=scheme, bypass_csp=True)
    check(customer)
    begin(customer)
    check(customer)
    say(customer, "ask me")
    expect(customer.locator(".request")).to_be_visible()
    check(customer)
    customer.get_by_label("Red").check()
    customer.get_by_role("button", name="Answer").click()
    expect(customer.locator(".assistant_text")).to_be_visible()
    say(customer, "hostile")
    expect(customer.locator(".markdown pre")).to_be_visible()
    say(customer, "break")
    expect(customer.locator(".failure")).to_be_visible()
    say(customer, "pay")
    expect(customer.locator(".request")).to_be_visible()
    customer.locator(".tool > summary").last.click()
    check(customer)
    reviewer = site.person("reviewer", color_scheme=scheme, bypass_csp=True)
    open_live(reviewer, customer.url)
    reviewer.get_by_text("Change the arguments").click()
    check(reviewer)
    reviewer.get_by_role("button", name="Reject").click()
    expect(reviewer.locator(".decided")).to_be_visible()
    check(reviewer)


def check(page: Page) -> None:
    page.add_script_tag(path=str(programs.AXE))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    problems = [
        f"{one['id']}: {node['html']} {node['failureSummary']}"
        for one in found["violations"]
        for node in one["nodes"]
    ]
    assert not problems, "\n".join(problems)


def test_the_login_page_leads_back(site: Site) -> None:
    customer = site.person("customer")
    begin(customer)
    other = site.browser.new_context(base_url=site.url)
    page = other.new_page()
    page.goto(customer.url)
    page.get_by_label("Username").fill("customer")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(customer.url)
    other.close()
