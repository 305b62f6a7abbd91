"""Runs to read: what began each, who drove it, what it used and how it ended."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from sagents_app import hidden_characters
from sagents_app.admin import access
from sagents_app.models import Run
from sagents_app.models.conversation import tenant_of


@admin.register(Run)
class RunAdmin(access.ReadOnlyAdmin):
    """Runs of the user's tenant, the newest first."""

    list_display = (
        *("created_at", "conversation_name", "trigger", "status", "attempt"),
        *("input_tokens", "output_tokens", "took", "cause_shortly"),
    )
    fields = (
        *("conversation_name", "trigger", "status", "acting_user", "attempt", "worker"),
        *("cause_fully", "error_type", "cancel_requested_at", "cancel_requested_by", "wake_at"),
        *("model_calls", "input_tokens", "output_tokens", "cost"),
        *("created_at", "started_at", "finished_at"),
    )
    list_filter = ("status", "trigger")
    list_select_related = ("conversation",)
    list_per_page = 50
    show_full_result_count = False
    search_fields = ("conversation__title", "cause", "worker", "error_type")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Operators, and whoever may read runs."""
        named = (access.OPERATE, "sagents_app.view_run")
        return any(map(request.user.has_perm, named))

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show it to whoever may see any."""
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Run]:
        """Return those of the user's tenant."""
        rows = super().get_queryset(request)
        return rows.filter(conversation__tenant=tenant_of(request.user))

    @admin.display(description=_("conversation"), ordering="conversation__title")
    def conversation_name(self, row: Run) -> str:
        """Return the conversation's title, which a person or a model wrote."""
        return hidden_characters.escape(str(row.conversation))

    @admin.display(description=_("seconds"))
    def took(self, row: Run) -> str:
        """Return how long it took from its first claim to its end."""
        if row.started_at is None or row.finished_at is None:
            return ""
        return f"{(row.finished_at - row.started_at).total_seconds():.1f}"

    @admin.display(description=_("cause"))
    def cause_fully(self, row: Run) -> str:
        """Return why it failed, paused or was cancelled, in whole."""
        return hidden_characters.escape(row.cause)

    @admin.display(description=_("cause"))
    def cause_shortly(self, row: Run) -> str:
        """Return the beginning of it."""
        cause = hidden_characters.escape(row.cause[:121])
        return cause if len(cause) <= 120 else f"{cause[:119]}…"
