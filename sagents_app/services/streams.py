"""Replies that are still streaming: deltas as events, until the message that they became is a row.

Delta events of a conversation belong to one reply at a time; whatever ends it prunes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sagents_app.engine.deltas import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from sagents_app.models import Conversation, Event
from sagents_app.services import display, live
from sagents_app.services.ledger import Ledger


def payload_of(deltas: Iterable[Delta], *, stream: str, offset: int) -> dict[str, Any] | None:
    """Return deltas as one event's payload; None: there is nothing to show.

    `offset` is how many characters of text the stream had before.
    """
    text, thinking, calls = "", "", []
    for delta in deltas:
        match delta:
            case TextDelta(text=more):
                text += more
            case ThinkingDelta(text=more):
                thinking += more
            case ToolCallDelta(index=index, name=name, arguments=arguments):
                calls.append({"index": index, "name": name, "arguments": arguments})
            case _:
                pass
    if not (text or thinking or calls):
        return None
    payload: dict[str, Any] = {"stream": stream, "offset": offset, "text": text}
    payload |= {"thinking": thinking} if thinking else {}
    payload |= {"tool_calls": calls} if calls else {}
    return payload


def prune(conversation: Conversation) -> None:
    """Delete the deltas of a reply that has ended."""
    Event.objects.filter(conversation=conversation, type="deltas").delete()


def bury(book: Ledger) -> bool:
    """End the reply of a worker that is gone; its text becomes a row that says so. Whether one was.

    A page that saw the text stream keeps it, in the same words as a page that comes later.
    """
    left = live.partial(book.conversation.pk)
    if left is None:
        return False
    shown = bool(left["text"].strip())
    if shown:
        book.show(display.partial_row(left["text"]))
    book.event("stream_ended", {"stream": left["stream"], "void": not shown})
    prune(book.conversation)
    return True
