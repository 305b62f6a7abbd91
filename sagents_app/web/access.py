"""Who may see a page, and what everybody else gets.

A conversation that is foreign, and one that is missing, answer alike. A database out of reach is a
503 with its name, never an empty page.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import resolve_url
from django.template.loader import render_to_string
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache

from sagents_app.models import Conversation, Interrupt

logger = logging.getLogger(__name__)
View = Callable[..., HttpResponse]


def members_only(view: View) -> View:
    """Make a view for people who are logged in; a script is told so in JSON."""

    @never_cache
    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            if request.user.is_authenticated:
                return view(request, *args, **kwargs)
        except (OperationalError, InterfaceError):
            logger.exception("the database does not answer")
            return _unavailable(request)
        if wants_json(request):
            return problem("logged_out", _("You were logged out. Log in again."), status=401)
        return redirect_to_login(request.get_full_path(), login_url())

    return guarded


def wants_json(request: HttpRequest) -> bool:
    """Whether a script asked."""
    return "application/json" in request.headers.get("Accept", "")


def problem(code: str, text: str, *, status: int, **more: Any) -> JsonResponse:
    """Return an error for a script: a stable code, and words for the person."""
    return JsonResponse({"error": {"code": code, "text": text, **more}}, status=status)


def login_url() -> str:
    """Return where people log in: `LOGIN_URL`, or the admin's page in a project without one."""
    named = resolve_url(settings.LOGIN_URL)
    try:
        resolve(named.partition("?")[0])
    except Resolver404:
        try:
            return reverse("admin:login")
        except NoReverseMatch:
            return named
    return named


def find_conversation(request: HttpRequest, pk: Any) -> Conversation:
    """Return a conversation that the user may read.

    Raises:
        Http404: it is missing, or not theirs to read.
    """
    found = Conversation.objects.visible_to(request.user).select_related("owner").filter(pk=pk)
    conversation = found.first()
    if conversation is None:
        raise Http404(_("There is no such conversation."))
    return conversation


def find_interrupt(request: HttpRequest, pk: Any) -> Interrupt:
    """Return an interrupt of a conversation that the user may read, with its conversation.

    Raises:
        Http404: it is missing, or not theirs to read.
    """
    visible = Conversation.objects.visible_to(request.user)
    found = Interrupt.objects.select_related("conversation").filter(
        pk=pk, conversation__in=visible.order_by()
    )
    interrupt = found.first()
    if interrupt is None:
        raise Http404(_("There is no such request."))
    return interrupt


def _unavailable(request: HttpRequest) -> HttpResponse:
    text = _("The database does not answer. Nothing is lost; try again in a moment.")
    if wants_json(request):
        return problem("database_unreachable", text, status=503)
    # Without the request: whoever asks for the user here asks the database.
    return HttpResponse(
        render_to_string("sagents_app/unavailable.html", {"text": text}), status=503
    )
