"""How a run ends: whatever the outcome, state, rows, status and events in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from sagents_app.engine import (
    Cancelled,
    Completed,
    Failed,
    Interrupted,
    InvalidState,
    Outcome,
    Paused,
    TurnError,
)
from sagents_app.models import Conversation, InboxMessage, Interrupt, Run
from sagents_app.services import (
    display,
    interrupts,
    journal,
    live,
    notices,
    queue,
    requests,
    states,
    streams,
)
from sagents_app.services.ledger import Ledger

logger = logging.getLogger(__name__)
DRAINING = "draining"
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=15), timedelta(minutes=15)


def end_run(book: Ledger, run: Run, outcome: Outcome) -> UUID | None:
    """End a run whose lease the ledger holds; return the run that follows at once, if any.

    The follower is queued in the same transaction, so nobody sees the conversation idle between.
    """
    run.finished_at = timezone.now()
    if not isinstance(outcome, Completed | Interrupted):
        streams.bury(book)
    following = _ENDS[type(outcome)](book, run, outcome)
    _save(run)
    book.conversation.lease_token = book.conversation.lease_until = None
    if run.status != Run.Status.QUEUED:
        notices.tell_ended(run)
    return following


def end_from_journal(book: Ledger, run: Run) -> None:
    """End a run that was asked to stop and that no worker drives, with what the rows know of it."""
    close_from_journal(book)
    run.status, run.finished_at = Run.Status.CANCELLED, timezone.now()
    _save(run)
    show_cancelled(book)
    book.conversation.lease_token = book.conversation.lease_until = None
    notices.tell_ended(run)


def close_from_journal(book: Ledger) -> None:
    """Answer the calls of a turn that nobody goes on with, and bury what was streaming.

    Where the turn waits for a person the state stays as it is, for whatever comes next.
    """
    streams.bury(book)
    try:
        before = states.load_state(book.conversation)
        if before.interrupt is None:
            after = journal.answer_open_calls(book, before)
            states.save_messages(book, states.changed_messages(before, after))
            states.save_rest(book, after)
    except InvalidState:
        logger.warning("the state of %s cannot be read; it stays as it is", book.conversation.pk)
    journal.close_rows(book)


def show_cancelled(book: Ledger) -> None:
    """Say that a person stopped the agent, and where that leaves the conversation."""
    book.show(display.cancel_row())
    book.set_status(Conversation.Status.CANCELLED)


def _save(run: Run) -> None:
    """Write what the driver knows; requests of other people stand in columns of their own."""
    run.save(
        update_fields=(
            *("status", "cause", "error_type", "attempt", "sent_at", "wake_at", "finished_at"),
            *("input_tokens", "output_tokens", "model_calls"),
        )
    )


def _queued(book: Ledger) -> bool:
    queued = InboxMessage.Status.QUEUED
    return InboxMessage.objects.filter(conversation=book.conversation, status=queued).exists()


def _end_completed(book: Ledger, run: Run, outcome: Completed) -> UUID | None:
    run.status = Run.Status.COMPLETED
    if not _queued(book):
        book.set_status(Conversation.Status.IDLE)
        return None
    return _follow(book, run)


def _follow(book: Ledger, run: Run) -> UUID:
    """Queue the run that delivers what waits in the inbox; the same worker goes on with it."""
    _save(run)
    follower = Run.objects.create(
        conversation=book.conversation, trigger=Run.Trigger.MESSAGE, acting_user=run.acting_user
    )
    book.event("messages_drained", {"run": str(follower.pk)})
    book.run_id = follower.pk
    book.set_status(Conversation.Status.RUNNING)
    return follower.pk


def _end_interrupted(book: Ledger, run: Run, outcome: Interrupted) -> UUID | None:
    run.status = Run.Status.INTERRUPTED
    opened = requests.open_interrupts(book, outcome.interrupt, run)
    waiting = [row for row in opened if row.is_pending]
    shown = [live.interrupt_payload(row) for row in waiting]
    book.set_status(Conversation.Status.INTERRUPTED, interrupts=shown)
    if any(row.kind in Interrupt.REVIEWED for row in waiting) or not _queued(book):
        return None
    # Words that came before the halt or the question: the person has moved on already.
    interrupts.supersede_pending(book)
    return _follow(book, run)


def _end_paused(book: Ledger, run: Run, outcome: Paused) -> None:
    if outcome.reason == DRAINING:
        # The same run goes to another worker; the conversation never stops being at work.
        run.status, run.finished_at, run.attempt = Run.Status.QUEUED, None, run.attempt - 1
        book.event("run_handed_over", {"run": str(run.pk), "reason": DRAINING})
        queue.enqueue(run)
        return
    run.status, run.cause = Run.Status.PAUSED, str(outcome.reason or "")
    run.wake_at = timezone.now() + _pause_of(run)
    book.set_status(Conversation.Status.PAUSED, reason=outcome.reason)


def _pause_of(run: Run) -> timedelta:
    """Return how long a pause lasts: twice as long as the one before it."""
    earlier = Run.objects.filter(conversation=run.conversation_id).exclude(pk=run.pk)
    pauses = 0
    for status in earlier.order_by("-created_at").values_list("status", flat=True)[:8]:
        if status != Run.Status.PAUSED:
            break
        pauses += 1
    return min(FIRST_PAUSE * (1 << pauses), LONGEST_PAUSE)


def _end_cancelled(book: Ledger, run: Run, outcome: Cancelled) -> None:
    run.status = Run.Status.CANCELLED
    show_cancelled(book)


def _end_failed(book: Ledger, run: Run, outcome: Failed) -> None:
    run.status, run.cause = Run.Status.FAILED, str(outcome.error)
    run.error_type = outcome.error.type
    last = outcome.state.messages[-1] if outcome.state.messages else None
    if last is None or last.status != "stream_error":
        book.show(display.error_row(outcome.error))
    logger.warning("run %s failed (%s): %s", run.pk, run.error_type, run.cause)
    reason = {"type": run.error_type, "text": display.words_for(outcome.error)}
    book.set_status(Conversation.Status.ERROR, reason=reason)


_ENDS: dict[type[Outcome], Callable[[Ledger, Run, Any], UUID | None]] = {
    Completed: _end_completed,
    Interrupted: _end_interrupted,
    Paused: _end_paused,
    Cancelled: _end_cancelled,
    Failed: _end_failed,
}


def poisoned(run: Run) -> TurnError:
    """Return why a run that its workers did not survive is not tried again."""
    return TurnError(f"the workers that drove it were lost {run.attempt - 1} times")
