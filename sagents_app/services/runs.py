"""Runs: one drive of a conversation, from whatever worker, to its end in rows.

`drive_run` is all that the Celery task calls. It may be called twice for one run, late, or for one
that is over: whoever does not get the claim does nothing.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import Any
from uuid import UUID

from django.db import close_old_connections
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from sagents_app import conf
from sagents_app.engine import (
    Agent,
    AgentState,
    EngineError,
    Failed,
    InvalidState,
    Message,
    Outcome,
    TextPart,
    TurnError,
)
from sagents_app.engine.state import open_calls
from sagents_app.models import (
    AgentMessage,
    Conversation,
    DisplayMessage,
    InboxMessage,
    Run,
)
from sagents_app.services import (
    agents,
    endings,
    interrupts,
    journal,
    lease,
    queue,
    states,
    streams,
    sync_tools,
)
from sagents_app.services import ledger as ledgers
from sagents_app.services.background import Jobs
from sagents_app.services.endings import DRAINING
from sagents_app.services.errors import NotAllowed, NothingToDo, UnknownAgent
from sagents_app.services.ledger import Ledger
from sagents_app.services.recorder import GIVE_UP, Recorder

logger = logging.getLogger(__name__)
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

    A run that a worker drives stops within about a second, and its worker writes the end; where
    nobody drives it, it ends here. A second request changes nothing.

    Raises:
        NotAllowed: neither the owner nor an operator.
        NothingToDo: nothing runs or waits.
    """
    _check_may_operate(conversation, actor)
    with ledgers.write(conversation.pk) as book:
        run = Run.objects.live().filter(conversation=conversation).first()
        waiting = (Conversation.Status.INTERRUPTED, Conversation.Status.PAUSED)
        if run is None and book.conversation.status not in waiting:
            status = book.conversation.get_status_display()
            raise NothingToDo(_("Nothing to stop: the conversation is %s.") % status)
        if run is None:
            interrupts.cancel_pending(book, actor=actor)
            journal.close_rows(book)
            endings.show_cancelled(book)
            return
        book.run_id = run.pk
        if run.cancel_requested_at is None:
            run.cancel_requested_at, run.cancel_requested_by = timezone.now(), actor
            run.save(update_fields=("cancel_requested_at", "cancel_requested_by"))
            book.event("cancel_requested", {"run": str(run.pk)})
        if not _is_driven(run):
            endings.end_from_journal(book, run)


def retry_run(*, conversation: Conversation, actor: Any) -> Run:
    """Go on from the last boundary after an error, a cancel or a pause.

    Raises:
        NotAllowed: neither the owner nor an operator.
        NothingToDo: the conversation is in no state for it, or everything has been answered.
    """
    _check_may_operate(conversation, actor)
    with ledgers.write(conversation.pk) as book:
        status = Conversation.Status(book.conversation.status)
        if status == Conversation.Status.PAUSED:
            return queue.start_run(book, trigger=Run.Trigger.RESUME, actor=actor)
        if status not in (Conversation.Status.ERROR, Conversation.Status.CANCELLED):
            raise NothingToDo(_("Nothing to try again: the conversation is %s.") % status.label)
        if not _has_work(conversation):
            raise NothingToDo(_("Nothing to try again: everything has been answered."))
        return queue.start_run(book, trigger=Run.Trigger.RETRY, actor=actor)


def drive_run(*, run_id: UUID | str) -> None:
    """Drive a run to its end, and whatever run follows it at once.

    Never raises for what happens inside the turn, which is the run's end, nor where the run turns
    out to be another worker's or the database is lost: the sweep looks after it then.
    """
    following: UUID | None = UUID(str(run_id))
    while following is not None:
        if is_draining():
            queue.send(following)
            return
        following = _claim_and_drive(following)


def close_connections() -> None:
    """Give up connections that the database has closed; each task begins and ends with it."""
    close_old_connections()


def _check_may_operate(conversation: Conversation, actor: Any) -> None:
    if actor.pk == conversation.owner_id or actor.has_perm("sagents_app.operate_conversation"):
        return
    raise NotAllowed(_("Only the conversation's owner may do this."))


def _is_driven(run: Run) -> bool:
    """Whether a worker holds a live lease for the run."""
    orphaned = Run.objects.filter(lease.orphaned(), pk=run.pk).exists()
    return run.status == Run.Status.RUNNING and not orphaned


def _has_work(conversation: Conversation) -> bool:
    """Whether a model or a tool has something to do: not where a finished answer is the last."""
    queued = InboxMessage.objects.filter(
        conversation=conversation, status=InboxMessage.Status.QUEUED
    )
    if queued.exists():
        return True
    data = AgentMessage.objects.filter(conversation=conversation).order_by("-position")
    last = data.values_list("data", flat=True).first()
    if last is None:
        return False
    is_answer = last.get("role") == "assistant" and not last.get("tool_calls")
    return not is_answer or last.get("status", "complete") != "complete"


def _claim_and_drive(run_id: UUID) -> UUID | None:
    held, ended = None, False
    try:
        claimed = lease.claim_run(run_id, worker_name())
        if claimed is None:
            return None
        run, held = claimed
        following = _drive(run, held)
        ended = True
        return following
    except GIVE_UP as lost:
        logger.warning("run %s is not ours to end: %s", run_id, lost)
    except Exception:  # the attempts are counted, so this ends in an error row at the latest
        logger.exception("run %s could not be ended; another attempt will follow", run_id)
    finally:
        if held is not None:
            lease.forget(held)
            if not ended:
                _let_go(held)
    return None


