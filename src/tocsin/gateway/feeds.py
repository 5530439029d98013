"""A feed: one subscription on its way to one connection, at the pace that both ends bear."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tocsin.gateway.changes import Pending
from tocsin.gateway.dealings import Opening
from tocsin.gateway.history import Told
from tocsin.gateway.sinks import Sink

#: Batches that wait for a full connection before a feed that may not squash gives up.
WAITING = 256
#: Seconds until a feed whose answer could not be read asks again.
ASK_AGAIN = 1.0

#: The close code of a consumer that was too slow: come back with the cursor.
TOO_SLOW = 4008


class Pace(NamedTuple):
    """What a client says of how it wants to be told; None leaves it to the subscription."""

    policy: str | None = None
    throttle: float | None = None


UNSAID = Pace()


class Clerk(Protocol):
    """What a feed needs of the desk."""

    epoch: str

    def now(self) -> float:
        """Seconds on a clock that never goes back."""

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call after some seconds."""

    def answer(self, full: str, call: Callable[[int, str], None], failed: Callable[[], None]) -> None:
        """Call with a record's number and the answer after it, once feeds were told all up to that record."""

    def count(self, what: str) -> None:
        """Count something for the metrics."""


class Feed:
    """One subscription to one connection. Bounded, whatever the connection does.

    There are tens of thousands, and each is looked at seldom: what `tell` has to look up elsewhere in memory
    is most of its cost.
    """

    __slots__ = (
        "_clerk",
        "_is_asking",
        "_is_timed",
        "_may_squash",
        "_name",
        "_not_before",
        "_pace",
        "_pending",
        "_sink",
        "_throttle",
        "_waiting",
        "full",
        "heard",
        "is_open",
    )

    def __init__(self, clerk: Clerk, sink: Sink, full: str, name: str, pace: Pace = UNSAID) -> None:
        self.full = full
        self.is_open = True
        self._clerk = clerk
        self._sink = sink
        self._name = json.dumps(name)
        self._pace = pace
        self._may_squash = True
        self._throttle = 0.0
        self._waiting: list[Told] = []
        self._pending: Pending | None = None
        self._is_asking = False
        self._is_timed = False
        self._not_before = 0.0
        #: the record that the client has heard of
        self.heard = 0

    def begin(self, opening: Opening) -> None:
        """Send what a watch begins with."""
        self.heard = opening.number
        asked, template = self._pace, opening.held.template
        self._throttle = template.throttle if asked.throttle is None else float(asked.throttle)
        self._may_squash = self._throttle > 0 or (asked.policy or template.policy) == "squash"
        if opening.kind == "too-old":
            text = '"message":"the cursor is older than what is retained: take a new snapshot"'
            self._send("too-old", None, text)
        elif opening.kind == "snapshot":
            progress = f',"progress":{opening.progress}' if opening.progress else ""
            recent = f',"recent":{opening.recent}' if opening.recent else ""
            self._send("snapshot", opening.number, f'"changes":{opening.changes}{progress}{recent}')
        else:
            for told in opening.batches:
                self._tell(told)
            self.heard = opening.number
            self._send("resumed", opening.number, '"message":"nothing was lost"')
        self._not_before = self._clerk.now() + self._throttle

    def tell(self, told: Told) -> None:
        """A batch of changes has come. Cost: constant, unless it has to be squashed."""
        if not self.is_open:
            return
        if self._pending is None and not self._waiting and self._may_send():
            self._tell(told)
            return
        self._keep(told)
        if not self._sink.is_full:
            self._wake_later()

    def flush(self) -> None:
        """The connection has room, or it is time: send what waits."""
        if not self.is_open or self._is_asking:
            return
        if self._pending is None and not self._waiting:
            return
        if not self._may_send():
            if not self._sink.is_full:
                self._wake_later()
            return
        if self._pending is not None:
            self._is_asking = True
            self._clerk.answer(self.full, self._squashed, self._ask_later)
            return
        waiting, self._waiting = self._waiting, []
        for told in waiting:
            self._tell(told)

    def end(self, reason: str) -> None:
        """The subscription is gone."""
        if self.is_open:
            self._send("ended", None, f'"message":{json.dumps(reason)}')
        self.is_open = False

    def _keep(self, told: Told) -> None:
        if not self._may_squash:
            self._waiting.append(told)
            if len(self._waiting) > WAITING:
                self._give_up()
            return
        if self._pending is None and not self._waiting:
            self._waiting.append(told)
            return
        if self._pending is None:
            self._pending = Pending()
            for earlier in self._waiting:
                self._pending.add(json.loads(earlier.changes))
            self._waiting = []
            self._clerk.count("squashed")
        self._pending.add(json.loads(told.changes))

    def _squashed(self, number: int, answer: str) -> None:
        pending, self._pending, self._is_asking = self._pending, None, False
        if pending is None or not self.is_open:
            return
        changes = json.dumps(pending.net(json.loads(answer)), separators=(",", ":"))
        missed = f',"missed":{pending.missed}' if pending.missed else ""
        self._tell(Told(number, changes), missed)

    def _ask_later(self) -> None:
        """The answer could not be read, because too much waits: what is pending stays so."""
        self._is_asking = False
        if self.is_open:
            self._not_before = self._clerk.now() + ASK_AGAIN
            self._wake_later()

    def _give_up(self) -> None:
        """Too slow: the client is told where it stands, and comes back with that cursor."""
        self._clerk.count("disconnected")
        self._waiting = []
        self.is_open = False
        self._send("too-slow", self.heard, '"message":"come back with this cursor"')
        self._sink.close(TOO_SLOW, "too slow: come back with the last cursor")

    def _may_send(self) -> bool:
        if self._sink.is_full:
            return False
        return not self._throttle or self._clerk.now() >= self._not_before

    def _wake_later(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._clerk.later(max(0.0, self._not_before - self._clerk.now()), self._wake)

    def _wake(self) -> None:
        self._is_timed = False
        self.flush()

    def _tell(self, told: Told, more: str = "") -> None:
        self.heard = told.number
        if self._throttle:
            self._not_before = self._clerk.now() + self._throttle
        self._send("changes", told.number, f'"changes":{told.changes}{more}')

    def _send(self, kind: str, number: int | None, text: str) -> None:
        if number is None:
            self._sink.send(kind, None, f'{{"type":"{kind}","subscription":{self._name},{text}}}')
        else:
            cursor = f"{self._clerk.epoch}.{number}"
            whole = f'{{"type":"{kind}","subscription":{self._name},"cursor":"{cursor}",{text}}}'
            self._sink.send(kind, cursor, whole)
