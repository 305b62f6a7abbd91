"""What people do on the pages, in words."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def begin(page: Page, agent: str = "playground") -> None:
    """Begin a conversation, from the list or as a newcomer, and wait until the page is live."""
    page.goto("/")
    card = page.locator(f"button[name=agent][value={agent}]")
    menu = page.get_by_label("Agent", exact=True)
    expect(card.or_(menu)).to_be_visible()
    if card.is_visible():
        card.click()
    else:
        menu.select_option(agent)
        page.get_by_role("button", name="New conversation").click()
    expect_live(page)


def open_live(page: Page, url: str) -> None:
    page.goto(url)
    expect_live(page)


def expect_live(page: Page) -> None:
    expect(page.locator("#chat")).to_have_attribute("data-connection", "live")


def say(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_label("Your message").press("Enter")


def rows(page: Page) -> list[str]:
    """The transcript as it stands, a row each."""
    return page.locator("#rows > li").all_inner_texts()


def watch_stream(page: Page) -> None:
    """From now on note each text that streams, before its row is there."""
    page.evaluate(
        """() => {
          window.streamed = [];
          const text = document.getElementById("stream-text");
          new MutationObserver(() => window.streamed.push(text.textContent))
            .observe(text, { childList: true, characterData: true, subtree: true });
        }"""
    )


def streamed(page: Page) -> list[str]:
    return page.evaluate("() => window.streamed.filter((text) => text)")
