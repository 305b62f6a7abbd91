"""What goes over a live socket: a snapshot to start from, then numbered events, each with HTML.

`docs/events.md` describes the events; here they get the rows and the state as a page shows them.
Both are read after the events, so what a frame shows is at least as new as what it tells.
"""

from __future__ import annotations

from typing import Any

from sagents_app.models import Conversation
from sagents_app.presenters import state, transcript
from sagents_app.services import live

SOCKET_PATH = "ws/sagents/live/"
VERSION = 1
"""Of the frames' form; a page that knows another one loads itself anew."""
FLEETING = {"deltas", "tool_call_identified", "stream_ended", "model_call_failed", "todos_updated"}
"""Events that change neither a row nor the state."""


def snapshot_frame(conversation: Conversation, user: Any) -> dict[str, Any]:
    """Return a whole page's worth, and the number of the last event that is in it."""
    taken = live.snapshot(conversation)
    conversation.refresh_from_db()
    is_owner = conversation.owner_id == user.pk
    rows = transcript.present_rows(conversation, taken["messages"], is_owner=is_owner)
    return {
        "type": "snapshot",
        "version": VERSION,
        "conversation": str(conversation.pk),
        "number": taken["number"],
        "rows": [_row_part(row) for row in rows],
        "has_earlier": taken["has_more"],
        "stream": taken["stream"],
        "state": state.state_parts(state.present_state(conversation, user)),
    }


def following_frame(conversation: Conversation, user: Any, number: int) -> dict[str, Any]:
    """Return the answer to a page that brought rows and number with it: the state, once more."""
    shown = state.present_state(conversation, user)
    return {
        "type": "following",
        "version": VERSION,
        "conversation": str(conversation.pk),
        "number": number,
        "state": state.state_parts(shown),
    }


def events_frame(
    conversation: Conversation, user: Any, batch: live.Batch, *, with_state: bool = False
) -> dict[str, Any]:
    """Return the events from `from` to `to`, both included, with what they changed."""
    is_owner = conversation.owner_id == user.pk
    frame = {
        "type": "events",
        "version": VERSION,
        "conversation": str(conversation.pk),
        "from": batch.start,
        "to": batch.end,
        "events": list(batch.events),
    }
    rows = transcript.changed_rows(conversation, batch.events, is_owner=is_owner)
    if rows:
        frame["rows"] = [_row_part(row) for row in rows]
    if with_state or any(event["type"] not in FLEETING for event in batch.events):
        conversation.refresh_from_db()
        frame["state"] = state.state_parts(state.present_state(conversation, user))
    return frame


def state_frame(conversation: Conversation, user: Any) -> dict[str, Any]:
    """Return the state alone, for what changes with time and without an event."""
    return {
        "type": "state",
        "version": VERSION,
        "conversation": str(conversation.pk),
        "state": state.state_parts(state.present_state(conversation, user)),
    }


def _row_part(row: transcript.Row) -> dict[str, Any]:
    return {"id": row.id, "number": row.number, "html": transcript.render_row(row)}
