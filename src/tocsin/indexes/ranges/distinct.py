"""DISTINCT over ranges, by scanning: rows are chained by value, and a touched value looks along its chain."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints, RowDelta
from tocsin.indexes.ranges.bounds import Bounds
from tocsin.indexes.ranges.changes import new_cursor, run_reporting
from tocsin.indexes.ranges.distinct_kernels import list_distinct, report_distinct
from tocsin.indexes.ranges.images import build_images, widened
from tocsin.indexes.ranges.rows import ChainedRows


class DistinctScan:
    """`SELECT DISTINCT y … WHERE box` over a table.

    Delta columns: the dimensions, the code of y (a small whole number from 0 on; NaN for NULL), and y
    itself, NaN where it is no number. A change names the code as its row.
    """

    def __init__(self, dimensions: int, capacity: int = 16) -> None:
        self._dimensions = dimensions
        self._capacity = capacity
        self._width = max(1, dimensions)
        self._bounds = Bounds(self._width, capacity)
        self._rows = ChainedRows(self._width + 2, capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions). Cost: copying them."""
        self._bounds.put(slots, values["lo"], values["hi"])

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: constant each."""
        self._bounds.clear(slots)

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: images × subscriptions × dimensions, and for each box that a value may have
        left or entered, a walk along the value's chain until a row inside is found."""
        images = build_images(
            delta,
            widened(delta.before, self._dimensions),
            widened(delta.after, self._dimensions),
            required=self._width + 1,
            key=self._width,
        )
        images.bucket[:] = images.value[:, self._width]
        rows = self._rows
        rows.reserve(images)
        rows.reserve_buckets(int(images.bucket.max(initial=-1)) + 1)
        return run_reporting(
            lambda out, cursor: report_distinct(
                self._bounds.boxes, self._bounds.top, rows.columns, rows.chains, images, out, cursor
            ),
            new_cursor(),
            self._capacity,
        )

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription and code, a walk along the chain until a row inside is found."""
        boxes = slots.astype(np.int64)
        return run_reporting(
            lambda out, cursor: list_distinct(
                self._bounds.boxes, self._rows.columns, self._rows.chains, boxes, out, cursor
            ),
            new_cursor(),
            self._capacity,
        )

    def parameters(self, slot: int) -> dict[str, object]:
        """The box that a subscription was registered with. Cost: constant."""
        return self._bounds.parameters(slot, self._dimensions)

    def arrays(self) -> Arrays:
        return {**self._bounds.arrays(self._dimensions), **self._rows.arrays()}

    def restore(self, arrays: Arrays) -> None:
        self._bounds.restore(arrays)
        self._rows.restore(arrays)
        code = self._rows.columns.value[self._rows.live(), self._width].astype(np.int64)
        self._rows.relink(code, int(code.max(initial=-1)) + 1)

    def check_invariants(self) -> None:
        """Also: each chain holds the rows of one code."""
        self._bounds.check_invariants()
        self._rows.check_invariants()
        head, after, _ = self._rows.chains
        for code, row in enumerate(head.tolist()):
            while row >= 0:
                assert self._rows.columns.value[row, self._width] == code
                row = int(after[row])

    def explain(self) -> str:
        return (
            f"range distinct scan, {self._dimensions} dimensions: tests every box, looks along a value's rows"
        )
