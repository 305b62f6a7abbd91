"""The context of each page, in a number of queries that does not grow with what it shows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from sagents_app.engine import canonical
from sagents_app.forms import DecisionForm
from sagents_app.models import Conversation, DisplayMessage, Interrupt
from sagents_app.presenters import state, transcript, values
from sagents_app.presenters.frames import SOCKET_PATH, VERSION
from sagents_app.services import agents, live

A_PAGE = 30
"""Conversations on a page of the list."""
ROWS = 200
"""Transcript rows that a page starts with, and that one press on "earlier" adds."""
MOST_REVIEWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One request in the list of those that wait for the reader."""

    interrupt: Interrupt
    summary: str
    """The arguments in one line."""
    agent: str
    owner: str
    url: str


def list_context(user: Any, *, page: str | None, words: str) -> dict[str, Any]:
    """Return the list of the user's conversations, what waits for their review, and the agents."""
    own = Conversation.objects.owned_by(user)
    if words:
        own = own.filter(title__icontains=words)
    asked = Count(
        "interrupts", filter=Q(interrupts__status=Interrupt.Status.PENDING), distinct=True
    )
    of_owner = Q(interrupts__status=Interrupt.Status.PENDING) & ~Q(
        interrupts__kind__in=Interrupt.REVIEWED
    )
    own = own.annotate(asked=asked, asks_owner=Count("interrupts", filter=of_owner, distinct=True))
    found: Page[Conversation] = Paginator(own.order_by("-updated_at", "-pk"), A_PAGE).get_page(page)
    reviews = Interrupt.objects.pending().reviewable_by(user).select_related("conversation__owner")
    waiting = list(reviews.order_by("created_at", "position")[: MOST_REVIEWS + 1])
    return {
        "page": found,
        "words": words,
        "agents": sorted(agents.registered().values(), key=lambda one: one.label),
        "labels": {name: one.label for name, one in agents.registered().items()},
        "reviews": [_review(row) for row in waiting[:MOST_REVIEWS]],
        "has_more_reviews": len(waiting) > MOST_REVIEWS,
    }


def _review(row: Interrupt) -> Review:
    conversation = row.conversation
    return Review(
        interrupt=row,
        summary=values.summary(canonical.parse(row.arguments)),
        agent=agent_label(conversation.agent_name),
        owner=conversation.owner.get_username(),
        url=f"{conversation.get_absolute_url()}#interrupt-{row.pk}",
    )


def agent_label(name: str) -> str:
    """Return how an agent is called, its name where nobody registers it any more."""
    registration = agents.registered().get(name)
    return registration.label if registration else name


def chat_context(
    conversation: Conversation,
    user: Any,
    *,
    draft: str = "",
    problem: str = "",
    refused: Mapping[str, DecisionForm] | None = None,
) -> dict[str, Any]:
    """Return a conversation's page; `draft`, `problem`, `refused` are what a post brought back."""
    taken = live.snapshot(conversation, rows=ROWS)
    conversation.refresh_from_db()
    is_owner = conversation.owner_id == user.pk
    rows = transcript.present_rows(conversation, taken["messages"], is_owner=is_owner)
    return {
        "conversation": conversation,
        "agent_label": agent_label(conversation.agent_name),
        "is_owner": is_owner,
        "rows": rows,
        "has_earlier": taken["has_more"],
        "stream": taken["stream"],
        "state": state.present_state(conversation, user, refused=refused),
        "client_id": uuid.uuid4().hex,
        "draft": draft,
        "problem": problem,
        "settings": {
            "conversation": str(conversation.pk),
            "number": taken["number"],
            "socket": f"/{SOCKET_PATH}",
            "version": VERSION,
            "language": get_language(),
            "texts": _texts(),
        },
    }


def earlier_context(conversation: Conversation, user: Any, *, before: int) -> dict[str, Any]:
    """Return the rows before a number, for reading on upwards."""
    newest = DisplayMessage.objects.filter(conversation=conversation, number__lt=before)
    found = list(newest.order_by("-number")[: ROWS + 1])
    payloads = [live.row_payload(row) for row in reversed(found[:ROWS])]
    is_owner = conversation.owner_id == user.pk
    return {
        "conversation": conversation,
        "rows": transcript.present_rows(conversation, payloads, is_owner=is_owner),
        "has_earlier": len(found) > ROWS,
    }


def _texts() -> dict[str, str]:
    """Return what scripts say, in the page's language."""
    return {
        "lost": _("Connection lost. Trying again…"),
        "logged_out": _("You were logged out. Log in again to go on; what you typed stays here."),
        "gone": _("This conversation is not there any more."),
        "outdated": _("This page has changed. Load it again to go on."),
        "unreachable": _("That did not reach the server. Nothing is lost; try again."),
        "refused": _("That was not taken. Load the page again, then try once more."),
        "copy": _("Copy"),
        "copied": _("Copied"),
        "said": _("The agent says: %s"),
        "no_worker": _("Waiting for a worker"),
        "working": _("Working"),
    }
