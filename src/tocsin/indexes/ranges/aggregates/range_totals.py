"""COUNT, SUM and AVG over one range: a row costs finding the ranges that hold it, and reporting them."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ChangeBuffer, ChangeSet
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Ints
from tocsin.indexes.contract import RowDelta
from tocsin.indexes.ranges.aggregates.range_totals_kernels import (
    Chosen,
    Sums,
    list_range_totals,
    report_range_totals,
)
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, RangeBounds, TreeSettings
from tocsin.indexes.ranges.steps.box_index import BoxIndex
from tocsin.indexes.ranges.steps.images import build_images, largest_step
from tocsin.indexes.ranges.steps.regions import Layout
from tocsin.indexes.ranges.steps.reporting import new_cursor
from tocsin.indexes.ranges.steps.rows import Rows
from tocsin.indexes.ranges.structures.tally import FUNCTIONS, TallyRows
from tocsin.kernels.status import DONE, N_OUT, TALLY_FULL


class RangeTotals(BoxIndex):
    """`SELECT COUNT(y)`, `SUM(y)` or `AVG(y) … [WHERE x BETWEEN lo AND hi]` over a table.

    Delta columns: x, if there is one, then y. Answers are not stored: they follow from sums over the rows,
    which are exact and rounded once, so that they depend on the rows alone, never on their history.
    """

    def __init__(
        self, dimensions: int, *, function: str, capacity: int = 16, trees: TreeSettings = TREE_SETTINGS
    ) -> None:
        super().__init__(
            Layout.of(dimensions, None), RangeBounds(1, capacity, trees=trees), Rows(2, capacity)
        )
        self._name = function
        self._function = FUNCTIONS[function]
        self._tally = TallyRows(np.empty(0), np.empty(0), is_summed=function != "count")
        self._buffer = ChangeBuffer(capacity)
        self._chosen = empty(Chosen)
        self._sums = empty(Sums, images=capacity, columns=self._tally.n_columns, subscriptions=0)

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: a block per row and a pass over the blocks, finding the ranges that hold an image,
        and four searches for each of them."""
        images = build_images(
            delta,
            self._layout.columns(delta.before),
            self._layout.columns(delta.after),
            required=2,
            key=0,
        )
        self._rows.reserve(images)
        self._bounds.reserve(images)
        self._tally.fit(images.value[:, 1])
        self._fit_sums(largest_step(images))
        cursor = new_cursor()
        while True:
            status = entry_point(report_range_totals)(
                self._bounds.boxes,
                self._bounds.top,
                self._bounds.tree,
                self._tally.tally,
                images,
                self._function,
                self._sums,
                self._chosen,
                self._buffer.columns,
                cursor,
            )
            if status == DONE:
                break
            if status == TALLY_FULL:
                self._tally.grow()
            else:
                self._buffer.grow()
        self._rows.store(images)
        return self._buffer.take(int(cursor[N_OUT]))

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: two logarithmic searches a subscription."""
        out = ChangeBuffer(len(slots)).columns
        asked = slots.astype(np.int64)
        list_range_totals(
            self._bounds.boxes, self._tally.tally, asked, self._function, self._sums, self._chosen, out
        )
        return out

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        value = self._rows.columns.value[self._rows.live()]
        x, y = value[:, 0].copy(), value[:, 1].copy()
        self._tally = TallyRows(x, y, is_summed=self._name != "count")
        self._fit_sums(0)

    def check_invariants(self) -> None:
        super().check_invariants()
        live = self._rows.live()
        value = self._rows.columns.value[live]
        self._tally.check_invariants(value[:, 0], value[:, 1])
        check_layout(self._sums)
        check_layout(self._chosen)

    def explain(self) -> str:
        return f"range {self._name}; {self._bounds.explain()}, takes the difference of two sums"

    def _fit_sums(self, images: int) -> None:
        """Size the scratch for a step of `images` images, all subscriptions, and the columns of a sum."""
        columns, subscriptions = self._tally.n_columns, self._bounds.top
        if columns != len(self._sums.after):
            images = max(images, len(self._sums.n_more) - 1)
            self._sums = empty(Sums, images=images, columns=columns, subscriptions=subscriptions)
        elif images >= len(self._sums.n_more) or subscriptions > len(self._sums.value):
            self._sums = grow(self._sums, images=images, subscriptions=subscriptions)
