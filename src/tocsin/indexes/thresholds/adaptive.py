"""What the engine keeps thresholds by: the scan while they are few, the lazy index once they are many."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Floats, Ints, Longs
from tocsin.indexes.thresholds.lazy import LazyThresholds
from tocsin.indexes.thresholds.scan import ThresholdScan

#: Slots from which on the lazy index is taken. Measured: where few mature it is faster from a few hundred on,
#: and here by 6 to 100 times; where many mature, in batches of 10,000, from 1,000 or 2,000 on. Where many
#: mature in batches of 100 the two are within twice of each other, and in single rows the scan is up to 2.7
#: times as fast, up to 32,000, the most tried.
MANY = 1 << 12
#: Slots times events of a batch from which on it is taken as well, if there are some slots at all. Measured
#: where many mature: in batches of 10,000 it is faster from 200 slots on, in batches of 100 from 16,000.
WORK = 1 << 21
SOME = 1 << 7


class AdaptiveThresholds:
    """Keeps `SUM(w) >= tau` over boxes of `dimensions` ranges, in whole multiples of 1 / `scale`.

    `register` takes what the scan takes. The choice follows from the largest number of slots ever in use, and
    from that number times the events of a batch, because that is what a scan pays for. Once the lazy index is
    taken it stays; a restored one is chosen anew, by the slots at once and by the next large batch.
    """

    def __init__(
        self, dimensions: int, scale: int, capacity: int = 16, many: int = MANY, work: int = WORK
    ) -> None:
        self._dimensions = dimensions
        self._scale = scale
        self._capacity = capacity
        self._many = many
        self._work = work
        #: one more than the largest slot ever there
        self._top = 0
        self._index: ThresholdScan | LazyThresholds = ThresholdScan(dimensions, scale, capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions; they count from the next event on.

        Cost: linear in their number; of many, n log n; and as much for all, once.
        """
        if len(slots):
            self._top = max(self._top, int(slots.max()) + 1)
        if self._top >= self._many:
            self._take_lazy()
        self._index.register(slots, values)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number."""
        self._index.terminate(slots)

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        """Count a batch of events, values (events, dimensions): who matures, and at which event.

        Cost: that of the index chosen; n log n of all subscriptions when it is.
        """
        if self._top >= SOME and self._top * len(values) >= self._work:
            self._take_lazy()
        return self._index.apply(values, weights)

    def result(self, slots: Ints) -> ChangeSet:
        """The weight counted so far, as VALUE. Cost: as `progress`."""
        return self._index.result(slots)

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        """Scaled weight reached, and missing to tau. What was reached beyond int64 shows as the largest.

        Cost: linear in their number, or a look at the group of each.
        """
        return self._index.progress(slots)

    def arrays(self) -> Arrays:
        """What each slot holds: either index can be restored from it. Cost: linear."""
        return self._index.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: linear for a scan, else n log n."""
        self._top = len(arrays["is_there"])
        if self._top >= self._many:
            self._index = LazyThresholds(self._dimensions, self._scale, self._capacity)
        self._index.restore(arrays)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._index.check_invariants()
        assert isinstance(self._index, LazyThresholds) or self._top < self._many

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with; `tau` as it is scaled. Cost: constant."""
        return self._index.parameters(slot)

    def explain(self) -> str:
        """One line: which index this is, how it works, and why it was chosen."""
        if isinstance(self._index, LazyThresholds) and self._top < self._many:
            why = f"a batch came to {self._work:,} pairs of events and subscriptions, or more"
        else:
            than = "fewer" if isinstance(self._index, ThresholdScan) else "not fewer"
            why = (
                f"there were up to {self._top:,} at a time, {than} than the {self._many:,} from which on "
                "the lazy index is taken: faster unless many mature in small batches"
            )
        return f"{self._index.explain()}; chosen because {why}"

    def _take_lazy(self) -> None:
        if isinstance(self._index, ThresholdScan):
            lazy = LazyThresholds(self._dimensions, self._scale, self._capacity)
            lazy.restore(self._index.arrays())
            self._index = lazy
