"""The lease: who may write agent state. Claimed by a conditional update on the database's time.

Each claim has a fencing token of its own, checked in every write. One thread a process renews the
leases that it holds and notices requests to cancel.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from django.db import close_old_connections
from django.db.models import F, Q
from django.db.models.functions import Now

from sagents_app import conf
from sagents_app.models import Conversation, Run
from sagents_app.services.errors import ConversationBusy
from sagents_app.services.ledger import writing

logger = logging.getLogger(__name__)
CANCEL_POLL = 0.4  # seconds between two looks for requests to cancel


class Held:
    """A lease in this process: its token, and whether its run has been asked to stop."""

    def __init__(self, conversation_id: UUID, run_id: UUID | None) -> None:
        self.token = uuid.uuid4()
        self.conversation_id = conversation_id
        self.run_id = run_id
        self.cancel = threading.Event()


_held: dict[UUID, Held] = {}
_lock = threading.Lock()
_keeper: threading.Thread | None = None


def held() -> list[Held]:
    """Return what this process holds."""
    with _lock:
        return list(_held.values())


def claim(conversation_id: UUID, run_id: UUID | None = None) -> Held | None:
    """Take the lease if nobody has a live one; None: somebody has."""
    lease = Held(conversation_id, run_id)
    free = Q(lease_token__isnull=True) | Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
    with writing():
        taken = (
            Conversation.objects.filter(pk=conversation_id)
            .filter(free)
            .update(lease_token=lease.token, lease_until=Now() + _duration())
        )
    if not taken:
        return None
    with _lock:
        _held[lease.token] = lease
    _keep()
    return lease


def forget(lease: Held) -> None:
    """Stop renewing; whoever writes the conversation's last change clears the row's token."""
    with _lock:
        _held.pop(lease.token, None)


def release(lease: Held) -> None:
    """Give the lease up, if it is still ours."""
    forget(lease)
    with writing():
        Conversation.objects.filter(pk=lease.conversation_id, lease_token=lease.token).update(
            lease_token=None, lease_until=None
        )


@contextmanager
def short(conversation_id: UUID) -> Iterator[Held]:
    """Hold the lease for one short transaction of a service.

    Raises:
        ConversationBusy: somebody drives the conversation.
    """
    lease = claim(conversation_id)
    if lease is None:
        raise ConversationBusy("The agent is at work right now; try again in a moment.")
    try:
        yield lease
    finally:
        release(lease)


def _duration() -> timedelta:
    return timedelta(seconds=conf.current().lease_seconds)


def _keep() -> None:
    global _keeper  # one thread a process
    with _lock:
        if _keeper is None or not _keeper.is_alive():
            _keeper = threading.Thread(target=_keep_on, name="sagents-lease", daemon=True)
            _keeper.start()


def _keep_on() -> None:
    renewed = time.monotonic()
    while True:
        time.sleep(CANCEL_POLL)
        leases = held()
        if not leases:
            renewed = time.monotonic()
            continue
        try:
            _notice_cancels(leases)
            if time.monotonic() - renewed >= conf.current().heartbeat_seconds:
                _renew(leases)
                renewed = time.monotonic()
        except Exception:
            logger.exception("the leases could not be renewed; the next try is in a moment")
        finally:
            close_old_connections()


def _renew(leases: list[Held]) -> None:
    tokens = [lease.token for lease in leases]
    with writing():
        Conversation.objects.filter(lease_token__in=tokens).update(lease_until=Now() + _duration())


def _notice_cancels(leases: list[Held]) -> None:
    runs = {lease.run_id: lease for lease in leases if lease.run_id is not None}
    asked = Run.objects.filter(pk__in=runs, cancel_requested_at__isnull=False)
    for run_id in asked.values_list("pk", flat=True):
        runs[run_id].cancel.set()


def claim_run(run_id: UUID, worker: str) -> tuple[Run, Held] | None:
    """Claim a live run and its conversation's lease together; None: it is over, or another's."""
    run = Run.objects.live().filter(pk=run_id).first()
    if run is None:
        return None
    lease = claim(run.conversation_id, run.pk)
    if lease is None:
        return None
    with writing():
        claimed = (
            Run.objects.live()
            .filter(pk=run_id)
            .update(
                status=Run.Status.RUNNING,
                attempt=F("attempt") + 1,
                worker=worker,
                started_at=Now(),
            )
        )
    if not claimed:
        release(lease)
        return None
    return Run.objects.select_related("acting_user", "conversation").get(pk=run_id), lease
