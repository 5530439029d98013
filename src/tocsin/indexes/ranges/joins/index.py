"""The select-join of two tables.

A touched row meets the other side's rows of its code, and each pair is looked up in a tree over the boxes of
both sides. Where that is less work, the join is evaluated box by box. Pairs can also be counted only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tocsin.arrays.changes import RETAINED, ChangeBuffer, ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import empty
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import RowDelta
from tocsin.indexes.ranges.joins.boxes_kernels import (
    N_MET,
    N_WALKED,
    JoinScratch,
    count_boxes,
    list_boxes,
    measure_work,
)
from tocsin.indexes.ranges.joins.joins_kernels import (
    LEFT,
    RIGHT,
    JoinSide,
    count_pairs,
    report_pairs,
    store_steps,
)
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS, RangeBounds, TreeSettings
from tocsin.indexes.ranges.steps.images import build_images, padded_columns
from tocsin.indexes.ranges.steps.reporting import new_cursor
from tocsin.indexes.ranges.steps.rows import ChainedRows
from tocsin.indexes.ranges.steps.step_kernels import RowImages
from tocsin.kernels.status import DONE, FULL, N_OUT

#: 2**64 over the golden ratio: multiplying by it spreads codes over the buckets (Knuth).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class RangeJoin:
    """`SELECT … FROM r JOIN s ON r.a = s.a WHERE box over both`, for two tables.

    Delta columns of a side: its dimensions, then the code that it joins by: any double, equal for
    equal values, NaN for NULL. A change names the left row, and as `other` the right row.
    """

    def __init__(
        self,
        left_dimensions: int,
        right_dimensions: int,
        capacity: int = 16,
        *,
        trees: TreeSettings = TREE_SETTINGS,
    ) -> None:
        self._dimensions = (left_dimensions, right_dimensions)
        self._widths = (max(1, left_dimensions), max(1, right_dimensions))
        # The tree is there from the first box on: with few boxes it is a list of them.
        self._bounds = RangeBounds(sum(self._widths), capacity, trees=trees._replace(min_boxes=1))
        self._rows = tuple(ChainedRows(width + 1, capacity) for width in self._widths)
        #: Buckets are 2**bits, the same for both sides.
        self._bits = 0
        self._fit_buckets()
        self._buffer = ChangeBuffer(capacity)
        #: int64 (capacity of the buffer, 2): the insertion numbers of the rows that changes name
        self._born: Longs = np.empty((capacity, 2), np.int64)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, left + right dimensions). Cost: copying them."""
        lo = np.full((len(slots), sum(self._widths)), -np.inf)
        hi = np.full((len(slots), sum(self._widths)), np.inf)
        cut, right = self._dimensions[LEFT], self._widths[LEFT]
        lo[:, :cut], hi[:, :cut] = values["lo"][:, :cut], values["hi"][:, :cut]
        if self._dimensions[RIGHT]:
            lo[:, right:], hi[:, right:] = values["lo"][:, cut:], values["hi"][:, cut:]
        self._bounds.put(slots, lo, hi)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: constant each."""
        self._bounds.clear(slots)

    def apply(self, delta: RowDelta, side: int) -> ChangeSet:
        """Take the steps of one side: 0 left, 1 right.

        Cost of a step: a search in the tree for each pair that an image makes with a partner; or for each
        box, visiting all images and their partners, where that is less. And sorting the changes.
        """
        images = self._images(delta, side)
        self._rows[side].reserve(images)
        self._fit_buckets()
        images.bucket[:] = self._buckets(images.value[:, -1])
        mine, theirs, tree = self._side(side), self._side(1 - side), self._bounds.tree
        if self._is_less_by_box(images, theirs):
            changes, born = self._list(mine, theirs, side, images, self._bounds.filled())
            store_steps(mine, images)
        else:
            point, found = np.empty((1, sum(self._widths))), self._bounds.boxes.affected
            changes, born = self._run(
                lambda out, out_born, cursor: entry_point(report_pairs)(
                    mine, theirs, tree, side, images, point, found, out, out_born, cursor
                )
            )
        return _sorted_pairs(changes, born, changes.subscription) if changes else changes

    def most(self, delta: RowDelta, side: int) -> int:
        """An upper bound of the pairs that the delta changes, over all subscriptions. Cost: constant."""
        return 2 * len(delta.row) * self._rows[1 - side].top * self._bounds.n_filled

    def count(self, delta: RowDelta, side: int) -> Longs:
        """How many changes `apply` would report, by subscription slot. Changes nothing, and builds no pair.

        Cost: as of `apply`, but never more than visiting all images and their partners for each box.
        """
        images = self._images(delta, side)
        images.bucket[:] = self._buckets(images.value[:, -1])
        mine, theirs, tree = self._side(side), self._side(1 - side), self._bounds.tree
        counts = np.zeros(self._bounds.top, np.int64)
        if not self._is_less_by_box(images, theirs):
            point, found = np.empty((1, sum(self._widths))), self._bounds.boxes.affected
            most = max(1, self._bounds.n_filled) * (len(images.row) + self._rows[1 - side].top)
            if count_pairs(mine, theirs, tree, side, images, point, found, most, counts) == DONE:
                return counts
            counts[:] = 0
        boxes = self._bounds.filled()
        counts[boxes] = _counted(mine, theirs, images, boxes)
        return counts

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, its left rows and their partners."""
        images = self._left_images()
        boxes = slots.astype(np.int64)
        changes, born = self._list(self._side(LEFT), self._side(RIGHT), LEFT, images, boxes)
        place = np.zeros(self._bounds.top, np.int32)
        place[slots] = np.arange(len(slots))
        return _sorted_pairs(changes, born, place[changes.subscription])

    def sizes(self, slots: Ints) -> Longs:
        """How many pairs each answer has. Cost: as of `result`, but not for the pairs."""
        boxes = slots.astype(np.int64)
        return _counted(self._side(LEFT), self._side(RIGHT), self._left_images(), boxes)

    def parameters(self, slot: int) -> dict[str, object]:
        """The boxes that a subscription was registered with. Cost: constant."""
        shown: dict[str, object] = {}
        for side, name in ((LEFT, "left"), (RIGHT, "right")):
            boxes, given = self._side(side).boxes, self._dimensions[side]
            if given:
                shown[f"{name} lo"] = boxes.lo[:given, slot].tolist()
                shown[f"{name} hi"] = boxes.hi[:given, slot].tolist()
        return shown

    def arrays(self) -> Arrays:
        saved: Arrays = {}
        for side, name in ((LEFT, "left"), (RIGHT, "right")):
            boxes = self._side(side).boxes
            saved[f"{name}_lo"] = boxes.lo[:, : self._bounds.top].copy()
            saved[f"{name}_hi"] = boxes.hi[:, : self._bounds.top].copy()
            saved |= {f"{name}_{key}": column for key, column in self._rows[side].arrays().items()}
        return saved

    def restore(self, arrays: Arrays) -> None:
        both = {key: np.concatenate([arrays[f"left_{key}"], arrays[f"right_{key}"]]) for key in ("lo", "hi")}
        self._bounds.restore(both)
        for side, name in ((LEFT, "left"), (RIGHT, "right")):
            self._rows[side].restore({key: arrays[f"{name}_{key}"] for key in ("value", "born")})
        self._bits = 0
        self._fit_buckets()

    def check_invariants(self) -> None:
        """Assert all invariants, and that each row is in the chain of its code."""
        self._bounds.check_invariants()
        for rows in self._rows:
            rows.check_invariants()
            head, after, _ = rows.chains
            assert len(head) == 1 << self._bits
            for bucket, row in enumerate(head.tolist()):
                while row >= 0:
                    assert self._buckets(rows.columns.value[row : row + 1, -1])[0] == bucket
                    row = int(after[row])

    def explain(self) -> str:
        left, right = self._dimensions
        return (
            f"select-join, {left} + {right} dimensions; pairs a row with its partners, "
            "finds each pair's boxes in a tree"
        )

    def _left_images(self) -> RowImages:
        """All left rows, as one step that inserts them."""
        rows = self._rows[LEFT]
        live = rows.live()
        everything = RowDelta.inserting(live, rows.columns.born[live], rows.columns.value[live])
        width = rows.columns.value.shape[1]
        images = build_images(everything, everything.before, everything.after, required=width, key=width - 1)
        images.bucket[:] = self._buckets(images.value[:, -1])
        return images

    def _is_less_by_box(self, images: RowImages, theirs: JoinSide) -> bool:
        """Whether going through the boxes is less work than meeting every pair of equal code."""
        n_boxes = self._bounds.n_filled
        if len(images.row) <= n_boxes:
            # An image meets each row of the other side at most once.
            return False
        work = np.zeros(2, np.int64)
        measure_work(theirs, images, work)
        return bool(work[N_MET] > n_boxes * (len(images.row) + work[N_WALKED]))

    def _list(
        self, mine: JoinSide, theirs: JoinSide, side: int, images: RowImages, boxes: Longs
    ) -> tuple[ChangeSet, Longs]:
        scratch = _scratch(images, theirs)
        return self._run(
            lambda out, out_born, cursor: list_boxes(
                mine, theirs, side, images, boxes, scratch, out, out_born, cursor
            )
        )

    def _run(self, report: Callable[[ChangeSet, Longs, Longs], int]) -> tuple[ChangeSet, Longs]:
        """The changes that `report` writes, and the insertion numbers of their rows (changes, 2)."""
        cursor = new_cursor()
        while report(self._buffer.columns, self._born, cursor) == FULL:
            self._buffer.grow()
            self._born = ensure_capacity(self._born, len(self._buffer.columns.step))
        count = int(cursor[N_OUT])
        born = self._born[:count]
        if count > RETAINED:
            self._born = np.empty_like(self._born)
        return self._buffer.take(count), born

    def _side(self, side: int) -> JoinSide:
        rows = self._rows[side]
        boxes, cut = self._bounds.boxes, self._widths[LEFT]
        mine = slice(0, cut) if side == LEFT else slice(cut, None)
        return JoinSide(boxes._replace(lo=boxes.lo[mine], hi=boxes.hi[mine]), rows.columns, rows.chains)

    def _images(self, delta: RowDelta, side: int) -> RowImages:
        width = self._widths[side]
        dimensions = self._dimensions[side]
        return build_images(
            delta,
            padded_columns(delta.before, dimensions),
            padded_columns(delta.after, dimensions),
            required=width + 1,
            key=width,
        )

    def _buckets(self, code: Floats) -> Longs:
        """The bucket of each code. Equal doubles have equal bits here: there is no -0.0."""
        spread = np.ascontiguousarray(code).view(np.uint64) * _SPREAD
        return (spread >> np.uint64(64 - self._bits)).astype(np.int64)

    def _fit_buckets(self) -> None:
        """Have at least as many buckets as row slots on either side. Cost: amortised constant a row."""
        needed = max(2, *(rows.top for rows in self._rows))
        if needed <= 1 << self._bits and self._bits:
            return
        self._bits = (needed - 1).bit_length()
        for rows in self._rows:
            row_bucket = self._buckets(rows.columns.value[rows.live(), -1])
            rows.relink(row_bucket, 1 << self._bits)


def _counted(mine: JoinSide, theirs: JoinSide, images: RowImages, boxes: Longs) -> Longs:
    counts = np.zeros(len(boxes), np.int64)
    count_boxes(mine, theirs, images, boxes, _scratch(images, theirs), counts)
    return counts


def _scratch(images: RowImages, theirs: JoinSide) -> JoinScratch:
    return empty(JoinScratch, images=len(images.row), rows=len(theirs.rows.born))


def _sorted_pairs(changes: ChangeSet, born: Longs, place: Ints) -> ChangeSet:
    """By step, place of the subscription, op, then the left row's born and the right row's."""
    order = np.lexsort((born[:, RIGHT], born[:, LEFT], changes.op, place, changes.step))
    return ChangeSet._make(column[order] for column in changes)
