"""What people say to something that waits: a noun each, one service call each."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from sagents_app.engine import Answer, Cancel
from sagents_app.forms import DecisionForm
from sagents_app.models import Interrupt
from sagents_app.presenters.requests import decision_form
from sagents_app.services import errors, interrupts
from sagents_app.web.access import problem, wants_json
from sagents_app.web.answers import on_interrupt, page_again, status_of


@on_interrupt
def decide(request: HttpRequest, interrupt: Interrupt) -> HttpResponse | None:
    """Approve, edit, reject or answer in the tool's place; the buttons' `decision` says which."""
    form = decision_form(interrupt, request.POST)
    if not form.is_valid():
        return _form_again(request, interrupt, form, status=422)
    try:
        interrupts.decide_interrupt(
            interrupt=interrupt,
            decision=form.decision(),
            actor=request.user,
            digest=form.cleaned_data["digest"],
        )
    except errors.InvalidDecision as refusal:
        form.add_refusal(str(refusal))
        return _form_again(request, interrupt, form, status=status_of(refusal))
    return None


@on_interrupt
def answer(request: HttpRequest, interrupt: Interrupt) -> None:
    """Answer a question, or put it aside."""
    given: Answer | Cancel = Cancel()
    if "cancel" not in request.POST:
        other = request.POST.get("other_text", "").strip() or None
        given = Answer(tuple(request.POST.getlist("selected")), other)
    interrupts.answer_question(interrupt=interrupt, answer=given, actor=request.user)


@on_interrupt
def dismiss(request: HttpRequest, interrupt: Interrupt) -> None:
    """Acknowledge a halt."""
    interrupts.dismiss_halt(interrupt=interrupt, actor=request.user)


@on_interrupt
def withdraw(request: HttpRequest, interrupt: Interrupt) -> None:
    """Take back what one asked for oneself."""
    interrupts.withdraw_request(interrupt=interrupt, actor=request.user)


def _form_again(
    request: HttpRequest, interrupt: Interrupt, form: DecisionForm, *, status: int
) -> HttpResponse:
    """Answer a decision that does not fit; nothing was changed, and nothing typed is lost."""
    if not wants_json(request):
        return page_again(
            request, interrupt.conversation, status=status, refused={str(interrupt.pk): form}
        )
    told = [str(one) for errors_of_field in form.errors.values() for one in errors_of_field]
    text = " ".join(told) or _("This decision does not fit the request.")
    return problem("invalid_decision", text, status=status)
