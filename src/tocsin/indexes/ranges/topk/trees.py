"""Top-k, MIN and MAX over boxes: computed from trees of rows and boxes; answers are not stored."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ChangeBuffer, ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import RowDelta, SubscriptionBounds
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, RangeBounds, TreeSettings
from tocsin.indexes.ranges.steps.box_index import BoxIndex
from tocsin.indexes.ranges.steps.images import build_images, largest_step
from tocsin.indexes.ranges.steps.regions import Layout
from tocsin.indexes.ranges.steps.reporting import new_cursor
from tocsin.indexes.ranges.steps.step_kernels import N_AFFECTED, RowImages, find_affected, is_inside
from tocsin.indexes.ranges.structures.row_tree import TreeRows
from tocsin.indexes.ranges.structures.row_tree_kernels import close_rows, open_rows
from tocsin.indexes.ranges.topk.ranking import Ranking
from tocsin.indexes.ranges.topk.trees_kernels import (
    LONG,
    AnswerLists,
    Answers,
    RowSearch,
    list_answers_before,
    list_ranked,
    report_long,
    report_ranked,
)
from tocsin.kernels.status import AT, DONE, N_OUT, ROWS_FULL, STEP


class RankedBoxTree(BoxIndex):
    """Common base of TopKBoxTree and MinMaxBoxTree.

    Delta columns: the dimensions, x and z of a region if there is one, the score. Rows are ranked by score,
    then by born.
    """

    _rows: TreeRows
    #: whether one row is the answer, reported as a VALUE
    _is_minmax: bool

    def __init__(
        self,
        dimensions: int,
        *,
        region: str | None = None,
        descending: bool,
        capacity: int = 16,
        trees: TreeSettings = TREE_SETTINGS,
    ) -> None:
        layout = Layout.of(dimensions, region)
        super().__init__(
            layout,
            RangeBounds(layout.width + 1, capacity, split=layout.width, region=layout.region, trees=trees),
            TreeRows(layout.width, capacity),
        )
        self._sign = -1.0 if descending else 1.0
        self._ranking = Ranking(self._is_minmax, self._sign)
        self._capacity = capacity
        self._width = layout.width
        self._longest = trees.longest
        self._buffer = ChangeBuffer(capacity)
        #: int32 (subscription capacity,): how many rows each may have.
        self._limits: Ints = np.ones(capacity, np.int32)
        self._lists = empty(AnswerLists, rows=capacity, images=capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions), `k` (n,), `region` (n, 3). Cost: as `BoxIndex`."""
        super().register(slots, values)
        self._limits = ensure_capacity(self._limits, self._bounds.top, 1)
        self._limits[slots] = 1 if self._is_minmax else values["k"]

    @np.errstate(over="ignore", invalid="ignore")
    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a step: finding the boxes that hold an image not beyond their bar, and for each of them its
        first rows, both in a tree; in a long step twice."""
        images = build_images(
            delta,
            self._keyed(delta.before),
            self._keyed(delta.after),
            required=self._width + 1,
            key=self._width,
        )
        rows = self._rows
        rows.reserve(images)
        self._bounds.reserve(images)
        n_images = largest_step(images)
        if rows.top > len(self._lists.seen) or n_images >= len(self._lists.image):
            self._lists = grow(self._lists, rows=rows.top, images=n_images)
        cursor = new_cursor()
        while True:
            status = entry_point(report_ranked)(
                self._bounds.boxes,
                self._bounds.top,
                self._bounds.tree,
                self._limits,
                rows.columns,
                RowSearch(rows.tree, rows.heap),
                images,
                self._lists,
                self._ranking,
                self._longest,
                self._buffer.columns,
                cursor,
            )
            if status == DONE:
                break
            if status == ROWS_FULL:
                rows.build_for(images, cursor)
            elif status == LONG:
                self._take_long_step(images, cursor)
            else:
                self._buffer.grow()
        rows.rebuild_if_needed()
        return self._buffer.take(int(cursor[N_OUT]))

    @np.errstate(over="ignore", invalid="ignore")
    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, a search in the tree for each of its rows."""
        asked, cursor = slots.astype(np.int64), new_cursor()
        while (
            list_ranked(
                self._bounds.boxes,
                self._limits,
                self._rows.tree,
                self._rows.heap,
                asked,
                self._ranking,
                self._buffer.columns,
                cursor,
            )
            != DONE
        ):
            self._buffer.grow()
        return self._buffer.take(int(cursor[N_OUT]))

    def bounds(self) -> SubscriptionBounds:
        """The ranges of all subscriptions. Cost: linear."""
        slots, lo, hi = self._bounds.live(self._layout.given)
        return SubscriptionBounds(slots, lo, hi, self._limits[slots])

    def rows(self) -> RowDelta:
        """All rows that can be in an answer, as one step that inserts them. Cost: linear."""
        live = self._rows.live()
        values = self._layout.given_columns(self._rows.columns.value[live])
        values[:, -1] = values[:, -1] * self._sign + 0.0
        return RowDelta.inserting(live, self._rows.columns.born[live], values)

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        shown = super().parameters(slot)
        return shown if self._is_minmax else shown | {"k": int(self._limits[slot])}

    def arrays(self) -> Arrays:
        limits = self._limits[: self._bounds.top].copy()
        return super().arrays() | {"k": limits}

    def restore(self, arrays: Arrays) -> None:
        super().restore(arrays)
        self._limits = np.array(arrays["k"], np.int32)

    @np.errstate(over="ignore", invalid="ignore")
    def check_invariants(self) -> None:
        """Assert all invariants, and that a bar below infinity is the key of the k-th row."""
        super().check_invariants()
        check_layout(self._lists)
        assert not self._lists.seen.any()
        boxes = self._bounds.boxes
        assert len(self._limits) >= self._bounds.top
        value = self._rows.columns.value
        live = self._rows.live()
        by_rank = live[np.argsort(value[live, -1])]
        for box in np.flatnonzero(np.isfinite(boxes.hi[-1])):
            inside = [
                value[row, -1] for row in by_rank if is_inside(boxes, int(box), value, row, self._width)
            ]
            assert inside[self._limits[box] - 1] == boxes.hi[-1, box]

    def _take_long_step(self, images: RowImages, cursor: Longs) -> None:
        """Apply the step at the cursor: answers before, rows, answers after."""
        step, rows, bounds = int(cursor[STEP]), self._rows, self._bounds
        cursor[N_AFFECTED] = find_affected(bounds.boxes, bounds.top, bounds.tree, images, step)
        answers = self._answers_before(cursor)
        cursor[AT] = 0
        open_rows(rows.tree, rows.columns, images, step)
        while not close_rows(rows.tree, rows.columns, images, step, cursor):
            rows.build_for(images, cursor)
        rows.rebuild_if_needed()
        image_of: Longs = np.full(rows.top, -1, np.int64)
        new = np.arange(images.middle[step], images.start[step + 1])
        image_of[images.row[new]] = new
        cursor[AT] = 0
        while (
            report_long(
                bounds.boxes,
                bounds.tree,
                self._limits,
                rows.tree,
                rows.heap,
                images,
                image_of,
                answers,
                self._lists,
                self._ranking,
                self._buffer.columns,
                cursor,
            )
            != DONE
        ):
            self._buffer.grow()
        cursor[STEP] += 1

    def _answers_before(self, cursor: Longs) -> Answers:
        """The current answers of the affected boxes. Cost: a search in the tree for each of their rows."""
        answers = empty(Answers, rows=self._capacity, boxes=int(cursor[N_AFFECTED]))
        cursor[AT] = 0
        while (
            list_answers_before(
                self._bounds.boxes, self._limits, self._rows.tree, self._rows.heap, answers, cursor
            )
            != DONE
        ):
            answers = grow(answers, rows=2 * len(answers.row))
        return answers

    def _keyed(self, columns: Floats) -> Floats:
        """A copy with scores turned into keys, which ascend with rank; no -0.0."""
        keyed = self._layout.columns(columns)
        keyed[:, -1] = keyed[:, -1] * self._sign + 0.0
        return keyed


class TopKBoxTree(RankedBoxTree):
    """`SELECT … WHERE box ORDER BY y [DESC] LIMIT k` over a table."""

    _is_minmax = False

    def explain(self) -> str:
        direction = "descending" if self._sign < 0 else "ascending"
        return (
            f"range top-k, {self._layout}, {direction}; "
            f"{self._bounds.explain()}, finds their first rows in a tree"
        )


class MinMaxBoxTree(RankedBoxTree):
    """`SELECT MIN(y)` or `MAX(y) … WHERE box` over a table: a VALUE that names its row."""

    _is_minmax = True

    def explain(self) -> str:
        name = "max" if self._sign < 0 else "min"
        return f"range {name}, {self._layout}; {self._bounds.explain()}, finds their first rows in a tree"
