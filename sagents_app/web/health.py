"""`/health/live` and `/health/ready`: what a load balancer or a supervisor asks, without a login.

Live means that the process answers. Ready means that it should get traffic: it is not draining, and
the database, the broker and the channel layer each answered within a second. "Cannot tell" is not
ready.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from asgiref.sync import async_to_sync
from celery import current_app
from channels.layers import get_channel_layer
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sagents_app.services import runs

logger = logging.getLogger(__name__)

TIME_LIMIT = 1.0
"""Seconds that all probes together may take."""


@never_cache
@require_safe
def live(request: HttpRequest) -> JsonResponse:
    """Answer that the process runs."""
    return JsonResponse({"status": "live"})


@never_cache
@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Answer 200 with "ready", or 503 with the parts that keep it from being ready."""
    parts = examine(PROBES)
    parts["draining"] = "yes" if runs.is_draining() else "no"
    is_ready = parts["draining"] == "no" and all(parts[probe.name] == "ok" for probe in PROBES)
    return JsonResponse(
        {"status": "ready" if is_ready else "not ready", **parts}, status=200 if is_ready else 503
    )


@dataclass(slots=True, kw_only=True)
class Probe:
    """One part that is asked whether it is there."""

    name: str
    """What the answer calls it."""
    ask: Callable[[], None]
    """Asks; raises anything if the part did not answer."""
    asking: threading.Lock = field(default_factory=threading.Lock)
    """Held while a question is under way, so that a part that hangs occupies one thread."""


@dataclass(slots=True)
class _Question:
    probe: Probe
    answered: threading.Event = field(default_factory=threading.Event)
    answer: str = "no answer in time"

    def run(self) -> None:
        try:
            self.probe.ask()
            self.answer = "ok"
        except Exception:  # whatever goes wrong, the part is not there
            logger.warning("The health probe of the %s failed", self.probe.name, exc_info=True)
            self.answer = "unreachable"
        finally:
            self.probe.asking.release()
            self.answered.set()


def examine(probes: tuple[Probe, ...], *, time_limit: float = TIME_LIMIT) -> dict[str, str]:
    """Ask all at the same time; return each one's answer by name, within the time limit.

    An answer is "ok", "unreachable" or "no answer in time".
    """
    questions = [_Question(probe) for probe in probes]
    deadline = time.monotonic() + time_limit
    for question in questions:
        if question.probe.asking.acquire(blocking=False):
            threading.Thread(
                target=question.run, name=f"health-{question.probe.name}", daemon=True
            ).start()
    for question in questions:
        question.answered.wait(max(0.0, deadline - time.monotonic()))
    return {question.probe.name: question.answer for question in questions}


def _ask_database() -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    finally:
        # The thread ends with the question, and its connection with it.
        connection.close()


def _ask_broker() -> None:
    with current_app.connection_for_write() as broker:
        broker.ensure_connection(max_retries=1, timeout=1)


def _ask_channel_layer() -> None:
    layer = get_channel_layer()
    if layer is None:
        raise LookupError("no channel layer is configured")
    async_to_sync(layer.group_send)("sagents.health", {"type": "health"})


PROBES = (
    Probe(name="database", ask=_ask_database),
    Probe(name="broker", ask=_ask_broker),
    Probe(name="channel layer", ask=_ask_channel_layer),
)
