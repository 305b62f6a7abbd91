"""How a POST is answered: with JSON where a script asked, with a redirect where a form did."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from sagents_app.models import Conversation, Interrupt
from sagents_app.services.errors import (
    AlreadyDecided,
    ConversationBusy,
    DecisionMismatch,
    NotAllowed,
    NothingToDo,
    ServiceError,
)

STATUS = {
    NotAllowed: 403,
    AlreadyDecided: 409,
    DecisionMismatch: 409,
    ConversationBusy: 409,
    NothingToDo: 409,
}
View = Callable[..., HttpResponse]


def wants_json(request: HttpRequest) -> bool:
    """Whether a script asked."""
    return "application/json" in request.headers.get("Accept", "")


def done(request: HttpRequest, conversation: Conversation, **payload: Any) -> HttpResponse:
    """Answer what succeeded."""
    if wants_json(request):
        return JsonResponse({"ok": True, **payload})
    return redirect(conversation)


def refused(
    request: HttpRequest, conversation: Conversation | None, error: ServiceError
) -> HttpResponse:
    """Answer what a service refused, in its words."""
    if wants_json(request):
        status = STATUS.get(type(error), 400)
        return JsonResponse({"ok": False, "code": error.code, "error": str(error)}, status=status)
    messages.error(request, str(error))
    return redirect(conversation) if conversation is not None else redirect("sagents:conversations")


def posting(view: View) -> View:
    """Make a view that takes a POST of a logged-in user and translates a service's refusal."""

    @login_required
    @require_POST
    @wraps(view)
    def answering(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except ServiceError as error:
            return refused(request, getattr(request, "sagents_conversation", None), error)

    return answering


def visible_conversation(request: HttpRequest, pk: Any) -> Conversation:
    """Return a conversation that the user may read; foreign and missing look alike."""
    conversation = Conversation.objects.visible_to(request.user).filter(pk=pk).first()
    if conversation is None:
        raise Http404(_("There is no such conversation."))
    request.sagents_conversation = conversation  # type: ignore[attr-defined]
    return conversation


def visible_interrupt(request: HttpRequest, pk: Any) -> Interrupt:
    """Return an interrupt of a conversation that the user may read."""
    interrupt = Interrupt.objects.select_related("conversation").filter(pk=pk).first()
    if interrupt is None:
        raise Http404(_("There is no such request."))
    visible_conversation(request, interrupt.conversation_id)
    return interrupt
