"""The app's WebSocket routes."""

from __future__ import annotations

from django.urls import path

from sagents_app.web.consumers import ConversationConsumer

websocket_urlpatterns = [
    path("ws/conversations/<uuid:pk>/", ConversationConsumer.as_asgi()),
]
