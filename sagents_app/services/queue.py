"""The queue: a run's id goes to the broker once its row is committed.

The broker is a hint like the channel layer: where it cannot be reached, the committed row waits and
the sweep starts it.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from celery import current_app
from django.db import transaction
from django.utils import timezone

from sagents_app.models import Conversation, Run
from sagents_app.services.ledger import Ledger, writing

logger = logging.getLogger(__name__)
DRIVE_RUN = "sagents_app.drive_run"


def start_run(book: Ledger, *, trigger: str, actor: Any) -> Run:
    """Queue a run in the ledger's transaction; the conversation is running from here on."""
    run = Run.objects.create(conversation=book.conversation, trigger=trigger, acting_user=actor)
    book.run_id = run.pk
    book.set_status(Conversation.Status.RUNNING)
    enqueue(run)
    return run


def enqueue(run: Run) -> None:
    """Send the run to the workers when the transaction commits."""
    run_id, run.sent_at = run.pk, timezone.now()
    transaction.on_commit(lambda: send(run_id))


def send(run_id: UUID) -> bool:
    """Send a committed run to the workers now; whether the broker took it.

    Tries once, for as long as the broker's own time limits say, and never raises.
    """
    try:
        current_app.send_task(DRIVE_RUN, kwargs={"run_id": str(run_id)}, retry=False)
    except Exception as error:  # noqa: BLE001  # whatever its library raises: the row is there
        logger.warning("the broker does not take run %s, the sweep will: %s", run_id, error)
        with writing():
            Run.objects.filter(pk=run_id).update(sent_at=None)
        return False
    return True


def is_local() -> bool:
    """Whether the broker is this process's own memory, empty when the process starts."""
    return str(current_app.conf.broker_url or "").startswith("memory:")
