"""The pages, and what people do to a conversation: each view parses and calls one service."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from sagents_app.models import Conversation, InboxMessage
from sagents_app.presenters import pages
from sagents_app.services import conversations, errors, runs
from sagents_app.web.access import find_conversation, members_only, wants_json
from sagents_app.web.answers import done, on_conversation, page_again, refused, status_of

LONGEST_CLIENT_ID = 64


@members_only
@require_safe
def conversation_list(request: HttpRequest) -> HttpResponse:
    """Show the user's conversations, what waits for their review, and the agents to talk to."""
    words = request.GET.get("q", "").strip()[:200]
    context = pages.list_context(request.user, page=request.GET.get("page"), words=words)
    return render(request, "sagents_app/conversations.html", context)


@members_only
@require_safe
def conversation(request: HttpRequest, pk: Any) -> HttpResponse:
    """Show a conversation: its owner can write in it, a reviewer reads and decides."""
    context = pages.chat_context(find_conversation(request, pk), request.user)
    return render(request, "sagents_app/conversation.html", context)


@members_only
@require_safe
def earlier(request: HttpRequest, pk: Any, before: int) -> HttpResponse:
    """Show the rows before a number: a page to read, or to a script the rows alone."""
    context = pages.earlier_context(find_conversation(request, pk), request.user, before=before)
    part = request.headers.get("X-Requested-With") == "fetch"
    template = "chat/earlier_rows.html" if part else "earlier.html"
    return render(request, f"sagents_app/{template}", context)


@members_only
@require_POST
def new_conversation(request: HttpRequest) -> HttpResponse:
    """Begin a conversation."""
    agent = request.POST.get("agent", "")
    try:
        created = conversations.create_conversation(agent=agent, owner=request.user)
    except errors.ServiceError as refusal:
        return refused(request, refusal)
    return done(request, created, status=201, url=created.get_absolute_url())


@on_conversation
def new_message(request: HttpRequest, found: Conversation) -> HttpResponse:
    """Take a message; a text that is refused comes back with the page."""
    text = request.POST.get("text", "")
    try:
        message = conversations.post_message(
            conversation=found,
            text=text,
            actor=request.user,
            client_id=request.POST.get("client_id", "")[:LONGEST_CLIENT_ID] or None,
        )
    except errors.MessageRejected as refusal:
        if wants_json(request):
            raise
        status = status_of(refusal)
        return page_again(request, found, status=status, draft=text, problem=str(refusal))
    return done(request, found, status=201, message=str(message.display_message_id))


@on_conversation
def cancel(request: HttpRequest, found: Conversation) -> None:
    """Stop what runs or waits."""
    runs.cancel_run(conversation=found, actor=request.user)


@on_conversation
def retry(request: HttpRequest, found: Conversation) -> None:
    """Go on from the last boundary."""
    runs.retry_run(conversation=found, actor=request.user)


@on_conversation
def rename(request: HttpRequest, found: Conversation) -> None:
    """Give a conversation another title."""
    title = request.POST.get("title", "")
    conversations.rename_conversation(conversation=found, title=title, actor=request.user)


@on_conversation
def delete(request: HttpRequest, found: Conversation) -> HttpResponse:
    """Delete a conversation with everything in it."""
    conversations.delete_conversation(conversation=found, actor=request.user)
    return redirect("sagents:conversations")


@on_conversation
def withdraw_message(request: HttpRequest, found: Conversation) -> None:
    """Take a queued message back; `message` is the id of its transcript row."""
    rows = InboxMessage.objects.select_related("conversation", "display_message").filter(
        conversation=found, display_message_id=_uuid(request.POST.get("message", ""))
    )
    message = rows.first()
    if message is None:
        raise Http404(_("There is no such message."))
    conversations.withdraw_message(message=message, actor=request.user)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
