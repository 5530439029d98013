"""The rows of a source by slot: copied columns, and for some indexes chains or trees of equal codes."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.jit import entry_point
from tocsin.arrays.types import Arrays, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.steps.images_kernels import store_images
from tocsin.indexes.ranges.steps.step_kernels import Chains, RowColumns, RowImages, link_rows
from tocsin.indexes.ranges.structures.row_treap_kernels import Orders, put_rows, rank_of


class Rows:
    """The values and insertion numbers of the rows that can be in an answer."""

    def __init__(self, width: int, capacity: int) -> None:
        self.top = 0
        self.columns = RowColumns(np.empty((capacity, width)), np.full(capacity, ABSENT, np.int64))

    def reserve(self, images: RowImages) -> None:
        """Ensure capacity for the images' rows. Cost: amortised constant per row."""
        self.top = max(self.top, int(images.row.max(initial=-1)) + 1)
        value, born = self.columns
        self.columns = RowColumns(ensure_capacity(value, self.top), ensure_capacity(born, self.top, ABSENT))

    def store(self, images: RowImages) -> None:
        """Apply the steps. Cost: linear in the images."""
        entry_point(store_images)(images, self.columns)

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
    """Rows, with those of one bucket linked. The index maps codes to buckets."""

    def __init__(self, width: int, capacity: int) -> None:
        super().__init__(width, capacity)
        self.chains = _empty_chains(0, capacity)

    def reserve(self, images: RowImages) -> None:
        super().reserve(images)
        self.chains = Chains(
            self.chains.head,
            ensure_capacity(self.chains.after, self.top, -1),
            ensure_capacity(self.chains.before, self.top, -1),
        )

    def reserve_buckets(self, buckets: int) -> None:
        """Ensure capacity for at least `buckets` buckets; existing ones keep their meaning."""
        self.chains = self.chains._replace(head=ensure_capacity(self.chains.head, buckets, -1))

    def relink(self, row_bucket: Longs, buckets: int) -> None:
        """Rebuild the chains: `row_bucket` is the bucket of each of the `live()` rows."""
        self.chains = _empty_chains(buckets, len(self.columns.born))
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
        linked = [row for bucket in range(self.n_buckets) for row in self.rows_of(bucket)]
        assert sorted(linked) == self.live().tolist()


class OrderedRows(Rows):
    """Rows, with those of one code ordered by their first column; a code is its own bucket."""

    def __init__(self, width: int, capacity: int) -> None:
        super().__init__(width, capacity)
        self.orders = _empty_orders(0, capacity)

    @property
    def n_buckets(self) -> int:
        return len(self.orders.top)

    def reserve(self, images: RowImages) -> None:
        super().reserve(images)
        top, before, after = self.orders
        self.orders = Orders(top, ensure_capacity(before, self.top, -1), ensure_capacity(after, self.top, -1))

    def reserve_buckets(self, buckets: int) -> None:
        """Ensure capacity for at least `buckets` codes."""
        self.orders = self.orders._replace(top=ensure_capacity(self.orders.top, buckets, -1))

    def relink(self, row_bucket: Longs, buckets: int) -> None:
        """Rebuild the trees: `row_bucket` is the code of each of the `live()` rows."""
        self.orders = _empty_orders(buckets, len(self.columns.born))
        put_rows(self.orders, row_bucket, self.columns.value, self.live())

    def check_invariants(self) -> None:
        super().check_invariants()
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


def _empty_orders(codes: int, capacity: int) -> Orders:
    none = np.full(capacity, -1, np.int32)
    return Orders(np.full(codes, -1, np.int32), none, none.copy())


def _empty_chains(buckets: int, capacity: int) -> Chains:
    return Chains(
        head=np.full(buckets, -1, np.int32),
        after=np.full(capacity, -1, np.int32),
        before=np.full(capacity, -1, np.int32),
    )


#: Placeholders for the representation that is not in use.
NO_CHAINS = _empty_chains(0, 0)
NO_ORDERS = _empty_orders(0, 0)
