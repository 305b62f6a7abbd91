"""Runs: one drive of a conversation, from whatever worker, to its end in rows.

`drive_run` is all that the Celery task calls. It may be called twice for one run, late, or for one
that is over: whoever does not get the claim does nothing.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import close_old_connections
from django.utils import timezone
from django.utils.translation import gettext as _

from sagents_app import conf
from sagents_app.engine import (
    Agent,
    AgentState,
    Approve,
    Cancelled,
    Completed,
    EngineError,
    Failed,
    Interrupted,
    InvalidState,
    Message,
    Outcome,
    Paused,
    TextPart,
    ToolResult,
    TurnError,
    serialize,
)
from sagents_app.engine.state import open_calls
from sagents_app.engine.tools import error_result
from sagents_app.models import (
    AgentMessage,
    Conversation,
    DisplayMessage,
    Event,
    InboxMessage,
    Interrupt,
    Run,
    SavedState,
    ToolExecution,
)
from sagents_app.services import agents, display, interrupts, lease, live, queue, sync_tools
from sagents_app.services import ledger as ledgers
from sagents_app.services.background import Jobs
from sagents_app.services.errors import LeaseLost, NotAllowed, NothingToDo, UnknownAgent
from sagents_app.services.ledger import Ledger
from sagents_app.services.recorder import Recorder

logger = logging.getLogger(__name__)
DRAINING = "draining"
MOST_AUTOMATIC_RUNS = 10
LOST_CALL = "A worker was lost while this call ran; whether it took effect is not known."
NOT_RUN = "This call was not run: the turn ended before it."
_draining = threading.Event()


def request_drain() -> None:
    """Have this process stop its turns at their next boundary and take no new ones."""
    _draining.set()


def cancel_drain() -> None:
    """Take runs again; for a process that goes on after all, and for tests."""
    _draining.clear()


def is_draining() -> bool:
    """Whether this process hands its runs over."""
    return _draining.is_set()


def worker_name() -> str:
    """Return how rows name this process."""
    return f"{socket.gethostname()}:{os.getpid()}"


def cancel_run(*, conversation: Conversation, actor: Any) -> None:
    """Ask for an end of what runs or waits; what has finished stays.

    A run that a worker drives stops within about a second; one that nobody drives ends here.

    Raises:
        NotAllowed: neither the owner nor an operator.
        NothingToDo: nothing runs or waits.
    """
    may = actor.pk == conversation.owner_id or actor.has_perm("sagents_app.operate_conversation")
    if not may:
        raise NotAllowed(_("Only the conversation's owner may stop it."))
    with ledgers.write(conversation.pk) as book:
        run = Run.objects.live().filter(conversation=conversation).first()
        if run is not None and run.status == Run.Status.RUNNING:
            if run.cancel_requested_at is None:
                run.cancel_requested_at, run.cancel_requested_by = timezone.now(), actor
                run.save(update_fields=("cancel_requested_at", "cancel_requested_by"))
                book.event("cancel_requested", {"run": str(run.pk)})
            return
        waiting = (Conversation.Status.INTERRUPTED, Conversation.Status.PAUSED)
        if run is None and book.conversation.status not in waiting:
            status = book.conversation.get_status_display()
            raise NothingToDo(_("Nothing to stop: the conversation is %s.") % status)
        interrupts.cancel_pending(book, actor=actor)
        if run is not None:
            run.status, run.finished_at = Run.Status.CANCELLED, timezone.now()
            run.save(update_fields=("status", "finished_at"))
        book.show(display.cancel_row())
        book.set_status(Conversation.Status.CANCELLED)


def retry_run(*, conversation: Conversation, actor: Any) -> Run:
    """Go on from the last boundary after an error, a cancel or a pause.

    Raises:
        NotAllowed: neither the owner nor an operator.
        NothingToDo: the conversation is in no state for it.
    """
    may = actor.pk == conversation.owner_id or actor.has_perm("sagents_app.operate_conversation")
    if not may:
        raise NotAllowed(_("Only the conversation's owner may try again."))
    with ledgers.write(conversation.pk) as book:
        ended = (
            Conversation.Status.ERROR,
            Conversation.Status.CANCELLED,
            Conversation.Status.PAUSED,
        )
        if book.conversation.status not in ended:
            status = book.conversation.get_status_display()
            raise NothingToDo(_("Nothing to try again: the conversation is %s.") % status)
        return queue.start_run(book, trigger=Run.Trigger.RETRY, actor=actor)


def drive_run(*, run_id: UUID | str) -> None:
    """Drive a run to its end, and whatever run follows it at once.

    Never raises for what happens inside the turn; that is the run's end.
    """
    following: UUID | None = UUID(str(run_id))
    while following is not None and not is_draining():
        claimed = lease.claim_run(following, worker_name())
        if claimed is None:
            return
        run, held = claimed
        try:
            following = _drive(run, held)
        except (LeaseLost, Conversation.DoesNotExist) as lost:
            logger.info("run %s is not ours any more: %s", run.pk, lost)
            return
        finally:
            lease.release(held)


def _drive(run: Run, held: lease.Held) -> UUID | None:
    if run.attempt > conf.current().max_attempts:
        return _end(run, held, None, Failed(AgentState(), _poisoned(run)))
    jobs = Jobs()
    try:
        agent = sync_tools.hosted(agents.build(run.conversation))
        state, again = _begin(run, held, agent)
    except LeaseLost:
        raise
    except (EngineError, UnknownAgent) as error:
        return _end(run, held, None, Failed(AgentState(), TurnError(str(error))))
    except Exception as error:  # the builder is the host's code: its mistake is the run's end
        logger.exception("run %s could not begin", run.pk)
        return _end(run, held, None, Failed(AgentState(), TurnError(f"{error}")))
    recorder = Recorder(
        run=run,
        lease=held,
        jobs=jobs,
        tools=agent.tools,
        stored=len(state.messages),
        again=again,
    )
    outcome = jobs.serve(_execute(agent, state, run, held, recorder))
    if isinstance(outcome, Failed) and isinstance(outcome.error.__cause__, LeaseLost):
        raise outcome.error.__cause__
    return _end(run, held, recorder, outcome)


async def _execute(
    agent: Agent, state: AgentState, run: Run, held: lease.Held, recorder: Recorder
) -> Outcome:
    try:
        return await agent.execute(
            state,
            should_pause=lambda: DRAINING if is_draining() else False,
            should_cancel=held.cancel.is_set,
            journal=recorder,
            on_event=recorder.on_event,
            conversation_id=str(run.conversation_id),
            acting_user=run.acting_user,
        )
    finally:
        await recorder.close()


def _begin(run: Run, held: lease.Held, agent: Agent) -> tuple[AgentState, frozenset[str]]:
    """Bring the state to where the turn begins: decisions accepted, or the inbox delivered.

    Returns the state, and the calls of unknown outcome that a person wants to be run again.
    """
    with ledgers.write(run.conversation_id, token=held.token, run_id=run.pk) as book:
        state = load_state(book.conversation)
        stored = len(state.messages)
        _bury_stream(book)
        again: frozenset[str] = frozenset()
        replies = interrupts.replies_of(book.conversation, run)
        if state.interrupt is not None and run.trigger == Run.Trigger.DECISION:
            again = frozenset(key for key, reply in replies.items() if isinstance(reply, Approve))
            state = agent.accept(state, replies)
        elif run.attempt == 1:
            state = _moved_on(book, state, run)
        state = _deliver(book, state)
        if not state.messages:
            raise InvalidState("there is nothing to answer yet")
        _save(book, state, stored)
    return state, again


def _moved_on(book: Ledger, state: AgentState, run: Run) -> AgentState:
    """Return the state of a new turn: what was open is answered with what is known of it."""
    if state.interrupt is not None:
        return state.cancel_pending_interrupts()
    waiting = InboxMessage.objects.filter(
        conversation=book.conversation, status=InboxMessage.Status.QUEUED
    )
    return _closed(book, state) if waiting.exists() else state


def _closed(book: Ledger, state: AgentState) -> AgentState:
    """Answer the open calls of a turn that was cut off, from the journal."""
    batch = open_calls(state.messages)
    if batch is None:
        return state
    _, assistant, results = batch
    missing = [call for call in assistant.tool_calls if call.call_id not in results]
    if not missing:
        return state
    known = {
        execution.call_id: execution
        for execution in ToolExecution.objects.filter(
            conversation=book.conversation, call_id__in=[call.call_id for call in missing]
        )
    }
    answers: dict[str, ToolResult] = {}
    for call in missing:
        execution = known.get(call.call_id)
        if execution is None:
            answers[call.call_id] = error_result(call, NOT_RUN)
        elif execution.status == ToolExecution.Status.FINISHED:
            answers[call.call_id] = serialize.load_result(execution.result)
        else:
            answers[call.call_id] = error_result(call, LOST_CALL)
    closed = state.put_results({**results, **answers})
    return AgentState(closed.messages, closed.todos, closed.metadata)


def _deliver(book: Ledger, state: AgentState) -> AgentState:
    """Append the queued messages as one user message; each is delivered exactly once."""
    waiting = list(
        InboxMessage.objects.select_related("display_message").filter(
            conversation=book.conversation, status=InboxMessage.Status.QUEUED
        )
    )
    if not waiting or state.interrupt is not None or state.decisions:
        return state
    for message in waiting:
        message.status, message.delivered_at = InboxMessage.Status.DELIVERED, timezone.now()
        if message.display_message.status == DisplayMessage.Status.QUEUED:
            book.update_row(message.display_message, status=DisplayMessage.Status.COMPLETED)
    InboxMessage.objects.bulk_update(waiting, ("status", "delivered_at"))
    return state.add_message(Message.user([TextPart(message.text) for message in waiting]))


def load_state(conversation: Conversation) -> AgentState:
    """Return the agent's state from its rows.

    Raises:
        InvalidState: a row cannot be read by this version.
    """
    stored = AgentMessage.objects.filter(conversation=conversation).order_by("position")
    messages = [serialize.load_message(data) for data in stored.values_list("data", flat=True)]
    saved = SavedState.objects.filter(conversation=conversation).first()
    return serialize.load_state(saved.data if saved and saved.data else {"version": 3}, messages)


def _save(book: Ledger, state: AgentState, stored: int) -> None:
    """Store the state, and those of its messages that are not rows yet or were changed."""
    changed = range(max(0, stored - 2), len(state.messages))
    AgentMessage.objects.bulk_create(
        [
            AgentMessage(
                conversation=book.conversation,
                position=position,
                data=serialize.dump_message(state.messages[position]),
            )
            for position in changed
        ],
        update_conflicts=True,
        unique_fields=("conversation", "position"),
        update_fields=("data",),
    )
    _save_rest(book, state)


def _save_rest(book: Ledger, state: AgentState) -> None:
    data = serialize.dump_state(state, with_messages=False)
    SavedState.objects.update_or_create(
        conversation=book.conversation, defaults={"data": data, "version": data["version"]}
    )


def _bury_stream(book: Ledger) -> None:
    """Keep the text that a lost worker had streamed, as a row that says so."""
    left = live.partial(book.conversation.pk)
    if left is None:
        return
    if left["text"].strip():
        book.show(display.partial_row(left["text"]))
    book.event("stream_ended", {"stream": left["stream"]})
    Event.objects.filter(conversation=book.conversation, type="deltas").delete()


def _poisoned(run: Run) -> TurnError:
    return TurnError(f"the workers that drove it were lost {run.attempt - 1} times")


def _end(run: Run, held: lease.Held, recorder: Recorder | None, outcome: Outcome) -> UUID | None:
    """Write the run's end in one transaction; return the run that follows at once, if any."""
    with ledgers.write(run.conversation_id, token=held.token, run_id=run.pk) as book:
        if recorder is not None:
            recorder.reconcile(book, outcome.state.messages)
            run.input_tokens += recorder.usage.input_tokens
            run.output_tokens += recorder.usage.output_tokens
            run.model_calls += recorder.model_calls
            _save_rest(book, outcome.state)
        run.finished_at = timezone.now()
        following = _ENDS[type(outcome)](book, run, outcome)
        run.save()
        book.conversation.lease_token = book.conversation.lease_until = None
    return following


