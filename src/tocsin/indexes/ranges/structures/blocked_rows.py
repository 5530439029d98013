"""Blocked list of rows: ordered by x, and searchable for the lowest y of any stretch of x.

It answers what painting needs: the nearest rows to the left or right of one that rank before it, and the best
row of a range that ranks after a given one. The paper's object index, an A2B-tree, does the same on disk;
here the tree has three levels of 64, so that a level is one or two branch-free scans.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import check_layout, empty, grow, sizes_of
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.structures import blocked_rows_layout as columns
from tocsin.indexes.ranges.structures.blocked_rows_kernels import put_rows
from tocsin.indexes.ranges.structures.blocked_rows_layout import (
    BLOCK,
    GROUP,
    N_BLOCKS,
    N_GROUPS,
    N_ROWS,
    BlockedColumns,
)

#: Rows in a fresh block, and blocks in a fresh group: below capacity, so that some more fit.
FILL = 48
#: Average rows per block below which the blocks are rebuilt.
SPARSE = 16


class BlockedRows:
    """Rows (slot, x, y, born) in one strict order (y, then born), searchable by x.

    A row whose x or y is NaN is not stored, as it is in no range and has no rank. -0.0 becomes 0.0.
    """

    def __init__(self, capacity: int = 16) -> None:
        self.columns = _empty_columns(capacity, max(capacity // FILL, 1), 1)

    def __len__(self) -> int:
        return int(self.columns.heads[N_ROWS])

    def insert(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Add rows that are absent. Cost: see `put`."""
        self.put(slots, x, y, born)

    def delete(self, slots: Ints) -> None:
        """Remove rows, ignoring absent ones. Cost: shifting less than a block each."""
        nothing = np.full(len(slots), np.nan)
        self.put(slots, nothing, nothing, np.full(len(slots), ABSENT, np.int64))

    def put(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> None:
        """Insert, move or change rows in order; a `born` of ABSENT, or NaN in x or y, removes.

        Cost: constant for a change of y; else a logarithmic search and shifting less than a block. A batch
        larger than the list is merged by sorting.
        """
        slots = np.require(slots, np.int32, ["C", "W"])
        x, y = np.asarray(x, np.float64) + 0.0, np.asarray(y, np.float64) + 0.0
        born = np.require(born, np.int64, ["C", "W"])
        if len(slots) > len(self) and len(np.unique(slots)) == len(slots):
            self._lay_out(*self._merged(slots, x, y, born))
            return
        self.reserve(int(slots.max(initial=-1)) + 1)
        done = 0
        while (done := put_rows(self.columns, slots, x, y, born, done)) < len(slots):
            self.grow()

    def reserve(self, slots: int) -> None:
        """Ensure capacity for slots below `slots`, and rebuild a sparse list. Cost: amortised constant."""
        if slots > len(self.columns.slot_place):
            self.columns = grow(self.columns, slots=slots)
        if self.columns.heads[N_BLOCKS] * SPARSE > len(self) + BLOCK:
            self._lay_out(*self.rows())

    def grow(self) -> None:
        """Double the capacity for blocks and groups. For when `has_capacity` is false."""
        sizes = sizes_of(self.columns)
        self.columns = grow(self.columns, blocks=2 * sizes["blocks"], groups=2 * sizes["groups"])

    def rows(self) -> tuple[Ints, Floats, Floats, Longs]:
        """Slots, x, y and born of all rows, ascending in x. Cost: linear."""
        places = self._places()
        blocked = self.columns
        return blocked.slot[places], blocked.x[places], blocked.y[places], blocked.born[places]

    def arrays(self) -> Arrays:
        """The rows. Cost: linear."""
        return dict(zip(("slot", "x", "y", "born"), self.rows(), strict=True))

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: linear."""
        self._lay_out(arrays["slot"], arrays["x"], arrays["y"], arrays["born"])

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        blocked, heads = self.columns, self.columns.heads
        check_layout(blocked)
        blocks = self._blocks()
        groups = blocked.top_group[: heads[N_GROUPS]].tolist()
        assert heads[N_BLOCKS] == len(blocks) == len(set(blocks))
        assert [int(blocked.group_rank[group]) for group in groups] == list(range(len(groups)))
        for group in groups:
            count = int(blocked.group_count[group])
            assert 0 < count <= GROUP
            inside = blocked.node_block[group * GROUP : group * GROUP + count]
            assert (blocked.block_group[inside] == group).all()
            assert blocked.block_rank[inside].tolist() == list(range(count))
            lowest = blocked.top_place[blocked.group_rank[group]]
            assert lowest == self._lowest([place for block in inside for place in self._inside(block)])
            assert blocked.top_least[blocked.group_rank[group]] == blocked.y[lowest]
        for block in blocks:
            node = blocked.block_group[block] * GROUP + blocked.block_rank[block]
            assert 0 < blocked.block_count[block] <= BLOCK
            assert blocked.node_place[node] == self._lowest(self._inside(block))
            assert blocked.node_least[node] == blocked.y[blocked.node_place[node]]
        slots, x, y, born = self.rows()
        assert len(self) == len(slots)
        assert (np.diff(x) >= 0).all() if not np.isinf(x).any() else sorted(x.tolist()) == x.tolist()
        assert not np.isnan(y).any()
        assert len(np.unique(born)) == len(born)
        places = self._places()
        assert blocked.slot_place[slots].tolist() == places.tolist()
        assert (blocked.slot_place >= 0).sum() == len(slots)

    def _inside(self, block: int) -> range:
        return range(block * BLOCK, block * BLOCK + int(self.columns.block_count[block]))

    def _lowest(self, places: list[int] | range) -> int:
        return min(places, key=lambda place: (self.columns.y[place], self.columns.born[place]))

    def _blocks(self) -> list[int]:
        """Blocks in order."""
        blocked = self.columns
        groups = blocked.top_group[: blocked.heads[N_GROUPS]].tolist()
        return [
            int(block)
            for group in groups
            for block in blocked.node_block[group * GROUP : group * GROUP + blocked.group_count[group]]
        ]

    def _places(self) -> Longs:
        """Places in use, in order."""
        blocks = np.array(self._blocks(), np.int64)
        counts = self.columns.block_count[blocks].astype(np.int64)
        begins = np.repeat(blocks * BLOCK - (np.cumsum(counts) - counts), counts)
        return begins + np.arange(counts.sum())

    def _merged(self, slots: Ints, x: Floats, y: Floats, born: Longs) -> tuple[Ints, Floats, Floats, Longs]:
        """The rows merged with others of distinct slots."""
        old_slots, old_x, old_y, old_born = self.rows()
        keep = ~np.isin(old_slots, slots)
        there = ~np.isnan(x) & ~np.isnan(y) & (born >= 0)
        return (
            np.concatenate([old_slots[keep], slots[there]]),
            np.concatenate([old_x[keep], x[there]]),
            np.concatenate([old_y[keep], y[there]]),
            np.concatenate([old_born[keep], born[there]]),
        )

    def _lay_out(self, slots: np.ndarray, x: np.ndarray, y: np.ndarray, born: np.ndarray) -> None:
        """Rebuild from rows in any order, which rows of equal x keep. Cost: sorting them."""
        order = np.argsort(x, kind="stable")
        count = len(order)
        n_blocks = -(-count // FILL)
        n_groups = -(-n_blocks // FILL)
        n_slots = max(int(slots.max(initial=-1)) + 1, len(self.columns.slot_place))
        new = _empty_columns(n_slots, n_blocks + n_blocks // 4 + 1, n_groups + n_groups // 4 + 1)
        self.columns = new
        if count == 0:
            return
        number = np.arange(count)
        place = number // FILL * BLOCK + number % FILL
        new.x[place], new.y[place] = x[order], y[order]
        new.born[place], new.slot[place] = born[order], slots[order]
        new.slot_place[slots[order]] = place
        blocks = np.arange(n_blocks)
        new.block_count[:n_blocks] = np.minimum(FILL, count - blocks * FILL)
        new.block_group[:n_blocks] = blocks // FILL
        new.block_rank[:n_blocks] = blocks % FILL
        nodes = blocks // FILL * GROUP + blocks % FILL
        groups = np.arange(n_groups)
        new.node_block[nodes] = blocks
        new.group_count[:n_groups] = np.minimum(FILL, n_blocks - groups * FILL)
        new.group_rank[:n_groups] = groups
        new.top_group[:n_groups] = groups
        ranked = place[np.lexsort((new.born[place], new.y[place]))][::-1]
        # The last assignment to a position wins: that of the lowest row.
        new.node_place[nodes[ranked // BLOCK]] = ranked
        new.top_place[ranked // BLOCK // FILL] = ranked
        new.node_least[nodes] = new.y[new.node_place[nodes]]
        new.top_least[:n_groups] = new.y[new.top_place[:n_groups]]
        new.heads[[N_ROWS, N_BLOCKS, columns.BLOCKS_MADE]] = count, n_blocks, n_blocks
        new.heads[[N_GROUPS, columns.GROUPS_MADE]] = n_groups


def _empty_columns(n_slots: int, n_blocks: int, n_groups: int) -> BlockedColumns:
    made = empty(BlockedColumns, slots=n_slots, blocks=n_blocks, groups=n_groups)
    made.heads[[columns.FREE_BLOCK, columns.FREE_GROUP]] = -1
    return made
