"""The rows of a table by x, with exact sums of y over any range of x."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.ranges.structures.tally_kernels import (
    AVG,
    COUNT,
    FIRST_LIMB,
    N_BLOCKS,
    N_INFINITIES,
    SIZE,
    SUM,
    Tally,
    add_y,
    insert_rows,
    span_limbs,
    sum_blocks,
)

#: Aggregates by name.
FUNCTIONS = {"count": COUNT, "sum": SUM, "avg": AVG}
#: Limbs that a double spans.
LIMBS_OF_A_DOUBLE = 3


class TallyRows:
    """Owns a `Tally`: grows its blocks, and its limbs as the values need them.

    Values of similar magnitude need few limbs, and few are fast; the widest need 68.
    """

    def __init__(self, x: Floats, y: Floats, *, is_summed: bool) -> None:
        self._is_summed = is_summed
        self._n_limbs = LIMBS_OF_A_DOUBLE
        self.tally = empty(Tally, blocks=1, columns=self.n_columns)
        self.tally.order[0], self.tally.state[N_BLOCKS] = 0, 1
        self._load(x, y)

    @property
    def n_columns(self) -> int:
        """Columns of a sum."""
        return self._n_limbs + N_INFINITIES if self._is_summed else 0

    def grow(self) -> None:
        """Double the capacity for blocks. Cost: copying them."""
        have = len(self.tally.order)
        self.tally = grow(self.tally, blocks=2 * have)
        self.tally.order[have:] = np.arange(have, 2 * have)

    def fit(self, y: Floats) -> None:
        """Ensure the limbs that values need. Cost: a pass over them; over all rows if limbs are missing."""
        if not self._is_summed:
            return
        first, end = limbs_of(y)
        if first == end:
            return
        have = int(self.tally.state[FIRST_LIMB])
        if not self.tally.n_before[self.tally.state[N_BLOCKS]]:
            # There are no rows, so that only these limbs are needed.
            have, self._n_limbs = first, end - first
        elif first < have or end > have + self._n_limbs:
            end = max(end, have + self._n_limbs)
            have = min(first, have)
            self._n_limbs = end - have
        elif self.tally.total.shape[1] == self.n_columns:
            return
        n_blocks = len(self.tally.order)
        self.tally = self.tally._replace(
            part=np.zeros((n_blocks, SIZE, self.n_columns), np.int64),
            total=np.zeros((n_blocks + 1, self.n_columns), np.int64),
        )
        self.tally.state[FIRST_LIMB] = have
        self.tally.is_stale[:] = True
        sum_blocks(self.tally)

    def _load(self, x: Floats, y: Floats) -> None:
        """Add rows. Cost: logarithmic and half a block each."""
        self.fit(y)
        done = 0
        while (done := insert_rows(self.tally, x, y, done)) < len(x):
            self.grow()

    def check_invariants(self, x: Floats, y: Floats) -> None:
        """Assert that these are the rows, in order, that blocks are not empty, and that sums are right."""
        tally = self.tally
        check_layout(tally)
        listed = tally.order[: tally.state[N_BLOCKS]]
        assert sorted(tally.order.tolist()) == list(range(len(tally.order)))
        rows = [
            (tally.x[block, row], tally.y[block, row]) for block in listed for row in range(tally.size[block])
        ]
        assert rows == sorted(zip(x.tolist(), y.tolist(), strict=True))
        for block, size in enumerate(tally.size.tolist()):
            assert (tally.x[block, size:] == np.inf).all()
        assert len(listed) == 1 or (tally.size[listed] > 0).all()
        total: Longs = np.zeros(self.n_columns, np.int64)
        count = 0
        for at, block in enumerate(listed):
            assert tally.n_before[at] == count
            np.testing.assert_array_equal(tally.total[at], total)
            if tally.size[block]:
                assert (tally.least[at], tally.least_y[at]) == (tally.x[block, 0], tally.y[block, 0])
            part: Longs = np.zeros(self.n_columns, np.int64)
            for row in range(tally.size[block]):
                add_y(part, tally.y[block, row], 1, int(tally.state[FIRST_LIMB]))
                np.testing.assert_array_equal(tally.part[block, row], part)
            total += part
            count += int(tally.size[block])
        assert not tally.is_stale[listed].any()


def limbs_of(y: Floats) -> tuple[int, int]:
    """The first limb that any of the values needs, and the one after the last; equal if they need none."""
    first, last = entry_point(span_limbs)(np.ascontiguousarray(y))
    return (first, last + LIMBS_OF_A_DOUBLE) if first <= last else (0, 0)