def _let_go(held: lease.Held) -> None:
    try:
        lease.release(held)
    except GIVE_UP:
        logger.warning("the lease of %s runs out by itself", held.conversation_id)


def _drive(run: Run, held: lease.Held) -> UUID | None:
    if run.cancel_requested_at is not None:
        with _ledger(run, held) as book:
            endings.end_from_journal(book, run)
        return None
    if run.attempt > conf.current().max_attempts:
        return _fail(run, held, endings.poisoned(run))
    try:
        agent = sync_tools.hosted(agents.build(run.conversation))
        state, again = _begin(run, held, agent)
    except GIVE_UP:
        raise
    except (EngineError, UnknownAgent) as error:
        return _fail(run, held, _as_turn_error(error))
    except Exception as error:  # the builder is the host's code: its mistake is the run's end
        logger.exception("run %s could not begin", run.pk)
        return _fail(run, held, TurnError(f"{type(error).__name__}: {error}"))
    jobs = Jobs()
    recorder = Recorder(run=run, lease=held, jobs=jobs, agent=agent, state=state, again=again)
    outcome = jobs.serve(_execute(agent, state, run, held, recorder))
    if recorder.failure is not None:
        raise recorder.failure
    return _end(run, held, recorder, outcome)


def _as_turn_error(error: EngineError | UnknownAgent) -> TurnError:
    turned = TurnError(str(error))
    turned.type = error.type if isinstance(error, EngineError) else error.code
    return turned


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
    except EngineError as error:
        return Failed(state, _as_turn_error(error))
    finally:
        await recorder.close()


def _begin(run: Run, held: lease.Held, agent: Agent) -> tuple[AgentState, frozenset[str]]:
    """Bring the state to where the turn begins, once a run; later attempts go on from the rows.

    Returns the state, and the calls of unknown outcome that a person wants to be run again.
    """
    with _ledger(run, held) as book:
        before = state = states.load_state(book.conversation)
        streams.bury(book)
        again: frozenset[str] = frozenset()
        if run.started_at is None:
            state, again = _opened(book, run, agent, state)
            run.started_at = timezone.now()
            Run.objects.filter(pk=run.pk).update(started_at=Now())
        else:
            state = journal.ask_about_lost_calls(run.conversation, state, agent.tools)
        if not _is_waiting_for_tools(state):
            state = _deliver(book, state)
        if not state.messages:
            raise InvalidState("there is nothing to answer yet")
        states.save_messages(book, states.changed_messages(before, state))
        states.save_rest(book, state)
    return state, again


def _opened(
    book: Ledger, run: Run, agent: Agent, state: AgentState
) -> tuple[AgentState, frozenset[str]]:
    if run.trigger == Run.Trigger.DECISION and state.interrupt is not None:
        state = agent.accept(state, interrupts.replies_of(book.conversation))
        return journal.run_again(run.conversation, state)
    if state.interrupt is not None:
        journal.close_rows(book)
        return state.cancel_pending_interrupts(), frozenset()
    if run.trigger == Run.Trigger.MESSAGE:
        return journal.answer_open_calls(book, state), frozenset()
    return state, frozenset()


def _is_waiting_for_tools(state: AgentState) -> bool:
    """Whether calls of the last batch have no result, or wait for what was decided."""
    batch = open_calls(state.messages)
    if batch is None or batch[1].status != "complete":
        return False
    results = batch[2]
    return len(results) < len(batch[1].tool_calls) or any(
        result.is_interrupt for result in results.values()
    )


def _deliver(book: Ledger, state: AgentState) -> AgentState:
    """Append the queued messages as one user message; each is delivered exactly once."""
    waiting = list(
        InboxMessage.objects.select_related("display_message").filter(
            conversation=book.conversation, status=InboxMessage.Status.QUEUED
        )
    )
    if not waiting:
        return state
    for message in waiting:
        message.status, message.delivered_at = InboxMessage.Status.DELIVERED, timezone.now()
        if message.display_message.status == DisplayMessage.Status.QUEUED:
            book.update_row(message.display_message, status=DisplayMessage.Status.COMPLETED)
    InboxMessage.objects.bulk_update(waiting, ("status", "delivered_at"))
    return state.add_message(Message.user([TextPart(message.text) for message in waiting]))


def _ledger(run: Run, held: lease.Held) -> Any:
    return ledgers.write(run.conversation_id, token=held.token, run_id=run.pk)


def _fail(run: Run, held: lease.Held, error: TurnError) -> UUID | None:
    """End a run that could not begin, or not again."""
    with _ledger(run, held) as book:
        if run.started_at is not None:
            endings.close_from_journal(book)
        return endings.end_run(book, run, Failed(AgentState(), error))


def _end(run: Run, held: lease.Held, recorder: Recorder, outcome: Outcome) -> UUID | None:
    """Write the run's end in one transaction; return the run that follows at once, if any."""
    with _ledger(run, held) as book:
        recorder.write_rest(book, outcome.state.messages)
        run.input_tokens += recorder.usage.input_tokens
        run.output_tokens += recorder.usage.output_tokens
        run.model_calls += recorder.model_calls
        states.save_rest(book, outcome.state)
        return endings.end_run(book, run, outcome)
