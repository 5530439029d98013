"""The boxes of subscriptions: growable bounds, one column per slot; and a tree over many of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.ranges.steps.images import largest_step
from tocsin.indexes.ranges.steps.step_kernels import RangeBoxes, RowImages
from tocsin.indexes.ranges.structures.box_tree import (
    LEAF,
    LONGEST_TAIL,
    BoxTree,
    empty_tree,
)
from tocsin.indexes.ranges.structures.box_tree_kernels import N_USED, BoxTreeColumns
from tocsin.kernels.regions import NO_REGION

#: Number of boxes from which a tree finds those that hold a row faster than testing all of them. This is not
#: planning's choice: the index is the same with or without, and only `RangeBounds` knows its boxes in use.
TREE_MIN_BOXES = 4096
#: Images of a step up to which a ranking merges them with the unaffected rows. Measured.
LONGEST_STEP = 1 << 14


class TreeSettings(NamedTuple):
    """When there is a tree over boxes, and the sizes of its parts. Tests use small ones."""

    min_boxes: int = TREE_MIN_BOXES
    leaf: int = LEAF
    tail: int = LONGEST_TAIL
    longest: int = LONGEST_STEP


TREE_SETTINGS = TreeSettings()


class RangeBounds:
    """Closed ranges by subscription slot, in `width` dimensions.

    A subscription gives ranges for the first dimensions; the others are unbounded. An unused slot is an empty
    box, so that no kernel has to check whether it is in use. With many boxes there is a tree over them, which
    splits by the first `split` dimensions; the last one's upper bound may move if it is not among these. With
    a `region`, a box has a disk or a half-plane besides its ranges.
    """

    def __init__(
        self,
        width: int,
        capacity: int,
        *,
        split: int | None = None,
        region: int = NO_REGION,
        trees: TreeSettings = TREE_SETTINGS,
    ) -> None:
        self.top = 0
        self.boxes = _empty_boxes(width, capacity, region)
        self._split = width if split is None else max(1, split)
        self._trees = trees
        #: boxes that are not empty
        self._filled = 0
        self._tree: BoxTree | None = None
        self._no_tree = empty_tree(width)

    @property
    def tree(self) -> BoxTreeColumns:
        """The tree in the form kernels take; without places while every box is tested."""
        return self._no_tree if self._tree is None else self._tree.tree

    @property
    def n_filled(self) -> int:
        """The number of boxes that are not empty."""
        return self._filled

    def filled(self) -> Longs:
        """Slots of the boxes that are not empty, ascending. Cost: linear."""
        lo, hi = self.boxes.lo[:, : self.top], self.boxes.hi[:, : self.top]
        return np.flatnonzero((lo <= hi).all(axis=0)).astype(np.int64)

    def reserve(self, images: RowImages) -> None:
        """Ensure capacity for looking up the images of any step. Cost: amortised constant per image."""
        if self._tree is not None:
            self._tree.reserve(largest_step(images))

    def put(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Set the boxes of unused slots. Cost: linear in their number, amortised; with a tree, logarithmic in
        the number of boxes."""
        if not len(slots):
            return
        self.top = max(self.top, int(slots.max()) + 1)
        self._reserve(self.top)
        given = lo.shape[1]
        self.boxes.lo[:given, slots] = lo.T
        self.boxes.hi[:given, slots] = hi.T
        self.boxes.lo[given:, slots] = -np.inf
        self.boxes.hi[given:, slots] = np.inf
        self._filled += self._count_filled(slots)
        is_in = self._tree is not None and self._tree.insert(slots, *self.boxes[:2])
        if not is_in and (self._tree is not None or self._filled >= self._trees.min_boxes):
            self._build()

    def clear(self, slots: Ints) -> None:
        """Make the boxes of `slots` empty. Cost: linear in their number, amortised."""
        self._filled -= self._count_filled(slots)
        self.boxes.lo[:, slots] = np.inf
        self.boxes.hi[:, slots] = -np.inf
        if self._tree is not None:
            self._tree.remove(slots)
            if 4 * self._filled < self._trees.min_boxes:
                self._tree = None
            elif self._tree.tree.state[N_USED] > 4 * self._filled + self._trees.tail:
                self._build()

    def explain(self) -> str:
        """How the boxes that hold a row are found, and why."""
        why = f"{self._filled} boxes, a tree from {self._trees.min_boxes} on"
        return f"tests every box ({why})" if self._tree is None else f"finds boxes in a tree ({why})"

    def live(self, given: int) -> tuple[Ints, Floats, Floats]:
        """The slots of non-empty boxes, and their bounds in the first `given` dimensions."""
        lo, hi = self.boxes.lo[:, : self.top], self.boxes.hi[:, : self.top]
        slots = np.flatnonzero((lo <= hi).all(axis=0)).astype(np.int32)
        return slots, lo[:given, slots], hi[:given, slots]

    def arrays(self, given: int) -> Arrays:
        """The bounds of the first `given` dimensions; of the others, only whether the slot is in use."""
        lo = self.boxes.lo[:, : self.top].copy()
        hi = self.boxes.hi[:, : self.top].copy()
        hi[given:] = -lo[given:]
        return {"lo": lo, "hi": hi}

    def restore(self, arrays: Arrays) -> None:
        width, self.top = arrays["lo"].shape
        self.boxes = _empty_boxes(width, self.top, self.boxes.region)
        self.boxes.lo[:] = arrays["lo"]
        self.boxes.hi[:] = arrays["hi"]
        self._filled = self._count_filled(np.arange(self.top))
        self._tree = None
        if self._filled >= self._trees.min_boxes:
            self._build()

    def check_invariants(self) -> None:
        lo, hi = self.boxes.lo, self.boxes.hi
        assert lo.shape == hi.shape
        assert lo.flags.c_contiguous
        assert hi.flags.c_contiguous
        assert not np.isnan(lo).any()
        assert not np.isnan(hi).any()
        assert (lo[:, self.top :] == np.inf).all()
        assert (hi[:, self.top :] == -np.inf).all()
        assert len(self.boxes.affected) == lo.shape[1] + 1 > self.top
        assert self._filled == self._count_filled(np.arange(self.top))
        assert self._tree is not None or self._filled < self._trees.min_boxes
        if self._tree is not None:
            assert 4 * self._filled >= self._trees.min_boxes
            self._tree.check_invariants(lo, hi)

    def _count_filled(self, slots: np.ndarray) -> int:
        return int((self.boxes.lo[:, slots] <= self.boxes.hi[:, slots]).all(axis=0).sum())

    def _build(self) -> None:
        """Rebuild the tree. Cost: n log n."""
        width = len(self.boxes.lo)
        trees, region = self._trees, self.boxes.region
        self._tree = BoxTree(width, self._split, region=region, leaf=trees.leaf, tail=trees.tail)
        self._tree.build(self.boxes.lo, self.boxes.hi, self.top)

    def _reserve(self, slots: int) -> None:
        width, have = self.boxes.lo.shape
        if slots <= have:
            return
        doubled = _empty_boxes(width, max(slots, 2 * have), self.boxes.region)
        doubled.lo[:, :have] = self.boxes.lo
        doubled.hi[:, :have] = self.boxes.hi
        self.boxes = doubled


def _empty_boxes(width: int, capacity: int, region: int) -> RangeBoxes:
    return RangeBoxes(
        lo=np.full((width, capacity), np.inf),
        hi=np.full((width, capacity), -np.inf),
        affected=np.empty(capacity + 1, np.int64),
        region=region,
    )


def count_saved(arrays: Arrays) -> int:
    """The number of subscriptions in saved arrays: an unused slot is an empty box in every dimension."""
    return int((arrays["lo"][-1] < arrays["hi"][-1]).sum())
