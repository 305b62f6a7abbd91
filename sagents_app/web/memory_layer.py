"""The channel layer of the embedded mode: messages between threads and loops of one process.

`channels.layers.InMemoryChannelLayer` keeps each channel in an `asyncio.Queue`, which belongs to
one event loop. A message put from another thread lies there until something else wakes that loop.
Here each channel remembers the loop that reads it, and every put happens on that loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from copy import deepcopy
from typing import Any

from channels.exceptions import ChannelFull
from channels.layers import InMemoryChannelLayer


class ThreadSafeInMemoryChannelLayer(InMemoryChannelLayer):
    """An in-memory layer that any thread may send through; one loop at a time reads a channel.

    A message for a full channel of another loop is lost, as is any message after `expiry` seconds:
    readers learn from the database what they missed.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._readers: dict[str, asyncio.AbstractEventLoop] = {}
        self._lock = threading.RLock()

    async def send(self, channel: str, message: dict[str, Any]) -> None:
        """Send to one channel, from whichever loop.

        Raises:
            ChannelFull: its reader, on this same loop, is too far behind.

        """
        self.require_valid_channel_name(channel)
        item = (time.time() + self.expiry, deepcopy(message))
        with self._lock:
            queue = self._queue(channel)
            reader = self._readers.get(channel)
        if reader is None or reader is asyncio.get_running_loop():
            try:
                queue.put_nowait(item)
            except asyncio.QueueFull:
                raise ChannelFull(channel) from None
        elif not reader.is_closed():
            reader.call_soon_threadsafe(_put_or_drop, queue, item)

    async def receive(self, channel: str) -> Any:
        """Wait for the channel's next message; the running loop becomes its reader."""
        self.require_valid_channel_name(channel)
        with self._lock:
            self._readers[channel] = asyncio.get_running_loop()
            # The parent drops a queue that it has emptied; a put on its way from another thread
            # would then go to a queue that nobody reads. This one stays until the channel leaves
            # its last group. Nor is anything cleaned here but this channel: the other queues belong
            # to other loops.
            queue = self._queue(channel)
        while True:
            expires, message = await queue.get()
            if expires > time.time():
                return message

    async def group_add(self, group: str, channel: str) -> None:
        """Add a channel, read by the running loop, to the group."""
        self.require_valid_channel_name(channel)
        self.require_valid_group_name(group)
        with self._lock:
            self._queue(channel)
            self._readers.setdefault(channel, asyncio.get_running_loop())
            self.groups.setdefault(group, {})[channel] = time.time()

    async def group_discard(self, group: str, channel: str) -> None:
        """Take the channel out of the group; one that is in no group any more is forgotten."""
        self.require_valid_channel_name(channel)
        self.require_valid_group_name(group)
        with self._lock:
            members = self.groups.get(group, {})
            members.pop(channel, None)
            if not members:
                self.groups.pop(group, None)
            if not any(channel in others for others in self.groups.values()):
                self.channels.pop(channel, None)
                self._readers.pop(channel, None)

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        """Send to each channel of the group; one that is full misses it."""
        self.require_valid_group_name(group)
        with self._lock:
            channels = list(self.groups.get(group, {}))
        for channel in channels:
            try:
                await self.send(channel, message)
            except ChannelFull:
                continue

    async def flush(self) -> None:
        """Forget every channel and group."""
        with self._lock:
            self.channels.clear()
            self.groups.clear()
            self._readers.clear()

    def _queue(self, channel: str) -> asyncio.Queue[Any]:
        if channel not in self.channels:
            self.channels[channel] = asyncio.Queue(maxsize=self.get_capacity(channel))
        return self.channels[channel]


def _put_or_drop(queue: asyncio.Queue[Any], item: tuple[float, dict[str, Any]]) -> None:
    try:
        queue.put_nowait(item)
    except asyncio.QueueFull:
        return
