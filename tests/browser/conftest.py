"""The product in real processes, and people who open it in a real browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import processes, programs

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

PASSWORD = "correct horse battery"
PEOPLE = f"""
from django.contrib.auth.models import Permission, User
for name in ("customer", "stranger"):
    User.objects.create_user(name, password={PASSWORD!r})
reviewer = User.objects.create_user("reviewer", password={PASSWORD!r}, is_staff=True)
wanted = ("decide_interrupt", "view_interrupt", "change_interrupt")
reviewer.user_permissions.set(Permission.objects.filter(codename__in=wanted))
"""
WEB = (sys.executable, "-m", "uvicorn", "project.asgi:application", "--lifespan", "off")
WORKER = (sys.executable, "-m", "celery", "--app", "project", "worker")


@dataclass
class Site:
    """A running product, and the browser in which its people look at it."""

    url: str
    browser: Browser
    env: dict[str, str]
    contexts: list[BrowserContext] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What browsers complained about: scripts that failed, what the page's policy refused."""

    def person(self, name: str, **options: Any) -> Page:
        """Log somebody in, in a browser of their own."""
        context = self.browser.new_context(base_url=self.url, **options)
        context.set_default_timeout(15_000)
        self.contexts.append(context)
        page = context.new_page()
        self.listen(page)
        page.goto("/accounts/login/")
        page.get_by_label("Username").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"{self.url}/")
        return page

    def listen(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda message: self._note(message.text))

    def shell(self, code: str) -> str:
        """Run a piece of Python inside the product's own settings."""
        return processes.manage("shell", "--no-imports", "-c", code, env=self.env)

    def _note(self, text: str) -> None:
        if "Content Security Policy" in text or "Error:" in text:
            self.complaints.append(text)

    def close(self) -> None:
        for context in self.contexts:
            context.close()
        self.contexts.clear()


@pytest.fixture(scope="module")
def embedded(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One process with SQLite and the worker inside, as `make run` starts it."""
    database = tmp_path_factory.mktemp("embedded") / "db.sqlite3"
    env = processes.development(database, DJANGO_SETTINGS_MODULE="tests.browser.settings")
    env = {**env, "PYTHONPATH": str(programs.ROOT)}
    prepare(env)
    with processes.running_product(env) as (process, url):
        yield Site(url, browser, env)
    assert "Traceback" not in process.output, process.output


@pytest.fixture
def site(embedded: Site) -> Iterator[Site]:
    """The embedded product; whatever a browser complains about fails the test."""
    embedded.complaints.clear()
    yield embedded
    embedded.close()
    assert not embedded.complaints


@pytest.fixture
def production(
    browser: Browser, postgres_url: str, redis_url: str, tmp_path: Path
) -> Iterator[Site]:
    """PostgreSQL, Redis, a web process and a worker, by environment variables alone."""
    env = processes.environment(
        SECRET_KEY="made-up-for-tests-" * 4,
        ALLOWED_HOSTS="127.0.0.1",
        DATABASE_URL=postgres_url,
        REDIS_URL=redis_url,
        STATIC_ROOT=str(tmp_path / "static"),
        SECURE_SSL_REDIRECT="0",
        SECURE_COOKIES="0",
    )
    prepare(env)
    processes.manage("collectstatic", "--no-input", env=env)
    port = programs.free_port()
    with ExitStack() as stack:
        web = stack.enter_context(processes.running([*WEB, "--port", str(port)], env=env))
        worker = stack.enter_context(processes.running(WORKER, env=env))
        web.wait_for("Uvicorn running on")
        worker.wait_for(" ready.", time_limit=60)
        site = Site(f"http://127.0.0.1:{port}", browser, env)
        yield site
        site.close()
    assert not site.complaints
    assert "Traceback" not in web.output + worker.output, web.output + worker.output


def prepare(env: dict[str, str]) -> None:
    processes.manage("migrate", "--verbosity", "0", env=env)
    processes.manage("shell", "--no-imports", "-c", PEOPLE, env=env)
