"""Workers that are killed, frozen and drained for real, on PostgreSQL and Redis (P1, P3, P8).

The scenarios from CD-50 on. After each look at a conversation the invariants I1 to I6 are checked
by the process that looks.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests import processes
from tests.programs import ROOT
from tests.world import eventually

pytestmark = [pytest.mark.faults, pytest.mark.postgres, pytest.mark.redis]
PATIENCE = 20.0


class Office:
    """Two databases, a desk where people write and decide, and workers that come and go."""

    def __init__(self, stack: ExitStack, directory: Path, env: dict[str, str]) -> None:
        self.directory, self.env, self._stack = directory, env, stack
        processes.manage("migrate", "--verbosity", "0", env=env)
        self._desk = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.desk"],
                env=env,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(self._desk.kill)
        self.ask("open_office")

    def ask(self, name: str, *arguments: Any) -> Any:
        """Have the desk do something, and return what it says."""
        assert self._desk.stdin is not None
        assert self._desk.stdout is not None
        self._desk.stdin.write(json.dumps([name, arguments]) + "\n")
        self._desk.stdin.flush()
        answer = json.loads(self._desk.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def hire(self, name: str) -> processes.Process:
        """Start a worker and wait until it takes tasks."""
        command = [sys.executable, "-m", "celery", "--app", "project", "worker"]
        options = ["--pool", "threads", "--concurrency", "4", "--hostname", f"{name}@%h"]
        options += ["--without-gossip", "--without-mingle", "--loglevel", "INFO"]
        worker = self._stack.enter_context(
            processes.running([*command, *options], env=self.env, cwd=ROOT)
        )
        worker.wait_for("ready.", time_limit=60)
        return worker

    def close(self, gate: str) -> None:
        (self.directory / f"{gate}.closed").touch()

    def open(self, gate: str) -> None:
        (self.directory / f"{gate}.closed").unlink()
        (self.directory / f"{gate}.reached").unlink(missing_ok=True)

    def wait_at(self, gate: str) -> None:
        """Wait until somebody stands at the gate."""
        eventually((self.directory / f"{gate}.reached").exists, seconds=PATIENCE)

    @property
    def effects(self) -> list[str]:
        """What tools really did, and the keys under which they did it."""
        path = self.directory / "effects"
        return path.read_text().splitlines() if path.exists() else []

    def look(self, conversation: str) -> dict[str, Any]:
        return self.ask("look", conversation)

    def wait_until(self, conversation: str, **wanted: Any) -> dict[str, Any]:
        """Return what is seen once it is as wanted."""

        def check() -> dict[str, Any]:
            seen = self.look(conversation)
            assert {name: seen[name] for name in wanted} == wanted, seen
            return seen

        return eventually(check, seconds=PATIENCE)


@pytest.fixture
def office(tmp_path: Path, postgres_url: str, redis_url: str) -> Iterator[Office]:
    env = processes.environment(
        DEBUG="1",
        DATABASE_URL=postgres_url,
        REDIS_URL=redis_url,
        DJANGO_SETTINGS_MODULE="tests.faults.settings",
        PYTHONPATH=str(ROOT),
        CREW_DIR=str(tmp_path),
    )
    with ExitStack() as stack:
        yield Office(stack, tmp_path, env)


def test_a_run_that_is_delivered_four_times_to_two_workers_is_driven_once(office):
    """CD-50, CD-27."""
    office.hire("a")
    office.hire("b")
    office.close("put")
    conversation = office.ask("post", "put")
    office.wait_at("put")
    office.ask("deliver_again", conversation)
    office.open("put")
    seen = office.wait_until(conversation, status="idle")
    assert seen["history"] == ["U", "A", "T", "A"]
    assert seen["attempt"] == 1
    assert len(office.effects) == 1


def test_a_worker_killed_inside_a_tool_leaves_a_question_and_no_second_effect(office):
    """CD-52."""
    killed = office.hire("a")
    office.close("send")
    conversation = office.ask("post", "send")
    office.wait_at("send")
    killed.stop(signal.SIGKILL)
    office.open("send")
    office.hire("b")
    office.wait_until(conversation, status="interrupted", pending=["unknown_outcome"])
    assert len(office.effects) == 1
    office.ask("decide", conversation, "approve")
    seen = office.wait_until(conversation, status="idle")
    assert seen["history"] == ["U", "A", "T", "A"]
    assert len(office.effects) == 2
    assert len(set(office.effects)) == 1, "run again, but under another key"


def test_a_call_that_may_be_repeated_is_repeated_by_the_next_worker(office):
    """B095, SM-23: what had finished before is not."""
    killed = office.hire("a")
    office.close("put")
    conversation = office.ask("post", "send put")
    office.wait_at("put")
    office.hire("b")
    killed.stop(signal.SIGKILL)
    office.open("put")
    seen = office.wait_until(conversation, status="idle")
    assert seen["history"] == ["U", "A", "T", "A", "T", "A"]
    assert [effect.split()[0] for effect in office.effects] == ["send", "put", "put"]
    assert {name: attempts for name, _, attempts in seen["executions"]} == {"send": 1, "put": 2}


def test_a_worker_killed_while_the_model_writes_leaves_its_text_and_the_answer_comes(office):
    """CD-51, CD-53."""
    killed = office.hire("a")
    office.close("model")
    conversation = office.ask("post", "hello")
    office.wait_at("model")
    office.wait_until(conversation, streaming=True)
    killed.stop(signal.SIGKILL)
    office.open("model")
    office.hire("b")
    seen = office.wait_until(conversation, status="idle")
    assert seen["transcript"] == [
        "user text: hello",
        "assistant text: Almost ",
        "assistant text: Almost done.",
    ]
    assert seen["history"] == ["U", "A"]
    assert seen["attempt"] == 2


def test_a_frozen_worker_that_wakes_writes_nothing(office):
    """CD-29: and its tool did at most the one call that it was inside."""
    frozen = office.hire("a")
    office.close("model")
    conversation = office.ask("post", "send hello")
    office.wait_at("model")
    frozen.popen.send_signal(signal.SIGSTOP)
    office.hire("b")
    office.open("model")
    seen = office.wait_until(conversation, status="idle")
    frozen.popen.send_signal(signal.SIGCONT)
    frozen.wait_for("is not ours to end", time_limit=PATIENCE)
    assert office.look(conversation) == seen
    assert len(office.effects) == 1
    assert seen["history"] == ["U", "A", "T", "A"]


def test_a_worker_that_is_told_to_stop_hands_its_run_over_at_the_next_boundary(office):
    """CD-63, P8: nothing is run twice, and the conversation is at work all the time."""
    drained = office.hire("a")
    office.close("send")
    conversation = office.ask("post", "send put")
    office.wait_at("send")
    office.hire("b")
    drained.popen.send_signal(signal.SIGTERM)
    drained.wait_for("Warm shutdown", time_limit=PATIENCE)
    office.open("send")
    seen = office.wait_until(conversation, status="idle")
    assert drained.popen.wait(PATIENCE) == 0
    assert [effect.split()[0] for effect in office.effects] == ["send", "put"]
    assert seen["statuses"] == ["running", "idle"]
    assert seen["history"] == ["U", "A", "T", "A", "T", "A"]
    assert seen["attempt"] == 1


def test_an_approval_survives_every_process(office):
    """CD-58, IR-38, B015, B101."""
    first = office.hire("a")
    conversation = office.ask("post", "pay")
    office.wait_until(conversation, status="interrupted", pending=["approval"])
    first.stop(signal.SIGKILL)
    office.ask("decide", conversation, "approve")
    assert office.look(conversation)["status"] == "running"
    office.hire("b")
    seen = office.wait_until(conversation, status="idle")
    assert len(office.effects) == 1
    assert seen["history"] == ["U", "A", "T", "A"]


def test_a_broker_that_forgets_everything_delays_a_run_and_no_more(office):
    """CD-64, CD-38: what was sent is sent again by the sweep of any worker."""
    conversation = office.ask("post", "send")
    with redis.Redis.from_url(office.env["REDIS_URL"]) as client:
        client.flushall()
    office.hire("a")
    seen = office.wait_until(conversation, status="idle")
    assert len(office.effects) == 1
    assert seen["history"] == ["U", "A", "T", "A"]


def test_a_database_that_cuts_every_connection_costs_an_attempt_and_no_more(office):
    """CD-65: the run is another worker's, or the same one's, once the lease has run out."""
    worker = office.hire("a")
    office.close("model")
    conversation = office.ask("post", "send hello")
    office.wait_at("model")
    with psycopg.connect(office.env["DATABASE_URL"], autocommit=True) as connection:
        cut = connection.execute(
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
        gone = "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)"
        pids = [pid for pid, _ in cut]
        eventually(lambda: not connection.execute(gone, [pids]).fetchall())
    office.open("model")
    worker.wait_for("is not ours to end", time_limit=PATIENCE)
    seen = office.wait_until(conversation, status="idle")
    assert len(office.effects) == 1
    assert seen["history"] == ["U", "A", "T", "A"]
    assert seen["attempt"] == 2


def test_a_cancel_of_a_frozen_workers_run_is_carried_out_without_it(office):
    """P1."""
    frozen = office.hire("a")
    office.close("send")
    conversation = office.ask("post", "send put")
    office.wait_at("send")
    office.hire("b")
    frozen.popen.send_signal(signal.SIGSTOP)
    office.ask("cancel", conversation)
    office.wait_until(conversation, status="cancelled")
    office.open("send")
    frozen.popen.send_signal(signal.SIGCONT)
    frozen.wait_for("is not ours to end", time_limit=PATIENCE)
    seen = office.look(conversation)
    assert seen["status"] == "cancelled"
    assert len(office.effects) == 1
    office.ask("post", "put", conversation)
    seen = office.wait_until(conversation, status="idle")
    assert seen["history"] == ["U", "A", "T", "U", "A", "T", "A"]
