"""What people say to a request: a noun each, one service call each."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from sagents_app.engine import (
    Answer,
    Approve,
    Cancel,
    Decision,
    Edit,
    InvalidResume,
    Reject,
    canonical,
)
from sagents_app.engine import Respond as EngineRespond
from sagents_app.models import Interrupt
from sagents_app.services import interrupts
from sagents_app.services.errors import InvalidDecision
from sagents_app.web.answers import done, posting, visible_interrupt

LONGEST_NOTE = 4_000


@posting
def approve(request: HttpRequest, pk: Any) -> HttpResponse:
    """Let the call run as it was shown."""
    return _decide(request, visible_interrupt(request, pk), Approve(note=_note(request)))


@posting
def edit(request: HttpRequest, pk: Any) -> HttpResponse:
    """Let the call run with other arguments."""
    interrupt = visible_interrupt(request, pk)
    try:
        decision = Edit(canonical.parse(request.POST.get("arguments", "")), note=_note(request))
    except (json.JSONDecodeError, ValueError) as error:
        raise InvalidDecision(_("The arguments are not JSON: %s") % error) from error
    except InvalidResume as error:
        raise InvalidDecision(str(error)) from error
    return _decide(request, interrupt, decision)


@posting
def reject(request: HttpRequest, pk: Any) -> HttpResponse:
    """Do not let the call run."""
    return _decide(request, visible_interrupt(request, pk), Reject(note=_note(request)))


@posting
def respond(request: HttpRequest, pk: Any) -> HttpResponse:
    """Answer in the tool's place."""
    interrupt = visible_interrupt(request, pk)
    text = canonical.clean_text(request.POST.get("text", "").strip())
    if not text:
        raise InvalidDecision(_("Write the answer that the agent gets in the tool's place."))
    return _decide(request, interrupt, EngineRespond(text))


@posting
def answer(request: HttpRequest, pk: Any) -> HttpResponse:
    """Answer a question, or put it aside."""
    interrupt = visible_interrupt(request, pk)
    given: Answer | Cancel = Cancel()
    if "cancel" not in request.POST:
        other = request.POST.get("other_text", "").strip() or None
        given = Answer(tuple(request.POST.getlist("selected")), other)
    interrupts.answer_question(interrupt=interrupt, answer=given, actor=request.user)
    return done(request, interrupt.conversation)


@posting
def dismiss(request: HttpRequest, pk: Any) -> HttpResponse:
    """Acknowledge a halt."""
    interrupt = visible_interrupt(request, pk)
    interrupts.dismiss_halt(interrupt=interrupt, actor=request.user)
    return done(request, interrupt.conversation)


@posting
def withdraw(request: HttpRequest, pk: Any) -> HttpResponse:
    """Take back what one asked for oneself."""
    interrupt = visible_interrupt(request, pk)
    interrupts.withdraw_request(interrupt=interrupt, actor=request.user)
    return done(request, interrupt.conversation)


def _decide(request: HttpRequest, interrupt: Interrupt, decision: Decision) -> HttpResponse:
    interrupts.decide_interrupt(
        interrupt=interrupt,
        decision=decision,
        actor=request.user,
        digest=request.POST.get("digest", ""),
    )
    return done(request, interrupt.conversation)


def _note(request: HttpRequest) -> str:
    return canonical.clean_text(request.POST.get("note", "").strip())[:LONGEST_NOTE]
