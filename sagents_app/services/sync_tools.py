"""Where a worker runs sync tools: a bounded pool of threads whose connections are looked after."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections

from sagents_app import conf
from sagents_app.engine import Agent

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None


def hosted(agent: Agent) -> Agent:
    """Return the agent with its sync tools run here, so that they may use the ORM freely."""
    return agent.with_run_sync(run_sync)


async def run_sync(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Run a sync tool in the pool."""
    bound = functools.partial(_run, function, arguments)
    return await asyncio.get_running_loop().run_in_executor(_threads(), bound)


def _threads() -> ThreadPoolExecutor:
    global _pool  # one a process
    with _lock:
        if _pool is None:
            size = conf.current().tool_threads
            _pool = ThreadPoolExecutor(size, thread_name_prefix="sagents-tool")
        return _pool


def _run(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Run a tool; a thread that waits for the next one holds no connection."""
    try:
        return function(**arguments)
    finally:
        connections.close_all()
