"""The lease: who may write agent state. Claimed by a conditional update on the database's time.

Each claim has a fencing token of its own, checked in every write. One thread a process renews the
leases that it holds, and notices those that were lost and the runs that were asked to stop.
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

from django.db import connection
from django.db.models import F, Q
from django.db.models.functions import Now

from sagents_app import conf
from sagents_app.models import Conversation, Run
from sagents_app.services.errors import ConversationBusy, LeaseLost
from sagents_app.services.ledger import writing

logger = logging.getLogger(__name__)
CANCEL_POLL = 0.4  # seconds between two looks for requests to cancel


class Held:
    """A lease in this process: its token, and whether whoever works under it has to stop."""

    def __init__(self, conversation_id: UUID, run_id: UUID | None) -> None:
        self.token = uuid.uuid4()
        self.conversation_id = conversation_id
        self.run_id = run_id
        self.cancel = threading.Event()
        """Set when a person asked for the end, or when the lease is somebody else's now."""


_held: dict[UUID, Held] = {}
_lock = threading.Lock()
_keeper: threading.Thread | None = None


def held() -> list[Held]:
    """Return what this process holds."""
    with _lock:
        return list(_held.values())


def free() -> Q:
    """Return the condition that nobody has a live lease of a conversation."""
    return Q(lease_token__isnull=True) | Q(lease_until__isnull=True) | Q(lease_until__lt=Now())


def orphaned() -> Q:
    """Return the same condition for a conversation's runs."""
    return Q(conversation__lease_token__isnull=True) | Q(conversation__lease_until__lt=Now())


def claim_run(run_id: UUID, worker: str) -> tuple[Run, Held] | None:
    """Claim a live run and its conversation's lease together; None: it is over, or another's."""
    run = Run.objects.live().filter(pk=run_id).values("conversation_id").first()
    if run is None:
        return None
    lease = Held(run["conversation_id"], run_id)
    try:
        with writing():
            _take(lease)
            claimed = (
                Run.objects.live()
                .filter(pk=run_id)
                .update(status=Run.Status.RUNNING, attempt=F("attempt") + 1, worker=worker)
            )
            if not claimed:
                raise LeaseLost(f"run {run_id} has ended meanwhile")
            found = Run.objects.select_related("acting_user", "conversation").get(pk=run_id)
    except LeaseLost:
        return None
    if found.cancel_requested_at is not None:
        lease.cancel.set()
    _keep(lease)
    return found, lease


@contextmanager
def short(conversation_id: UUID) -> Iterator[Held]:
    """Hold the lease for one short transaction of a service.

    Raises:
        ConversationBusy: somebody drives the conversation.
    """
    lease = Held(conversation_id, None)
    try:
        with writing():
            _take(lease)
    except LeaseLost:
        busy = "The agent is at work right now; try again in a moment."
        raise ConversationBusy(busy) from None
    try:
        yield lease
    finally:
        release(lease)


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


def _take(lease: Held) -> None:
    taken = (
        Conversation.objects.filter(free(), pk=lease.conversation_id)
        .order_by()
        .update(lease_token=lease.token, lease_until=Now() + _duration())
    )
    if not taken:
        raise LeaseLost(f"somebody else drives conversation {lease.conversation_id}")


def _duration() -> timedelta:
    return timedelta(seconds=conf.current().lease_seconds)


def _keep(lease: Held) -> None:
    global _keeper  # one thread a process
    with _lock:
        _held[lease.token] = lease
        if _keeper is None or not _keeper.is_alive():
            _keeper = threading.Thread(target=_keep_on, name="sagents-lease", daemon=True)
            _keeper.start()


def _keep_on() -> None:
    """Look after what this process holds; end where nothing is held."""
    global _keeper
    renewed = time.monotonic()
    try:
        while leases := held():
            try:
                _notice_cancels(leases)
                if time.monotonic() - renewed >= conf.current().heartbeat_seconds:
                    renewed = time.monotonic()
                    _renew(leases)
            except Exception:
                logger.exception("the leases could not be renewed; the next try is in a moment")
                connection.close()
            time.sleep(CANCEL_POLL)
    finally:
        connection.close()
        with _lock:
            _keeper = None
            late = list(_held.values())
        if late:
            _keep(late[0])


def _renew(leases: list[Held]) -> None:
    """Renew what is ours by its token, expired or not, and stop whoever has lost theirs."""
    tokens = {lease.token: lease for lease in leases}
    ours = Conversation.objects.filter(lease_token__in=tokens).order_by()
    with writing():
        ours.update(lease_until=Now() + _duration())
    for token in tokens.keys() - set(ours.values_list("lease_token", flat=True)):
        tokens[token].cancel.set()


def _notice_cancels(leases: list[Held]) -> None:
    runs = {lease.run_id: lease for lease in leases if lease.run_id is not None}
    asked = Run.objects.filter(pk__in=runs, cancel_requested_at__isnull=False).order_by()
    for run_id in asked.values_list("pk", flat=True):
        runs[run_id].cancel.set()
