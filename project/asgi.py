"""The ASGI application, HTTP and WebSocket: `uvicorn project.asgi:application`."""

from sagents_app.web.asgi import get_application

application = get_application("project.settings")
