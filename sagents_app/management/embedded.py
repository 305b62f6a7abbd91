"""The two halves of the embedded mode, in one process: an ASGI server and a Celery worker.

The server owns the main thread, and with it the signals; the worker is a thread that takes its
tasks from Celery's in-memory broker. Nothing is shared between them but the database, the broker
and the channel layer, as between the processes of a deployment.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from asgiref.typing import ASGIApplication
from celery import Celery, signals
from celery.app import app_or_default
from celery.worker import WorkController
from channels import DEFAULT_CHANNEL_LAYER
from channels.layers import channel_layers, get_channel_layer
from django.conf import settings
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.utils.module_loading import import_string


def find_asgi_application() -> ASGIApplication:
    """Return the project's ASGI application, or the app's; with DEBUG it serves static files.

    Raises:
        SystemExit: the system checks found an error.

    """
    path = getattr(settings, "ASGI_APPLICATION", None)
    application: Any = (
        import_string(path) if path else import_string("sagents_app.web.asgi.get_application")()
    )
    return ASGIStaticFilesHandler(application) if settings.DEBUG else application  # type: ignore[return-value]


def find_celery_app() -> Celery:
    """Return the project's Celery application, or one made of the CELERY settings.

    Without a broker setting it gets the in-memory broker.
    """
    app: Celery = app_or_default()
    # Celery's name for the application that it makes up where the project has none.
    if app.main == "default":
        app = Celery("sagents")
        app.config_from_object("django.conf:settings", namespace="CELERY")
        if not getattr(settings, "CELERY_BROKER_URL", None):
            app.conf.update(
                broker_url="memory://localhost",
                broker_transport_options={"polling_interval": 0.02},
            )
        app.autodiscover_tasks()
    # The pool's threads look the application up anew and would otherwise find an empty one.
    app.set_default()
    return app


def ensure_channel_layer() -> None:
    """Give a project that configures no channel layer the one for a single process."""
    if get_channel_layer() is None:
        layer_class = import_string("sagents_app.web.memory_layer.ThreadSafeInMemoryChannelLayer")
        channel_layers.set(DEFAULT_CHANNEL_LAYER, layer_class())


class Server(uvicorn.Server):
    """A server that says when it listens and when it is about to stop."""

    def __init__(
        self,
        application: ASGIApplication,
        *,
        on_listening: Callable[[], None],
        on_stopping: Callable[[], None],
    ) -> None:
        super().__init__(
            uvicorn.Config(
                application,
                lifespan="off",
                log_level="warning",
                timeout_graceful_shutdown=2,
            )
        )
        self._on_listening = on_listening
        self._on_stopping = on_stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets=sockets)
        self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that the end has come, then close the connections."""
        self._on_stopping()
        await super().shutdown(sockets=sockets)


class Worker:
    """A Celery worker in a thread of this process."""

    def __init__(self, app: Celery, *, concurrency: int) -> None:
        self._controller = _Controller(
            app=app,
            pool="threads",
            concurrency=concurrency,
            loglevel="WARNING",
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        self._thread = threading.Thread(
            target=self._controller.start, name="embedded-worker", daemon=True
        )
        self._stopper = threading.Thread(
            target=self._controller.stop, name="embedded-worker-stop", daemon=True
        )

    def start(self) -> None:
        """Start taking tasks, in the background."""
        self._thread.start()

    def stop(self, *, time_limit: float) -> bool:
        """Take no more tasks and wait for those under way, for at most that many seconds.

        Returns whether all of them ended.
        """
        signals.worker_shutting_down.send(sender=self._controller.hostname, sig=None, how="Warm")
        self._stopper.start()
        self._stopper.join(time_limit)
        return not self._stopper.is_alive()


class _Controller(WorkController):
    """Send the signal that the `celery worker` command sends and the bare controller does not."""

    hostname: str

    def on_consumer_ready(self, consumer: Any) -> None:
        signals.worker_ready.send(sender=consumer)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address.

    Raises:
        OSError: it is taken, or not of this machine.

    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound
