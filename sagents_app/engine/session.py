"""What any page shows of a conversation that waits: pure, from the interrupt alone.

Pages, sockets and APIs map what `shown` returns to their own form. Where a halt is among what is
open the workflow is over, so the halts are shown and nothing beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sagents_app.engine.decisions import Answer, Cancel, check_reply
from sagents_app.engine.interrupts import (
    ActionRequest,
    ApprovalRequest,
    Halt,
    Interrupt,
    Question,
    ReviewConfig,
    SubAgentInterrupt,
    open_call_ids,
)

CANCELLED = "User cancelled"


@dataclass(frozen=True, slots=True)
class Approval:
    """One call that waits for a decision, with the rule under which it is decided."""

    request: ActionRequest
    config: ReviewConfig = field(default_factory=ReviewConfig)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is open, by kind, each in the order in which it is to be shown."""

    halts: tuple[Halt, ...] = ()
    """Where there are any, everything else is empty: a stale prompt cannot be answered."""
    questions: tuple[Question, ...] = ()
    approvals: tuple[Approval, ...] = ()
    others: tuple[Interrupt, ...] = ()
    """Unknown outcomes, budgets, a host's own kinds, and what today's code cannot read."""
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The agents from the outermost in, by call id, for what a sub-agent waits for."""

    def __bool__(self) -> bool:
        return bool(self.halts or self.questions or self.approvals or self.others)


CLEARED = Shown()
"""What a page shows once nothing is open any more."""


def shown(interrupt: Interrupt | None) -> Shown:
    """Return what a page shows of `interrupt`; `CLEARED` where nothing is open."""
    halts: list[Halt] = []
    questions: list[Question] = []
    approvals: list[Approval] = []
    others: list[Interrupt] = []
    paths: dict[str, tuple[str, ...]] = {}
    for leaf, path in _leaves(interrupt, ()):
        match leaf:
            case Halt():
                halts.append(leaf)
            case Question():
                questions.append(leaf)
            case ApprovalRequest():
                approvals.extend(
                    Approval(request, leaf.review_config(request.tool_name))
                    for request in leaf.action_requests
                )
            case _:
                others.append(leaf)
        if path:
            paths |= dict.fromkeys(open_call_ids(leaf), path)
    if halts:
        return Shown(halts=tuple(halts))
    return Shown(
        questions=tuple(questions), approvals=tuple(approvals), others=tuple(others), paths=paths
    )


def _leaves(
    interrupt: Interrupt | None, path: tuple[str, ...]
) -> Iterator[tuple[Interrupt, tuple[str, ...]]]:
    if interrupt is None:
        return
    if isinstance(interrupt, SubAgentInterrupt):
        path = (*(path or interrupt.path[:1]), interrupt.task_name)
    if not interrupt.members and open_call_ids(interrupt):
        yield interrupt, path
    for member in interrupt.members:
        yield from _leaves(member, path)


def label_text(question: Question, reply: Answer | Cancel) -> str:
    """Return a reply as the transcript shows it, in the words of the options' labels.

    The model reads the options' values instead.

    Raises:
        InvalidResume: the reply does not fit the question.
    """
    check_reply(question, reply)
    if isinstance(reply, Cancel):
        return CANCELLED
    if question.response_type == "freeform":
        return reply.other_text or ""
    labels = {option.value: option.label for option in question.options}
    lines = [", ".join(labels[value] for value in reply.selected)] if reply.selected else []
    if reply.other_text:
        lines.append(f"Other:  \n{reply.other_text}")
    return "\n".join(lines)
