"""Long top-k lists: each is stored in order, so that a row costs what it changes, however long the list is.

Other indexes share work among many short lists, and all of them visit k rows in some cases. Where k is about
as large as the number of rows, that would be every row for each change. Here a list is an order-statistics
tree (`kernels.treap`), and nothing is shared: every row is compared with every list.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ENTER, ChangeSet
from tocsin.arrays.columns import column_wise, ensure_capacity, ensure_width, writable
from tocsin.arrays.jit import entry_point, suppress_fp_warnings
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT, RowDelta, SubscriptionBounds, step_bounds
from tocsin.indexes.preferences.long_lists import long_lists_kernels as kernels
from tocsin.indexes.preferences.long_lists.layout import (
    CURSOR_SIZE,
    OPEN,
    EmittedChanges,
    ListImages,
    LongListColumns,
    LongListRanking,
)
from tocsin.kernels import treap as ordered
from tocsin.kernels.programs import Program
from tocsin.kernels.regions import DISK, KINDS
from tocsin.kernels.scoring import BLOCK
from tocsin.kernels.status import AT, DONE, FULL, N_OUT, NODES_FULL, STEP
from tocsin.kernels.treap import TreapNodes


class LongLists:
    """`SELECT … WHERE box [AND region] ORDER BY score [DESC] LIMIT k` over a table or a window, for large k.

    Delta columns: the dimensions, x and z of a region if there is one, the columns of the score. A list holds
    at most 2 k rows; one with fewer than k is refilled from all rows, at the earliest after k rows left it.
    """

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        region: str | None = None,
        capacity: int = 16,
    ) -> None:
        kind = KINDS[region]
        first = dimensions + (2 if kind else 0)
        self._ranking = LongListRanking(
            program, first, kind, -1.0 if descending else 1.0, -1 if newest_first else 1
        )
        self._dimensions = dimensions
        self._lists = empty(LongListColumns, dimensions=dimensions, thetas=program.n_theta, lists=capacity)
        self._n_lists = 0
        #: int32 (slots,): list of a subscription, -1 where there is none
        self._list_of: Ints = np.full(capacity, -1, np.int32)
        self._nodes = _empty_nodes(capacity)
        #: float64 (columns, row capacity), int64 (row capacity,): rows by slot
        self._values: Floats = np.zeros((first + program.n_columns, capacity))
        self._born: Longs = np.full(capacity, ABSENT, np.int64)
        #: bool (row capacity,): scratch of the kernels, all false
        self._is_changed = np.zeros(capacity, np.bool_)
        self._stack: Floats = np.empty((program.depth, BLOCK))
        self._emitted = _empty_emitted(capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions), `k` (n,) and, if used, `theta` (n, thetas), `region`
        (n, 3). Cost: for each all rows, and sorting those of its list."""
        count = len(slots)
        if not count:
            return
        first, self._n_lists = self._n_lists, self._n_lists + count
        if self._n_lists > len(self._lists.slot):
            self._lists = grow(self._lists, lists=self._n_lists)
        self._list_of = ensure_capacity(self._list_of, int(slots.max()) + 1, -1)
        new, lists = slice(first, self._n_lists), self._lists
        self._list_of[slots] = np.arange(first, self._n_lists)
        lists.slot[new], lists.k[new] = slots, values["k"]
        lists.lo[:, new], lists.hi[:, new] = values["lo"].T, values["hi"].T
        if self._ranking.program.n_theta:
            lists.theta[:, new] = values["theta"].T
        lists.region[:, new] = values["region"].T if self._ranking.region else 0.0
        lists.top[new] = -1
        images = self._all_rows()
        for list_id in range(first, self._n_lists):
            self._rank(list_id, images, 2 * int(lists.k[list_id]))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: the length of their lists."""
        for slot in slots.tolist():
            list_id, last, lists = int(self._list_of[slot]), self._n_lists - 1, self._lists
            ordered.release_nodes(self._nodes, self._list_nodes(list_id, self._size(list_id)))
            for column in lists:
                column[..., list_id] = column[..., last]
            self._list_of[lists.slot[list_id]] = list_id
            self._list_of[slot] = -1
            self._n_lists = last

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Report the changes of a delta.

        Cost of a row: constant per list; in lists that it changes, logarithmic searches for it and for every
        row that it makes cross the k-th place.
        """
        if not len(delta.row):
            return ChangeSet.empty()
        self._ensure_row_capacity(int(delta.row.max()) + 1)
        bounds = step_bounds(delta)
        cursor = np.zeros(CURSOR_SIZE, np.int64)
        for step in range(len(delta.seq)):
            cut = slice(int(bounds[step]), int(bounds[step + 1]))
            cursor[STEP], cursor[AT] = step, 0
            self._apply_step(delta, cut, cursor)
        return self._take_changes(int(cursor[N_OUT]))

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: a logarithmic search for each of their rows."""
        lists, chosen = self._lists, self._list_of[slots]
        sizes = [min(self._size(list_id), int(lists.k[list_id])) for list_id in chosen.tolist()]
        nodes = [
            self._list_nodes(list_id, size) for list_id, size in zip(chosen.tolist(), sizes, strict=True)
        ]
        places = np.concatenate(nodes) if nodes else np.empty(0, np.int32)
        ranks = [np.arange(1, size + 1, dtype=np.int32) for size in sizes]
        return ChangeSet(
            step=np.zeros(len(places), np.int32),
            subscription=np.repeat(slots.astype(np.int32), sizes),
            op=np.full(len(places), ENTER, np.int8),
            row=self._nodes.row[places],
            other=np.full(len(places), -1, np.int32),
            score=self._nodes.key[places] * self._ranking.key_sign + 0.0,
            rank=np.concatenate(ranks) if ranks else np.empty(0, np.int32),
        )

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        lists, list_id = self._lists, int(self._list_of[slot])
        shown: dict[str, object] = {}
        if self._dimensions:
            shown = {"lo": lists.lo[:, list_id].tolist(), "hi": lists.hi[:, list_id].tolist()}
        if self._ranking.region:
            a, b, c = lists.region[:, list_id].tolist()
            is_disk = self._ranking.region == DISK
            shown |= {"center": [a, b], "radius": c} if is_disk else {"a": a, "b": b, "c": c}
        if self._ranking.program.n_theta:
            shown |= {"theta": lists.theta[:, list_id].tolist()}
        return shown | {"k": int(lists.k[list_id])}

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting its changes. Cost: as `apply`."""
        self.apply(delta)

    def bounds(self) -> SubscriptionBounds:
        """The ranges of all subscriptions. Cost: linear."""
        lists, n = self._lists, self._n_lists
        lo, hi = lists.lo[:, :n], lists.hi[:, :n]
        live = np.flatnonzero((lo <= hi).all(axis=0))
        slots, k = lists.slot[live].astype(np.int32), lists.k[live].astype(np.int32)
        return SubscriptionBounds(slots, lo[:, live], hi[:, live], k)

    def arrays(self) -> Arrays:
        """Subscriptions and rows, each with their slots. Cost: linear."""
        lists, rows = self._lists, np.flatnonzero(self._born != ABSENT)
        live = slice(0, self._n_lists)
        return {
            "slots": lists.slot[live].copy(),
            "k": lists.k[live].copy(),
            "lo": lists.lo[:, live].T.copy(),
            "hi": lists.hi[:, live].T.copy(),
            "theta": lists.theta[:, live].T.copy(),
            "region": lists.region[:, live].T.copy(),
            "rows": rows.astype(np.int32),
            "born": self._born[rows],
            "values": self._values[:, rows].T.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned. Cost: as registering everything at once."""
        rows = arrays["rows"]
        self._ensure_row_capacity(int(rows.max(initial=-1)) + 1)
        self._born[rows], self._values[:, rows] = arrays["born"], arrays["values"].T
        self.register(arrays["slots"].astype(np.int32), arrays)

    def check_invariants(self) -> None:
        """Assert that all columns agree, and that each list holds exactly its first rows, in order."""
        nodes, lists = self._nodes, self._lists
        check_layout(nodes)
        check_layout(lists)
        assert not self._is_changed.any()
        used = lists.slot[: self._n_lists]
        assert self._list_of[used].tolist() == list(range(self._n_lists))
        assert (self._list_of >= 0).sum() == self._n_lists
        sizes = [self._size(list_id) for list_id in range(self._n_lists)]
        assert sum(sizes) == nodes.state[ordered.USED] <= nodes.state[ordered.MADE] <= len(nodes.key)
        images = self._all_rows()
        for list_id, size in enumerate(sizes):
            places = self._list_nodes(list_id, size)
            self._check_tree(int(lists.top[list_id]))
            row, key, tie = self._first_rows(list_id, images, size)
            assert nodes.row[places].tolist() == row.tolist()
            assert nodes.key[places].tolist() == key.tolist()
            assert nodes.tie[places].tolist() == tie.tolist()
            k, is_open = int(lists.k[list_id]), lists.floor_tie[list_id] == OPEN
            assert size <= 2 * k
            assert (size == images.is_inside.sum()) if is_open else size >= k

    def explain(self) -> str:
        """One line: how it works, and why it is the one."""
        return f"{self._n_lists} top-k lists, each a tree in order, because their k are large"

    def _apply_step(self, delta: RowDelta, cut: slice, cursor: Longs) -> None:
        """Apply one step to all lists, and to the rows."""
        row = writable(delta.row[cut], np.int32)
        old = _images(delta.before[cut], delta.born_before[cut])
        new = _images(delta.after[cut], delta.born_after[cut])
        touched = writable(delta.touched[cut], np.bool_)
        with suppress_fp_warnings(kernels.apply_step):
            while True:
                status = entry_point(kernels.apply_step)(
                    self._ranking, self._lists, self._n_lists, self._nodes, row, old, new, touched,
                    self._is_changed, self._stack, self._emitted, cursor,
                )  # fmt: skip
                if status == DONE:
                    break
                if status == FULL:
                    self._emitted = _doubled(self._emitted)
                elif status == NODES_FULL:
                    self._ensure_node_capacity(len(row))
                else:
                    # The rows are still those before the step.
                    list_id = int(cursor[AT])
                    length = 2 * int(self._lists.k[list_id]) + len(row)
                    self._rank(list_id, self._all_rows(), length)
        entry_point(kernels.store_images)(new, row, self._values, self._born)

    def _rank(self, list_id: int, images: ListImages, length: int) -> None:
        """Fill a list with the first `length` of `images`, which are all rows. Cost: linear, and sorting
        these."""
        lists = self._lists
        ordered.release_nodes(self._nodes, self._list_nodes(list_id, self._size(list_id)))
        lists.top[list_id] = -1
        row, key, tie = self._first_rows(list_id, images, length)
        self._ensure_node_capacity(len(row))
        kernels.put_sorted(self._nodes, lists, list_id, key, tie, row)
        is_whole = len(row) == int(images.is_inside.sum())
        lists.floor[list_id] = np.inf if is_whole else key[-1]
        lists.floor_tie[list_id] = OPEN if is_whole else tie[-1]

    def _first_rows(self, list_id: int, images: ListImages, length: int) -> tuple[Ints, Floats, Longs]:
        """Slots, keys and ties of the first `length` rows of a subscription, in order."""
        with suppress_fp_warnings(kernels.mark_inside):
            kernels.mark_inside(self._ranking, self._lists, list_id, images, self._stack)
        row = np.flatnonzero(images.is_inside)
        if len(row) > length:
            key = images.key[row]
            row = row[key <= np.partition(key, length)[length]]
        tie = self._ranking.tie_sign * images.born[row]
        order = np.lexsort((tie, images.key[row]))[:length]
        return row[order].astype(np.int32), images.key[row][order], tie[order]

    def _all_rows(self) -> ListImages:
        """All rows by slot, as kernels expect them. Cost: constant a slot."""
        count = len(self._born)
        return ListImages(
            self._values, self._born, self._born != ABSENT,
            np.empty(count), np.empty(count, np.bool_), np.empty(count, np.int64),
        )  # fmt: skip

    def _size(self, list_id: int) -> int:
        return ordered.size_of(self._nodes, int(self._lists.top[list_id]))

    def _list_nodes(self, list_id: int, count: int) -> Ints:
        """The first `count` nodes of a list, in order; it must have as many."""
        found: Ints = np.empty(count, np.int32)
        ordered.list_nodes(self._nodes, int(self._lists.top[list_id]), count, found)
        return found

    def _take_changes(self, count: int) -> ChangeSet:
        """The changes of a delta, ordered."""
        if not count:
            return ChangeSet.empty()
        emitted = EmittedChanges(
            ChangeSet._make(column[:count] for column in self._emitted.changes),
            self._emitted.key[:count],
            self._emitted.tie[:count],
        )
        changes = emitted.changes
        changes.other[:] = -1
        order = np.lexsort((emitted.tie, emitted.key, changes.op, changes.subscription, changes.step))
        return ChangeSet._make(column[order] for column in changes)

    def _ensure_row_capacity(self, rows: int) -> None:
        if rows > len(self._born):
            self._born = ensure_capacity(self._born, rows, ABSENT)
            self._values = ensure_width(self._values, len(self._born))
            self._is_changed = ensure_capacity(self._is_changed, len(self._born), False)

    def _ensure_node_capacity(self, more: int) -> None:
        capacity = int(self._nodes.state[ordered.USED]) + more
        if capacity > len(self._nodes.key):
            self._nodes = grow(self._nodes, nodes=capacity)

    def _check_tree(self, top: int) -> None:
        """Assert that nodes rank above their children, and store the size of their subtree."""
        nodes, stack = self._nodes, [top] if top >= 0 else []
        while stack:
            node = stack.pop()
            children = [int(side[node]) for side in (nodes.before, nodes.after) if side[node] >= 0]
            assert nodes.size[node] == 1 + sum(int(nodes.size[other]) for other in children)
            assert all(ordered.priority_of(node) > ordered.priority_of(other) for other in children)
            stack += children


def _images(columns: Floats, born: Longs) -> ListImages:
    count = len(born)
    return ListImages(
        column_wise(columns), writable(born, np.int64), born != ABSENT,
        np.empty(count), np.empty(count, np.bool_), np.empty(count, np.int64),
    )  # fmt: skip


def _empty_nodes(capacity: int) -> TreapNodes:
    nodes = empty(TreapNodes, nodes=capacity)
    nodes.state[ordered.FREE] = -1
    return nodes


def _empty_emitted(capacity: int) -> EmittedChanges:
    ints = [np.empty(capacity, np.int32) for _ in range(5)]
    changes = ChangeSet(
        ints[0], ints[1], np.empty(capacity, np.int8), ints[2], ints[3], np.empty(capacity), ints[4]
    )
    return EmittedChanges(changes, np.empty(capacity), np.empty(capacity, np.int64))


def _doubled(emitted: EmittedChanges) -> EmittedChanges:
    capacity = 2 * len(emitted.key)
    changes = ChangeSet._make(ensure_capacity(column, capacity) for column in emitted.changes)
    return EmittedChanges(
        changes, ensure_capacity(emitted.key, capacity), ensure_capacity(emitted.tie, capacity)
    )
