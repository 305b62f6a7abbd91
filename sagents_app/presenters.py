"""Rows to what templates and sockets show: pure shaping, no writes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from sagents_app import markdown
from sagents_app.models import Conversation, DisplayMessage, Interrupt
from sagents_app.services import agents, live

LONG = 1_200
"""Characters beyond which a value is folded."""
PANEL_EVENTS = ("interrupt_opened", "interrupt_decided", "status_changed")
ROW_EVENTS = ("display_message_saved", "display_message_updated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a call; `value` is JSON text, or plain text where it is a string."""

    name: str
    value: str
    is_long: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A transcript row as `messages/<kind>.html` shows it."""

    message: DisplayMessage
    html: SafeString | str = ""
    """Sanitised markdown, for rows that have text."""
    arguments: tuple[Argument, ...] = ()
    text: str = ""
    is_long: bool = False

    @property
    def template(self) -> str:
        """The partial that shows it."""
        return f"sagents_app/messages/{self.message.content_type}.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A pending interrupt as `interrupts/<kind>.html` shows it to one viewer."""

    interrupt: Interrupt
    may_decide: bool
    is_owner: bool
    arguments: tuple[Argument, ...] = ()
    arguments_text: str = "{}"
    """Indented JSON, to be edited."""
    payload: dict[str, Any] = field(default_factory=dict)

    @property
    def template(self) -> str:
        """The partial that shows it."""
        return f"sagents_app/interrupts/{self.interrupt.kind}.html"


def present_row(message: DisplayMessage) -> Row:
    """Return a row for its template."""
    kind, content = message.content_type, message.content
    text = str(content.get("text") or content.get("content") or "")
    if kind == DisplayMessage.Kind.TOOL_CALL:
        return Row(message=message, arguments=present_arguments(content.get("arguments") or {}))
    is_plain = kind in (DisplayMessage.Kind.TOOL_RESULT, DisplayMessage.Kind.ERROR)
    plain = is_plain or message.message_type == DisplayMessage.Author.USER
    html = "" if plain else markdown.render(text)
    return Row(message=message, html=html, text=text, is_long=len(text) > LONG)


def present_arguments(arguments: dict[str, Any]) -> tuple[Argument, ...]:
    """Return a call's arguments in their order."""
    shown = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        shown.append(Argument(name=name, value=text, is_long=len(text) > LONG))
    return tuple(shown)


def present_cards(conversation: Conversation, user: Any) -> list[Card]:
    """Return what waits in a conversation, halts alone where there are any, for one viewer."""
    pending = list(Interrupt.objects.filter(conversation=conversation).pending())
    halts = [row for row in pending if row.kind == Interrupt.Kind.HALT]
    shown = halts or pending
    mine = set(
        Interrupt.objects.reviewable_by(user)
        .filter(pk__in=[row.pk for row in shown])
        .values_list("pk", flat=True)
    )
    return [_card(row, conversation, user, may_decide=row.pk in mine) for row in shown]


def _card(row: Interrupt, conversation: Conversation, user: Any, *, may_decide: bool) -> Card:
    arguments = json.loads(row.arguments)
    return Card(
        interrupt=row,
        may_decide=may_decide,
        is_owner=conversation.owner_id == user.pk,
        arguments=present_arguments(arguments),
        arguments_text=json.dumps(arguments, indent=2, ensure_ascii=False),
        payload=row.payload,
    )


def conversation_context(conversation: Conversation, user: Any) -> dict[str, Any]:
    """Return the context of a conversation's page; the event number is read before the rows."""
    conversation = Conversation.objects.get(pk=conversation.pk)
    number = conversation.next_event_number - 1
    newest = DisplayMessage.objects.filter(conversation=conversation).order_by("-number")
    rows = [present_row(row) for row in reversed(newest[: live.PAGE])]
    registration = agents.registered().get(conversation.agent_name)
    return {
        "conversation": conversation,
        "agent_label": registration.label if registration else conversation.agent_name,
        "number": number,
        "rows": rows,
        "stream": live.partial(conversation.pk, up_to=number),
        **panel_context(conversation, user),
    }


def panel_context(conversation: Conversation, user: Any) -> dict[str, Any]:
    """Return the context of the panel under a transcript: what waits, and what may be done."""
    cards = present_cards(conversation, user)
    return {
        "conversation": conversation,
        "cards": cards,
        "is_owner": conversation.owner_id == user.pk,
        "decidable": [card for card in cards if card.may_decide],
        "batch_size": len(cards),
        "panel_key": "-".join(card.interrupt.pk.hex[:8] for card in cards),
    }


def render_row(message: DisplayMessage) -> str:
    """Return a row's HTML."""
    row = present_row(message)
    return render_to_string("sagents_app/row.html", {"row": row})


def render_panel(conversation: Conversation, user: Any) -> str:
    """Return the panel's HTML for one viewer.

    Its forms carry no token: what comes over a socket is sent by a script, which has the page's.
    """
    context = {**panel_context(conversation, user), "csrf_token": "NOTPROVIDED"}
    return render_to_string("sagents_app/panel.html", context)


def present_events(
    events: Iterable[dict[str, Any]], conversation: Conversation, user: Any
) -> list[dict[str, Any]]:
    """Return events with the HTML that a page puts in place; rows are read anew, once each."""
    shown = [dict(event) for event in events]
    ids = {event["message"]["id"] for event in shown if event["type"] in ROW_EVENTS}
    rows = {str(row.pk): row for row in DisplayMessage.objects.filter(pk__in=ids)}
    for event in shown:
        if event["type"] in ROW_EVENTS and (row := rows.get(event["message"]["id"])) is not None:
            event["html"] = render_row(row)
    if any(event["type"] in PANEL_EVENTS for event in shown):
        conversation.refresh_from_db()
        panel = render_panel(conversation, user)
        last = next(event for event in reversed(shown) if event["type"] in PANEL_EVENTS)
        last["panel"] = panel
    return shown
