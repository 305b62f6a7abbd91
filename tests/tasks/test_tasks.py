"""The one task, and the way to it: by name, once committed, without waiting for a broker."""

from __future__ import annotations

import time

import pytest
from celery import current_app
from django.db import transaction

from sagents_app import tasks
from sagents_app.models import Run
from sagents_app.services import conversations, queue, recovery, runs
from tests.world import begin, drive, person, register

NOBODY_LISTENS = "redis://127.0.0.1:9/0"


def test_the_name_that_is_sent_is_registered():
    current_app.loader.import_default_modules()
    assert queue.DRIVE_RUN in current_app.tasks


@pytest.mark.django_db(transaction=True)
def test_the_task_drives_a_run_and_tolerates_what_it_does_not_know():
    register("plain", "Hello.")
    conversation = begin("plain", person())
    tasks.drive_run(run_id=str(Run.objects.get().pk), added_in_a_later_version=True)
    conversation.refresh_from_db()
    assert conversation.status == "idle"


@pytest.mark.django_db(transaction=True)
def test_a_task_for_a_deleted_conversation_does_nothing():
    """CD-68."""
    register("plain", "Hello.")
    conversation = begin("plain", person())
    run_id = str(Run.objects.get().pk)
    conversation.delete()
    tasks.drive_run(run_id=run_id)
    assert not Run.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_run_is_sent_once_it_is_committed_and_never_before():
    """CD-61."""
    sent = []
    with current_app.connection_for_write() as connection:
        consumer = connection.SimpleQueue(current_app.conf.task_default_queue)
        consumer.clear()
        register("plain", "Hello.")
        owner = person()
        conversation = conversations.create_conversation(agent="plain", owner=owner)
        with transaction.atomic():
            conversations.post_message(conversation=conversation, text="hi", actor=owner)
            with pytest.raises(consumer.Empty):
                consumer.get_nowait()
        message = consumer.get(timeout=5)
        sent.append(message.decode()[1])
        message.ack()
        consumer.close()
    assert sent == [{"run_id": str(Run.objects.get().pk)}]


@pytest.mark.django_db(transaction=True)
def test_a_message_is_taken_while_the_broker_is_away_and_the_sweep_starts_it():
    """P10, CD-60: the row is there, the request succeeds within about a second."""
    away = current_app.__class__("away", broker=NOBODY_LISTENS, set_as_current=False)
    away.conf.update(broker_connection_timeout=1, task_publish_retry=False)
    before = current_app._get_current_object()
    register("plain", "Hello.")
    owner = person()
    conversation = conversations.create_conversation(agent="plain", owner=owner)
    away.set_current()
    try:
        started = time.monotonic()
        conversations.post_message(conversation=conversation, text="hi", actor=owner)
        assert time.monotonic() - started < 3
    finally:
        before.set_current()
    run = Run.objects.get()
    assert (run.status, run.sent_at) == ("queued", None)
    Run.objects.update(created_at="2026-01-01T00:00:00Z")
    assert recovery.sweep() == [run.pk]
    drive(conversation)
    assert conversation.status == "idle"


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_shuts_down_gives_a_task_back():
    register("plain", "Hello.")
    conversation = begin("plain", person())
    tasks.drain()
    try:
        tasks.drive_run(run_id=str(Run.objects.get().pk))
        assert Run.objects.get().status == "queued"
    finally:
        runs.cancel_drain()
    drive(conversation)
    assert conversation.status == "idle"
