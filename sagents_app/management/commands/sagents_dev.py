"""`manage.py sagents_dev`: the whole product in one process, with nothing to install beside it."""

from __future__ import annotations

import os
import signal
import socket
from argparse import ArgumentParser
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sagents_app.management import embedded
from sagents_app.services import runs

STOP_TIME_LIMIT = 10.0
"""Seconds that runs under way get to reach the end of a step."""


class Command(BaseCommand):
    """Serve the pages and, with the in-memory broker, work on the runs as well."""

    help = (
        "Serve the pages and, with the in-memory broker, work on the runs in the same process. "
        "Ctrl-C lets runs under way reach the end of their step; the next start goes on with them."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare where to listen and how much to do at once."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
        parser.add_argument("--port", type=int, default=8000, help="0 for any free one")
        parser.add_argument("--concurrency", type=int, default=8, help="runs worked on at once")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until Ctrl-C or SIGTERM."""
        try:
            listening = embedded.listen(options["host"], options["port"])
        except OSError as error:
            raise CommandError(
                f"Cannot listen on {options['host']} port {options['port']}: {error.strerror}. "
                "Another port: --port 8001, or make run PORT=8001"
            ) from error
        self.check_migrations()
        embedded.ensure_channel_layer()
        celery_app = embedded.find_celery_app()
        server = embedded.Server(
            embedded.find_asgi_application(),
            on_listening=lambda: self.announce(listening),
            on_stopping=runs.request_drain,
        )
        worker = None
        if str(celery_app.conf.broker_url).startswith("memory:"):
            worker = embedded.Worker(celery_app, concurrency=options["concurrency"])
            worker.start()
        else:
            self.stdout.write("Runs are worked on by others: celery --app project worker")
        # The server ends on SIGINT and SIGTERM by itself and raises the signal again afterwards;
        # SIGTERM's default would then end the process before its worker.
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt:
            self.stdout.write("")
        finally:
            self.finish(worker)

    def announce(self, listening: socket.socket) -> None:
        """Print the one URL."""
        host, port = listening.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        self.stdout.write(f"Ready: http://{host}:{port}/  (Ctrl-C stops it)")
        self.stdout.flush()

    def finish(self, worker: embedded.Worker | None) -> None:
        """Stop the worker; leave without it if a run does not come to the end of its step."""
        if worker is not None and not worker.stop(time_limit=STOP_TIME_LIMIT):
            self.stdout.write(
                f"Stopped. A run was not at the end of its step within {STOP_TIME_LIMIT:g} s; "
                "the next start takes it up from its last finished step."
            )
            self.stdout.flush()
            # The interpreter would otherwise wait for the thread of that run.
            os._exit(0)
        self.stdout.write("Stopped.")


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
