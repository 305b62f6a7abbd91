"""Interrupts as rows: decided once, by somebody who may, or closed for a reason that is told.

A decision is bound to the interrupt and to the digest of what was shown. Refused tries are recorded
and change nothing. The run goes on when the last open row of its batch is decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

from django.db import IntegrityError
from django.utils import timezone
from django.utils.translation import gettext as _

from sagents_app.engine import (
    Agent,
    Answer,
    Approve,
    Cancel,
    Decision,
    Edit,
    EngineError,
    InvalidResume,
    Question,
    Reject,
    Respond,
    ToolCall,
    check_reply,
    serialize,
)
from sagents_app.models import (
    Conversation,
    DisplayMessage,
    InboxMessage,
    Interrupt,
    InterruptDecision,
    Run,
)
from sagents_app.services import agents, display, journal, live, notices, queue, reviewers
from sagents_app.services import ledger as ledgers
from sagents_app.services.errors import (
    AlreadyDecided,
    DecisionMismatch,
    InvalidDecision,
    NotAllowed,
    NothingToDo,
    ServiceError,
)
from sagents_app.services.ledger import Ledger

Status = Interrupt.Status
STATUS_AFTER: dict[type[Decision], Interrupt.Status] = {
    Approve: Status.APPROVED,
    Edit: Status.EDITED,
    Reject: Status.REJECTED,
    Respond: Status.ANSWERED,
    Answer: Status.ANSWERED,
    Cancel: Status.CANCELLED,
}
EXPIRED_NOTE = (
    "Nobody decided about this call in time, so it was not run. Do not repeat it unasked."
)


def decide_interrupt(
    *, interrupt: Interrupt, decision: Decision, actor: Any, digest: str
) -> Interrupt:
    """Decide one request, once; `digest` is that of the arguments that were shown.

    Returns the decided row. The run goes on when its batch has no open request left.

    Raises:
        NotAllowed: the rule stored with the request does not let `actor` decide.
        AlreadyDecided: somebody was faster, or it is closed; says who and when.
        DecisionMismatch: it was decided on something else than what is open.
        InvalidDecision: the decision is of a kind, or has arguments, that the request refuses.
    """
    try:
        misfit = _misfit(interrupt, decision)
        with ledgers.write(interrupt.conversation_id) as book:
            row = _locked(interrupt)
            reviewers.check_may_decide(row, book.conversation, actor)
            _check_open(row)
            if digest != row.digest:
                raise DecisionMismatch(
                    _("This request is not the one that was shown. Read it again, then decide.")
                )
            if misfit is not None:
                raise misfit
            _settle(book, row, decision, actor, digest)
            _go_on(book, row, actor)
            return row
    except ServiceError as refusal:
        _record_refusal(interrupt, decision, actor, digest, refusal)
        raise


def answer_question(*, interrupt: Interrupt, answer: Answer | Cancel, actor: Any) -> Interrupt:
    """Answer, or put aside, a question to the conversation's owner.

    Raises:
        NotAllowed: the actor is not the owner, or it is no question.
        AlreadyDecided: it is closed.
        InvalidDecision: the answer does not fit the question.
    """
    try:
        misfit = _misfit(interrupt, answer)
        with ledgers.write(interrupt.conversation_id) as book:
            row = _locked(interrupt)
            reviewers.check_may_answer(row, book.conversation, actor)
            _check_open(row)
            if misfit is not None:
                raise misfit
            _settle(book, row, answer, actor, row.digest)
            book.show(_answer_row(row, answer))
            _go_on(book, row, actor)
            return row
    except ServiceError as refusal:
        _record_refusal(interrupt, answer, actor, "", refusal)
        raise


def dismiss_halt(*, interrupt: Interrupt, actor: Any) -> None:
    """Acknowledge a halt: the conversation is idle, and the halt's text stays.

    Raises:
        NotAllowed: neither the owner nor an operator.
        NothingToDo: it is no halt, which needs a real answer, or no longer open.
    """
    with ledgers.write(interrupt.conversation_id) as book:
        row = _locked(interrupt)
        reviewers.check_may_dismiss(book.conversation, actor)
        if row.kind != Interrupt.Kind.HALT:
            raise NothingToDo(_("This request needs a real answer."))
        if not row.is_pending:
            raise NothingToDo(_("This halt is not open any more."))
        halts = Interrupt.objects.filter(conversation=book.conversation).pending()
        for halt in halts.filter(kind=Interrupt.Kind.HALT):
            _close(book, halt, Status.DISMISSED, actor)
        book.set_status(Conversation.Status.IDLE)


def withdraw_request(*, interrupt: Interrupt, actor: Any) -> None:
    """Take back what the owner asked for: the whole batch is superseded, queued messages go on.

    Raises:
        NotAllowed: the actor is not the owner.
        AlreadyDecided: it is closed.
    """
    with ledgers.write(interrupt.conversation_id) as book:
        row = _locked(interrupt)
        if book.conversation.owner_id != actor.pk:
            raise NotAllowed(_("Only the conversation's owner withdraws a request."))
        _check_open(row)
        supersede_pending(book, actor=actor)
        queued = InboxMessage.objects.filter(
            conversation=book.conversation, status=InboxMessage.Status.QUEUED
        )
        if queued.exists():
            queue.start_run(book, trigger=Run.Trigger.MESSAGE, actor=actor)
        else:
            journal.close_rows(book)
            book.set_status(Conversation.Status.IDLE)


def expire_interrupt(*, interrupt: Interrupt) -> bool:
    """Settle a request whose time is up as its rule says; whether it was still open and due.

    `reject` answers the call and lets the run go on; `halt` closes the batch and leaves the
    conversation idle, as a halt does; `wait` changes nothing.
    """
    with ledgers.write(interrupt.conversation_id) as book:
        row = _locked(interrupt)
        outcome = row.review_rule.get("on_expiry", "wait")
        if not row.is_pending or row.expires_at is None or row.expires_at > timezone.now():
            return False
        if outcome == "reject":
            _settle(book, row, Reject(note=EXPIRED_NOTE), None, row.digest, status=Status.EXPIRED)
            _go_on(book, row, None)
            return True
        if outcome == "halt":
            for other in Interrupt.objects.filter(batch=row.batch).pending():
                _close(book, other, Status.EXPIRED, None)
            book.show(display.notification_row(_("Nobody decided in time, so this stops here.")))
            journal.close_rows(book)
            book.set_status(Conversation.Status.IDLE)
            return True
        return False


def answer_with_text(book: Ledger, text: str, actor: Any) -> bool:
    """Answer the only open question with a message's text, where it takes one; whether it did."""
    waiting = list(Interrupt.objects.filter(conversation=book.conversation).pending())
    if len(waiting) != 1 or waiting[0].kind != Interrupt.Kind.QUESTION:
        return False
    row, answer = waiting[0], Answer(other_text=text)
    if _misfit(row, answer) is not None:
        return False
    _settle(book, row, answer, actor, row.digest)
    _go_on(book, row, actor)
    return True


