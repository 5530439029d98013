"""Range top-k, and MIN and MAX, by scanning: no answers are kept, only rows in rank order and boxes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, Bools, ChangeSet, Floats, Ints, RowDelta
from tocsin.indexes.ranges.bounds import Bounds
from tocsin.indexes.ranges.changes import new_cursor, run_reporting
from tocsin.indexes.ranges.images import build_images
from tocsin.indexes.ranges.ranked_kernels import WALK, Lists, list_ranked, report_ranked
from tocsin.indexes.ranges.rows import RankedRows
from tocsin.indexes.ranges.step_kernels import N_RANKED
from tocsin.indexes.shared.columns import grown


class RankedScan:
    """What TopKScan and ExtremeScan have in common.

    Delta columns: the dimensions, then the score. Rows are ranked by score, then by born.
    """

    def __init__(self, dimensions: int, *, descending: bool, is_extreme: bool, capacity: int) -> None:
        self._dimensions = dimensions
        self._is_extreme = is_extreme
        self._sign = -1.0 if descending else 1.0
        self._capacity = capacity
        self._bounds = Bounds(dimensions + 1, capacity)
        self._rows = RankedRows(dimensions + 1, key=dimensions, copied=dimensions, capacity=capacity)
        #: int32 (subscription capacity,): how many rows each may have.
        self._limits: Ints = np.ones(capacity, np.int32)
        #: int32 (row capacity,): zeros, for the kernels.
        self._seen: Ints = np.zeros(capacity, np.int32)
        #: bool (WALK,): scratch for the kernels.
        self._inside: Bools = np.empty(WALK, np.bool_)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions), `k` (n,). Cost: copying them."""
        self._bounds.put(slots, values["lo"], values["hi"])
        self._limits = grown(self._limits, self._bounds.top, 1)
        self._limits[slots] = 1 if self._is_extreme else values["k"]

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: constant each."""
        self._bounds.clear(slots)

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: images × subscriptions × dimensions, and for each answer that may change, a
        walk down the rank order until its last row is found."""
        images = build_images(
            delta,
            self._keyed(delta.before),
            self._keyed(delta.after),
            required=self._dimensions + 1,
            key=self._dimensions,
        )
        rows = self._rows
        rows.reserve(images)
        self._seen = grown(self._seen, rows.top)
        lists = self._new_lists(len(rows.ranking.order))
        cursor = new_cursor()
        cursor[N_RANKED] = rows.n_ranked
        changes = run_reporting(
            lambda out, cursor: report_ranked(
                self._bounds.boxes,
                self._bounds.top,
                self._limits,
                rows.columns,
                rows.ranking,
                images,
                lists,
                self._is_extreme,
                self._sign,
                out,
                cursor,
            ),
            cursor,
            self._capacity,
        )
        rows.n_ranked = int(cursor[N_RANKED])
        return changes

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, a walk down the rank order until its last row is found."""
        boxes = slots.astype(np.int64)
        cursor = new_cursor()
        cursor[N_RANKED] = self._rows.n_ranked
        return run_reporting(
            lambda out, cursor: list_ranked(
                self._bounds.boxes,
                self._limits,
                self._rows.columns,
                self._rows.ranking,
                boxes,
                self._inside,
                self._is_extreme,
                self._sign,
                out,
                cursor,
            ),
            cursor,
            self._capacity,
        )

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        shown = self._bounds.parameters(slot, self._dimensions)
        return shown if self._is_extreme else shown | {"k": int(self._limits[slot])}

    def arrays(self) -> Arrays:
        limits = self._limits[: self._bounds.top].copy()
        return {**self._bounds.arrays(self._dimensions), **self._rows.arrays(), "k": limits}

    def restore(self, arrays: Arrays) -> None:
        self._bounds.restore(arrays)
        self._rows.restore(arrays)
        self._limits = np.array(arrays["k"], np.int32)
        self._seen = np.zeros(self._rows.top, np.int32)

    def check_invariants(self) -> None:
        """Also: a bar below infinity is the key of the k-th row."""
        self._bounds.check_invariants()
        self._rows.check_invariants()
        assert not self._seen.any()
        boxes = self._bounds.boxes
        assert len(self._limits) >= self._bounds.top
        value = self._rows.columns.value
        for box in np.flatnonzero(np.isfinite(boxes.hi[-1])):
            inside = [
                value[row, -1]
                for row in self._rows.ranking.order[: self._rows.n_ranked]
                if (boxes.lo[:-1, box] <= value[row, :-1]).all()
                and (value[row, :-1] <= boxes.hi[:-1, box]).all()
            ]
            assert inside[self._limits[box] - 1] == boxes.hi[-1, box]

    def _keyed(self, columns: Floats) -> Floats:
        """A copy with scores turned into keys, which ascend with rank; no -0.0."""
        keyed: Floats = columns + 0.0
        keyed[:, -1] = keyed[:, -1] * self._sign + 0.0
        return keyed

    def _new_lists(self, length: int) -> Lists:
        return Lists(
            before_row=np.empty(length, np.int64),
            before_key=np.empty(length),
            after_row=np.empty(length, np.int64),
            after_key=np.empty(length),
            after_image=np.empty(length, np.int64),
            seen=self._seen,
            inside=self._inside,
        )


class TopKScan(RankedScan):
    """`SELECT … WHERE box ORDER BY y [DESC] LIMIT k` over a table."""

    def __init__(self, dimensions: int, *, descending: bool, capacity: int = 16) -> None:
        super().__init__(dimensions, descending=descending, is_extreme=False, capacity=capacity)

    def explain(self) -> str:
        direction = "descending" if self._sign < 0 else "ascending"
        return (
            f"range top-k scan, {self._dimensions} dimensions, {direction}: "
            "tests every box, walks the rank order"
        )


class ExtremeScan(RankedScan):
    """`SELECT MIN(y)` or `MAX(y) … WHERE box` over a table: a VALUE that names its row."""

    def __init__(self, dimensions: int, *, descending: bool, capacity: int = 16) -> None:
        super().__init__(dimensions, descending=descending, is_extreme=True, capacity=capacity)

    def explain(self) -> str:
        name = "max" if self._sign < 0 else "min"
        return f"range {name} scan, {self._dimensions} dimensions: tests every box, walks the rank order"
