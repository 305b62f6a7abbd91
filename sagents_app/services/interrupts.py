"""Interrupts as rows: opened with the run's end, decided once, by somebody who may.

A decision is bound to the interrupt and to the digest of what was shown. Refused tries are recorded
and change nothing. The run goes on when the last open row of its batch is decided.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from sagents_app.engine import (
    Agent,
    Answer,
    ApprovalRequest,
    Approve,
    Cancel,
    Decision,
    Edit,
    EngineError,
    Halt,
    InvalidResume,
    Question,
    Reject,
    Respond,
    SubAgentInterrupt,
    ToolCall,
    canonical,
    check_reply,
    serialize,
)
from sagents_app.engine import Interrupt as EngineInterrupt
from sagents_app.engine.interrupts import UnknownInterrupt, UnknownOutcome, has_halt
from sagents_app.models import Conversation, DisplayMessage, Interrupt, InterruptDecision, Run
from sagents_app.models.conversation import tenant_of
from sagents_app.services import agents, display, live, queue
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
STATUS_AFTER = {
    Approve: Status.APPROVED,
    Edit: Status.EDITED,
    Reject: Status.REJECTED,
    Respond: Status.ANSWERED,
    Answer: Status.ANSWERED,
    Cancel: Status.CANCELLED,
}


def open_interrupts(book: Ledger, interrupt: EngineInterrupt, run: Run) -> list[Interrupt]:
    """Insert the rows of what a turn stopped for, in the ledger's transaction.

    Where a halt is among it the halt alone waits, and its message becomes a transcript row.
    """
    halted = has_halt(interrupt)
    registration = agents.registered().get(book.conversation.agent_name)
    batch = uuid.uuid4()
    rows: list[Interrupt] = []
    for path, leaf in _leaves(interrupt, (book.conversation.agent_name,)):
        for row in _rows_of(leaf):
            row.conversation, row.run_id, row.batch = book.conversation, run.pk, batch
            row.position, row.path = len(rows), list(path)
            rule = registration.rule_for(row.tool_name) if registration else agents.DEFAULT_RULE
            row.review_rule, row.permission, row.group = (
                rule.snapshot(),
                rule.permission,
                rule.group,
            )
            row.owner_may_decide = rule.owner_may_decide
            if rule.deadline is not None and row.kind in Interrupt.REVIEWED:
                row.expires_at = timezone.now() + rule.deadline
            if halted and row.kind != Interrupt.Kind.HALT:
                row.status = Status.SUPERSEDED
            row.created_at = timezone.now()
            rows.append(row)
        if isinstance(leaf, Halt) and leaf.message:
            book.show(display.halt_row(leaf))
    Interrupt.objects.bulk_create(rows)
    for row in rows:
        book.event("interrupt_opened", {"interrupt": live.interrupt_payload(row)})
    transaction.on_commit(live.announce_reviews)
    return rows


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
        with ledgers.write(interrupt.conversation_id) as book:
            row = _locked(interrupt)
            _check_may_decide(row, book.conversation, actor)
            _check_open(row)
            if digest != row.digest:
                raise DecisionMismatch(
                    _("This request is not the one that was shown. Read it again, then decide.")
                )
            _check_fits(row, book.conversation, decision)
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
        with ledgers.write(interrupt.conversation_id) as book:
            row = _locked(interrupt)
            if row.kind != Interrupt.Kind.QUESTION or book.conversation.owner_id != actor.pk:
                raise NotAllowed(_("Only the conversation's owner answers its questions."))
            _check_open(row)
            _check_fits(row, book.conversation, answer)
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
        if not (
            book.conversation.owner_id == actor.pk
            or actor.has_perm("sagents_app.operate_conversation")
        ):
            raise NotAllowed(_("Only the conversation's owner dismisses a halt."))
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
        queue.start_run(book, trigger=Run.Trigger.MESSAGE, actor=actor)


def answer_with_text(book: Ledger, text: str, actor: Any) -> bool:
    """Answer the only open question with a message's text, where it takes one; whether it did."""
    waiting = list(Interrupt.objects.filter(conversation=book.conversation).pending())
    if len(waiting) != 1 or waiting[0].kind != Interrupt.Kind.QUESTION:
        return False
    row = waiting[0]
    question = serialize.load_interrupt(row.payload)
    answer = Answer(other_text=text)
    try:
        check_reply(question, answer)
    except InvalidResume:
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


