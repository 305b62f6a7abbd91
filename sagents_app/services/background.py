"""The process's one background event loop, and jobs that a coroutine hands to its own thread.

A worker's Celery threads each wait for one run: the run is a coroutine on the loop, and while it
waits for the database its thread executes the job, on that thread's own connection.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from django.db import connection

T = TypeVar("T")
logger = logging.getLogger(__name__)
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def loop() -> asyncio.AbstractEventLoop:
    """Return the loop, which a thread of its own runs from the first call on."""
    global _loop  # one a process
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="sagents-loop", daemon=True).start()
        return _loop


def submit(coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Run a coroutine on the loop, from any thread."""
    return asyncio.run_coroutine_threadsafe(coroutine, loop())


class Jobs:
    """Jobs of one run, executed one after the other by the thread that waits for it."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Have the waiting thread call `function`; return or raise what it does."""
        running = asyncio.get_running_loop()
        future: asyncio.Future[T] = running.create_future()

        def job() -> None:
            try:
                result = function(*args)
            except BaseException as error:  # noqa: BLE001  # handed to whoever awaits
                running.call_soon_threadsafe(_settle, future, None, error)
            else:
                running.call_soon_threadsafe(_settle, future, result, None)

        self._jobs.put(job)
        return await asyncio.shield(future)

    def serve(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` on the loop and its jobs on this thread, until it is done."""
        done = submit(coroutine)
        done.add_done_callback(lambda _: self._jobs.put(None))
        while (job := self._jobs.get()) is not None:
            job()
            give_back_connection()
        return done.result()


def give_back_connection() -> None:
    """Return this thread's connection to the pool, where there is one: waiting holds none."""
    if connection.settings_dict["OPTIONS"].get("pool") and not connection.in_atomic_block:
        connection.close()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
