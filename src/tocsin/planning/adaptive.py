"""Adaptive indexes: one index for few subscriptions, replaced by another for many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes import matching, ranges, thresholds
from tocsin.indexes.contract import (
    Index,
    MatchIndex,
    RankedRangeIndex,
    RowDelta,
    SubscriptionBounds,
    ThresholdIndex,
)
from tocsin.indexes.matching import Conjunctions, Events, IdOrder, PredicateColumns


class SwitchPoint(NamedTuple):
    """When the index for many subscriptions takes over."""

    #: from this many subscriptions on
    min_subscriptions: int
    #: and from batches of this many pairs of subscriptions and entries on, given `pairs_from` subscriptions
    min_pairs: int | None = None
    pairs_from: int = 0
    #: whether the small index returns below a quarter of `min_subscriptions`. If so, live subscriptions are
    #: counted; else slots ever in use, which is what a scan pays for
    is_reversible: bool = False

    def __str__(self) -> str:
        pairs = "" if self.min_pairs is None else f" or {self.min_pairs:,} pairs a batch"
        return f"from {self.min_subscriptions:,} subscriptions{pairs} on"


Kind = TypeVar("Kind", bound=Index)


class NamedMaker(NamedTuple, Generic[Kind]):
    """How an empty index is made, and its name."""

    name: str
    make: Callable[[], Kind]


class Adaptive(ABC, Generic[Kind]):
    """Two indexes with the same answers and the same arrays, one of which is in use.

    A switch restores one from the arrays of the other. After `restore` the number of subscriptions decides at
    once, the number of pairs with the next batch. A subclass has the `register` and the `apply` of its kind.
    """

    def __init__(self, small: NamedMaker[Kind], large: NamedMaker[Kind], switch: SwitchPoint) -> None:
        self._small = small
        self._large = large
        self._switch = switch
        #: subscriptions, as the switch point counts them
        self._count = 0
        self._is_large = False
        #: the pairs of the batch that triggered the switch, 0 if none did
        self._pairs = 0
        self.current: Kind = small.make()

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: that of the index in use; at a switch, as to register all."""
        self.current.terminate(slots)
        if self._switch.is_reversible:
            self._count -= len(slots)
            if 4 * self._count < self._switch.min_subscriptions:
                self._switch_to(False)

    def result(self, slots: Ints) -> ChangeSet:
        return self.current.result(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        return self.current.parameters(slot)

    def arrays(self) -> Arrays:
        return self.current.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from. Cost: as to register all at once."""
        self._count = self._count_saved(arrays)
        self._is_large, self._pairs = self._count >= self._switch.min_subscriptions, 0
        self.current = (self._large if self._is_large else self._small).make()
        self.current.restore(arrays)

    def check_invariants(self) -> None:
        """Assert the invariants of the index in use, and that it is the one for this many subscriptions."""
        self.current.check_invariants()
        assert self._is_large or self._count < self._switch.min_subscriptions
        if self._switch.is_reversible:
            assert not self._is_large or 4 * self._count >= self._switch.min_subscriptions
            assert self._count == self._count_saved(self.current.arrays())

    def explain(self) -> str:
        """The name of the index in use, how it works, and why it is in use."""
        if self._pairs and self._count < self._switch.min_subscriptions:
            why = f"a batch came to {self._switch.min_pairs:,} pairs of entries and subscriptions, or more"
        else:
            least = self._switch.min_subscriptions
            count = f"{self._count:,}" if self._switch.is_reversible else f"up to {self._count:,}"
            why = f"{count} subscriptions, {self._large.name} from {least:,} on"
        name = (self._large if self._is_large else self._small).name
        return f"{name}: {self.current.explain()}; chosen because of {why}"

    @abstractmethod
    def _count_saved(self, arrays: Arrays) -> int:
        """How many subscriptions there are in arrays, as the switch point counts them."""

    def _count_new(self, slots: Ints) -> None:
        """Before `slots` are registered: count them, and switch if they are many."""
        if not len(slots):
            return
        if self._switch.is_reversible:
            self._count += len(slots)
        else:
            self._count = max(self._count, int(slots.max()) + 1)
        if self._count >= self._switch.min_subscriptions:
            self._switch_to(True)

    def _count_pairs(self, n_entries: int) -> None:
        """Before a batch is applied: switch if it makes many pairs with the subscriptions."""
        switch = self._switch
        if switch.min_pairs is not None and not self._is_large and self._count >= switch.pairs_from:
            pairs = self._count * n_entries
            if pairs >= switch.min_pairs:
                self._pairs = pairs
                self._switch_to(True)

    def _switch_to(self, is_large: bool) -> None:
        """Switch to the small or the large index, unless it is in use. Cost: as to register all."""
        if is_large != self._is_large:
            index = (self._large if is_large else self._small).make()
            index.restore(self.current.arrays())
            self.current, self._is_large = index, is_large


class AdaptiveRanked(Adaptive[RankedRangeIndex]):
    """Two indexes that rank rows."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions. Cost: that of the index in use; at a switch, as to register all."""
        self._count_new(slots)
        self.current.register(slots, values)

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost: that of the index in use; at a switch, as to register all."""
        self._count_pairs(len(delta.row))
        return self.current.apply(delta)

    def follow(self, delta: RowDelta) -> None:
        self.current.follow(delta)

    def rows(self) -> RowDelta:
        return self.current.rows()

    def bounds(self) -> SubscriptionBounds:
        return self.current.bounds()

    def _count_saved(self, arrays: Arrays) -> int:
        return ranges.count_saved(arrays)


class AdaptiveThresholds(Adaptive[ThresholdIndex]):
    """Two indexes of thresholds."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions. Cost: that of the index in use; at a switch, as to register all."""
        self._count_new(slots)
        self.current.register(slots, values)

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        """Cost: that of the index in use; at a switch, as to register all."""
        self._count_pairs(len(values))
        return self.current.apply(values, weights)

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        return self.current.progress(slots)

    def _count_saved(self, arrays: Arrays) -> int:
        return thresholds.count_saved(arrays)


class AdaptiveMatching(Adaptive[MatchIndex]):
    """Two indexes of boolean expressions."""

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add subscriptions. Cost: that of the index in use; at a switch, as to register all."""
        self._count_new(slots)
        self.current.register(slots, predicates)

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """Cost: that of the index in use; at a switch, as to register all."""
        self._count_pairs(events.n_events)
        return self.current.apply(events, top, ids)

    def live(self) -> Ints:
        return self.current.live()

    def conjunctions(self, slots: Ints) -> Conjunctions:
        return self.current.conjunctions(slots)

    def _count_saved(self, arrays: Arrays) -> int:
        return matching.count_saved(arrays)
