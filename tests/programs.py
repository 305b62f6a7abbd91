"""Real programs that some tests need: which are there, and how one is started for a test alone.

Nothing here belongs to one test. A test that carries the marker of a service runs where the service
is reachable and is skipped, with one line that says why, where it is not.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import redis
from psycopg import sql

ROOT = Path(__file__).resolve().parent.parent
AIMOCK = ROOT / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def postgres_server() -> str:
    """Return the URL of a database through which the tests make their own."""
    return os.environ.get(
        "SAGENTS_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres"
    )


def redis_server() -> str:
    """Return the URL of a running Redis, for machines without the redis-server program."""
    return os.environ.get("SAGENTS_TEST_REDIS_URL", "redis://127.0.0.1:6379/15")


@cache
def redis_program() -> str | None:
    return shutil.which("redis-server")


@cache
def chromium_program() -> str | None:
    named = os.environ.get("SAGENTS_TEST_CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome"]
    return next(filter(None, map(shutil.which, names)), None)


@cache
def node_program() -> str | None:
    return shutil.which("node")


def _postgres() -> str | None:
    url = postgres_server()
    try:
        psycopg.connect(url, connect_timeout=3).close()
    except psycopg.OperationalError as error:
        return f"no PostgreSQL at {_without_password(url)}: {str(error).splitlines()[0]}"
    return None


def _redis() -> str | None:
    if redis_program():
        return None
    url = redis_server()
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=3) as client:
            client.ping()
    except redis.RedisError as error:
        return f"no redis-server program and no Redis at {_without_password(url)}: {error}"
    return None


def _browser() -> str | None:
    return None if chromium_program() else "no Chromium (SAGENTS_TEST_CHROMIUM names one)"


def _node() -> str | None:
    node = node_program()
    if not node:
        return "no Node.js"
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < 20:
        return f"Node.js is {version}; the npm parts need 20"
    return None if AIMOCK.exists() else "the npm parts are not installed (npm ci)"


PROBES: dict[str, Callable[[], str | None]] = {
    "postgres": _postgres,
    "redis": _redis,
    "browser": _browser,
    "node": _node,
}


@cache
def missing(service: str) -> str | None:
    """Return why the service cannot be used, in one line, or None; asked once a run."""
    return PROBES[service]()


@contextmanager
def new_postgres_database() -> Iterator[str]:
    """Make an empty database, give its URL, and drop it with whoever is still connected."""
    server = postgres_server()
    name = f"sagents_{uuid.uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            connection.execute(drop)


@contextmanager
def new_redis() -> Iterator[str]:
    """Start an empty Redis and give its URL; without the program, empty the running one."""
    program = redis_program()
    if program is None:
        url = redis_server()
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        yield url
        return
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", ""]
    with subprocess.Popen([*command, "--appendonly", "no"], stdout=subprocess.DEVNULL) as server:
        try:
            _wait_for_redis(url)
            yield url
        finally:
            server.kill()


def _wait_for_redis(url: str) -> None:
    deadline = time.monotonic() + 10
    with redis.Redis.from_url(url) as client:
        while True:
            try:
                client.ping()
                return
            except redis.ConnectionError:
                if time.monotonic() > deadline:
                    raise


def free_port() -> int:
    """Return a TCP port of the loopback address that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}"