def replies_of(conversation: Conversation, run: Run) -> dict[str, Decision]:
    """Return what was decided about the batch that a run goes on from, by the engine's names."""
    newest = Interrupt.objects.filter(conversation=conversation).order_by("-created_at").first()
    if newest is None:
        return {}
    rows = Interrupt.objects.filter(batch=newest.batch, decision__isnull=False)
    return {row.tool_call_id: serialize.load_decision(row.decision) for row in rows}


def _leaves(
    interrupt: EngineInterrupt, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], EngineInterrupt]]:
    if isinstance(interrupt, SubAgentInterrupt):
        path = interrupt.path
    if not interrupt.members:
        yield path, interrupt
    for member in interrupt.members:
        yield from _leaves(member, path)


def _rows_of(leaf: EngineInterrupt) -> Iterator[Interrupt]:
    payload = serialize.dump_interrupt(leaf)
    if isinstance(leaf, ApprovalRequest):
        for request in leaf.action_requests:
            yield Interrupt(
                kind=Interrupt.Kind.APPROVAL,
                tool_call_id=request.tool_call_id,
                tool_name=request.tool_name,
                display_text=request.display_text[:255],
                arguments=request.arguments_json,
                digest=request.digest,
                allowed_decisions=list(leaf.review_config(request.tool_name).allowed_decisions),
                payload=payload,
            )
        return
    name = leaf.tool_call_id or leaf.type
    call = leaf.call if isinstance(leaf, UnknownOutcome) else None
    arguments = call.arguments_json if call is not None else canonical.NOTHING
    tool_name = call.tool_name if call is not None else ""
    if isinstance(leaf, Halt):
        tool_name = leaf.source_tool or ""
    yield Interrupt(
        kind=leaf.type if leaf.type in Interrupt.Kind.values else Interrupt.Kind.UNKNOWN,
        tool_call_id=name,
        tool_name=tool_name,
        display_text=_label(leaf)[:255],
        arguments=arguments,
        digest=canonical.digest(name, tool_name, canonical.dump(payload)),
        allowed_decisions=list(_allowed(leaf)),
        payload=payload,
    )


def _label(leaf: EngineInterrupt) -> str:
    match leaf:
        case Question():
            return leaf.question
        case Halt():
            return leaf.message
        case UnknownOutcome():
            return leaf.call.display_text
        case _:
            return ""


def _allowed(leaf: EngineInterrupt) -> Iterable[str]:
    match leaf:
        case Question():
            return ("answer", "cancel") if leaf.allow_cancel else ("answer",)
        case Halt():
            return ()
        case UnknownOutcome():
            return ("respond", "reject", "approve")
        case UnknownInterrupt():
            return ("cancel",)
        case _:
            return ("approve", "edit", "reject", "cancel")


def _locked(interrupt: Interrupt) -> Interrupt:
    return (
        Interrupt.objects.select_for_update(of=("self",))
        .select_related("decided_by")
        .get(pk=interrupt.pk)
    )


def _check_may_decide(row: Interrupt, conversation: Conversation, actor: Any) -> None:
    # As the user is now, not as it was at log-in.
    actor = get_user_model()._default_manager.get(pk=actor.pk)
    refused = NotAllowed(_("You may not decide this request."))
    if not actor.is_active or tenant_of(actor) != conversation.tenant:
        raise refused
    if row.kind not in Interrupt.REVIEWED:
        raise NotAllowed(_("This is for the conversation's owner."))
    if actor.pk == conversation.owner_id:
        if not row.owner_may_decide:
            raise NotAllowed(_("You asked for this yourself, so somebody else has to decide."))
        return
    if not actor.has_perm(row.permission):
        raise refused
    if row.group and not actor.groups.filter(name=row.group).exists():
        raise refused


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


