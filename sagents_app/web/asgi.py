"""The ASGI application of a project that has this app: pages, and the live view over WebSocket.

Usable as it is: `ASGI_APPLICATION = "sagents_app.web.asgi.application"`. `DJANGO_SETTINGS_MODULE`
must be set before it is imported.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from io import StringIO

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application
from django.core.management import CommandError, call_command


def refuse_misconfiguration() -> None:
    """Run Django's system checks and leave on an error, since no ASGI server does that by itself.

    In a thread of its own: servers import the application inside their running event loop, where
    Django refuses any query that a check may make.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            pool.submit(call_command, "check", stdout=StringIO()).result()
        except CommandError as error:
            raise SystemExit(f"The server does not start: {error}") from error


def build_application() -> ProtocolTypeRouter:
    """Return the application, whose WebSocket routes can be imported once the apps are loaded."""
    http = get_asgi_application()
    refuse_misconfiguration()
    from sagents_app.web.routing import websocket_urlpatterns

    return ProtocolTypeRouter(
        {
            "http": http,
            "websocket": AllowedHostsOriginValidator(
                AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
            ),
        }
    )


application = build_application()