def _end_completed(book: Ledger, run: Run, outcome: Completed) -> UUID | None:
    run.status = Run.Status.COMPLETED
    waiting = InboxMessage.objects.filter(
        conversation=book.conversation, status=InboxMessage.Status.QUEUED
    )
    if not waiting.exists():
        book.set_status(Conversation.Status.IDLE)
        return None
    run.save(update_fields=("status",))
    book.event("messages_drained", {})
    follower = Run.objects.create(
        conversation=book.conversation, trigger=Run.Trigger.MESSAGE, acting_user=run.acting_user
    )
    book.run_id = follower.pk
    book.set_status(Conversation.Status.RUNNING)
    return follower.pk


def _end_interrupted(book: Ledger, run: Run, outcome: Interrupted) -> None:
    run.status = Run.Status.INTERRUPTED
    opened = interrupts.open_interrupts(book, outcome.interrupt, run)
    waiting = [live.interrupt_payload(row) for row in opened if row.is_pending]
    book.set_status(Conversation.Status.INTERRUPTED, interrupts=waiting)
    halted = any(row.kind == Interrupt.Kind.HALT and row.is_pending for row in opened)
    inbox = InboxMessage.objects.filter(
        conversation=book.conversation, status=InboxMessage.Status.QUEUED
    )
    if halted and inbox.exists():
        run.save(update_fields=("status",))
        interrupts.supersede_pending(book)
        queue.start_run(book, trigger=Run.Trigger.MESSAGE, actor=run.acting_user)


