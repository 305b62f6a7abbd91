"""A WebSocket against the application in this process, as a browser opens it."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.test import Client

from sagents_app.presenters.frames import SOCKET_PATH


class Socket:
    """An open socket of a page; `client` is whoever is logged in."""

    def __init__(self, application: Any, client: Client | None = None) -> None:
        self.client = client
        headers = [(b"origin", b"http://testserver"), (b"host", b"testserver")]
        if client is not None:
            cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies['sessionid'].value}"
            headers.append((b"cookie", cookie.encode()))
        scope = {"type": "websocket", "path": f"/{SOCKET_PATH}", "query_string": b""}
        self._ends = ApplicationCommunicator(
            application, {**scope, "headers": headers, "subprotocols": []}
        )

    async def open(self) -> None:
        await self._ends.send_input({"type": "websocket.connect"})
        answer = await self._ends.receive_output(timeout=5)
        assert answer["type"] == "websocket.accept", answer

    async def close(self) -> None:
        await self._ends.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._ends.wait(timeout=5)

    async def send(self, frame: Any = None, *, text: str | None = None, data: bytes | None = None):
        if data is not None:
            await self._ends.send_input({"type": "websocket.receive", "bytes": data})
            return
        text = json.dumps(frame) if text is None else text
        await self._ends.send_input({"type": "websocket.receive", "text": text})

    async def receive(self) -> dict[str, Any]:
        output = await self._ends.receive_output(timeout=8)
        assert output["type"] == "websocket.send", output
        frame: dict[str, Any] = json.loads(output["text"])
        return frame

    async def receive_nothing(self) -> bool:
        return await self._ends.receive_nothing(timeout=0.5)

    async def follow(self, conversation: Any, since: Any = None, **more: Any) -> dict[str, Any]:
        name = str(getattr(conversation, "pk", conversation))
        await self.send({"type": "follow", "conversation": name, "since": since, **more})
        return await self.receive()

    async def is_open(self) -> bool:
        await self.send({"type": "ping"})
        return (await self.receive())["type"] == "pong"

    async def closing_code(self) -> int:
        output = await self._ends.receive_output(timeout=8)
        assert output["type"] == "websocket.close", output
        code: int = output["code"]
        return code
