"""A feed delivers one subscription to one connection, with backpressure, throttling and coalescing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from tocsin.gateway.core.changes import ChangeCoalescer
from tocsin.gateway.core.history import DeliveredBatch
from tocsin.gateway.core.protocol import WatchStart
from tocsin.gateway.live.sinks import Sink

#: Batches queued for a full connection before a feed that may not squash disconnects.
MAX_WAITING = 256
#: Characters of queued batches after which they are coalesced, to bound memory.
COALESCE_CHARACTERS = 1 << 20
#: Seconds before a feed retries an answer that could not be read.
RETRY = 1.0

#: Close code for a consumer that is too slow: it may resume from its cursor.
TOO_SLOW = 4008


T = TypeVar("T")


class Pace(NamedTuple):
    """Delivery options of a client; None means what the subscription says."""

    policy: str | None = None
    throttle: float | None = None


UNSAID = Pace()


class FeedContext(Protocol):
    """What a feed needs from the committer."""

    epoch: str

    def now(self) -> float:
        """Seconds on a monotonic clock."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call after a delay."""

    def answer(self, full: str, call: Callable[[int, str], None], failed: Callable[[], None]) -> None:
        """Call with a record's number and the answer after it, once feeds have the changes up to it."""

    def aside(self, work: Callable[[], T], call: Callable[[T | None], None]) -> None:
        """Run long work off the loop and the hub's thread; call with its result, or None if it fails."""

    def count(self, what: str) -> None:
        """Increment a metric."""


