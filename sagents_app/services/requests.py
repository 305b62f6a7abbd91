"""Requests: from what a turn stops for to interrupt rows, one for each thing to decide."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

from django.utils import timezone

from sagents_app.engine import (
    ApprovalRequest,
    Halt,
    Question,
    SubAgentInterrupt,
    UnknownOutcome,
    canonical,
    serialize,
)
from sagents_app.engine import Interrupt as EngineInterrupt
from sagents_app.engine.interrupts import BudgetRequest, UnknownInterrupt, has_halt
from sagents_app.models import Interrupt, Run
from sagents_app.services import agents, display, live, notices
from sagents_app.services.agents import Registration
from sagents_app.services.ledger import Ledger


def open_interrupts(book: Ledger, interrupt: EngineInterrupt, run: Run) -> list[Interrupt]:
    """Insert the rows of what a turn stopped for, in the ledger's transaction.

    Where a halt is among it the halt alone waits, and its message becomes a transcript row; what
    stands beside it is superseded from the beginning.
    """
    halted = has_halt(interrupt)
    registration = agents.registered().get(book.conversation.agent_name)
    batch, now = uuid.uuid4(), timezone.now()
    rows: list[Interrupt] = []
    for path, leaf in _leaves(interrupt, (book.conversation.agent_name,)):
        for row in _rows_of(leaf):
            row.conversation, row.run_id, row.batch = book.conversation, run.pk, batch
            row.position, row.path, row.created_at = len(rows), list(path), now
            _put_under_rule(row, registration)
            if halted and row.kind != Interrupt.Kind.HALT:
                row.status = Interrupt.Status.SUPERSEDED
            rows.append(row)
        if isinstance(leaf, Halt) and leaf.message:
            book.show(display.halt_row(leaf))
    Interrupt.objects.bulk_create(rows)
    for row in rows:
        book.event("interrupt_opened", {"interrupt": live.interrupt_payload(row)})
        if row.is_pending:
            notices.tell_opened(row)
    return rows


def _put_under_rule(row: Interrupt, registration: Registration | None) -> None:
    rule = registration.rule_for(row.tool_name) if registration else agents.DEFAULT_RULE
    row.review_rule, row.permission, row.group = rule.snapshot(), rule.permission, rule.group
    row.owner_may_decide = rule.owner_may_decide
    if rule.deadline is not None and row.kind in Interrupt.REVIEWED:
        row.expires_at = row.created_at + rule.deadline


def _leaves(
    interrupt: EngineInterrupt, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], EngineInterrupt]]:
    """Yield what is to be settled with the path of the agents inside which it is."""
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
    name, tool_name = leaf.tool_call_id or leaf.type, _tool_name(leaf)
    call = leaf.call if isinstance(leaf, UnknownOutcome) else None
    yield Interrupt(
        kind=leaf.type if leaf.type in Interrupt.Kind.values else Interrupt.Kind.UNKNOWN,
        tool_call_id=name,
        tool_name=tool_name,
        display_text=_label(leaf)[:255],
        arguments=call.arguments_json if call is not None else canonical.NOTHING,
        digest=canonical.digest(name, tool_name, canonical.dump(payload)),
        allowed_decisions=list(_allowed(leaf)),
        payload=payload,
    )


def _tool_name(leaf: EngineInterrupt) -> str:
    match leaf:
        case UnknownOutcome(call=call):
            return call.tool_name
        case Halt(source_tool=source):
            return source or ""
        case _:
            return ""


def _label(leaf: EngineInterrupt) -> str:
    match leaf:
        case Question(question=text) | Halt(message=text):
            return text
        case UnknownOutcome(call=call):
            return call.display_text
        case _:
            return ""


def _allowed(leaf: EngineInterrupt) -> Iterable[str]:
    match leaf:
        case Question(allow_cancel=allow_cancel):
            return ("answer", "cancel") if allow_cancel else ("answer",)
        case Halt():
            return ()
        case UnknownOutcome():
            return ("respond", "reject", "approve")
        case BudgetRequest():
            return ("approve", "edit", "reject")
        case UnknownInterrupt():
            return ("cancel",)
        case _:
            return ("approve", "edit", "reject", "cancel")
