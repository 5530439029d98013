"""DISTINCT over boxes: a value enters or leaves a box where no other row with it is inside."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.changes import ChangeBuffer, ChangeSet
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Ints
from tocsin.indexes.contract import RowDelta, SubscriptionBounds
from tocsin.indexes.ranges.distinct.distinct_kernels import Search, list_distinct, report_distinct
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, RangeBounds, TreeSettings
from tocsin.indexes.ranges.steps.box_index import BoxIndex
from tocsin.indexes.ranges.steps.images import build_images, largest_step
from tocsin.indexes.ranges.steps.regions import Layout
from tocsin.indexes.ranges.steps.reporting import new_cursor, run_reporting
from tocsin.indexes.ranges.steps.rows import NO_CHAINS, NO_ORDERS, ChainedRows, OrderedRows
from tocsin.indexes.ranges.steps.step_kernels import Chains, RowImages
from tocsin.indexes.ranges.structures.row_treap_kernels import Orders
from tocsin.kernels.status import DONE, LOG_FULL, N_OUT


class RangeDistinct(BoxIndex):
    """`SELECT DISTINCT y … WHERE box` over a table.

    Delta columns: the dimensions, x and z of a region if there is one, the code of y (a small whole number
    from 0 on; NaN for NULL), and y itself, NaN where it is no number. A change names the code as its row.
    """

    _rows: ChainedRows | OrderedRows

    def __init__(
        self,
        dimensions: int,
        capacity: int = 16,
        *,
        region: str | None = None,
        trees: TreeSettings = TREE_SETTINGS,
    ) -> None:
        layout = Layout.of(dimensions, region)
        # One dimension has an order, in which neighbours of equal code are found by search.
        self._is_ordered = layout.width == 1
        # The tree exists from the first box on: with few boxes it is a list of them.
        trees = trees._replace(min_boxes=1)
        super().__init__(
            layout,
            RangeBounds(layout.width, capacity, region=layout.region, trees=trees),
            (OrderedRows if self._is_ordered else ChainedRows)(layout.width + 2, capacity),
        )
        self._capacity = capacity
        self._width = layout.width
        self._buffer = ChangeBuffer(capacity)
        self._search = empty(Search, entries=capacity, images=capacity, blockers=capacity, nodes=capacity)

    @np.errstate(over="ignore", invalid="ignore")
    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: for each row in it, a search for its neighbours of the same value (in more than one
        dimension a scan of all rows with the value), the nodes of the tree that the step's rows cut and no
        other row blocks, and the changes reported."""
        images = build_images(
            delta,
            self._layout.columns(delta.before),
            self._layout.columns(delta.after),
            required=self._width + 1,
            key=self._width,
        )
        images.bucket[:] = images.value[:, self._width]
        rows = self._rows
        rows.reserve(images)
        rows.reserve_buckets(int(images.bucket.max(initial=-1)) + 1)
        self._reserve(images)
        cursor = new_cursor()
        while True:
            status = entry_point(report_distinct)(
                self._bounds.tree,
                self._bounds.top,
                rows.columns,
                *self._linked(),
                images,
                self._search,
                self._buffer.columns,
                cursor,
            )
            if status == DONE:
                return self._buffer.take(int(cursor[N_OUT]))
            if status == LOG_FULL:
                self._search = grow(self._search, entries=2 * len(self._search.log))
            else:
                self._buffer.grow()

    @np.errstate(over="ignore", invalid="ignore")
    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription and code, a search for a row inside; in more than one dimension a scan
        of its rows until one is inside."""
        boxes = slots.astype(np.int64)
        return run_reporting(
            lambda out, cursor: list_distinct(
                self._bounds.boxes, self._rows.columns, *self._linked(), boxes, out, cursor
            ),
            new_cursor(),
            self._capacity,
        )

    def bounds(self) -> SubscriptionBounds:
        """The ranges of all subscriptions. Cost: linear."""
        slots, lo, hi = self._bounds.live(self._layout.given)
        return SubscriptionBounds(slots, lo, hi, np.ones(len(slots), np.int32))

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        code = self._rows.columns.value[self._rows.live(), self._width].astype(np.int64)
        self._rows.relink(code, int(code.max(initial=-1)) + 1)

    def check_invariants(self) -> None:
        """Assert all invariants, and that each chain or tree holds the rows of one code."""
        super().check_invariants()
        check_layout(self._search)
        for code in range(self._rows.n_buckets):
            for row in self._rows.rows_of(code):
                assert self._rows.columns.value[row, self._width] == code

    def explain(self) -> str:
        others = "its neighbours" if self._is_ordered else "the other rows"
        return (
            f"range distinct, {self._layout}; a value goes down a tree over boxes, "
            f"together with {others} that have it"
        )

    def _linked(self) -> tuple[Chains, Orders, bool]:
        """Rows of equal code in the form kernels take: one representation in use, the other empty."""
        if isinstance(self._rows, OrderedRows):
            return NO_CHAINS, self._rows.orders, True
        return self._rows.chains, NO_ORDERS, False

    def _reserve(self, images: RowImages) -> None:
        """Ensure that the scratch is large enough for these images. Cost: amortised constant per row."""
        search, n_images, nodes = self._search, largest_step(images), 2 * len(self._bounds.tree.stack)
        blockers = max(self._rows.top, 2 * n_images)
        if n_images > len(search.images) or blockers > len(search.blockers) or nodes > len(search.stack):
            self._search = grow(search, images=n_images, blockers=blockers, nodes=nodes)
