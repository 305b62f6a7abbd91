"""The Celery application: `celery --app project worker --pool threads`."""

from __future__ import annotations

import os
from io import StringIO

from celery import Celery
from celery.signals import worker_init
from django.core.management import CommandError, call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
# Threads that did not import this module, such as those of an embedded worker's pool, otherwise see
# another, empty application as the current one, and tasks are received but never run.
app.set_default()


@worker_init.connect
def refuse_misconfiguration(**_: object) -> None:
    """Run the system checks before the worker takes its first task, and leave on an error."""
    try:
        call_command("check", stdout=StringIO())
    except CommandError as error:
        # Celery logs and ignores any other exception of a signal's receiver.
        raise SystemExit(f"The worker does not start: {error}") from error
