"""Filters of the review queue; each asks one query of what the reviewer may see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sagents_app.models import Interrupt

STATUS = "status"
EVERY = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tab:
    """One status above the queue, with how many requests have it."""

    label: str
    url: str
    count: int
    is_current: bool


class StatusFilter(admin.SimpleListFilter):
    """Those that wait, unless another status is asked for; shown as tabs above the list."""

    title = _("status")
    parameter_name = STATUS
    template = "admin/sagents_app/interrupt/no_filter.html"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return every status."""
        return [(EVERY, _("All")), *Interrupt.Status.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep those of the status."""
        status = self.value() or Interrupt.Status.PENDING
        return queryset if status == EVERY else queryset.filter(status=status)


class _Values(admin.SimpleListFilter):
    """One of the values that a field has among the requests that the reviewer may see."""

    field = ""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the values, sorted."""
        rows = model_admin.get_queryset(request).order_by(self.field)
        values = rows.values_list(self.field, flat=True).distinct()[:200]
        return [(value, value) for value in values if value]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep those with the value."""
        return queryset.filter(**{self.field: self.value()}) if self.value() else queryset


class AgentFilter(_Values):
    """By the conversation's agent."""

    title = _("agent")
    parameter_name = "agent"
    field = "conversation__agent_name"


class ConversationAgentFilter(_Values):
    """By the agent, among conversations."""

    title = _("agent")
    parameter_name = "agent"
    field = "agent_name"


class ToolFilter(_Values):
    """By the tool that would run."""

    title = _("tool")
    parameter_name = "tool"
    field = "tool_name"


class KindFilter(admin.SimpleListFilter):
    """By what is asked."""

    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the kinds that reviewers decide."""
        return [
            (kind, label) for kind, label in Interrupt.Kind.choices if kind in Interrupt.REVIEWED
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep those of the kind."""
        return queryset.filter(kind=self.value()) if self.value() else queryset


class AgeFilter(admin.SimpleListFilter):
    """By how long ago it was asked."""

    title = _("age")
    parameter_name = "older"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the ages, in hours."""
        return [("1", _("over an hour")), ("24", _("over a day")), ("168", _("over a week"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep those that were asked before that."""
        if self.value() not in {hours for hours, _label in self.lookup_choices}:
            return queryset
        oldest = timezone.now() - timedelta(hours=int(self.value() or 0))
        return queryset.filter(created_at__lt=oldest)


class MineFilter(admin.SimpleListFilter):
    """Those that the reviewer decided."""

    title = _("decided by")
    parameter_name = "by"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the only choice."""
        return [("me", _("me"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Keep those of the reviewer."""
        return queryset.filter(decided_by=request.user.pk) if self.value() else queryset


def status_tabs(changelist: Any, queryset: QuerySet[Any]) -> Iterator[Tab]:
    """Yield a tab for each status that occurs in `queryset`: what waits first, all of it last."""
    counts = dict(queryset.order_by().values_list("status").annotate(Count("pk")))
    current = changelist.params.get(STATUS, Interrupt.Status.PENDING)
    labels: list[tuple[str, Any]] = [*Interrupt.Status.choices, (EVERY, _("All"))]
    for status, label in labels:
        count = sum(counts.values()) if status == EVERY else counts.get(status, 0)
        if count or status in (Interrupt.Status.PENDING, EVERY, current):
            yield Tab(
                label=str(label).capitalize(),
                url=changelist.get_query_string({STATUS: status}, ["p"]),
                count=count,
                is_current=status == current,
            )
