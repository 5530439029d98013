"""COUNT, SUM and AVG over ranges, by scanning: no totals are kept, only rows and boxes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints, Longs, RowDelta
from tocsin.indexes.ranges.bounds import Bounds
from tocsin.indexes.ranges.changes import empty_buffer, new_cursor, run_reporting
from tocsin.indexes.ranges.images import build_images, widened
from tocsin.indexes.ranges.rows import RankedRows
from tocsin.indexes.ranges.step_kernels import N_RANKED
from tocsin.indexes.ranges.totals_kernels import AVG, COUNT, SPACING, SUM, list_totals, report_totals
from tocsin.indexes.shared.exact_sum_kernels import SUM_SIZE

_FUNCTIONS = {"count": COUNT, "sum": SUM, "avg": AVG}


class TotalScan:
    """`SELECT COUNT(y)`, `SUM(y)` or `AVG(y) … WHERE box` over a table.

    Delta columns: the dimensions, then y. Sums are exact and rounded once, so that they depend on the
    rows alone, never on the way that led to them.
    """

    def __init__(self, dimensions: int, *, function: str, capacity: int = 16) -> None:
        self._dimensions = dimensions
        self._name = function
        self._function = _FUNCTIONS[function]
        self._capacity = capacity
        self._width = max(1, dimensions)
        self._bounds = Bounds(self._width, capacity)
        self._rows = RankedRows(self._width + 1, key=0, copied=self._width + 1, capacity=capacity)
        #: int64: scratch for the kernels.
        self._total = np.zeros(SUM_SIZE, np.int64)
        self._change = np.zeros(SUM_SIZE, np.int64)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions). Cost: copying them."""
        self._bounds.put(slots, values["lo"], values["hi"])

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: constant each."""
        self._bounds.clear(slots)

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: images × subscriptions × dimensions, and for each answer that changes, a pass
        over the rows within its first range. In one dimension COUNT takes two searches instead, and the
        others a pass over few rows, after one over all."""
        images = build_images(
            delta,
            widened(delta.before, self._dimensions),
            widened(delta.after, self._dimensions),
            required=self._width + 1,
            key=0,
        )
        rows = self._rows
        rows.reserve(images)
        checkpoints = self._new_checkpoints()
        cursor = new_cursor()
        cursor[N_RANKED] = rows.n_ranked
        changes = run_reporting(
            lambda out, cursor: report_totals(
                self._bounds.boxes,
                self._bounds.top,
                rows.columns,
                rows.key,
                rows.ranking,
                images,
                self._function,
                checkpoints,
                self._total,
                self._change,
                out,
                cursor,
            ),
            cursor,
            self._capacity,
        )
        rows.n_ranked = int(cursor[N_RANKED])
        return changes

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, a pass over the rows within its first range."""
        out = empty_buffer(len(slots))
        rows = self._rows
        list_totals(
            self._bounds.boxes,
            rows.columns,
            rows.ranking,
            rows.n_ranked,
            slots.astype(np.int64),
            self._function,
            self._new_checkpoints(),
            self._total,
            out,
        )
        return out

    def parameters(self, slot: int) -> dict[str, object]:
        """The box that a subscription was registered with. Cost: constant."""
        return self._bounds.parameters(slot, self._dimensions)

    def arrays(self) -> Arrays:
        return {**self._bounds.arrays(self._dimensions), **self._rows.arrays()}

    def restore(self, arrays: Arrays) -> None:
        self._bounds.restore(arrays)
        self._rows.restore(arrays)

    def check_invariants(self) -> None:
        self._bounds.check_invariants()
        self._rows.check_invariants()

    def explain(self) -> str:
        return f"range {self._name} scan, {self._dimensions} dimensions: tests every box, adds up its rows"

    def _new_checkpoints(self) -> Longs:
        """Scratch for the kernels: sums over the first ranks, one every SPACING."""
        return np.empty((len(self._rows.ranking.order) // SPACING + 1, SUM_SIZE), np.int64)
