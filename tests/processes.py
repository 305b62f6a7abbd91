"""The product as its users start it: real processes, whose output the test reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.programs import ROOT

NEUTRAL = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "SSL_CERT_FILE")


def environment(**variables: str) -> dict[str, str]:
    """Return an environment of these variables and nothing of the test run's own settings."""
    kept = {name: os.environ[name] for name in NEUTRAL if name in os.environ}
    return {**kept, "PYTHONUNBUFFERED": "1", **variables}


def development(database: Path, **variables: str) -> dict[str, str]:
    """Return the environment of `make run` with a SQLite database of its own."""
    return environment(DEBUG="1", DATABASE_URL=f"sqlite:///{database}", **variables)


def documented() -> dict[str, str]:
    """Return the variables of docs/production.env."""
    lines = (ROOT / "docs" / "production.env").read_text().splitlines()
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name: value for name, _, value in pairs}


def manage(*arguments: str, env: Mapping[str, str], python: str = sys.executable) -> str:
    """Run a management command to its end and return what it printed; it must succeed."""
    done = subprocess.run(
        [python, "manage.py", *arguments], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Process:
    """A running program."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path = ROOT) -> None:
        self.name = " ".join(map(str, command[1:4]))
        self.popen = subprocess.Popen(
            command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        with self._news:
            return "".join(self._lines)

    def wait_for(self, text: str, *, time_limit: float = 30) -> str:
        """Return the first line that contains the text, once it is printed."""
        deadline = time.monotonic() + time_limit
        with self._news:
            while True:
                for line in self._lines:
                    if text in line:
                        return line
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    raise AssertionError(
                        f"{self.name} never said {text!r}:\n{''.join(self._lines)}"
                    )
                self._news.wait(min(left, 0.5))

    def stop(self, how: signal.Signals = signal.SIGINT, *, time_limit: float = 30) -> int:
        """Send the signal, wait for the end and return the exit code."""
        if self.popen.poll() is None:
            self.popen.send_signal(how)
        try:
            code = self.popen.wait(time_limit)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
            raise AssertionError(f"{self.name} did not stop:\n{self.output}") from None
        self._reader.join(5)
        return code

    def _read(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as stream:
            for line in stream:
                with self._news:
                    self._lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()


@contextmanager
def running(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path = ROOT
) -> Iterator[Process]:
    """Start a program and have it ended whatever the test does."""
    process = Process(command, env=env, cwd=cwd)
    try:
        yield process
    finally:
        process.stop(signal.SIGKILL)


@contextmanager
def running_product(
    env: Mapping[str, str], *, python: str = sys.executable
) -> Iterator[tuple[Process, str]]:
    """Start `manage.py sagents_dev` on a free port; give the process and its URL (no slash)."""
    command = [python, "manage.py", "sagents_dev", "--port", "0"]
    with running(command, env=env) as process:
        url = process.wait_for("Ready: http").split()[1].rstrip("/")
        yield process, url