def supersede_pending(book: Ledger, *, actor: Any = None) -> None:
    """Close everything that is open because the user moved on; nobody decided it."""
    for row in Interrupt.objects.filter(conversation=book.conversation).pending():
        _close(book, row, Status.SUPERSEDED, actor)


def cancel_pending(book: Ledger, *, actor: Any) -> None:
    """Close everything that is open because the conversation was cancelled."""
    for row in Interrupt.objects.filter(conversation=book.conversation).pending():
        _close(book, row, Status.CANCELLED, actor)


def replies_of(conversation: Conversation) -> dict[str, Decision]:
    """Return what was decided about the newest batch, by the names that the engine uses.

    Raises:
        InvalidState: a stored decision cannot be read by this version.
    """
    newest = Interrupt.objects.filter(conversation=conversation).order_by("-created_at")
    batch = newest.values("batch")[:1]
    rows = Interrupt.objects.filter(
        conversation=conversation, batch__in=batch, decision__isnull=False
    )
    return {row.tool_call_id: serialize.load_decision(row.decision) for row in rows}


def agent_inside(agent: Agent, path: Iterable[str]) -> Agent:
    """Return the agent that a path of names leads to, as far as today's agents go."""
    for name in list(path)[1:]:
        inner = next((found for one in agent.middlewares if (found := one.agent_named(name))), None)
        agent = inner or agent
    return agent


def _locked(interrupt: Interrupt) -> Interrupt:
    return (
        Interrupt.objects.select_for_update(of=("self",))
        .select_related("decided_by")
        .get(pk=interrupt.pk)
    )


def _check_open(row: Interrupt) -> None:
    if row.is_pending:
        return
    if row.decided_by is None or row.decided_at is None:
        raise AlreadyDecided(
            _("This request is closed (%(status)s).") % {"status": row.get_status_display()}
        )
    raise AlreadyDecided(
        _("%(who)s was faster: %(status)s at %(when)s.")
        % {
            "who": row.decided_by.get_username(),
            "status": row.get_status_display(),
            "when": timezone.localtime(row.decided_at).strftime("%H:%M:%S"),
        }
    )