def _check_fits(row: Interrupt, conversation: Conversation, decision: Decision) -> None:
    if decision.type not in row.allowed_decisions:
        allowed = ", ".join(row.allowed_decisions) or _("nothing")
        raise InvalidDecision(
            _("%(got)s is not allowed here; allowed: %(allowed)s.")
            % {"got": decision.type, "allowed": allowed}
        )
    try:
        check_reply(serialize.load_interrupt(row.payload), decision, call_id=row.tool_call_id)
        if isinstance(decision, Edit) and row.kind == Interrupt.Kind.APPROVAL:
            _check_edit(row, conversation, decision)
    except EngineError as error:
        raise InvalidDecision(str(error)) from error


def _check_edit(row: Interrupt, conversation: Conversation, decision: Edit) -> None:
    tool = agent_inside(agents.build(conversation), row.path).tools.get(row.tool_name)
    if tool is None:
        raise InvalidDecision(_("This tool is gone, so its request can only be rejected."))
    tool.validate(ToolCall(row.tool_call_id, row.tool_name, arguments_json=decision.arguments_json))


def agent_inside(agent: Agent, path: Iterable[str]) -> Agent:
    """Return the agent that a path of names leads to, as far as today's agents go."""
    for name in list(path)[1:]:
        inner = next((found for one in agent.middlewares if (found := one.agent_named(name))), None)
        agent = inner or agent
    return agent


def _settle(book: Ledger, row: Interrupt, decision: Decision, actor: Any, digest: str) -> None:
    status = STATUS_AFTER[type(decision)]
    note = getattr(decision, "note", "")
    changed = Interrupt.objects.filter(pk=row.pk, status=Status.PENDING).update(
        status=status,
        decision=serialize.dump_decision(decision),
        decided_by=actor,
        decided_at=timezone.now(),
        note=note,
    )
    if not changed:
        row.refresh_from_db()
        _check_open(row)
    row.refresh_from_db()
    InterruptDecision.objects.create(
        interrupt=row,
        actor=actor,
        outcome=InterruptDecision.Outcome.ACCEPTED,
        decision=serialize.dump_decision(decision),
        digest=digest,
    )
    _tell(book, row)


def _close(book: Ledger, row: Interrupt, status: str, actor: Any) -> None:
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
    shown = DisplayMessage.objects.filter(
        conversation=book.conversation,
        content_type=DisplayMessage.Kind.TOOL_CALL,
        tool_call_id=row.tool_call_id,
    ).first()
    if shown is not None:
        mark = {"decision": row.status, "decided_by": who, "note": row.note}
        book.update_row(shown, metadata={**shown.metadata, **mark})
    transaction.on_commit(live.announce_reviews)


def _go_on(book: Ledger, row: Interrupt, actor: Any) -> None:
    if Interrupt.objects.filter(batch=row.batch).pending().exists():
        return
    queue.start_run(book, trigger=Run.Trigger.DECISION, actor=actor)


def _answer_row(row: Interrupt, answer: Answer | Cancel) -> DisplayMessage:
    question = serialize.load_interrupt(row.payload)
    if isinstance(answer, Cancel) or not isinstance(question, Question):
        return DisplayMessage(
            message_type=DisplayMessage.Author.SYSTEM,
            content_type=DisplayMessage.Kind.NOTIFICATION,
            content={"text": _("The question was put aside.")},
        )
    labels = {option.value: option.label for option in question.options}
    chosen = ", ".join(labels[value] for value in answer.selected)
    other = f"{_('Other')}: {answer.other_text}" if chosen else answer.other_text
    return display.user_row("\n".join(filter(None, (chosen, other))))


def _record_refusal(
    interrupt: Interrupt, decision: Any, actor: Any, digest: str, refusal: ServiceError
) -> None:
    stored = serialize.dump_decision(decision) if isinstance(decision, _KINDS) else {}
    with ledgers.writing():
        InterruptDecision.objects.create(
            interrupt=interrupt,
            actor=actor,
            outcome=InterruptDecision.Outcome.REFUSED,
            cause=refusal.code,
            decision=stored,
            digest=digest[:64],
        )


_KINDS = tuple(STATUS_AFTER)
