"""The live socket of a conversation's page: a cursor over the event log, woken by pokes.

It joins the group before it reads, so no event falls between; a poll every few seconds heals a lost
poke, and asks anew whether the user may still look. What people do are requests of their own.
"""

from __future__ import annotations

import asyncio
import json
import logging
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user_model

from sagents_app import presenters
from sagents_app.models import Conversation
from sagents_app.services import live

logger = logging.getLogger(__name__)
POLL_SECONDS = 5.0
LONGEST_FRAME = 4_096
LOGGED_OUT, NOT_FOUND = 4401, 4404
VERSION = 1


class Refused(Exception):
    """The socket closes; `code` says why."""

    def __init__(self, code: int) -> None:
        super().__init__(str(code))
        self.code = code


class ConversationConsumer(AsyncWebsocketConsumer):
    """One page's socket. Frames: `events` (with `from` and `to`), `snapshot`, `error`, `pong`."""

    async def connect(self) -> None:
        """Join, accept, and begin to send what came after the page's number."""
        self.conversation_id: UUID = self.scope["url_route"]["kwargs"]["pk"]
        self.group = live.group_name(self.conversation_id)
        self.cursor = _since(self.scope.get("query_string", b""))
        self.dirty = asyncio.Event()
        self.dirty.set()
        self.pump_task: asyncio.Task[None] | None = None
        try:
            await self._allowed()
        except Refused as refused:
            await self.accept()
            await self.close(refused.code)
            return
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.accept()
        self.pump_task = asyncio.create_task(self._pump())

    async def disconnect(self, code: int) -> None:
        """Leave the group and stop sending."""
        if self.pump_task is not None:
            self.pump_task.cancel()
            await asyncio.gather(self.pump_task, return_exceptions=True)
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer a frame of the page's; whatever it is, the socket stays open."""
        if text_data is None or len(text_data) > LONGEST_FRAME:
            await self._error("A frame is a JSON text of at most 4096 characters.")
            return
        try:
            frame = json.loads(text_data)
        except (ValueError, RecursionError):
            await self._error("This frame is not JSON.")
            return
        if not isinstance(frame, dict) or frame.get("type") != "ping":
            await self._error("Unknown frame. Known is: ping.")
            return
        await self._send({"type": "pong"})

    async def poke(self, message: dict[str, Any]) -> None:
        """Look for new events."""
        self.dirty.set()

    async def _pump(self) -> None:
        try:
            while True:
                try:
                    await asyncio.wait_for(self.dirty.wait(), POLL_SECONDS)
                except TimeoutError:
                    await self._allowed()
                self.dirty.clear()
                while (batch := await self._read()) is not None:
                    await self._send(batch)
        except Refused as refused:
            await self.close(refused.code)
        except asyncio.CancelledError:
            raise
        except Exception:  # a client that is gone, or a database that is; the page reconnects
            logger.info("the socket of %s ends", self.conversation_id, exc_info=True)
            await self.close(1011)

    @database_sync_to_async
    def _read(self) -> dict[str, Any] | None:
        conversation, user = self._look()
        batch = live.events_since(conversation.pk, self.cursor)
        if batch is None:
            self.cursor = conversation.next_event_number - 1
            return {"type": "snapshot", "version": VERSION, "number": self.cursor}
        if batch.end < batch.start:
            return None
        self.cursor = batch.end
        events = presenters.present_events(batch.events, conversation, user)
        return {
            "type": "events",
            "version": VERSION,
            "conversation": str(conversation.pk),
            "from": batch.start,
            "to": batch.end,
            "events": events,
        }

    @database_sync_to_async
    def _allowed(self) -> None:
        self._look()

    def _look(self) -> tuple[Conversation, Any]:
        """Return conversation and user as the database has them now, or refuse."""
        session = self.scope.get("session")
        key = getattr(session, "session_key", None)
        store = import_module(settings.SESSION_ENGINE).SessionStore(session_key=key)
        user_id = store.get(SESSION_KEY) if key else None
        user = get_user_model()._default_manager.filter(pk=user_id, is_active=True).first()
        if user is None:
            raise Refused(LOGGED_OUT)
        conversation = Conversation.objects.visible_to(user).filter(pk=self.conversation_id).first()
        if conversation is None:
            raise Refused(NOT_FOUND)
        return conversation, user

    async def _error(self, text: str) -> None:
        await self._send({"type": "error", "error": text})

    async def _send(self, frame: dict[str, Any]) -> None:
        await self.send(json.dumps(frame))


def _since(query: bytes) -> int:
    value = parse_qs(query.decode("latin-1")).get("since", ["0"])[0]
    return int(value) if value.isascii() and value.isdigit() and len(value) < 16 else 0