def _misfit(row: Interrupt, decision: Any) -> InvalidDecision | None:
    """Return why the decision does not fit what was asked, None where it does.

    Asked before the conversation is locked, since building an agent is the host's code; what it
    looks at never changes once the row exists.
    """
    if not _is_decision(decision):
        return InvalidDecision(_("This is no decision: %r.") % decision)
    if decision.type not in row.allowed_decisions:
        allowed = ", ".join(row.allowed_decisions) or _("nothing")
        return InvalidDecision(
            _("%(got)s is not allowed here; allowed: %(allowed)s.")
            % {"got": decision.type, "allowed": allowed}
        )
    try:
        check_reply(serialize.load_interrupt(row.payload), decision, call_id=row.tool_call_id)
        if isinstance(decision, Edit) and row.kind == Interrupt.Kind.APPROVAL:
            _check_edit(row, decision)
    except (EngineError, ServiceError) as error:
        return InvalidDecision(str(error))
    except Exception as error:  # noqa: BLE001  # the builder is the host's code
        problem = _("This agent cannot be built now, so nothing can be edited: %s")
        return InvalidDecision(problem % error)
    return None


def _is_decision(given: object) -> TypeGuard[Decision]:
    return isinstance(given, tuple(STATUS_AFTER))


def _check_edit(row: Interrupt, decision: Edit) -> None:
    tool = agent_inside(agents.build(row.conversation), row.path).tools.get(row.tool_name)
    if tool is None:
        raise InvalidResume(_("This tool is gone, so its request can only be rejected."))
    tool.validate(ToolCall(row.tool_call_id, row.tool_name, arguments_json=decision.arguments_json))


def _settle(
    book: Ledger,
    row: Interrupt,
    decision: Decision,
    actor: Any,
    digest: str,
    *,
    status: Interrupt.Status | None = None,
) -> None:
    """Accept a decision, if nobody was faster; `status` is for one that no person made."""
    stored = serialize.dump_decision(decision)
    changes = {
        "status": status or STATUS_AFTER[type(decision)],
        "decision": stored,
        "decided_by": actor,
        "decided_at": timezone.now(),
        "note": getattr(decision, "note", ""),
    }
    if not Interrupt.objects.filter(pk=row.pk, status=Status.PENDING).update(**changes):
        row.refresh_from_db()
        _check_open(row)
    for name, value in changes.items():
        setattr(row, name, value)
    InterruptDecision.objects.create(
        interrupt=row,
        actor=actor,
        outcome=InterruptDecision.Outcome.ACCEPTED,
        cause="decided" if status is None else status,
        decision=stored,
        digest=digest,
    )
    _tell(book, row)


def _close(book: Ledger, row: Interrupt, status: Interrupt.Status, actor: Any) -> None:
    """Close a row that nobody decided; its cause is the status."""
    row.status, row.decided_by, row.decided_at = status, actor, timezone.now()
    row.save(update_fields=("status", "decided_by", "decided_at"))
    InterruptDecision.objects.create(
        interrupt=row, actor=actor, outcome=InterruptDecision.Outcome.ACCEPTED, cause=status
    )
    _tell(book, row)


def _tell(book: Ledger, row: Interrupt) -> None:
    """Tell pages of a settled row, and mark its call in the transcript."""
    who = row.decided_by.get_username() if row.decided_by else None
    book.event(
        "interrupt_decided",
        {"interrupt": live.interrupt_payload(row), "decided_by": who, "note": row.note},
    )
    shown = book.row_of_call(row.tool_call_id)
    if shown is not None:
        mark = {"decision": str(row.status), "decided_by": who, "note": row.note}
        book.update_row(shown, metadata={**shown.metadata, **mark})
    notices.tell_decided(row)


def _go_on(book: Ledger, row: Interrupt, actor: Any) -> None:
    if Interrupt.objects.filter(batch=row.batch).pending().exists():
        return
    queue.start_run(book, trigger=Run.Trigger.DECISION, actor=actor)


def _answer_row(row: Interrupt, answer: Answer | Cancel) -> DisplayMessage:
    question = serialize.load_interrupt(row.payload)
    if isinstance(answer, Cancel) or not isinstance(question, Question):
        return display.notification_row(_("The question was put aside."))
    labels = {option.value: option.label for option in question.options}
    chosen = ", ".join(labels[value] for value in answer.selected)
    other = f"{_('Other')}: {answer.other_text}" if chosen and answer.other_text else ""
    return display.user_row("\n".join(filter(None, (chosen, other or answer.other_text))))


def _record_refusal(
    interrupt: Interrupt, decision: Any, actor: Any, digest: str, refusal: ServiceError
) -> None:
    """Record a try that changed nothing; one on a row that is gone leaves no trace."""
    stored = serialize.dump_decision(decision) if _is_decision(decision) else {}
    try:
        with ledgers.writing():
            InterruptDecision.objects.create(
                interrupt_id=interrupt.pk,
                actor=actor,
                outcome=InterruptDecision.Outcome.REFUSED,
                cause=refusal.code,
                decision=stored,
                digest=str(digest)[:64],
            )
    except IntegrityError:
        return
