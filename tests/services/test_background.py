"""The bridge between a worker's threads and its loop: coroutines there, database jobs here."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sagents_app.services import background
from sagents_app.services.background import Jobs


def test_a_coroutine_runs_on_the_loop_and_its_jobs_on_the_thread_that_waits():
    jobs = Jobs()

    async def work() -> tuple[str, int]:
        return threading.current_thread().name, await jobs.run(threading.get_ident)

    name, ident = jobs.serve(work())
    assert name == "sagents-loop"
    assert ident == threading.get_ident()


def test_many_threads_share_one_loop():
    async def work() -> int:
        await asyncio.sleep(0)
        return id(asyncio.get_running_loop())

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: Jobs().serve(work()), range(32)))) == 1
    assert background.loop() is background.loop()


def test_what_a_job_raises_is_raised_where_it_is_awaited():
    jobs = Jobs()

    def fail() -> None:
        raise ZeroDivisionError

    async def work() -> str:
        with pytest.raises(ZeroDivisionError):
            await jobs.run(fail)
        return "goes on"

    assert jobs.serve(work()) == "goes on"


def test_what_the_coroutine_raises_is_raised_by_the_thread_that_waits():
    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Jobs().serve(work())


def test_jobs_of_one_run_are_done_in_order_one_at_a_time():
    jobs, done = Jobs(), []

    async def work() -> None:
        await asyncio.gather(*(jobs.run(done.append, n) for n in range(50)))

    jobs.serve(work())
    assert done == list(range(50))


def test_a_job_is_done_to_its_end_although_nobody_waits_any_more():
    """A result is recorded even where the turn was cancelled meanwhile."""
    jobs, done, begun = Jobs(), [], threading.Event()

    def record() -> None:
        begun.set()
        done.append("recorded")

    async def work() -> None:
        task = asyncio.create_task(jobs.run(record))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await jobs.run(begun.is_set)

    jobs.serve(work())
    assert done == ["recorded"]
