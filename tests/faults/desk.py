"""A process that does what web requests do, told by lines of JSON on its standard input.

A line is `[name of a function below, its arguments]`; the answer is a line of JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import django

django.setup()

from celery import current_app  # noqa: E402  # after the set-up
from django.contrib.auth.models import User  # noqa: E402
from django.db import close_old_connections  # noqa: E402

from project import celery  # noqa: E402, F401  # the application that tasks are sent with
from sagents_app.engine import Approve, Reject  # noqa: E402
from sagents_app.models import Conversation, Event, Run, ToolExecution  # noqa: E402
from sagents_app.services import conversations, interrupts, queue, runs  # noqa: E402
from tests import world  # noqa: E402


def open_office() -> None:
    world.person("ann")
    world.reviewer("rita")


def post(text: str, conversation: str | None = None) -> str:
    owner = User.objects.get(username="ann")
    found = (
        Conversation.objects.get(pk=conversation)
        if conversation
        else conversations.create_conversation(agent="crew", owner=owner)
    )
    conversations.post_message(conversation=found, text=text, actor=owner)
    return str(found.pk)


def look(conversation: str) -> dict[str, Any]:
    """Return what can be seen of a conversation, having checked what always holds of it."""
    found = Conversation.objects.get(pk=conversation)
    for _ in range(20):  # rows are read one after the other, and a worker may write between
        number = found.next_event_number
        seen = _look(found)
        found.refresh_from_db()
        if found.next_event_number == number:
            world.check_invariants(found)
            found.refresh_from_db()
            if found.next_event_number == number:
                break
    return seen


def _look(found: Conversation) -> dict[str, Any]:
    run = Run.objects.filter(conversation=found).order_by("-created_at").first()
    partial = Event.objects.filter(conversation=found, type="deltas").exists()
    return {
        "status": found.status,
        "transcript": world.transcript(found),
        "history": [shape.partition("(")[0] for shape in world.history(found)],
        "statuses": world.statuses(found),
        "streaming": partial,
        "pending": [row.kind for row in world.pending(found)],
        "worker": run.worker,
        "attempt": run.attempt,
        "executions": list(ToolExecution.objects.values_list("tool_name", "status", "attempts")),
    }


def decide(conversation: str, decision: str) -> None:
    (row,) = world.pending(Conversation.objects.get(pk=conversation))
    interrupts.decide_interrupt(
        interrupt=row,
        decision={"approve": Approve(), "reject": Reject()}[decision],
        actor=User.objects.get(username="rita"),
        digest=row.digest,
    )


def cancel(conversation: str) -> None:
    found = Conversation.objects.get(pk=conversation)
    runs.cancel_run(conversation=found, actor=found.owner)


def deliver_again(conversation: str) -> None:
    run = Run.objects.filter(conversation=conversation).order_by("-created_at").first()
    for _ in range(3):
        current_app.send_task(queue.DRIVE_RUN, kwargs={"run_id": str(run.pk)})


def main() -> None:
    for line in sys.stdin:
        name, arguments = json.loads(line)
        close_old_connections()  # as before each request
        try:
            answer = {"answer": globals()[name](*arguments)}
        except Exception as error:  # noqa: BLE001  # for the test to raise
            answer = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
