"""One conversation that a socket follows: a cursor over its events, woken by pokes.

The group is joined before the first read, so that no event falls between. A look every few seconds
heals a lost poke, and asks anew whether the user may still read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib import auth
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from django.utils import translation

from sagents_app.models import Conversation
from sagents_app.presenters import frames
from sagents_app.services import live

logger = logging.getLogger(__name__)
POLL_SECONDS = 5.0
"""Longest time without a look, and for which what was asked of the session is believed."""

Frame = dict[str, Any]


class LoggedOut(Exception):
    """The session has ended, or its user may not log in any more."""


class NotVisible(Exception):
    """The conversation is missing, or not for this user to read."""


def user_of(session_key: str | None) -> Any:
    """Return the session's user as the database has them now.

    Raises:
        LoggedOut: there is none any more.
    """
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = auth.get_user(request) if session_key else None
    if user is None or not user.is_authenticated or not user.is_active:
        raise LoggedOut
    return user


@dataclass(eq=False)
class Following:
    """A page's view of one conversation."""

    session_key: str | None
    conversation_id: UUID
    cursor: int | None
    """The number of the last event that the page has; None: it wants a snapshot."""
    language: str
    send: Callable[[Frame], Awaitable[None]]
    dirty: asyncio.Event = field(default_factory=asyncio.Event)
    _user: Any = None
    _asked_at: float = float("-inf")
    _phase: str = ""

    async def begin(self) -> None:
        """Send where the page stands: what it brought, or a snapshot.

        Raises:
            LoggedOut, NotVisible: there is nothing to follow.
        """
        await self.send(await self._in_thread(self._first_frame))
        self.dirty.set()

    async def go_on(self) -> None:
        """Send what happens, until cancelled.

        Raises:
            LoggedOut, NotVisible: the user may not read any more.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.dirty.wait(), POLL_SECONDS)
            self.dirty.clear()
            try:
                while (frame := await self._in_thread(self._next_frame)) is not None:
                    await self.send(frame)
            except (OperationalError, InterfaceError):
                # The page keeps what it has; it is told once the database answers again.
                logger.warning("the events of %s cannot be read", self.conversation_id)

    async def _in_thread(self, read: Callable[[], Frame | None]) -> Any:
        return await database_sync_to_async(self._in_language)(read)

    def _in_language(self, read: Callable[[], Frame | None]) -> Frame | None:
        with translation.override(self.language):
            frame = read()
        if frame is not None and "state" in frame:
            self._phase = frame["state"]["phase"]
        return frame

    def _first_frame(self) -> Frame:
        conversation = self._look()
        last = conversation.next_event_number - 1
        if self.cursor is None or self.cursor > last:
            return self._snapshot(conversation)
        return frames.following_frame(conversation, self._user, self.cursor)

    def _next_frame(self) -> Frame | None:
        conversation = self._look()
        batch = live.events_since(conversation.pk, self.cursor or 0)
        if batch is None:
            return self._snapshot(conversation)
        waits_for_worker = self._phase in ("starting", "no_worker")
        if batch.end >= batch.start:
            self.cursor = batch.end
            return frames.events_frame(conversation, self._user, batch, with_state=waits_for_worker)
        if not waits_for_worker:
            return None
        known, frame = self._phase, frames.state_frame(conversation, self._user)
        return frame if frame["state"]["phase"] != known else None

    def _snapshot(self, conversation: Conversation) -> Frame:
        frame = frames.snapshot_frame(conversation, self._user)
        self.cursor = frame["number"]
        return frame

    def _look(self) -> Conversation:
        now = time.monotonic()
        if now - self._asked_at >= POLL_SECONDS:
            self._user, self._asked_at = user_of(self.session_key), now
        found = Conversation.objects.visible_to(self._user).filter(pk=self.conversation_id).first()
        if found is None:
            raise NotVisible
        return found
