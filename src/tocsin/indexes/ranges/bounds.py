"""The boxes of subscriptions: growable bounds, a column a slot."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Arrays, Floats, Ints
from tocsin.indexes.ranges.step_kernels import Boxes


class Bounds:
    """Closed ranges by subscription slot, in `width` dimensions.

    A subscription gives ranges for the first dimensions; those it does not give are unbounded. A slot
    that holds no subscription is an empty box, so that no kernel has to ask whether it is in use.
    """

    def __init__(self, width: int, capacity: int) -> None:
        self.top = 0
        self.boxes = _empty_boxes(width, capacity)

    def put(self, slots: Ints, lo: Floats, hi: Floats) -> None:
        """Set the boxes of `slots`. Cost: linear in their number, amortised."""
        if not len(slots):
            return
        self.top = max(self.top, int(slots.max()) + 1)
        self._reserve(self.top)
        given = lo.shape[1]
        self.boxes.lo[:given, slots] = lo.T
        self.boxes.hi[:given, slots] = hi.T
        self.boxes.lo[given:, slots] = -np.inf
        self.boxes.hi[given:, slots] = np.inf

    def clear(self, slots: Ints) -> None:
        """Make the boxes of `slots` empty. Cost: linear in their number."""
        self.boxes.lo[:, slots] = np.inf
        self.boxes.hi[:, slots] = -np.inf

    def parameters(self, slot: int, given: int) -> dict[str, object]:
        """The box of a slot, in its first `given` dimensions."""
        lo, hi = self.boxes.lo[:given, slot], self.boxes.hi[:given, slot]
        return {"lo": lo.tolist(), "hi": hi.tolist()} if given else {}

    def arrays(self, given: int) -> Arrays:
        """The bounds of the first `given` dimensions; of the others, only whether the slot is in use."""
        lo = self.boxes.lo[:, : self.top].copy()
        hi = self.boxes.hi[:, : self.top].copy()
        hi[given:] = -lo[given:]
        return {"lo": lo, "hi": hi}

    def restore(self, arrays: Arrays) -> None:
        width, self.top = arrays["lo"].shape
        self.boxes = _empty_boxes(width, self.top)
        self.boxes.lo[:] = arrays["lo"]
        self.boxes.hi[:] = arrays["hi"]

    def check_invariants(self) -> None:
        lo, hi = self.boxes.lo, self.boxes.hi
        assert lo.shape == hi.shape
        assert lo.flags.c_contiguous
        assert hi.flags.c_contiguous
        assert not np.isnan(lo).any()
        assert not np.isnan(hi).any()
        assert (lo[:, self.top :] == np.inf).all()
        assert (hi[:, self.top :] == -np.inf).all()
        assert len(self.boxes.affected) == lo.shape[1] >= self.top

    def _reserve(self, slots: int) -> None:
        width, have = self.boxes.lo.shape
        if slots <= have:
            return
        larger = _empty_boxes(width, max(slots, 2 * have))
        larger.lo[:, :have] = self.boxes.lo
        larger.hi[:, :have] = self.boxes.hi
        self.boxes = larger


def _empty_boxes(width: int, capacity: int) -> Boxes:
    return Boxes(
        lo=np.full((width, capacity), np.inf),
        hi=np.full((width, capacity), -np.inf),
        affected=np.empty(capacity, np.int64),
    )
