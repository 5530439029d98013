"""Range aggregates: MIN and MAX are the first of a ranking, COUNT, SUM and AVG are totals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints, RowDelta, RowIndex
from tocsin.indexes.ranges.bounds import TREES, Trees
from tocsin.indexes.ranges.ranked import ExtremeScan
from tocsin.indexes.ranges.totals import BoxTotals
from tocsin.indexes.ranges.totals_range import RangeTotals


class RangeAggregate:
    """`SELECT MIN(y)`, `MAX`, `COUNT`, `SUM` or `AVG … WHERE box` over a table.

    Delta columns: the dimensions, x and z of a region if there is one, y; a row without y is not counted.
    `values` of a registration: `lo`, `hi` (n, dimensions), `region` (n, 3).
    """

    def __init__(
        self,
        dimensions: int,
        *,
        function: str,
        region: str | None = None,
        capacity: int = 16,
        trees: Trees = TREES,
    ) -> None:
        self._index: RowIndex
        if function in ("min", "max"):
            self._index = ExtremeScan(
                dimensions, region=region, descending=function == "max", capacity=capacity, trees=trees
            )
        elif dimensions <= 1 and region is None:
            self._index = RangeTotals(dimensions, function=function, capacity=capacity, trees=trees)
        else:
            self._index = BoxTotals(
                dimensions, function=function, region=region, capacity=capacity, trees=trees
            )

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        self._index.register(slots, values)

    def terminate(self, slots: Ints) -> None:
        self._index.terminate(slots)

    def apply(self, delta: RowDelta) -> ChangeSet:
        return self._index.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        return self._index.result(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        return self._index.parameters(slot)

    def arrays(self) -> Arrays:
        return self._index.arrays()

    def restore(self, arrays: Arrays) -> None:
        self._index.restore(arrays)

    def check_invariants(self) -> None:
        self._index.check_invariants()

    def explain(self) -> str:
        return self._index.explain()
