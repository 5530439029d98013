"""Range top-k, MIN and MAX over one range: a scan while subscriptions are few, tiles when they are many."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints, RankedIndex, RowDelta
from tocsin.indexes.ranges.changes_topk import RangeExtreme, RangeTopK, RankedTiles
from tocsin.indexes.ranges.ranked import ExtremeScan, TopKScan

#: Subscriptions from which on tiles are faster, whether rows come one by one or many at once.
MANY = 4096


class RankedRange:
    """What TopKRange and ExtremeRange have in common: two indexes of the same answers, one of them in use.

    Both have the same arrays, so that one becomes the other by being restored from them.
    """

    def __init__(self, scan: Callable[[], RankedIndex], tiles: Callable[[], RankedIndex], many: int) -> None:
        self._new_scan = scan
        self._new_tiles = tiles
        self._many = many
        self._count = 0
        self._index: RankedIndex = scan()
        self._is_tiled = False

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, 1), `k` (n,). Cost: see the index in use."""
        self._count += len(slots)
        if self._count >= self._many and not self._is_tiled:
            self._become(True, self._index.arrays())
        self._index.register(slots, values)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: see the index in use."""
        self._index.terminate(slots)
        self._count -= len(slots)
        if self._is_tiled and 4 * self._count < self._many:
            self._become(False, self._index.arrays())

    def apply(self, delta: RowDelta) -> ChangeSet:
        return self._index.apply(delta)

    def follow(self, delta: RowDelta) -> None:
        """Take a delta without asking what it changes. Cost: see the index in use."""
        if isinstance(self._index, RankedTiles):
            self._index.follow(delta)
        else:
            self._index.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        return self._index.result(slots)

    def rows(self) -> RowDelta:
        return self._index.rows()

    def parameters(self, slot: int) -> dict[str, object]:
        return self._index.parameters(slot)

    def arrays(self) -> Arrays:
        return self._index.arrays()

    def restore(self, arrays: Arrays) -> None:
        self._count = int((arrays["lo"][-1] < arrays["hi"][-1]).sum())
        self._become(self._count >= self._many, arrays)

    def check_invariants(self) -> None:
        """Also: the index in use is the one for so many subscriptions."""
        self._index.check_invariants()
        assert self._is_tiled or self._count < self._many
        assert not self._is_tiled or 4 * self._count >= self._many
        arrays = self._index.arrays()
        assert self._count == (arrays["lo"][-1] < arrays["hi"][-1]).sum()

    def explain(self) -> str:
        """Which index is in use, and why."""
        why = f"{self._count} subscriptions, tiles from {self._many} on"
        return f"{self._index.explain()} ({why})"

    def _become(self, is_tiled: bool, arrays: Arrays) -> None:
        """Go over to an index. Cost: about linear in subscriptions and rows."""
        self._index = self._new_tiles() if is_tiled else self._new_scan()
        self._index.restore(arrays)
        self._is_tiled = is_tiled


class TopKRange(RankedRange):
    """`SELECT … WHERE x BETWEEN lo AND hi ORDER BY y [DESC] LIMIT k` over a table."""

    def __init__(self, *, descending: bool, capacity: int = 16, many: int = MANY) -> None:
        super().__init__(
            lambda: TopKScan(1, descending=descending, capacity=capacity),
            lambda: RangeTopK(descending=descending, capacity=capacity),
            many,
        )


class ExtremeRange(RankedRange):
    """`SELECT MIN(y)` or `MAX(y) … WHERE x BETWEEN lo AND hi` over a table."""

    def __init__(self, *, descending: bool, capacity: int = 16, many: int = MANY) -> None:
        super().__init__(
            lambda: ExtremeScan(1, descending=descending, capacity=capacity),
            lambda: RangeExtreme(descending=descending, capacity=capacity),
            many,
        )
