"""Range aggregates: MIN and MAX are the first of a ranking, COUNT, SUM and AVG are totals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints, RowDelta, RowIndex
from tocsin.indexes.ranges.ranked import ExtremeScan
from tocsin.indexes.ranges.totals import TotalScan


class AggregateScan:
    """`SELECT MIN(y)`, `MAX`, `COUNT`, `SUM` or `AVG … WHERE box` over a table, by scanning.

    Delta columns: the dimensions, then y; a row without y is not counted. `values` of a registration:
    `lo`, `hi` (n, dimensions).
    """

    def __init__(self, dimensions: int, *, function: str, capacity: int = 16) -> None:
        self._scan: RowIndex
        if function in ("min", "max"):
            self._scan = ExtremeScan(dimensions, descending=function == "max", capacity=capacity)
        else:
            self._scan = TotalScan(dimensions, function=function, capacity=capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        self._scan.register(slots, values)

    def terminate(self, slots: Ints) -> None:
        self._scan.terminate(slots)

    def apply(self, delta: RowDelta) -> ChangeSet:
        return self._scan.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        return self._scan.result(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        return self._scan.parameters(slot)

    def arrays(self) -> Arrays:
        return self._scan.arrays()

    def restore(self, arrays: Arrays) -> None:
        self._scan.restore(arrays)

    def check_invariants(self) -> None:
        self._scan.check_invariants()

    def explain(self) -> str:
        return self._scan.explain()
