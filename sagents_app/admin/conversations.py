"""Conversations to read, and what an operator may do to one: stop, try again, dismiss a halt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from sagents_app import hidden_characters
from sagents_app.admin import access, transcript
from sagents_app.admin.filters import ConversationAgentFilter
from sagents_app.models import Conversation, Interrupt
from sagents_app.services import errors, interrupts, runs

NAME = "sagents_app_conversation"


@admin.register(Conversation)
class ConversationAdmin(access.ReadOnlyAdmin):
    """Conversations of the user's tenant, or those in which the user reviews."""

    list_display = ("name", "owner", "agent_name", "status", "created_at", "updated_at")
    list_filter = ("status", ConversationAgentFilter)
    list_select_related = ("owner",)
    list_per_page = 50
    show_full_result_count = False
    search_fields = ("title", "agent_name")
    actions = ("cancel_selected", "retry_selected")

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Operators, auditors and reviewers."""
        named = (access.OPERATE, "sagents_app.view_conversation")
        return any(map(request.user.has_perm, named)) or access.may_review(request.user)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show it to whoever may see any."""
        return self.has_view_permission(request)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        """Whether the user may stop and retry."""
        return request.user.has_perm(access.OPERATE)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        """Return what the user may read; operators read all of their tenant."""
        if self.has_operate_permission(request):
            return Conversation.objects.of_tenant(request.user)
        return Conversation.objects.visible_to(request.user)

    @admin.display(description=gettext_lazy("conversation"), ordering="title")
    def name(self, conversation: Conversation) -> str:
        """Return its title, which a person or a model wrote."""
        return hidden_characters.escape(str(conversation))

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Search the owner as well, whatever a user's name field is."""
        return (*self.search_fields, f"owner__{get_user_model().USERNAME_FIELD}")

    def get_urls(self) -> list[URLPattern]:
        """Add what an operator may ask for, each a noun."""
        wrap = self.admin_site.admin_view
        return [
            path("<uuid:pk>/cancellation/", wrap(self.cancel_view), name=f"{NAME}_cancellation"),
            path("<uuid:pk>/retry/", wrap(self.retry_view), name=f"{NAME}_retry"),
            path("<uuid:pk>/dismissal/", wrap(self.dismiss_view), name=f"{NAME}_dismissal"),
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
        """Show one conversation; one that is missing and one that is not visible look alike."""
        conversation = self._conversation(request, object_id)
        before = request.GET.get("before", "")
        number = int(before) if before.isdecimal() and len(before) < 18 else None
        page = transcript.ConversationPage(conversation, request.user, number)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": page.title,
            "page": page,
        }
        request.current_app = self.admin_site.name
        template = "admin/sagents_app/conversation/conversation.html"
        return TemplateResponse(request, template, context)

    @method_decorator(require_POST)
    def cancel_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Stop what runs or waits."""
        return self._operate(request, pk, self._cancel)

    @method_decorator(require_POST)
    def retry_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Go on after an error, a cancel or a pause."""
        return self._operate(request, pk, self._retry)

    @method_decorator(require_POST)
    def dismiss_view(self, request: HttpRequest, pk: UUID) -> HttpResponse:
        """Dismiss the halt that is open; its text stays in the transcript."""
        return self._operate(request, pk, self._dismiss)

    @admin.action(description=gettext_lazy("Stop the agent"), permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Conversation]) -> None:
        """Stop each selected conversation."""
        for conversation in queryset:
            self._attempt(request, conversation, self._cancel)

    @admin.action(description=gettext_lazy("Try again"), permissions=["operate"])
    def retry_selected(self, request: HttpRequest, queryset: QuerySet[Conversation]) -> None:
        """Have each selected conversation go on."""
        for conversation in queryset:
            self._attempt(request, conversation, self._retry)

    def _cancel(self, conversation: Conversation, actor: Any) -> str:
        runs.cancel_run(conversation=conversation, actor=actor)
        return _("%s: asked to stop.")

    def _retry(self, conversation: Conversation, actor: Any) -> str:
        runs.retry_run(conversation=conversation, actor=actor)
        return _("%s: goes on.")

    def _dismiss(self, conversation: Conversation, actor: Any) -> str:
        waiting = Interrupt.objects.filter(conversation=conversation).pending()
        halt = waiting.filter(kind=Interrupt.Kind.HALT).first()
        if halt is None:
            raise errors.NothingToDo(_("No halt is open."))
        interrupts.dismiss_halt(interrupt=halt, actor=actor)
        return _("%s: the halt is dismissed.")

    def _operate(
        self, request: HttpRequest, pk: UUID, act: Callable[[Conversation, Any], str]
    ) -> HttpResponse:
        conversation = self._conversation(request, str(pk))
        self._attempt(request, conversation, act)
        return HttpResponseRedirect(reverse(f"admin:{NAME}_change", args=[pk]))

    def _attempt(
        self,
        request: HttpRequest,
        conversation: Conversation,
        act: Callable[[Conversation, Any], str],
    ) -> None:
        try:
            told = act(conversation, request.user)
        except errors.ServiceError as refusal:
            messages.error(request, f"{self.name(conversation)}: {refusal}")
        else:
            messages.success(request, told % self.name(conversation))

    def _conversation(self, request: HttpRequest, key: str) -> Conversation:
        try:
            pk = UUID(key)
        except ValueError:
            raise Http404 from None
        found = self.get_queryset(request).select_related("owner").filter(pk=pk).first()
        if found is None:
            raise Http404
        return found
