"""The latest batches of every subscription, so that a reconnecting client can catch up without a gap."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import NamedTuple


class DeliveredBatch(NamedTuple):
    """One batch of changes of one subscription: the record that caused it, and a JSON array of changes."""

    number: int
    changes: str


class _TenantHistory:
    """Order and size of one tenant's batches."""

    __slots__ = ("count", "order", "size")

    def __init__(self) -> None:
        #: batches in order; dropped ones are removed lazily
        self.order: deque[tuple[str, int]] = deque()
        self.count = 0
        self.size = 0


class History:
    """The latest batches of every subscription, bounded for each subscription and in total.

    `since` returns None if the bound has dropped a batch that the caller has not received. When the total is
    exceeded, the tenant that uses most loses its oldest batches: a tenant never loses history to others that
    use less. Constant cost a batch.
    """

    def __init__(self, *, per_subscription: int = 256, characters: int = 64 << 20) -> None:
        self._per_subscription = per_subscription
        self._characters = characters
        self._batches: dict[str, deque[DeliveredBatch]] = {}
        #: by subscription: the record up to which something has been dropped
        self._floor: dict[str, int] = {}
        #: by tenant
        self._tenants: dict[str, _TenantHistory] = {}
        #: characters over all
        self.size = 0

    def open(self, subscription: str, number: int) -> None:
        """Start the history of a subscription at record `number`."""
        self.forget(subscription)
        self._floor[subscription] = number

    def forget(self, subscription: str) -> None:
        """Drop the history of a subscription."""
        self._floor.pop(subscription, None)
        owner = self._tenant_history(subscription)
        for batch in self._batches.pop(subscription, ()):
            self._count_out(owner, batch)

    def extend(self, number: int, changes: Sequence[tuple[str, str]]) -> list[tuple[str, DeliveredBatch]]:
        """Append the changes of record `number`, and evict older batches; returns the appended ones."""
        delivered: list[tuple[str, DeliveredBatch]] = []
        for subscription, text in changes:
            batch = DeliveredBatch(number, text)
            batches = self._batches.get(subscription)
            if batches is None:
                batches = self._batches[subscription] = deque()
            batches.append(batch)
            delivered.append((subscription, batch))
            owner = self._tenant_history(subscription)
            owner.order.append((subscription, number))
            owner.count += 1
            owner.size += len(text)
            self.size += len(text)
            if len(batches) > self._per_subscription:
                self._drop(owner, subscription)
        self._evict()
        return delivered

    def append(self, subscription: str, batch: DeliveredBatch) -> None:
        """Append one batch."""
        self.extend(batch.number, [(subscription, batch.changes)])

    def since(self, subscription: str, number: int) -> list[DeliveredBatch] | None:
        """The batches after record `number`, or None if some have been dropped."""
        if number < self._floor.get(subscription, 0):
            return None
        return [batch for batch in self._batches.get(subscription, ()) if batch.number > number]

    def of(self, subscription: str) -> Sequence[DeliveredBatch]:
        """All retained batches of a subscription, in order."""
        return self._batches.get(subscription, ())

    def floor(self, subscription: str) -> int:
        """The oldest record that `since` can resume from."""
        return self._floor.get(subscription, 0)

    def raise_floor(self, subscription: str, number: int) -> None:
        """Mark everything up to record `number` as dropped: part of loading a snapshot."""
        self._floor[subscription] = max(number, self.floor(subscription))

    def entries(self) -> Iterator[tuple[str, DeliveredBatch]]:
        """All retained batches in record order, for a snapshot."""
        return merge(*map(self._entries, self._tenants.values()), key=lambda entry: entry[1].number)

    def _entries(self, owner: _TenantHistory) -> Iterator[tuple[str, DeliveredBatch]]:
        self._tidy(owner)
        place: dict[str, int] = {}
        for subscription, _ in owner.order:
            at = place.get(subscription, 0)
            place[subscription] = at + 1
            yield subscription, self._batches[subscription][at]

    def _tenant_history(self, subscription: str) -> _TenantHistory:
        tenant = subscription.partition("/")[0]
        owner = self._tenants.get(tenant)
        if owner is None:
            owner = self._tenants[tenant] = _TenantHistory()
        return owner

    def _evict(self) -> None:
        while self.size > self._characters:
            *_, second, most = [0, *sorted(owner.size for owner in self._tenants.values())]
            owner = next(owner for owner in self._tenants.values() if owner.size == most)
            while self.size > self._characters and owner.size >= second:
                oldest, number = owner.order.popleft()
                batches = self._batches.get(oldest)
                if batches and batches[0].number == number:
                    self._drop(owner, oldest)
        for owner in self._tenants.values():
            if len(owner.order) > 64 + 4 * owner.count:
                self._tidy(owner)

    def _drop(self, owner: _TenantHistory, subscription: str) -> None:
        batch = self._batches[subscription].popleft()
        self._count_out(owner, batch)
        self._floor[subscription] = batch.number
        if not self._batches[subscription]:
            del self._batches[subscription]

    def _count_out(self, owner: _TenantHistory, batch: DeliveredBatch) -> None:
        owner.count -= 1
        owner.size -= len(batch.changes)
        self.size -= len(batch.changes)

    def _tidy(self, owner: _TenantHistory) -> None:
        """Remove dropped batches from the order."""
        remaining = {
            subscription: len(self._batches.get(subscription, ())) for subscription, _ in owner.order
        }
        order: deque[tuple[str, int]] = deque()
        for subscription, number in reversed(owner.order):
            if remaining[subscription]:
                remaining[subscription] -= 1
                order.appendleft((subscription, number))
        owner.order = order
