"""How a command is answered: with JSON where a script asked, with a page where a form did."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from sagents_app.models import Conversation, Interrupt
from sagents_app.presenters import pages
from sagents_app.services import errors
from sagents_app.web.access import (
    View,
    find_conversation,
    find_interrupt,
    members_only,
    problem,
    wants_json,
)

STATUS: dict[type[errors.ServiceError], int] = {
    errors.NotAllowed: 403,
    errors.AlreadyDecided: 409,
    errors.DecisionMismatch: 409,
    errors.ConversationBusy: 409,
    errors.NothingToDo: 409,
}
"""Every other refusal is about what was sent: 422."""


def on_conversation(view: Callable[[HttpRequest, Conversation], HttpResponse | None]) -> View:
    """Make a view that takes a POST about a conversation; None is answered as `done`.

    What a service refuses is answered in its words.
    """

    @members_only
    @require_POST
    @wraps(view)
    def answering(request: HttpRequest, pk: Any) -> HttpResponse:
        conversation = find_conversation(request, pk)
        try:
            return view(request, conversation) or done(request, conversation)
        except errors.ServiceError as refusal:
            return refused(request, refusal, conversation)

    return answering


def on_interrupt(view: Callable[[HttpRequest, Interrupt], HttpResponse | None]) -> View:
    """Make a view that takes a POST about an interrupt, otherwise like `on_conversation`."""

    @members_only
    @require_POST
    @wraps(view)
    def answering(request: HttpRequest, pk: Any) -> HttpResponse:
        interrupt = find_interrupt(request, pk)
        try:
            return view(request, interrupt) or done(request, interrupt.conversation)
        except errors.ServiceError as refusal:
            return refused(request, refusal, interrupt.conversation)

    return answering


def done(
    request: HttpRequest, conversation: Conversation, *, status: int = 200, **told: Any
) -> HttpResponse:
    """Answer what succeeded."""
    if wants_json(request):
        return JsonResponse({"conversation": str(conversation.pk), **told}, status=status)
    return redirect(conversation)


def refused(
    request: HttpRequest, refusal: errors.ServiceError, conversation: Conversation | None = None
) -> HttpResponse:
    """Answer what was refused: a form comes back to its page, with the reason on top."""
    if wants_json(request):
        return problem(refusal.code, str(refusal), status=status_of(refusal))
    messages.error(request, str(refusal), fail_silently=True)
    return redirect(conversation or "sagents:conversations")


def page_again(
    request: HttpRequest, conversation: Conversation, *, status: int, **brought: Any
) -> HttpResponse:
    """Show a conversation's page with what a post brought back: a text, a form, a problem."""
    context = pages.chat_context(conversation, request.user, **brought)
    return render(request, "sagents_app/conversation.html", context, status=status)


def status_of(refusal: errors.ServiceError) -> int:
    """Return the HTTP status of a refusal."""
    return STATUS.get(type(refusal), 422)
