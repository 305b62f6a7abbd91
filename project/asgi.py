"""The ASGI application, HTTP and WebSocket: `uvicorn project.asgi:application`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from sagents_app.web.asgi import application

__all__ = ["application"]
