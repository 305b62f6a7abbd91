"""The ASGI application of a project that has this app: pages, and the live view over WebSocket.

from sagents_app.web.asgi import get_application
application = get_application("shop.settings")
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.core.management import CommandError, call_command
from django.urls import re_path


def get_application(settings_module: str = "") -> ProtocolTypeRouter:
    """Load the apps, run the system checks and return the application.

    `settings_module` is what DJANGO_SETTINGS_MODULE is set to where it is not set yet.

    Raises:
        SystemExit: a check found an error, for instance in an agent's approval gates.

    """
    if settings_module:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_module)
    http = get_asgi_application()
    _refuse_misconfiguration()
    # The routes import models, which they can once the apps are loaded.
    from sagents_app.web.routing import websocket_urlpatterns

    # A router without a match raises, and the server logs a traceback for each stray request.
    patterns: list[Any] = [*websocket_urlpatterns, re_path("", _refuse_socket)]  # type: ignore[arg-type]  # ASGI
    routes = AuthMiddlewareStack(URLRouter(patterns))
    return ProtocolTypeRouter({"http": http, "websocket": AllowedHostsOriginValidator(routes)})


async def _refuse_socket(scope: Any, receive: Any, send: Any) -> None:
    """Refuse a WebSocket of a path that nobody serves."""
    await send({"type": "websocket.close"})


def _refuse_misconfiguration() -> None:
    """Run Django's system checks and leave on an error, since no ASGI server does that by itself.

    In a thread of its own: servers import the application inside their running event loop, where
    Django refuses any query that a check may make.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            pool.submit(call_command, "check", stdout=StringIO()).result()
        except CommandError as error:
            raise SystemExit(f"The server does not start: {error}") from error
