"""The live feed: what a page starts from, what came since, and the poke that says so.

The channel layer carries no data: a poke may be lost, doubled or late, and the rows tell the truth.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from channels.layers import get_channel_layer

from sagents_app import conf
from sagents_app.models import Conversation, DisplayMessage, Event, Interrupt
from sagents_app.services import background

logger = logging.getLogger(__name__)
PAGE = 500


@dataclass(frozen=True, slots=True)
class Batch:
    """Kept events from `start` to `end`, both included; `start` is the cursor + 1."""

    start: int
    end: int
    events: tuple[dict[str, Any], ...]


def group_name(conversation_id: UUID) -> str:
    """Return the channel layer's group of a conversation."""
    return f"sagents.conversation.{conversation_id.hex}"


REVIEW_GROUP = "sagents.reviews"
"""The group of pages that show the review queue."""


def announce(conversation_id: UUID, number: int) -> None:
    """Poke every page of the conversation, without waiting; call it after the commit."""
    poke = {"type": "poke", "conversation": str(conversation_id), "number": number}
    background.submit(_send(group_name(conversation_id), poke))


def announce_reviews() -> None:
    """Poke every page that shows the review queue."""
    background.submit(_send(REVIEW_GROUP, {"type": "poke"}))


async def _send(group: str, message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async with asyncio.timeout(conf.current().publish_timeout_seconds):
            await layer.group_send(group, message)
    except Exception:  # a poke is a hint: pages ask by themselves every few seconds
        logger.warning("could not poke the pages of %s", group, exc_info=True)


def snapshot(conversation: Conversation, *, rows: int = PAGE) -> dict[str, Any]:
    """Return what a page needs to begin: the newest rows, what waits, and the last event's number.

    The number is read first, so that what is committed meanwhile is seen twice rather than never;
    rows are told by their id and a later event of theirs changes nothing.
    """
    conversation = Conversation.objects.get(pk=conversation.pk)
    number = conversation.next_event_number - 1
    newest = list(
        DisplayMessage.objects.filter(conversation=conversation).order_by("-number")[: rows + 1]
    )
    return {
        "conversation": str(conversation.pk),
        "title": conversation.title,
        "status": conversation.status,
        "messages": [row_payload(row) for row in reversed(newest[:rows])],
        "has_more": len(newest) > rows,
        "interrupts": [
            interrupt_payload(row)
            for row in Interrupt.objects.filter(conversation=conversation).pending()
        ],
        "stream": partial(conversation.pk, up_to=number),
        "number": number,
    }


def partial(conversation_id: UUID, *, up_to: int | None = None) -> dict[str, Any] | None:
    """Return the text that has streamed and is no message yet, from the kept delta events."""
    deltas = Event.objects.filter(conversation_id=conversation_id, type="deltas")
    if up_to is not None:
        deltas = deltas.filter(number__lte=up_to)
    payloads = list(deltas.order_by("number").values_list("payload", flat=True))
    if not payloads:
        return None
    stream = payloads[-1]["stream"]
    current = [payload for payload in payloads if payload["stream"] == stream]
    return {
        "stream": stream,
        "text": "".join(payload.get("text", "") for payload in current),
        "thinking": "".join(payload.get("thinking", "") for payload in current),
    }


def events_since(conversation_id: UUID, number: int, *, limit: int = PAGE) -> Batch | None:
    """Return the kept events after `number`; None: they are gone, take a new snapshot.

    Finished deltas are pruned, which is no gap: the message that they became has its own event.
    """
    latest = Conversation.objects.filter(pk=conversation_id).values_list(
        "next_event_number", flat=True
    )
    last = (latest.first() or 1) - 1
    if number > last:
        return None
    found = list(
        Event.objects.filter(
            conversation_id=conversation_id, number__gt=number, number__lte=last
        ).order_by("number")[:limit]
    )
    end = found[-1].number if len(found) == limit else last
    return Batch(number + 1, end, tuple(event_payload(event) for event in found))


def event_payload(event: Event) -> dict[str, Any]:
    """Return an event as it goes over a socket."""
    return {
        "number": event.number,
        "type": event.type,
        "run": str(event.run_id) if event.run_id else None,
        **event.payload,
    }


def row_payload(row: DisplayMessage) -> dict[str, Any]:
    """Return a transcript row as it goes over a socket."""
    return {
        "id": str(row.pk),
        "number": row.number,
        "message_type": row.message_type,
        "content_type": row.content_type,
        "content": row.content,
        "status": row.status,
        "tool_call_id": row.tool_call_id,
        "metadata": row.metadata,
        "created_at": row.created_at.isoformat(),
    }


def interrupt_payload(row: Interrupt) -> dict[str, Any]:
    """Return an interrupt as it goes over a socket: what waits, never who may decide."""
    shown: dict[str, Any] = {
        "id": str(row.pk),
        "kind": row.kind,
        "status": row.status,
        "tool_call_id": row.tool_call_id,
        "tool_name": row.tool_name,
        "display_text": row.display_text,
        "path": row.path,
    }
    if row.kind in (Interrupt.Kind.QUESTION, Interrupt.Kind.HALT):
        shown["payload"] = row.payload
    return shown
