"""The select-join of two tables: a touched row meets the other side's rows of its code, and each pair that
they make is looked up in a tree over the boxes of both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tocsin.indexes.contract import ABSENT, Arrays, ChangeSet, Floats, Ints, Longs, RowDelta
from tocsin.indexes.ranges.bounds import TREES, Bounds, Trees
from tocsin.indexes.ranges.buffers import KEPT, Buffer
from tocsin.indexes.ranges.changes import new_cursor
from tocsin.indexes.ranges.images import build_images, widened
from tocsin.indexes.ranges.joins_kernels import LEFT, RIGHT, Side, list_pairs, report_pairs
from tocsin.indexes.ranges.rows import ChainedRows
from tocsin.indexes.ranges.step_kernels import FULL, N_OUT, Images
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled

#: 2**64 over the golden ratio: multiplying by it spreads codes over the buckets (Knuth).
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class RangeJoin:
    """`SELECT … FROM r JOIN s ON r.a = s.a WHERE box over both`, for two tables.

    Delta columns of a side: its dimensions, then the code that it joins by: any double, equal for
    equal values, NaN for NULL. A change names the left row, and as `other` the right row.
    """

    def __init__(
        self, left_dimensions: int, right_dimensions: int, capacity: int = 16, *, trees: Trees = TREES
    ) -> None:
        self._dimensions = (left_dimensions, right_dimensions)
        self._widths = (max(1, left_dimensions), max(1, right_dimensions))
        # The tree is there from the first box on: with few boxes it is a list of them.
        self._bounds = Bounds(sum(self._widths), capacity, trees=trees._replace(many=1))
        self._rows = tuple(ChainedRows(width + 1, capacity) for width in self._widths)
        #: Buckets are 2**bits, the same for both sides.
        self._bits = 0
        self._fit_buckets()
        self._buffer = Buffer(capacity)
        #: int64 (room of the buffer, 2): the insertion numbers of the rows that changes name
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

        Cost of a step: a search in the tree for each pair that an image makes with a partner, and sorting
        what there is to tell.
        """
        images = self._images(delta, side)
        self._rows[side].reserve(images)
        self._fit_buckets()
        images.bucket[:] = self._buckets(images.value[:, -1])
        mine, theirs, tree = self._side(side), self._side(1 - side), self._bounds.tree
        point, found = np.empty((1, sum(self._widths))), self._bounds.boxes.affected
        changes, born = self._run(
            lambda out, out_born, cursor: compiled(report_pairs)(
                mine, theirs, tree, side, images, point, found, out, out_born, cursor
            )
        )
        return _sorted_pairs(changes, born, changes.subscription) if changes else changes

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: for each subscription, its left rows' partners."""
        value = self._rows[LEFT].columns.value
        live = self._rows[LEFT].live()
        everything = RowDelta(
            seq=np.zeros(1, np.int64),
            step=np.zeros(len(live), np.int32),
            row=live.astype(np.int32),
            born_before=np.full(len(live), ABSENT, np.int64),
            born_after=self._rows[LEFT].columns.born[live],
            before=np.full((len(live), value.shape[1]), np.nan),
            after=value[live],
            touched=np.zeros(len(live), np.bool_),
        )
        images = build_images(
            everything, everything.before, everything.after, required=value.shape[1], key=value.shape[1] - 1
        )
        images.bucket[:] = self._buckets(images.value[:, -1])
        boxes = slots.astype(np.int64)
        left, right = self._side(LEFT), self._side(RIGHT)
        changes, born = self._run(
            lambda out, out_born, cursor: list_pairs(left, right, LEFT, images, boxes, out, out_born, cursor)
        )
        place = np.zeros(self._bounds.top, np.int32)
        place[slots] = np.arange(len(slots))
        return _sorted_pairs(changes, born, place[changes.subscription])

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
        """Also: each row is in the chain of its code."""
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
            f"select-join, {left} + {right} dimensions: pairs a row with its partners, "
            "finds each pair's boxes in a tree"
        )

    def _run(self, report: Callable[[ChangeSet, Longs, Longs], int]) -> tuple[ChangeSet, Longs]:
        """The changes that `report` writes, and the insertion numbers of their rows (changes, 2)."""
        cursor = new_cursor()
        while report(self._buffer.columns, self._born, cursor) == FULL:
            self._buffer.grow()
            self._born = grown(self._born, len(self._buffer.columns.step))
        count = int(cursor[N_OUT])
        born = self._born[:count]
        if count > KEPT:
            self._born = np.empty_like(self._born)
        return self._buffer.take(count), born

    def _side(self, side: int) -> Side:
        rows = self._rows[side]
        boxes, cut = self._bounds.boxes, self._widths[LEFT]
        mine = slice(0, cut) if side == LEFT else slice(cut, None)
        return Side(boxes._replace(lo=boxes.lo[mine], hi=boxes.hi[mine]), rows.columns, rows.chains)

    def _images(self, delta: RowDelta, side: int) -> Images:
        width = self._widths[side]
        dimensions = self._dimensions[side]
        return build_images(
            delta,
            widened(delta.before, dimensions),
            widened(delta.after, dimensions),
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


def _sorted_pairs(changes: ChangeSet, born: Longs, place: Ints) -> ChangeSet:
    """By step, place of the subscription, op, then the left row's born and the right row's."""
    order = np.lexsort((born[:, RIGHT], born[:, LEFT], changes.op, place, changes.step))
    return ChangeSet._make(column[order] for column in changes)
