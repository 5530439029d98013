"""Where messages go: a connection that takes them at once, or a queue that somebody drains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

#: Messages that a queue holds before it is full.
QUEUED = 256


class Message(NamedTuple):
    """One message that waits for a client: its type, the cursor after it if it has one, and its JSON text."""

    kind: str
    cursor: str | None
    text: str


class Sink(Protocol):
    """One connection, as feeds see it. `on_room` is called when it was full and no longer is."""

    on_room: Callable[[], None]

    @property
    def is_full(self) -> bool:
        """Whether messages pile up: what can wait should."""

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        """Pass a message on. It never blocks; a connection that is gone swallows it."""

    def close(self, code: int, reason: str) -> None:
        """End the connection after what was sent."""


class Closing(NamedTuple):
    """The last thing in a queue: how the connection ends."""

    code: int
    reason: str


class QueueSink:
    """A sink that is drained by a task: server-sent events, and servers without a wire of their own."""

    def __init__(self, size: int = QUEUED) -> None:
        self._queue: asyncio.Queue[Message | Closing] = asyncio.Queue()
        self._size = size
        self._was_full = False
        self._room = asyncio.Event()
        self.on_room: Callable[[], None] = _nothing

    @property
    def is_full(self) -> bool:
        full = self._queue.qsize() >= self._size
        self._was_full = self._was_full or full
        return full

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()

    async def has_room(self) -> None:
        """Return when it is not full."""
        while self.is_full:
            self._room.clear()
            await self._room.wait()

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        self._queue.put_nowait(Message(kind, cursor, text))

    def close(self, code: int, reason: str) -> None:
        self._queue.put_nowait(Closing(code, reason))

    async def take(self) -> Message | Closing:
        """The next message; there is room again when half the queue is empty."""
        item = await self._queue.get()
        if self._was_full and self._queue.qsize() <= self._size // 2:
            self._was_full = False
            self._room.set()
            self.on_room()
        return item


def _nothing() -> None:
    """Nobody wants to know."""
