"""What the page of one conversation shows. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import QuerySet

from sagents_app import hidden_characters
from sagents_app.admin import access, request_page, words
from sagents_app.models import Conversation, DisplayMessage, Interrupt, Run
from sagents_app.presenters import values
from sagents_app.presenters.values import Shown
from sagents_app.services import display

PAGE = 200
"""Transcript rows on one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the transcript."""

    number: int
    role: str
    kind: str
    who: str
    at: datetime
    shown: Shown
    status: str = ""
    """Where a call stands, in words; empty for everything else that is simply there."""
    stopped: str = ""
    """Why a message ends where it ends; empty where it is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One thing that the conversation waited for."""

    interrupt: Interrupt
    name: str
    url: str = ""
    """Its page in the review queue; empty where the user may not open it."""


@dataclass
class ConversationPage:
    """One conversation, as `user` may see it; each part is read when a template asks for it."""

    conversation: Conversation
    user: Any
    before: int | None = None
    """Show the rows before this number; None: the newest."""

    @property
    def title(self) -> str:
        """The conversation's name, which a person or a model wrote."""
        return hidden_characters.escape(str(self.conversation))

    @property
    def live_url(self) -> str:
        """The chat page; empty in a project without it."""
        return request_page.conversation_url(self.conversation)

    @property
    def may_operate(self) -> bool:
        """Whether the user may stop, retry and dismiss."""
        return bool(self.user.has_perm(access.OPERATE))

    @property
    def can_cancel(self) -> bool:
        """Whether anything runs or waits."""
        return self.conversation.status in ("running", "interrupted", "paused")

    @property
    def can_retry(self) -> bool:
        """Whether the agent can go on from where it ended."""
        return self.conversation.status in ("error", "cancelled", "paused")

    @cached_property
    def open_halt(self) -> Interrupt | None:
        """The halt that waits to be dismissed."""
        rows = (one.interrupt for one in self.asked)
        return next((row for row in rows if row.kind == "halt" and row.is_pending), None)

    @cached_property
    def rows(self) -> list[Row]:
        """Transcript rows, oldest first."""
        return [self._row(row) for row in reversed(self._newest[:PAGE])]

    @property
    def earlier(self) -> int | None:
        """The number before which older rows are, None where these are the oldest."""
        return self._newest[PAGE - 1].number if len(self._newest) > PAGE else None

    @cached_property
    def _newest(self) -> list[DisplayMessage]:
        found = DisplayMessage.objects.filter(conversation=self.conversation)
        if self.before is not None:
            found = found.filter(number__lt=self.before)
        return list(found.order_by("-number")[: PAGE + 1])

    @cached_property
    def asked(self) -> list[Asked]:
        """What it waited for, the newest first."""
        rows = Interrupt.objects.filter(conversation=self.conversation)
        reviewable = Interrupt.objects.reviewable_by(self.user).filter(pk__in=rows.values("pk"))
        mine = set(reviewable.values_list("pk", flat=True))
        rows = rows.select_related("decided_by").order_by("-created_at", "position")
        return [
            Asked(
                interrupt=row,
                name=hidden_characters.escape(str(row)),
                url=request_page.page_url(row) if row.pk in mine else "",
            )
            for row in rows[:100]
        ]

    @cached_property
    def runs(self) -> list[Run]:
        """Its runs, the newest first."""
        rows: QuerySet[Run] = Run.objects.filter(conversation=self.conversation)
        return list(rows.select_related("acting_user")[:50])

    def _row(self, row: DisplayMessage) -> Row:
        is_call = row.content_type == DisplayMessage.Kind.TOOL_CALL
        queued = row.status != DisplayMessage.Status.COMPLETED
        return Row(
            number=row.number,
            role=row.message_type,
            kind=row.content_type,
            who=words.author(row, self.conversation),
            at=row.created_at,
            shown=values.show_text(display.to_text(row), is_text=not is_call),
            status=row.get_status_display() if is_call or queued else "",
            stopped=str(row.content.get("stop_reason") or ""),
        )
