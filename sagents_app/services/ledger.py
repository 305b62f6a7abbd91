"""A conversation's ledger: its row locked for one short transaction, through which all is written.

Numbers of events and transcript rows come from that row, so they are without holes and become
visible in order. A holder of the lease passes its fencing token, which is checked under the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from sagents_app.models import Conversation, DisplayMessage, Event
from sagents_app.services import live
from sagents_app.services.errors import LeaseLost

CallRows = dict[str, DisplayMessage]
"""Transcript rows of tool calls, by call id."""
# SQLite has one writer: waiting here is fair and quick, waiting inside SQLite is neither.
_writer = threading.RLock()


class Ledger:
    """What one transaction writes; rows and events are inserted together at its end."""

    def __init__(
        self, conversation: Conversation, run_id: UUID | None = None, calls: CallRows | None = None
    ) -> None:
        self.conversation = conversation
        self.run_id = run_id
        self._calls = {} if calls is None else calls
        self._events: list[Event] = []
        self._rows: list[DisplayMessage] = []

    def event(self, type: str, payload: dict[str, Any]) -> None:  # noqa: A002  # the field's name
        """Append an event."""
        number = self.conversation.next_event_number
        self.conversation.next_event_number = number + 1
        self._events.append(
            Event(
                conversation_id=self.conversation.pk,
                number=number,
                type=type,
                payload=payload,
                run_id=self.run_id,
            )
        )

    def show(self, row: DisplayMessage) -> DisplayMessage:
        """Append a row to the transcript and tell of it."""
        row.conversation = self.conversation
        row.number = self.conversation.next_display_number
        row.run_id = row.run_id or self.run_id
        # Set here and not by the database, since the event shows it too.
        row.created_at = timezone.now()
        self.conversation.next_display_number += 1
        self._rows.append(row)
        if row.content_type == DisplayMessage.Kind.TOOL_CALL:
            self._calls[row.tool_call_id] = row
        self.event("display_message_saved", {"message": live.row_payload(row)})
        return row

    def update_row(self, row: DisplayMessage, **changes: Any) -> None:
        """Change a row's progress or mark and tell of it."""
        for name, value in changes.items():
            setattr(row, name, value)
        if row not in self._rows:
            row.save(update_fields=list(changes))
        self.event("display_message_updated", {"message": live.row_payload(row)})

    def set_status(self, status: str, **payload: Any) -> None:
        """Change the conversation's status and tell of it."""
        self.conversation.status = status
        self.event("status_changed", {"status": status, **payload})

    def row_of_call(self, call_id: str) -> DisplayMessage | None:
        """Return the transcript row of a tool call, which this ledger may have appended itself."""
        return self.rows_of_calls((call_id,)).get(call_id)

    def rows_of_calls(self, call_ids: Iterable[str]) -> dict[str, DisplayMessage]:
        """Return the transcript rows of tool calls, by call id."""
        wanted = set(call_ids)
        if missing := wanted - self._calls.keys():
            stored = DisplayMessage.objects.filter(
                conversation=self.conversation,
                content_type=DisplayMessage.Kind.TOOL_CALL,
                tool_call_id__in=missing,
            )
            self._calls.update((row.tool_call_id, row) for row in stored)
        return {call_id: self._calls[call_id] for call_id in wanted & self._calls.keys()}

    def _write(self) -> None:
        if self._rows:
            DisplayMessage.objects.bulk_create(self._rows)
        if self._events:
            Event.objects.bulk_create(self._events)
        self.conversation.updated_at = timezone.now()
        self.conversation.save(
            update_fields=(
                *("status", "title", "lease_token", "lease_until", "automatic_runs"),
                *("next_event_number", "next_display_number", "updated_at"),
            )
        )
        if self._events:
            last, pk = self._events[-1].number, self.conversation.pk
            transaction.on_commit(lambda: live.announce(pk, last))


@contextmanager
def write(
    conversation_id: UUID,
    *,
    token: UUID | None = None,
    run_id: UUID | None = None,
    calls: CallRows | None = None,
) -> Iterator[Ledger]:
    """Open the conversation's ledger for one transaction.

    `calls` are rows of tool calls that the caller keeps over several transactions; it grows.

    Raises:
        Conversation.DoesNotExist: it was deleted.
        LeaseLost: `token` was given and is not the lease's any more; nothing is written.
    """
    with writing():
        conversation = Conversation.objects.select_for_update().get(pk=conversation_id)
        if token is not None and conversation.lease_token != token:
            raise LeaseLost(f"the lease of conversation {conversation_id} is somebody else's")
        book = Ledger(conversation, run_id, calls)
        yield book
        book._write()


@contextmanager
def writing() -> Iterator[None]:
    """Open a transaction, one at a time in this process where the database is SQLite.

    Inside a caller's own transaction the database serialises already, and waiting for a thread that
    waits for that transaction would never end.
    """
    alone = connection.vendor == "sqlite" and not connection.in_atomic_block
    with _writer if alone else nullcontext(), transaction.atomic():
        yield
