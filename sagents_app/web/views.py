"""The chat pages: each view parses, calls one service and translates what it says."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from sagents_app import presenters
from sagents_app.models import Conversation, InboxMessage, Interrupt
from sagents_app.services import agents, conversations, runs
from sagents_app.web.answers import done, posting, visible_conversation

PAGE = 30


@login_required
@require_safe
def conversation_list(request: HttpRequest) -> HttpResponse:
    """Show the user's conversations, newest first, and the agents to begin one with."""
    words = request.GET.get("q", "").strip()[:200]
    waiting = Interrupt.objects.filter(conversation=OuterRef("pk")).pending()
    found = (
        Conversation.objects.owned_by(request.user)
        .annotate(asks_owner=Exists(waiting.filter(kind__in=("ask_user_question", "halt"))))
        .order_by("-updated_at", "-pk")
    )
    if words:
        found = found.filter(title__icontains=words)
    context = {
        "page": Paginator(found, PAGE).get_page(request.GET.get("page")),
        "agents": sorted(agents.registered().values(), key=lambda one: one.label),
        "words": words,
        "may_review": request.user.is_staff
        and request.user.has_perm("sagents_app.decide_interrupt"),
    }
    return render(request, "sagents_app/conversations.html", context)


@posting
def new_conversation(request: HttpRequest) -> HttpResponse:
    """Begin a conversation."""
    agent = request.POST.get("agent", "")
    created = conversations.create_conversation(agent=agent, owner=request.user)
    return done(request, created, url=created.get_absolute_url())


@login_required
@require_safe
def conversation(request: HttpRequest, pk: Any) -> HttpResponse:
    """Show a conversation: to its owner with a composer, to a reviewer for reading and deciding."""
    found = visible_conversation(request, pk)
    context = presenters.conversation_context(found, request.user)
    return render(request, "sagents_app/conversation.html", context)


@posting
def new_message(request: HttpRequest, pk: Any) -> HttpResponse:
    """Take a message; what was typed stays where it is when it is refused."""
    found = visible_conversation(request, pk)
    message = conversations.post_message(
        conversation=found,
        text=request.POST.get("text", ""),
        actor=request.user,
        client_id=request.POST.get("client_id", "")[:64] or None,
    )
    return done(request, found, message=str(message.pk))


@posting
def withdraw(request: HttpRequest, pk: Any) -> HttpResponse:
    """Take a queued message back."""
    message = InboxMessage.objects.select_related("conversation", "display_message").filter(
        display_message_id=pk
    )
    found = message.first()
    if found is None:
        raise Http404(_("There is no such message."))
    owner = visible_conversation(request, found.conversation_id)
    conversations.withdraw_message(message=found, actor=request.user)
    return done(request, owner)


@posting
def cancel(request: HttpRequest, pk: Any) -> HttpResponse:
    """Stop what runs or waits."""
    found = visible_conversation(request, pk)
    runs.cancel_run(conversation=found, actor=request.user)
    return done(request, found)


@posting
def retry(request: HttpRequest, pk: Any) -> HttpResponse:
    """Try again from the last boundary."""
    found = visible_conversation(request, pk)
    runs.retry_run(conversation=found, actor=request.user)
    return done(request, found)


@posting
def rename(request: HttpRequest, pk: Any) -> HttpResponse:
    """Give a conversation another title."""
    found = visible_conversation(request, pk)
    title = request.POST.get("title", "")
    conversations.rename_conversation(conversation=found, title=title, actor=request.user)
    return done(request, found)


@posting
def delete(request: HttpRequest, pk: Any) -> HttpResponse:
    """Delete a conversation with everything in it."""
    found = visible_conversation(request, pk)
    conversations.delete_conversation(conversation=found, actor=request.user)
    return redirect("sagents:conversations")
