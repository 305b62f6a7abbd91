"""The live socket: a page asks for conversations, and gets what happens in them.

Frames of a page: `follow` (conversation, since: the last event's number or null, language),
`unfollow` (conversation), `watch_reviews`, `ping`. Frames to it: `following`, `snapshot`, `events`,
`state`, `reviews_changed`, `pong`, and `error`, after which the socket stays open. What people do
are requests of their own.
Code 4401 closes the socket of a user who was logged out.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.utils import translation
from django.utils.translation import gettext as _

from sagents_app.services import live
from sagents_app.web.following import Following, LoggedOut, NotVisible, user_of

logger = logging.getLogger(__name__)
LONGEST_FRAME = 4_096  # characters
MOST_FOLLOWED = 50
LOGGED_OUT = 4401


class LiveConsumer(AsyncWebsocketConsumer):
    """One page's socket."""

    async def connect(self) -> None:
        """Accept, and close with a code where nobody is logged in."""
        self.session_key = getattr(self.scope.get("session"), "session_key", None)
        self.followed: dict[UUID, tuple[Following, asyncio.Task[None]]] = {}
        await self.accept()
        try:
            await database_sync_to_async(user_of)(self.session_key)
        except LoggedOut:
            await self.close(LOGGED_OUT)

    async def disconnect(self, code: int) -> None:
        """Stop following."""
        await self.channel_layer.group_discard(live.REVIEW_GROUP, self.channel_name)
        for conversation_id in list(self.followed):
            await self._unfollow(conversation_id)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Carry out a frame, or say what is wrong with it."""
        if text_data is None or len(text_data) > LONGEST_FRAME:
            problem = _("A frame is a JSON text of at most %s characters.") % LONGEST_FRAME
            await self._error("bad_frame", problem)
            return
        try:
            frame = json.loads(text_data)
        except (ValueError, RecursionError):
            await self._error("bad_frame", _("This frame is not JSON."))
            return
        match frame:
            case {"type": "ping"}:
                await self._send({"type": "pong"})
            case {"type": "follow", "conversation": str(name)}:
                await self._follow(name, frame)
            case {"type": "unfollow", "conversation": str(name)}:
                if (conversation_id := _uuid(name)) is not None:
                    await self._unfollow(conversation_id)
            case {"type": "watch_reviews"}:
                await self.channel_layer.group_add(live.REVIEW_GROUP, self.channel_name)
            case _:
                known = _("Frames are: follow, unfollow, watch_reviews, ping.")
                await self._error("unknown_frame", known)

    async def poke(self, message: dict[str, Any]) -> None:
        """Have a conversation's events looked at."""
        if "conversation" not in message:
            await self._tell_of_reviews()
        elif (followed := self.followed.get(UUID(message["conversation"]))) is not None:
            followed[0].dirty.set()

    async def _tell_of_reviews(self) -> None:
        """Say that the review queue has changed, and nothing of what is in it."""
        try:
            await database_sync_to_async(user_of)(self.session_key)
        except LoggedOut:
            await self.close(LOGGED_OUT)
        else:
            await self._send({"type": "reviews_changed"})

    async def _follow(self, name: str, frame: dict[str, Any]) -> None:
        conversation_id = _uuid(name)
        if conversation_id is None:
            await self._not_found(name)
            return
        await self._unfollow(conversation_id)
        if len(self.followed) >= MOST_FOLLOWED:
            await self._error("too_many", _("This socket follows enough conversations."), name)
            return
        following = Following(
            session_key=self.session_key,
            conversation_id=conversation_id,
            cursor=_number(frame.get("since")),
            language=_language(frame.get("language")),
            send=self._send,
        )
        await self.channel_layer.group_add(live.group_name(conversation_id), self.channel_name)
        task = asyncio.create_task(self._run(following))
        self.followed[conversation_id] = (following, task)

    async def _run(self, following: Following) -> None:
        try:
            await following.begin()
            await following.go_on()
        except LoggedOut:
            await self.close(LOGGED_OUT)
        except NotVisible:
            await self._not_found(str(following.conversation_id))
        except Exception:  # the page is gone, or gets everything anew when it returns
            logger.info("%s is not followed any more", following.conversation_id, exc_info=True)
            await self.close(1011)

    async def _unfollow(self, conversation_id: UUID) -> None:
        followed = self.followed.pop(conversation_id, None)
        if followed is None:
            return
        followed[1].cancel()
        await asyncio.gather(followed[1], return_exceptions=True)
        await self.channel_layer.group_discard(live.group_name(conversation_id), self.channel_name)

    async def _not_found(self, name: str) -> None:
        await self._error("not_found", _("There is no such conversation."), name)

    async def _error(self, code: str, text: str, conversation: str | None = None) -> None:
        told = {"code": code, "text": text}
        await self._send({"type": "error", "conversation": conversation, "error": told})

    async def _send(self, frame: dict[str, Any]) -> None:
        text = json.dumps(frame)
        try:
            await self.send(text)
        except Exception:  # servers name a page that is gone differently
            logger.debug("a page is gone before it was told", exc_info=True)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _number(value: object) -> int | None:
    valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return value if valid and isinstance(value, int) else None


def _language(value: object) -> str:
    if isinstance(value, str) and len(value) < 20:
        try:
            return translation.get_supported_language_variant(value)
        except LookupError:
            pass
    return translation.get_language() or "en"
