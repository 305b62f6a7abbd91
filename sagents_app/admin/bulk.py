"""Several requests decided at once: each by its key and the digest that its line was shown with."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.admin import helpers
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from sagents_app import engine
from sagents_app.admin import request_page, words
from sagents_app.forms import LONGEST_NOTE
from sagents_app.models import Interrupt
from sagents_app.services import errors, interrupts

MOST_TOLD = 20
"""Lines of a kind that a bulk action leaves; the rest is one line."""


class BulkForm(helpers.ActionForm):
    """What to do with the selected requests, and the note that each of them gets."""

    note = forms.CharField(
        label=gettext_lazy("Note:"), required=False, max_length=LONGEST_NOTE, strip=True
    )


def decide_selected(
    request: HttpRequest, visible: QuerySet[Interrupt], decision: engine.Decision
) -> None:
    """Decide each selected row that the user may see, and tell of each what happened."""
    if request.POST.get("select_across") == "1":
        messages.error(request, _("Select the requests that you have read, page by page."))
        return
    keys = set(_keys(request))
    rows = list(visible.filter(pk__in=keys).order_by("created_at", "position"))
    done, refused = [], []
    for row in rows:
        name = request_page.named(row)
        digest = request.POST.get(f"digest-{row.pk}", "")
        try:
            interrupts.decide_interrupt(
                interrupt=row, decision=decision, actor=request.user, digest=digest
            )
        except errors.ServiceError as refusal:
            refused.append(_("Not decided: %(name)s. %(why)s") % {"name": name, "why": refusal})
        else:
            done.append(
                _("%(what)s: %(name)s.") % {"what": words.decision(decision.type), "name": name}
            )
    if absent := len(keys) - len(rows):
        refused.append(
            ngettext(
                "%(number)s request is not there any more, or is not yours to decide.",
                "%(number)s requests are not there any more, or are not yours to decide.",
                absent,
            )
            % {"number": absent}
        )
    _tell(request, messages.SUCCESS, done)
    _tell(request, messages.ERROR, refused)


def _keys(request: HttpRequest) -> Iterator[UUID]:
    for text in request.POST.getlist(helpers.ACTION_CHECKBOX_NAME):
        try:
            yield UUID(text)
        except ValueError:
            continue


def _tell(request: HttpRequest, level: int, lines: list[str]) -> None:
    for line in lines[:MOST_TOLD]:
        messages.add_message(request, level, line)
    if len(lines) > MOST_TOLD:
        number = len(lines) - MOST_TOLD
        messages.add_message(request, level, _("And %(number)s more like it.") % {"number": number})
