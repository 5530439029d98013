"""COUNT, SUM and AVG over boxes: computed from trees of rows and boxes; no totals are stored."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ChangeBuffer, ChangeSet
from tocsin.arrays.jit import entry_point
from tocsin.arrays.types import Ints, Longs
from tocsin.indexes.contract import RowDelta
from tocsin.indexes.ranges.aggregates.box_totals_kernels import (
    list_totals,
    report_totals,
)
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, RangeBounds, TreeSettings
from tocsin.indexes.ranges.steps.box_index import BoxIndex
from tocsin.indexes.ranges.steps.images import build_images
from tocsin.indexes.ranges.steps.regions import Layout
from tocsin.indexes.ranges.steps.reporting import new_cursor
from tocsin.indexes.ranges.structures.row_tree import TreeRows
from tocsin.indexes.ranges.structures.tally import FUNCTIONS
from tocsin.kernels.status import DONE, N_OUT, ROWS_FULL


class BoxTotals(BoxIndex):
    """`SELECT COUNT(y)`, `SUM(y)` or `AVG(y) … WHERE box` over a table.

    Delta columns: the dimensions, x and z of a region if there is one, y. Sums are exact and rounded once,
    so that they depend on the rows alone, never on their history.
    """

    _rows: TreeRows

    def __init__(
        self,
        dimensions: int,
        *,
        function: str,
        region: str | None = None,
        capacity: int = 16,
        trees: TreeSettings = TREE_SETTINGS,
    ) -> None:
        layout = Layout.of(dimensions, region)
        super().__init__(
            layout,
            RangeBounds(layout.width, capacity, region=layout.region, trees=trees),
            TreeRows(layout.width, capacity, is_summed=function != "count"),
        )
        self._name = function
        self._function = FUNCTIONS[function]
        self._width = layout.width
        self._buffer = ChangeBuffer(capacity)

    @np.errstate(over="ignore", invalid="ignore")
    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: finding the boxes that hold an image, and for each the images within its first
        range and the nodes of the tree over rows that it cuts."""
        images = build_images(
            delta,
            self._layout.columns(delta.before),
            self._layout.columns(delta.after),
            required=self._width + 1,
            key=0,
        )
        rows = self._rows
        rows.reserve(images)
        rows.fit(images.value[:, self._width])
        self._bounds.reserve(images)
        total, limbs = self._scratch()
        change, cursor = total.copy(), new_cursor()
        while True:
            status = entry_point(report_totals)(
                self._bounds.boxes,
                self._bounds.top,
                self._bounds.tree,
                rows.columns,
                rows.tree,
                images,
                self._function,
                total,
                change,
                limbs,
                self._buffer.columns,
                cursor,
            )
            if status == DONE:
                break
            if status == ROWS_FULL:
                rows.build_for(images, cursor)
            else:
                self._buffer.grow()
        rows.rebuild_if_needed()
        return self._buffer.take(int(cursor[N_OUT]))

    @np.errstate(over="ignore", invalid="ignore")
    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, the nodes of the tree over rows that its box cuts."""
        out = ChangeBuffer(len(slots)).columns
        asked = slots.astype(np.int64)
        total, limbs = self._scratch()
        list_totals(self._bounds.boxes, self._rows.tree, asked, self._function, total, limbs, out)
        return out

    def explain(self) -> str:
        return f"range {self._name}, {self._layout}; {self._bounds.explain()}, adds up their rows in a tree"

    def _scratch(self) -> tuple[Longs, Longs]:
        """A sum, and scratch to round it."""
        columns = self._rows.n_columns
        return np.zeros(columns, np.int64), np.zeros(columns + 2, np.int64)
