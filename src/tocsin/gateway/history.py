"""What each subscription was told lately, so that a client that was away can catch up without a gap."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Told(NamedTuple):
    """One batch of changes of one subscription: the record that caused it, and a JSON array of changes."""

    number: int
    changes: str


class History:
    """The last batches of changes of every subscription, bounded for each and over all.

    `since` answers None where the bound has dropped something that the caller has not heard. All costs
    are constant a batch.
    """

    def __init__(self, *, per_subscription: int = 256, characters: int = 64 << 20) -> None:
        self._per_subscription = per_subscription
        self._characters = characters
        self._told: dict[str, deque[Told]] = {}
        #: by subscription: the record up to which something has been dropped
        self._floor: dict[str, int] = {}
        #: the order of batches over all subscriptions; some that are gone stay here for a while
        self._order: deque[tuple[str, int]] = deque()
        self._count = 0
        self.size = 0

    def open(self, subscription: str, number: int) -> None:
        """A subscription begins with record `number`; nothing older is known of it."""
        self.forget(subscription)
        self._floor[subscription] = number

    def forget(self, subscription: str) -> None:
        """Drop all that is known of a subscription."""
        self._floor.pop(subscription, None)
        for told in self._told.pop(subscription, ()):
            self.size -= len(told.changes)
            self._count -= 1

    def extend(self, number: int, changes: Sequence[tuple[str, str]]) -> list[tuple[str, Told]]:
        """Keep what record `number` has to tell, by subscription, and return it; older batches make room."""
        kept: list[tuple[str, Told]] = []
        for subscription, text in changes:
            told = Told(number, text)
            held = self._told.get(subscription)
            if held is None:
                held = self._told[subscription] = deque()
            held.append(told)
            kept.append((subscription, told))
            self.size += len(text)
            if len(held) > self._per_subscription:
                self._count -= 1
                self._drop(subscription)
        self._count += len(kept)
        self._order.extend((subscription, number) for subscription, _ in kept)
        self._make_room()
        return kept

    def append(self, subscription: str, told: Told) -> None:
        """Keep one batch."""
        self.extend(told.number, [(subscription, told.changes)])

    def since(self, subscription: str, number: int) -> list[Told] | None:
        """The batches after record `number`, or None if some of them are gone."""
        if number < self._floor.get(subscription, 0):
            return None
        return [told for told in self._told.get(subscription, ()) if told.number > number]

    def of(self, subscription: str) -> Sequence[Told]:
        """All that is kept of a subscription, in order."""
        return self._told.get(subscription, ())

    def floor(self, subscription: str) -> int:
        """The oldest record from which `since` can answer."""
        return self._floor.get(subscription, 0)

    def raise_floor(self, subscription: str, number: int) -> None:
        """Nothing up to record `number` is known of a subscription: part of reading a snapshot."""
        self._floor[subscription] = max(number, self.floor(subscription))

    def entries(self) -> Iterator[tuple[str, Told]]:
        """All that is kept, in order, for a snapshot."""
        self._tidy()
        place: dict[str, int] = {}
        for subscription, _ in self._order:
            at = place.get(subscription, 0)
            place[subscription] = at + 1
            yield subscription, self._told[subscription][at]

    def _make_room(self) -> None:
        while self.size > self._characters:
            oldest, number = self._order.popleft()
            held = self._told.get(oldest)
            if held and held[0].number == number:
                self._count -= 1
                self._drop(oldest)
        if len(self._order) > 64 + 4 * self._count:
            self._tidy()

    def _drop(self, subscription: str) -> None:
        told = self._told[subscription].popleft()
        self.size -= len(told.changes)
        self._floor[subscription] = told.number
        if not self._told[subscription]:
            del self._told[subscription]

    def _tidy(self) -> None:
        """Forget the order of batches that are gone."""
        kept = sorted(
            (told.number, place, subscription)
            for place, (subscription, held) in enumerate(self._told.items())
            for told in held
        )
        self._order = deque((subscription, number) for number, _, subscription in kept)
