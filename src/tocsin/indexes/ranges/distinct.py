"""DISTINCT over boxes: a value comes to a box, or leaves it, where no other row that has it is inside."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints, RowDelta
from tocsin.indexes.ranges.bounds import TREES, Bounds, Trees
from tocsin.indexes.ranges.boxtree_kernels import BLOCK
from tocsin.indexes.ranges.buffers import Buffer
from tocsin.indexes.ranges.changes import new_cursor, run_reporting
from tocsin.indexes.ranges.distinct_kernels import LOG_FULL, Search, list_distinct, report_distinct
from tocsin.indexes.ranges.images import build_images, largest_step
from tocsin.indexes.ranges.orders_kernels import Orders
from tocsin.indexes.ranges.regions import Layout
from tocsin.indexes.ranges.rows import NO_CHAINS, NO_ORDERS, ChainedRows, OrderedRows
from tocsin.indexes.ranges.step_kernels import DONE, N_OUT, Chains, Images
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled


class RangeDistinct:
    """`SELECT DISTINCT y … WHERE box` over a table.

    Delta columns: the dimensions, x and z of a region if there is one, the code of y (a small whole number
    from 0 on; NaN for NULL), and y itself, NaN where it is no number. A change names the code as its row.
    """

    def __init__(
        self, dimensions: int, capacity: int = 16, *, region: str | None = None, trees: Trees = TREES
    ) -> None:
        self._layout = Layout.of(dimensions, region)
        self._capacity = capacity
        self._width = self._layout.width
        # The tree is there from the first box on: with few boxes it is a list of them.
        trees = trees._replace(many=1)
        self._bounds = Bounds(self._width, capacity, region=self._layout.region, trees=trees)
        # One dimension has an order, in which rows of equal code are found beside each other.
        self._is_ordered = self._width == 1
        self._rows: ChainedRows | OrderedRows = (OrderedRows if self._is_ordered else ChainedRows)(
            self._width + 2, capacity
        )
        self._buffer = Buffer(capacity)
        self._search = _empty_search(capacity, capacity, capacity, capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions), `region` (n, 3). Cost: copying them."""
        self._bounds.put(slots, *self._layout.bounds(values))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: constant each."""
        self._bounds.clear(slots)

    @np.errstate(over="ignore", invalid="ignore")
    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: for each row in it, a search for its neighbours of the same value (in more than one
        dimension for each value a walk along all rows that have it), the nodes of the tree that the step's
        rows cut and no other row blocks, and what there is to tell."""
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
        self._search = _search_for(self._search, images, rows.top, len(self._bounds.tree.stack))
        cursor = new_cursor()
        while True:
            status = compiled(report_distinct)(
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
                room = 2 * len(self._search.log)
                self._search = self._search._replace(
                    log=np.empty(room, np.int64), spare=np.empty(room, np.int64)
                )
            else:
                self._buffer.grow()

    @np.errstate(over="ignore", invalid="ignore")
    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription and code, a search for a row inside; in more than one dimension a walk
        along its rows until one is inside."""
        boxes = slots.astype(np.int64)
        return run_reporting(
            lambda out, cursor: list_distinct(
                self._bounds.boxes, self._rows.columns, *self._linked(), boxes, out, cursor
            ),
            new_cursor(),
            self._capacity,
        )

    def parameters(self, slot: int) -> dict[str, object]:
        """The box that a subscription was registered with. Cost: constant."""
        return self._layout.parameters(self._bounds.boxes, slot)

    def arrays(self) -> Arrays:
        return {**self._bounds.arrays(self._layout.given), **self._rows.arrays()}

    def restore(self, arrays: Arrays) -> None:
        self._bounds.restore(arrays)
        self._rows.restore(arrays)
        code = self._rows.columns.value[self._rows.live(), self._width].astype(np.int64)
        self._rows.relink(code, int(code.max(initial=-1)) + 1)

    def check_invariants(self) -> None:
        """Also: each chain, or tree, holds the rows of one code."""
        self._bounds.check_invariants()
        self._rows.check_invariants()
        for code in range(self._rows.n_buckets):
            for row in self._rows.rows_of(code):
                assert self._rows.columns.value[row, self._width] == code

    def explain(self) -> str:
        others = "its neighbours" if self._is_ordered else "the other rows"
        return (
            f"range distinct, {self._layout}: a value goes down a tree over boxes, "
            f"together with {others} that have it"
        )

    def _linked(self) -> tuple[Chains, Orders, bool]:
        """Rows of equal code as kernels take them: in one way, and nothing in the other."""
        if isinstance(self._rows, OrderedRows):
            return NO_CHAINS, self._rows.orders, True
        return self._rows.chains, NO_ORDERS, False


def _search_for(search: Search, images: Images, rows: int, stack: int) -> Search:
    """Scratch for these images, so many rows, and a tree with such a stack: the same if it will do."""
    return search._replace(
        images=grown(search.images, largest_step(images)),
        blockers=grown(search.blockers, max(rows, 2 * largest_step(images))),
        stack=grown(search.stack, 2 * stack),
    )


def _empty_search(log: int, images: int, rows: int, stack: int) -> Search:
    return Search(
        log=np.empty(log, np.int64),
        spare=np.empty(log, np.int64),
        images=np.empty(images, np.int64),
        blockers=np.empty(rows, np.int64),
        stack=np.empty(stack, np.int64),
        inside=np.empty((4, BLOCK), np.bool_),
    )
