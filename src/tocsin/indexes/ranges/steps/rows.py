"""The rows of a source by slot: copied columns, and for some indexes chains or trees of equal codes."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout, empty, grow, restored, saved
from tocsin.arrays.types import Arrays, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.steps.images_kernels import store_images
from tocsin.indexes.ranges.steps.step_kernels import Chains, RowColumns, RowImages, link_rows
from tocsin.indexes.ranges.structures.row_treap_kernels import Orders, put_rows, rank_of


class Rows:
    """The values and insertion numbers of the rows that can be in an answer."""

    def __init__(self, width: int, capacity: int) -> None:
        self.top = 0
        self.columns = empty(RowColumns, rows=capacity, columns=width)

    def reserve(self, images: RowImages) -> None:
        """Ensure capacity for the images' rows. Cost: amortised constant per row."""
        self.top = max(self.top, int(images.row.max(initial=-1)) + 1)
        if self.top > len(self.columns.born):
            self.columns = grow(self.columns, rows=self.top)

    def store(self, images: RowImages) -> None:
        """Apply the steps. Cost: linear in the images."""
        entry_point(store_images)(images, self.columns)

    def live(self) -> Longs:
        """Slots that hold a row, ascending."""
        return np.flatnonzero(self.columns.born[: self.top] != ABSENT).astype(np.int64)

    def arrays(self) -> Arrays:
        arrays = saved(self.columns, rows=self.top)
        arrays["value"][arrays["born"] == ABSENT] = np.nan
        return arrays

    def restore(self, arrays: Arrays) -> None:
        self.top = len(arrays["born"])
        self.columns = restored(RowColumns, arrays)

    def check_invariants(self) -> None:
        check_layout(self.columns)
        born = self.columns.born
        assert len(born) >= self.top
        assert (born[self.top :] == ABSENT).all()
        alive = born[born != ABSENT]
        assert len(np.unique(alive)) == len(alive)


def in_units(arrays: Arrays, per_unit: float) -> Arrays:
    """Saved arrays with the last column of rows in units, `per_unit` of them in 1: decimals in last places.

    Exact for decimals of at most 15 digits.
    """
    value = arrays["value"].copy()
    value[:, -1] = np.rint(value[:, -1] * per_unit)
    return {**arrays, "value": value}


class ChainedRows(Rows):
    """Rows, with those of one bucket linked. The index maps codes to buckets."""

    def __init__(self, width: int, capacity: int) -> None:
        super().__init__(width, capacity)
        self.chains = empty(Chains, buckets=0, rows=capacity)

    def reserve(self, images: RowImages) -> None:
        super().reserve(images)
        if self.top > len(self.chains.after):
            self.chains = grow(self.chains, rows=self.top)

    def reserve_buckets(self, buckets: int) -> None:
        """Ensure capacity for at least `buckets` buckets; existing ones keep their meaning."""
        if buckets > self.n_buckets:
            self.chains = grow(self.chains, buckets=buckets)

    def relink(self, row_bucket: Longs, buckets: int) -> None:
        """Rebuild the chains: `row_bucket` is the bucket of each of the `live()` rows."""
        self.chains = empty(Chains, buckets=buckets, rows=len(self.columns.born))
        link_rows(self.chains, self.live(), row_bucket)

    @property
    def n_buckets(self) -> int:
        return len(self.chains.head)

    def rows_of(self, bucket: int) -> list[int]:
        """The rows of a bucket; asserts that they are linked both ways."""
        found: list[int] = []
        row = int(self.chains.head[bucket])
        while row >= 0:
            assert self.chains.before[row] == (found[-1] if found else -1)
            found.append(row)
            row = int(self.chains.after[row])
        return found

    def check_invariants(self) -> None:
        super().check_invariants()
        check_layout(self.chains)
        linked = [row for bucket in range(self.n_buckets) for row in self.rows_of(bucket)]
        assert sorted(linked) == self.live().tolist()


class OrderedRows(Rows):
    """Rows, with those of one code ordered by their first column; a code is its own bucket."""

    def __init__(self, width: int, capacity: int) -> None:
        super().__init__(width, capacity)
        self.orders = empty(Orders, codes=0, rows=capacity)

    @property
    def n_buckets(self) -> int:
        return len(self.orders.top)

    def reserve(self, images: RowImages) -> None:
        super().reserve(images)
        if self.top > len(self.orders.after):
            self.orders = grow(self.orders, rows=self.top)

    def reserve_buckets(self, buckets: int) -> None:
        """Ensure capacity for at least `buckets` codes."""
        if buckets > self.n_buckets:
            self.orders = grow(self.orders, codes=buckets)

    def relink(self, row_bucket: Longs, buckets: int) -> None:
        """Rebuild the trees: `row_bucket` is the code of each of the `live()` rows."""
        self.orders = empty(Orders, codes=buckets, rows=len(self.columns.born))
        put_rows(self.orders, row_bucket, self.columns.value, self.live())

    def check_invariants(self) -> None:
        super().check_invariants()
        check_layout(self.orders)
        linked = [row for code in range(self.n_buckets) for row in self.rows_of(code)]
        assert sorted(linked) == self.live().tolist()

    def rows_of(self, code: int) -> list[int]:
        """The rows of a code, in order; asserts that they are, and that each ranks above those below it."""
        top, before, after = self.orders
        found: list[int] = []
        waiting: list[int] = []
        at = int(top[code])
        while waiting or at >= 0:
            if at >= 0:
                waiting.append(at)
                at = int(before[at])
                continue
            row = waiting.pop()
            below = [int(side[row]) for side in (before, after) if side[row] >= 0]
            assert all(rank_of(row) > rank_of(other) for other in below)
            found.append(row)
            at = int(after[row])
        x = self.columns.value[found, 0].tolist()
        assert sorted(zip(x, found, strict=True)) == list(zip(x, found, strict=True))
        return found


#: Placeholders for the representation that is not in use.
NO_CHAINS = empty(Chains, buckets=0, rows=0)
NO_ORDERS = empty(Orders, codes=0, rows=0)
