"""The review queue, and the page of one request with the decision as a noun of its own URL."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import Case, QuerySet, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_POST, require_safe

from sagents_app import engine, hidden_characters
from sagents_app.admin import access, arguments, bulk, deciding, filters, request_page, words
from sagents_app.forms import LONGEST_NOTE, DecisionForm
from sagents_app.models import Interrupt
from sagents_app.models.conversation import tenant_of
from sagents_app.presenters import requests

SUMMARIZED = 2_000
"""Characters of the arguments that the list reads."""


@admin.register(Interrupt)
class InterruptAdmin(access.ReadOnlyAdmin):
    """What waits for the reviewer, oldest first; nothing is added, edited in place or deleted."""

    list_display = (
        "request_column",
        "agent_column",
        "conversation_column",
        "asked",
        "status_column",
    )
    list_display_links = None
    list_filter = (
        filters.StatusFilter,
        filters.AgentFilter,
        filters.ToolFilter,
        filters.KindFilter,
        filters.AgeFilter,
        filters.MineFilter,
    )
    list_select_related = ("conversation__owner", "decided_by")
    list_per_page = 50
    show_full_result_count = False
    search_fields = ("tool_name", "display_text", "arguments", "conversation__title")
    search_help_text = _("Tool, arguments, title of the conversation, or who asked")
    actions = ("approve_selected", "reject_selected")
    action_form = bulk.BulkForm
    checkbox_template = "admin/sagents_app/interrupt/columns/checkbox.html"
    change_list_template = "admin/sagents_app/interrupt/change_list.html"

    # --- Who sees what

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whoever a rule of today lets decide anything; the rows' own rules say the rest."""
        return access.may_review(request.user)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the queue to whoever may see it."""
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Interrupt]:
        """Return what the reviewer may see, without the long columns."""
        start = Left("arguments", SUMMARIZED)
        long = ("arguments", "executed_arguments", "payload", "decision", "review_rule", "note")
        rows = Interrupt.objects.reviewable_by(request.user)
        return rows.annotate(arguments_start=start).defer(*long)

    # --- The queue

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Search who asked as well, whatever a user's name field is."""
        return (*self.search_fields, f"conversation__owner__{get_user_model().USERNAME_FIELD}")

    def get_ordering(self, request: HttpRequest) -> tuple[str | Combinable, ...]:
        """Return pending first and oldest first; what is settled shows the newest first."""
        status = request.GET.get(filters.STATUS, Interrupt.Status.PENDING)
        if status == filters.EVERY:
            pending = When(status=Interrupt.Status.PENDING, then=Value(0))
            return (Case(pending, default=Value(1)), "created_at", "position")
        if status == Interrupt.Status.PENDING:
            return ("created_at", "position")
        return ("-decided_at", "-created_at")

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show the queue with a tab a status."""
        response = super().changelist_view(
            request, {"title": _("Review queue")} | (extra_context or {})
        )
        context = getattr(response, "context_data", None)
        if context is not None and "cl" in context:
            rows = Interrupt.objects.reviewable_by(request.user)
            context["status_tabs"] = list(filters.status_tabs(context["cl"], rows))
        return response

    @admin.display(description=_("Request"), ordering="tool_name")
    def request_column(self, row: Interrupt) -> str:
        """Return what the tool will do, and with what."""
        summary = arguments.summary(getattr(row, "arguments_start", ""))
        return self._column("request", row, summary=summary)

    @admin.display(description=_("Agent"), ordering="conversation__agent_name")
    def agent_column(self, row: Interrupt) -> str:
        """Return the agent, with the path to the one inside that asks."""
        return words.agent_path(row)

    @admin.display(description=_("Conversation"), ordering="conversation__title")
    def conversation_column(self, row: Interrupt) -> str:
        """Return the conversation and whose it is."""
        conversation = row.conversation
        name = hidden_characters.escape(str(conversation))
        url = request_page.conversation_url(conversation)
        return self._column("conversation", row, conversation=name, url=url)

    @admin.display(description=_("Asked"), ordering="created_at")
    def asked(self, row: Interrupt) -> str:
        """Return how long ago it was asked."""
        return self._column("asked", row)

    @admin.display(description=_("Status"), ordering="status")
    def status_column(self, row: Interrupt) -> str:
        """Return the status, and who decided."""
        return self._column("status", row)

    def _column(self, column: str, row: Interrupt, **context: Any) -> SafeString:
        template = f"admin/sagents_app/interrupt/columns/{column}.html"
        name = hidden_characters.escape(str(row))
        return render_to_string(template, {"row": row, "name": name, **context})

    @admin.action(description=_("Approve"))
    def approve_selected(self, request: HttpRequest, queryset: QuerySet[Interrupt]) -> None:
        """Approve each selected request as it was shown."""
        self._decide_selected(request, engine.Approve(note=self._note(request)))

    @admin.action(description=_("Reject"))
    def reject_selected(self, request: HttpRequest, queryset: QuerySet[Interrupt]) -> None:
        """Reject each selected request."""
        self._decide_selected(request, engine.Reject(note=self._note(request)))

    def _decide_selected(self, request: HttpRequest, decision: engine.Decision) -> None:
        # By the keys that were posted: the list's own query leaves out what was decided meanwhile.
        rows = self.get_queryset(request).select_related("conversation")
        bulk.decide_selected(request, rows, decision)

    def _note(self, request: HttpRequest) -> str:
        return request.POST.get("note", "").strip()[:LONGEST_NOTE]

    # --- One request

    def get_urls(self) -> list[URLPattern]:
        """Add the decision of a request, and its status for open pages."""
        wrap = self.admin_site.admin_view
        name = "sagents_app_interrupt"
        return [
            path("<uuid:pk>/decision/", wrap(self.decision_view), name=f"{name}_decision"),
            path("<uuid:pk>/status/", wrap(self.status_view), name=f"{name}_status"),
            *super().get_urls(),
        ]

    @method_decorator(require_safe)
    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Show one request; one that is missing and one that is not the user's look alike."""
        row = self._row(Interrupt.objects.reviewable_by(request.user), object_id)
        if row is None:
            raise Http404
        tool = request_page.find_tool(row)
        form = requests.decision_form(row, tool=tool, by_field=True) if row.is_pending else None
        return self._page(request, row, form, tool)

    @method_decorator(require_POST)
    def decision_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Take a decision; one that does not fit comes back with what was typed."""
        # The service says who may decide, and records the tries of those who may not.
        of_tenant = Interrupt.objects.reviewed().filter(
            conversation__tenant=tenant_of(request.user)
        )
        row = self._row(of_tenant, str(pk))
        if row is None:
            messages.error(request, deciding.absent())
            return self._leave(request)
        tool = request_page.find_tool(row)
        form = requests.decision_form(row, request.POST, tool=tool, by_field=True)
        refusal = deciding.decide(request, row, form) if form.is_valid() else None
        visible = self._row(Interrupt.objects.reviewable_by(request.user), str(pk))
        if visible is None:
            if refusal is None:
                messages.error(request, deciding.absent())
            return self._leave(request)
        if not visible.is_pending or not form.errors:
            return HttpResponseRedirect(request_page.page_url(row))
        return self._page(request, visible, form, tool)

    @method_decorator(require_GET)
    def status_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Tell an open page whether its request still waits."""
        row = self._row(Interrupt.objects.reviewable_by(request.user), str(pk))
        if row is None:
            raise Http404
        return JsonResponse({"status": row.status}, headers={"Cache-Control": "no-store"})

    def _row(self, rows: QuerySet[Interrupt], key: str) -> Interrupt | None:
        try:
            pk = UUID(key)
        except ValueError:
            return None
        return rows.select_related("conversation__owner", "decided_by").filter(pk=pk).first()

    def _page(
        self,
        request: HttpRequest,
        row: Interrupt,
        form: DecisionForm | None,
        tool: engine.Tool | None,
    ) -> HttpResponse:
        page = request_page.RequestPage(row, request.user, tool)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": page.sentence,
            "page": page,
            "form": form,
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "admin/sagents_app/interrupt/request.html", context)

    def _leave(self, request: HttpRequest) -> HttpResponse:
        page = "sagents_app_interrupt_changelist" if self.has_view_permission(request) else "index"
        return HttpResponseRedirect(reverse(f"admin:{page}"))
