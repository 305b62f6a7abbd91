"""The sweep: what was committed but never started, what a lost worker left, and what is due.

A thread of every worker process, on the database alone; one process at a time sweeps, by a
conditional update of one row. Whatever it sends twice is claimed once.
"""

from __future__ import annotations

import logging
import threading
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from sagents_app import conf
from sagents_app.models import Conversation, Interrupt, Run, Sweep
from sagents_app.models.run import RunQuerySet
from sagents_app.services import endings, interrupts, lease, queue, runs
from sagents_app.services import ledger as ledgers
from sagents_app.services.ledger import writing

logger = logging.getLogger(__name__)
GRACE = timedelta(seconds=5)
"""How long a run may be between its commit and the broker."""
_LONG_AGO = datetime(2000, 1, 1, tzinfo=timezone.get_default_timezone())
_thread: threading.Thread | None = None
_stop = threading.Event()


def sweep(*, first: bool = False) -> list[UUID]:
    """Send every run that nobody drives to the workers; return their ids.

    `first` is for a broker that has just begun, empty: whatever was sent to the one before it is
    sent again.
    """
    _expire_due()
    _end_unanswered_cancels()
    _wake_paused()
    found = list(_waiting(first=first).order_by("created_at").values_list("pk", flat=True))
    for run_id in found:
        with writing():
            Run.objects.filter(pk=run_id).update(sent_at=Now())
        queue.send(run_id)
    return found


def sweep_if_due(*, first: bool = False) -> list[UUID]:
    """Sweep unless another process did within the last `SAGENTS_SWEEP_SECONDS`."""
    period = timedelta(seconds=conf.current().sweep_seconds)
    with writing():
        Sweep.objects.get_or_create(name="runs", defaults={"next_at": _LONG_AGO})
        due = Sweep.objects.filter(name="runs")
        due = due if first else due.filter(next_at__lt=Now())
        is_due = due.update(next_at=Now() + period)
    return sweep(first=first) if is_due else []


def start() -> None:
    """Start this process's sweeping thread, once."""
    global _thread  # one a process
    if _thread is None or not _thread.is_alive():
        _stop.clear()
        _thread = threading.Thread(target=_sweep_on, name="sagents-sweep", daemon=True)
        _thread.start()


def stop() -> None:
    """Let the thread end."""
    _stop.set()


def _sweep_on() -> None:
    first = queue.is_local()
    while not _stop.is_set() and not runs.is_draining():
        try:
            if found := sweep_if_due(first=first):
                logger.info("swept up %d runs", len(found))
            first = False
        except Exception:
            logger.exception("the sweep failed; the next one is due as usual")
        finally:
            connection.close()
        _stop.wait(conf.current().sweep_seconds)


def _waiting(*, first: bool) -> RunQuerySet:
    """Return the live runs that no worker drives and of which no broker may still have word."""
    lost = Q(status=Run.Status.RUNNING)
    patience = timedelta(seconds=conf.current().lease_seconds)
    refused = Q(sent_at__isnull=True, created_at__lt=Now() - GRACE)
    unheard = Q(sent_at__lt=Now() - patience)
    wanted = Q() if first else lost | refused | unheard
    return Run.objects.live().filter(lease.orphaned()).filter(wanted)


def _expire_due() -> None:
    due = Interrupt.objects.pending().filter(expires_at__lte=Now())
    for row in due.exclude(review_rule__on_expiry="wait").order_by("expires_at"):
        if interrupts.expire_interrupt(interrupt=row):
            logger.info("request %s has expired", row.pk)


def _end_unanswered_cancels() -> None:
    """End runs whose worker does not answer a request to stop; its token is worth nothing then."""
    patience = timedelta(seconds=conf.current().cancel_grace_seconds)
    asked = Run.objects.live().filter(cancel_requested_at__lt=Now() - patience)
    for run in asked.select_related("conversation"):
        with ledgers.write(run.conversation_id, run_id=run.pk) as book:
            still = Run.objects.live().filter(pk=run.pk).first()
            if still is not None:
                endings.end_from_journal(book, still)


def _wake_paused() -> None:
    """Go on with what was paused for another reason than a drain, once its time has come."""
    paused = Conversation.objects.filter(status=Conversation.Status.PAUSED)
    for conversation in paused:
        with ledgers.write(conversation.pk) as book:
            if book.conversation.status != Conversation.Status.PAUSED:
                continue
            last = Run.objects.filter(conversation=conversation).order_by("-created_at").first()
            if last is not None and last.wake_at is not None and last.wake_at <= timezone.now():
                actor = last.acting_user
                queue.start_run(book, trigger=Run.Trigger.RESUME, actor=actor)
