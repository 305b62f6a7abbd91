"""What waits for a person, as `interrupts/<kind>.html` shows it to one viewer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sagents_app.engine import Tool, canonical
from sagents_app.forms import DecisionForm
from sagents_app.models import Conversation, Interrupt
from sagents_app.presenters import values
from sagents_app.presenters.values import Argument

KINDS = {"approval", "ask_user_question", "halt", "unknown_outcome", "budget"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One pending interrupt, for one viewer."""

    interrupt: Interrupt
    kind: str
    """The name of its template in `interrupts/`."""
    is_owner: bool
    """Whether the viewer owns the conversation."""
    may_dismiss: bool = False
    """Whether the viewer may dismiss a halt: the owner, or an operator."""
    form: DecisionForm | None = None
    """Set where the viewer may decide."""
    title: str = ""
    """What is asked, in a few words."""
    arguments: tuple[Argument, ...] = ()
    summary: str = ""
    """The arguments in one line."""
    path: str = ""
    """The agents from the outermost in, where a sub-agent asks."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    """The engine's interrupt, stored form."""

    @property
    def template(self) -> str:
        """The partial that shows it."""
        return f"sagents_app/interrupts/{self.kind}.html"

    @property
    def id(self) -> str:
        """What its elements are named by."""
        return str(self.interrupt.pk)

    @property
    def version(self) -> str:
        """Changes whenever the request looks different, which is when typed text may go."""
        seen = f"{self.interrupt.digest}{self.interrupt.status}{self.form is not None}"
        return hashlib.sha256(seen.encode()).hexdigest()[:12]


def decision_form(
    interrupt: Interrupt,
    data: Mapping[str, Any] | None = None,
    *,
    tool: Tool | None = None,
    by_field: bool = False,
) -> DecisionForm:
    """Return the form in which a request is decided.

    Its arguments are edited all together as JSON and, with `by_field`, in a field each. The schema
    of `tool`, where it is known, is checked already here.
    """
    proposed = interrupt.arguments
    if interrupt.kind == Interrupt.Kind.BUDGET:
        proposed = canonical.dump({"limit": interrupt.payload.get("limit")})
    form = DecisionForm(
        data,
        digest=interrupt.digest,
        allowed=interrupt.allowed_decisions,
        proposed=proposed,
        tool=tool,
    )
    if by_field:
        return form
    for name in form.arguments:
        del form.fields[name]
    form.arguments.clear()
    if data is not None and "arguments" not in data:
        form.fields.pop("arguments", None)
    return form


def present_requests(
    conversation: Conversation, user: Any, *, refused: Mapping[str, DecisionForm] | None = None
) -> list[Request]:
    """Return what waits, halts alone where there are any; two queries.

    `refused` are posted forms with their errors, by interrupt id.
    """
    waiting = list(Interrupt.objects.filter(conversation=conversation).pending())
    halts = [row for row in waiting if row.kind == Interrupt.Kind.HALT]
    shown = halts or waiting
    if not shown:
        return []
    reviewable = Interrupt.objects.reviewable_by(user).filter(pk__in=[row.pk for row in shown])
    is_owner = conversation.owner_id == user.pk
    may_dismiss = is_owner or user.has_perm("sagents_app.operate_conversation")
    decidable = set(reviewable.values_list("pk", flat=True))
    return [
        _present(
            row,
            is_owner=is_owner,
            may_dismiss=may_dismiss,
            form=((refused or {}).get(str(row.pk)) or decision_form(row))
            if row.pk in decidable
            else None,
        )
        for row in shown
    ]


def _present(
    row: Interrupt, *, is_owner: bool, may_dismiss: bool, form: DecisionForm | None
) -> Request:
    arguments = canonical.parse(row.arguments)
    return Request(
        interrupt=row,
        kind=row.kind if row.kind in KINDS else "unknown",
        is_owner=is_owner,
        may_dismiss=may_dismiss,
        form=form,
        title=str(row),
        arguments=values.show_arguments(arguments),
        summary=values.summary(arguments),
        path=" → ".join(map(str, row.path)) if len(row.path) > 1 else "",
        payload=row.payload,
    )
