"""The app's WebSocket route: one socket a page, which follows as many conversations as it asks."""

from __future__ import annotations

from django.urls import path

from sagents_app.presenters.frames import SOCKET_PATH
from sagents_app.web.consumers import LiveConsumer

websocket_urlpatterns = [
    path(SOCKET_PATH, LiveConsumer.as_asgi()),  # type: ignore[arg-type]  # an ASGI application
]
