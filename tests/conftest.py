"""Fixtures and rules of the whole suite.

A test marked `postgres`, `redis`, `browser` or `node` needs that service: it is skipped with a
reason where the service is missing. With SAGENTS_REQUIRE_SERVICES=1 no test may be skipped at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import pytest_django

from tests import programs

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REQUIRED = os.environ.get("SAGENTS_REQUIRE_SERVICES", "") == "1"


def pytest_runtest_setup(item: pytest.Item) -> None:
    for service in programs.PROBES:
        if item.get_closest_marker(service) and (reason := programs.missing(service)):
            pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"Skipped where no test may be skipped: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    if REQUIRED and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"Skipped where no test may be skipped: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _own_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that a test registers are gone after it, or the next system check would build them."""
    from sagents_app.services import agents

    monkeypatch.setattr(agents, "_registered", dict(agents.registered()))


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, django_db_blocker: pytest_django.DjangoDbBlocker
) -> Iterator[None]:
    """End the connections that pools' threads still hold, or the database cannot be dropped."""
    yield
    from django.db import connection

    if connection.vendor == "postgresql":
        with django_db_blocker.unblock(), connection.cursor() as cursor:
            cursor.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A new, empty PostgreSQL database for this test alone (which carries `postgres`)."""
    with programs.new_postgres_database() as url:
        yield url


@pytest.fixture
def redis_url() -> Iterator[str]:
    """An empty Redis for this test alone (which carries `redis`)."""
    with programs.new_redis() as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for tests that carry `browser`; each test opens contexts of its own.

    While it is open, Playwright's event loop runs in the main thread: its modules have no
    asynchronous tests, and Django must be told that its queries there are meant.
    """
    from playwright.sync_api import sync_playwright

    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        chromium = playwright.chromium.launch(
            executable_path=programs.chromium_program(), args=programs.CHROMIUM_ARGUMENTS
        )
        yield chromium
        chromium.close()
