"""The rows of a source by slot: copied columns, and for some indexes chains."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import ABSENT, Arrays, Longs
from tocsin.indexes.ranges.images_kernels import store_images
from tocsin.indexes.ranges.step_kernels import Chains, Images, RowColumns, link_rows
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled


class Rows:
    """The values and insertion numbers of the rows that can be in an answer."""

    def __init__(self, width: int, capacity: int) -> None:
        self.top = 0
        self.columns = RowColumns(np.empty((capacity, width)), np.full(capacity, ABSENT, np.int64))

    def reserve(self, images: Images) -> None:
        """Make room for the images' rows. Cost: amortised constant a row."""
        self.top = max(self.top, int(images.row.max(initial=-1)) + 1)
        value, born = self.columns
        self.columns = RowColumns(grown(value, self.top), grown(born, self.top, ABSENT))

    def store(self, images: Images) -> None:
        """Become what the steps lead to. Cost: linear in the images."""
        compiled(store_images)(images, self.columns)

    def live(self) -> Longs:
        """Slots that hold a row, ascending."""
        return np.flatnonzero(self.columns.born[: self.top] != ABSENT).astype(np.int64)

    def arrays(self) -> Arrays:
        value, born = self.columns
        value = value[: self.top].copy()
        value[born[: self.top] == ABSENT] = np.nan
        return {"value": value, "born": born[: self.top].copy()}

    def restore(self, arrays: Arrays) -> None:
        self.top = len(arrays["born"])
        value = np.array(arrays["value"], np.float64, order="C")
        self.columns = RowColumns(value, np.array(arrays["born"], np.int64))

    def check_invariants(self) -> None:
        value, born = self.columns
        assert len(value) == len(born) >= self.top
        assert value.flags.c_contiguous
        assert (born[self.top :] == ABSENT).all()
        alive = born[born != ABSENT]
        assert len(np.unique(alive)) == len(alive)


class ChainedRows(Rows):
    """Rows, and those of one bucket linked to each other. The index says what bucket a code falls into."""

    def __init__(self, width: int, capacity: int) -> None:
        super().__init__(width, capacity)
        self.chains = _empty_chains(0, capacity)

    def reserve(self, images: Images) -> None:
        super().reserve(images)
        self.chains = Chains(
            self.chains.head, grown(self.chains.after, self.top, -1), grown(self.chains.before, self.top, -1)
        )

    def reserve_buckets(self, buckets: int) -> None:
        """Make room for at least so many buckets, none of which changes its meaning."""
        self.chains = self.chains._replace(head=grown(self.chains.head, buckets, -1))

    def relink(self, row_bucket: Longs, buckets: int) -> None:
        """Build the chains anew: `row_bucket` tells the bucket of each of the `live()` rows."""
        self.chains = _empty_chains(buckets, len(self.columns.born))
        link_rows(self.chains, self.live(), row_bucket)

    def check_invariants(self) -> None:
        super().check_invariants()
        head, after, before = self.chains
        linked = []
        for first in head.tolist():
            previous, row = -1, first
            while row >= 0:
                assert before[row] == previous
                linked.append(row)
                previous, row = row, int(after[row])
        assert sorted(linked) == self.live().tolist()


def _empty_chains(buckets: int, capacity: int) -> Chains:
    return Chains(
        head=np.full(buckets, -1, np.int32),
        after=np.full(capacity, -1, np.int32),
        before=np.full(capacity, -1, np.int32),
    )
