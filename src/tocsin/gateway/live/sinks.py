"""Sinks for outgoing messages: the interface that feeds write to, and a queue that a task drains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

#: Messages that a queue holds before it is full.
QUEUED = 256


class Message(NamedTuple):
    """One queued message: its type, the cursor after it (if any), and its JSON text."""

    kind: str
    cursor: str | None
    text: str


class Sink(Protocol):
    """One connection, as feeds see it. `on_writable` is called when it stops being full."""

    on_writable: Callable[[], None]

    @property
    def is_full(self) -> bool:
        """Whether messages pile up: whatever can wait should."""

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        """Send a message without blocking; a closed connection discards it."""

    def close(self, code: int, reason: str) -> None:
        """Close the connection after the messages already sent."""


class Closing(NamedTuple):
    """The last item of a queue: how to close the connection."""

    code: int
    reason: str


class QueueSink:
    """A sink drained by a task: for server-sent events, and for servers without `WireProtocol`."""

    def __init__(self, size: int = QUEUED) -> None:
        self._queue: asyncio.Queue[Message | Closing] = asyncio.Queue()
        self._size = size
        self._was_full = False
        self._writable = asyncio.Event()
        self.on_writable: Callable[[], None] = _nothing

    @property
    def is_full(self) -> bool:
        full = self._queue.qsize() >= self._size
        self._was_full = self._was_full or full
        return full

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    async def wait_writable(self) -> None:
        """Wait until the queue is not full."""
        while self.is_full:
            self._writable.clear()
            await self._writable.wait()

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        self._queue.put_nowait(Message(kind, cursor, text))

    def close(self, code: int, reason: str) -> None:
        self._queue.put_nowait(Closing(code, reason))

    async def take(self) -> Message | Closing:
        """The next message. A full queue becomes writable again when half empty."""
        item = await self._queue.get()
        if self._was_full and self._queue.qsize() <= self._size // 2:
            self._was_full = False
            self._writable.set()
            self.on_writable()
        return item


def _nothing() -> None:
    """No listener."""