def _end_paused(book: Ledger, run: Run, outcome: Paused) -> None:
    if outcome.reason == DRAINING:
        # The same run goes to another worker; the conversation never stops being at work.
        run.status, run.finished_at, run.attempt = Run.Status.QUEUED, None, run.attempt - 1
        book.event("run_handed_over", {"run": str(run.pk)})
        queue.enqueue(run)
        return
    run.status, run.cause = Run.Status.PAUSED, str(outcome.reason or "")
    book.set_status(Conversation.Status.PAUSED, reason=outcome.reason)


def _end_cancelled(book: Ledger, run: Run, outcome: Cancelled) -> None:
    run.status = Run.Status.CANCELLED
    book.show(display.cancel_row())
    book.set_status(Conversation.Status.CANCELLED)


def _end_failed(book: Ledger, run: Run, outcome: Failed) -> None:
    run.status, run.cause = Run.Status.FAILED, str(outcome.error)
    run.error_type = outcome.error.type
    last = outcome.state.messages[-1] if outcome.state.messages else None
    partial_shown = last is not None and last.status == "stream_error"
    if not partial_shown:
        book.show(display.error_row(outcome.error))
    reason = {"type": outcome.error.type, "text": str(outcome.error)}
    book.set_status(Conversation.Status.ERROR, reason=reason)


_ENDS: dict[type[Outcome], Callable[[Ledger, Run, Any], UUID | None]] = {
    Completed: _end_completed,
    Interrupted: _end_interrupted,
    Paused: _end_paused,
    Cancelled: _end_cancelled,
    Failed: _end_failed,
}


def close_connections() -> None:
    """Give up connections that the database has closed; each task begins and ends with it."""
    close_old_connections()
