"""The sweep: what was committed but never started, and what a lost worker left behind.

A thread of every worker process, on the database alone; one process at a time sweeps, by a
conditional update of one row. Whatever it sends twice is claimed once.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from uuid import UUID

from django.db import close_old_connections
from django.db.models import Q
from django.db.models.functions import Now

from sagents_app import conf
from sagents_app.models import Run, Sweep
from sagents_app.services import queue, runs
from sagents_app.services.ledger import writing

logger = logging.getLogger(__name__)
GRACE = timedelta(seconds=5)
_thread: threading.Thread | None = None
_stop = threading.Event()


def sweep() -> list[UUID]:
    """Send every run that nobody drives to the workers; return their ids."""
    orphaned = Q(conversation__lease_token__isnull=True) | Q(conversation__lease_until__lt=Now())
    stale = Q(created_at__lt=Now() - GRACE)
    found = list(
        Run.objects.live()
        .filter(orphaned & stale)
        .order_by("created_at")
        .values_list("pk", flat=True)
    )
    for run_id in found:
        queue.send(run_id)
    return found


def sweep_if_due() -> list[UUID]:
    """Sweep unless another process did within the last `SAGENTS_SWEEP_SECONDS`."""
    period = timedelta(seconds=conf.current().sweep_seconds)
    with writing():
        Sweep.objects.get_or_create(name="runs", defaults={"next_at": "2000-01-01T00:00:00Z"})
        due = Sweep.objects.filter(name="runs", next_at__lt=Now()).update(next_at=Now() + period)
    return sweep() if due else []


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
    while not _stop.is_set() and not runs.is_draining():
        try:
            if found := sweep_if_due():
                logger.info("swept up %d runs", len(found))
        except Exception:
            logger.exception("the sweep failed; the next one is due as usual")
        finally:
            close_old_connections()
        _stop.wait(conf.current().sweep_seconds)