class Feed:
    """One subscription to one connection. Memory is bounded whatever the connection does.

    There are tens of thousands of feeds, each used rarely: cache misses are most of the cost of `deliver`.
    """

    __slots__ = (
        "_characters",
        "_context",
        "_is_busy",
        "_is_timed",
        "_may_squash",
        "_name",
        "_not_before",
        "_pace",
        "_pending",
        "_sink",
        "_throttle",
        "_waiting",
        "delivered",
        "full",
        "is_open",
    )

    def __init__(self, context: FeedContext, sink: Sink, full: str, name: str, pace: Pace = UNSAID) -> None:
        self.full = full
        self.is_open = True
        self._context = context
        self._sink = sink
        self._name = json.dumps(name)
        self._pace = pace
        self._may_squash = True
        self._throttle = 0.0
        self._waiting: list[DeliveredBatch] = []
        self._characters = 0
        #: batches before the waiting ones, coalesced
        self._pending: ChangeCoalescer | None = None
        #: whether an answer was requested or batches are being coalesced: new batches wait meanwhile
        self._is_busy = False
        self._is_timed = False
        self._not_before = 0.0
        #: the last record delivered to the client
        self.delivered = 0

    def begin(self, start: WatchStart) -> None:
        """Send the snapshot, or the batches that a resuming client missed."""
        self.delivered = start.number
        pace, template = self._pace, start.subscription.template
        self._throttle = template.throttle if pace.throttle is None else float(pace.throttle)
        self._may_squash = self._throttle > 0 or (pace.policy or template.policy) == "squash"
        if start.kind == "too-old":
            text = '"message":"the cursor is older than what is retained: take a new snapshot"'
            self._send("too-old", None, text)
        elif start.kind == "snapshot":
            progress = f',"progress":{start.progress}' if start.progress else ""
            recent = f',"recent":{start.recent}' if start.recent else ""
            self._send("snapshot", start.number, f'"changes":{start.changes}{progress}{recent}')
        else:
            for batch in start.batches:
                self._emit(batch)
            self.delivered = start.number
            self._send("resumed", start.number, '"message":"nothing was lost"')
        self._not_before = self._context.now() + self._throttle

    def deliver(self, batch: DeliveredBatch) -> None:
        """Send or queue a batch of changes. Cost: constant."""
        if not self.is_open:
            return
        if self._is_idle() and self._may_send():
            self._emit(batch)
            return
        self._enqueue(batch)
        if not self._sink.is_full:
            self._wake_later()

    def flush(self) -> None:
        """Send what is queued: the connection is writable again, or the throttle has elapsed."""
        if not self.is_open or self._is_busy or self._is_idle():
            return
        if not self._may_send():
            if not self._sink.is_full:
                self._wake_later()
            return
        if self._pending is not None or (self._may_squash and len(self._waiting) > 1):
            self._is_busy = True
            self._context.answer(self.full, self._squash, self._retry_later)
            return
        for batch in self._take_waiting():
            self._emit(batch)

    def end(self, reason: str) -> None:
        """The subscription has ended: notify the client."""
        if self.is_open:
            self._send("ended", None, f'"message":{json.dumps(reason)}')
        self.is_open = False

    def _is_idle(self) -> bool:
        return not self._waiting and not self._is_busy and self._pending is None

    def _enqueue(self, batch: DeliveredBatch) -> None:
        self._waiting.append(batch)
        self._characters += len(batch.changes)
        if not self._may_squash:
            if len(self._waiting) > MAX_WAITING:
                self._disconnect()
        elif self._characters > COALESCE_CHARACTERS and not self._is_busy:
            pending, waiting = self._pending or ChangeCoalescer(), self._take_waiting()
            self._is_busy, self._pending = True, pending
            self._context.aside(lambda: pending.fold(waiting), self._folded)

    def _take_waiting(self) -> list[DeliveredBatch]:
        waiting, self._waiting, self._characters = self._waiting, [], 0
        return waiting

    def _folded(self, pending: ChangeCoalescer | None) -> None:
        self._is_busy = False
        if pending is None:
            self._disconnect()
        elif self.is_open and not self._sink.is_full:
            self._wake_later()

    def _squash(self, number: int, answer: str) -> None:
        """Coalesce all queued batches into one; the last of them is record `number` or an earlier one."""
        pending, self._pending = self._pending or ChangeCoalescer(), None
        waiting = self._take_waiting()
        if not self.is_open:
            return
        self._context.count("squashed")
        self._context.aside(
            lambda: pending.fold(waiting).net_text(answer), lambda made: self._squashed(number, made)
        )

    def _squashed(self, number: int, made: tuple[str, int] | None) -> None:
        self._is_busy = False
        if not self.is_open:
            return
        if made is None:
            self._disconnect()
            return
        changes, missed = made
        self._emit(DeliveredBatch(number, changes), f',"missed":{missed}' if missed else "")
        if self._waiting and not self._sink.is_full:
            self._wake_later()

    def _retry_later(self) -> None:
        """The answer could not be read because the queue is full: keep what is pending and retry."""
        self._is_busy = False
        if self.is_open:
            self._not_before = self._context.now() + RETRY
            self._wake_later()

    def _disconnect(self) -> None:
        """The consumer is too slow: send it the cursor to resume from, and close."""
        if not self.is_open:
            return
        self._context.count("disconnected")
        self._take_waiting()
        self.is_open = False
        self._send("too-slow", self.delivered, '"message":"resume from this cursor"')
        self._sink.close(TOO_SLOW, "too slow: resume from the last cursor")

    def _may_send(self) -> bool:
        if self._sink.is_full:
            return False
        return not self._throttle or self._context.now() >= self._not_before

    def _wake_later(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._context.later(max(0.0, self._not_before - self._context.now()), self._wake)

    def _wake(self) -> None:
        self._is_timed = False
        self.flush()

    def _emit(self, batch: DeliveredBatch, more: str = "") -> None:
        self.delivered = batch.number
        if self._throttle:
            self._not_before = self._context.now() + self._throttle
        self._send("changes", batch.number, f'"changes":{batch.changes}{more}')

    def _send(self, kind: str, number: int | None, text: str) -> None:
        if number is None:
            self._sink.send(kind, None, f'{{"type":"{kind}","subscription":{self._name},{text}}}')
        else:
            cursor = f"{self._context.epoch}.{number}"
            whole = f'{{"type":"{kind}","subscription":{self._name},"cursor":"{cursor}",{text}}}'
            self._sink.send(kind, cursor, whole)
