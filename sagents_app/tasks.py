"""The one Celery task, and what a worker process starts and stops."""

from __future__ import annotations

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down

from sagents_app.services import queue, recovery, runs


@shared_task(name=queue.DRIVE_RUN)
def drive_run(run_id: str, **_: object) -> None:
    """Drive a run; delivered twice, late or for a deleted conversation, it does nothing."""
    runs.close_connections()
    try:
        runs.drive_run(run_id=run_id)
    finally:
        runs.close_connections()


@worker_ready.connect
def begin_to_sweep(**_: object) -> None:
    """Look after what no worker drives, from the moment that this one takes tasks."""
    runs.cancel_drain()
    recovery.start()


@worker_shutting_down.connect
def drain(**_: object) -> None:
    """Hand the runs of this process over at their next boundary."""
    runs.request_drain()
    recovery.stop()
