"""From what a reviewer posted to one service call, and from its answer to words."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _

from sagents_app.admin import request_page
from sagents_app.forms import DecisionForm
from sagents_app.models import Interrupt
from sagents_app.services import errors, interrupts


def decide(
    request: HttpRequest, interrupt: Interrupt, form: DecisionForm
) -> errors.ServiceError | None:
    """Carry out a valid form and tell the reviewer what happened; return why it did not."""
    name = request_page.named(interrupt)
    try:
        row = interrupts.decide_interrupt(
            interrupt=interrupt,
            decision=form.decision(),
            actor=request.user,
            digest=form.cleaned_data["digest"],
        )
    except errors.InvalidDecision as refusal:
        form.add_refusal(str(refusal))
        return refusal
    except errors.NotAllowed as refusal:
        own = interrupt.conversation.owner_id == request.user.pk
        messages.error(request, str(refusal) if own else absent())
        return refusal
    except errors.ServiceError as refusal:
        told = {"name": name, "why": refusal}
        messages.error(request, _("Nothing was changed: %(name)s. %(why)s") % told)
        return refusal
    told = {"what": row.get_status_display().capitalize(), "name": name}
    messages.success(request, _("%(what)s: %(name)s.") % told)
    return None


def absent() -> str:
    """Return what is said of a request that is missing, and of one that is not the user's."""
    return _("There is no such request, or you may not decide it.")
