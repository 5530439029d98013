"""Adaptive indexes: one index for few subscriptions, replaced by another for many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar, cast

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Arrays, Ints, Longs
from tocsin.indexes.contract import Index, RankedRangeIndex, RowDelta, SubscriptionBounds, ThresholdIndex
from tocsin.indexes.matching import Conjunctions, Events, MatchIndex


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


Kind = TypeVar("Kind", bound=Index)


class Adaptive(Generic[Kind]):
    """Two indexes with the same answers and the same arrays, one of which is in use.

    A switch restores one from the arrays of the other. After `restore` the number of subscriptions decides at
    once, the number of pairs with the next batch.
    """

    def __init__(
        self,
        small: Callable[[], Kind],
        large: Callable[[], Kind],
        switch: SwitchPoint,
        *,
        name: str,
        count: Callable[[Arrays], int],
    ) -> None:
        """`name` is what `explain` calls the large index; `count` counts the subscriptions in arrays."""
        self._make_small = small
        self._make_large = large
        self._switch = switch
        self._name = name
        self._count_of_arrays = count
        #: subscriptions, as the switch point counts them
        self._count = 0
        self._is_large = False
        #: the pairs of the batch that triggered the switch, 0 if none did
        self._pairs = 0
        self.current: Kind = small()

    def register(self, slots: Ints, values: Any) -> None:
        """Add subscriptions. Cost: that of the index in use; at a switch, as to register all."""
        if not len(slots):
            return
        if self._switch.is_reversible:
            self._count += len(slots)
        else:
            self._count = max(self._count, int(slots.max()) + 1)
        if self._count >= self._switch.min_subscriptions:
            self._switch_to(True)
        self._index.register(slots, values)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: that of the index in use; at a switch, as to register all."""
        self.current.terminate(slots)
        if self._switch.is_reversible:
            self._count -= len(slots)
            if 4 * self._count < self._switch.min_subscriptions:
                self._switch_to(False)

    def apply(self, *given: Any) -> ChangeSet:
        """The changes of a batch. Cost: that of the index in use; at a switch, as to register all."""
        switch = self._switch
        if switch.min_pairs is not None and not self._is_large and self._count >= switch.pairs_from:
            pairs = self._count * self._size(given[0])
            if pairs >= switch.min_pairs:
                self._pairs = pairs
                self._switch_to(True)
        return cast(ChangeSet, self._index.apply(*given))

    def result(self, slots: Ints) -> ChangeSet:
        return self.current.result(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        return self.current.parameters(slot)

    def arrays(self) -> Arrays:
        return self.current.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from. Cost: as to register all at once."""
        self._count = self._count_of_arrays(arrays)
        self._is_large, self._pairs = self._count >= self._switch.min_subscriptions, 0
        self.current = self._make_large() if self._is_large else self._make_small()
        self.current.restore(arrays)

    def check_invariants(self) -> None:
        """Assert the invariants of the index in use, and that it is the one for this many subscriptions."""
        self.current.check_invariants()
        assert self._is_large or self._count < self._switch.min_subscriptions
        if self._switch.is_reversible:
            assert not self._is_large or 4 * self._count >= self._switch.min_subscriptions
            assert self._count == self._count_of_arrays(self.current.arrays())

    def explain(self) -> str:
        """Which index is in use, and why."""
        if self._pairs and self._count < self._switch.min_subscriptions:
            why = f"a batch came to {self._switch.min_pairs:,} pairs of entries and subscriptions, or more"
        else:
            least = self._switch.min_subscriptions
            count = f"{self._count:,}" if self._switch.is_reversible else f"up to {self._count:,}"
            why = f"{count} subscriptions, {self._name} from {least:,} on"
        return f"{self.current.explain()}; chosen because of {why}"

    def _size(self, batch: Any) -> int:
        """How many entries a batch has."""
        return len(batch)

    @property
    def _index(self) -> Any:
        """The index in use, untyped: each kind has its own arguments of `register` and `apply`."""
        return self.current

    def _switch_to(self, is_large: bool) -> None:
        """Switch to the small or the large index, unless it is in use. Cost: as to register all."""
        if is_large != self._is_large:
            index = self._make_large() if is_large else self._make_small()
            index.restore(self.current.arrays())
            self.current, self._is_large = index, is_large


class AdaptiveRanked(Adaptive[RankedRangeIndex]):
    """Two indexes that rank rows."""

    def follow(self, delta: RowDelta) -> None:
        self.current.follow(delta)

    def rows(self) -> RowDelta:
        return self.current.rows()

    def bounds(self) -> SubscriptionBounds:
        return self.current.bounds()


class AdaptiveThresholds(Adaptive[ThresholdIndex]):
    """Two indexes of thresholds."""

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        return self.current.progress(slots)


class AdaptiveMatching(Adaptive[MatchIndex]):
    """Two indexes of boolean expressions."""

    def live(self) -> Ints:
        return self.current.live()

    def conjunctions(self, slots: Ints) -> Conjunctions:
        return self.current.conjunctions(slots)

    def _size(self, batch: Events) -> int:
        return batch.n_events
