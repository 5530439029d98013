"""Long top-k lists: each is kept whole, in order, so that a row costs what it changes however long a list is.

Other indexes share work among many short lists, and all of them look at k rows here or there. Where k is
about as large as the number of rows, that is every row for each change. Here a list is a tree that knows its
places (`ordered_kernels.py`), and nothing is shared: every row is held against every list.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tocsin.indexes.contract import ABSENT, ENTER, Arrays, ChangeSet, Floats, Ints, Longs, RowDelta
from tocsin.indexes.shared import longlists_kernels as kernels
from tocsin.indexes.shared import ordered_kernels as ordered
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.direct import compiled, unwarned
from tocsin.indexes.shared.longlists_kernels import OPEN, Images, Lists, Ranking, Told
from tocsin.indexes.shared.ordered_kernels import Nodes
from tocsin.indexes.shared.programs import Program
from tocsin.indexes.shared.programs_kernels import BLOCK
from tocsin.indexes.shared.region_kernels import DISK, KINDS
from tocsin.indexes.shared.scans import column_wise, step_bounds, widened, writable


class LongLists:
    """`SELECT … WHERE box [AND region] ORDER BY score [DESC] LIMIT k` over a table or a window, for large k.

    Delta columns: the dimensions, x and z of a region if there is one, the columns of the score. A list holds
    at most 2 k rows; one that runs short of k is filled up from all rows, which is after k rows have left it
    at the earliest.
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
        self._ranking = Ranking(program, first, kind, -1.0 if descending else 1.0, -1 if newest_first else 1)
        self._dimensions = dimensions
        self._lists = _empty_lists(dimensions, program.n_theta, capacity)
        self._n_lists = 0
        #: int32 (slots,): where a subscription is among the lists, -1 if it is not there
        self._list_of: Ints = np.full(capacity, -1, np.int32)
        self._nodes = _empty_nodes(capacity)
        #: float64 (columns, row capacity), int64 (row capacity,): rows by slot
        self._values: Floats = np.zeros((first + program.n_columns, capacity))
        self._born: Longs = np.full(capacity, ABSENT, np.int64)
        #: bool (row capacity,): false, for the kernels
        self._is_changed = np.zeros(capacity, np.bool_)
        self._stack: Floats = np.empty((program.depth, BLOCK))
        self._told = _empty_told(capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions), `k` (n,), `theta` (n, thetas) and `region` (n, 3) if
        there are such. Cost: for each all rows, and sorting those of its list."""
        count = len(slots)
        if not count:
            return
        first, self._n_lists = self._n_lists, self._n_lists + count
        self._lists = Lists._make(_longer(column, self._n_lists) for column in self._lists)
        self._list_of = grown(self._list_of, int(slots.max()) + 1, -1)
        new, lists = slice(first, self._n_lists), self._lists
        self._list_of[slots] = np.arange(first, self._n_lists)
        lists.slot[new], lists.k[new] = slots, values["k"]
        lists.lo[:, new], lists.hi[:, new] = values["lo"].T, values["hi"].T
        if self._ranking.program.n_theta:
            lists.theta[:, new] = values["theta"].T
        lists.region[:, new] = values["region"].T if self._ranking.region else 0.0
        lists.top[new] = -1
        images = self._all_rows()
        for which in range(first, self._n_lists):
            self._rank(which, images, 2 * int(lists.k[which]))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: the length of their lists."""
        for slot in slots.tolist():
            which, last, lists = int(self._list_of[slot]), self._n_lists - 1, self._lists
            ordered.free_nodes(self._nodes, self._listed(which, self._size(which)))
            for column in lists:
                column[..., which] = column[..., last]
            self._list_of[lists.slot[which]] = which
            self._list_of[slot] = -1
            self._n_lists = last

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost of a row: each list is looked at; in those that it changes, logarithmic searches for it and
        for every row that it makes cross the k-th place."""
        if not len(delta.row):
            return ChangeSet.empty()
        self._make_room_for_rows(int(delta.row.max()) + 1)
        bounds = step_bounds(delta)
        cursor = np.zeros(kernels.CURSOR_SIZE, np.int64)
        for step in range(len(delta.seq)):
            cut = slice(int(bounds[step]), int(bounds[step + 1]))
            cursor[kernels.STEP], cursor[kernels.AT] = step, 0
            self._take_step(delta, cut, cursor)
        return self._taken(int(cursor[kernels.N_OUT]))

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: a logarithmic search for each of their rows."""
        lists, chosen = self._lists, self._list_of[slots]
        sizes = [min(self._size(which), int(lists.k[which])) for which in chosen.tolist()]
        nodes = [self._listed(which, size) for which, size in zip(chosen.tolist(), sizes, strict=True)]
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
        lists, which = self._lists, int(self._list_of[slot])
        shown: dict[str, object] = {}
        if self._dimensions:
            shown = {"lo": lists.lo[:, which].tolist(), "hi": lists.hi[:, which].tolist()}
        if self._ranking.region:
            a, b, c = lists.region[:, which].tolist()
            is_disk = self._ranking.region == DISK
            shown |= {"center": [a, b], "radius": c} if is_disk else {"a": a, "b": b, "c": c}
        if self._ranking.program.n_theta:
            shown |= {"theta": lists.theta[:, which].tolist()}
        return shown | {"k": int(lists.k[which])}

    def arrays(self) -> Arrays:
        """Subscriptions and rows, each with their slots. Cost: linear."""
        lists, rows = self._lists, np.flatnonzero(self._born != ABSENT)
        given = slice(0, self._n_lists)
        return {
            "slots": lists.slot[given].copy(),
            "k": lists.k[given].copy(),
            "lo": lists.lo[:, given].T.copy(),
            "hi": lists.hi[:, given].T.copy(),
            "theta": lists.theta[:, given].T.copy(),
            "region": lists.region[:, given].T.copy(),
            "rows": rows.astype(np.int32),
            "born": self._born[rows],
            "values": self._values[:, rows].T.copy(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: as to register all at once."""
        rows = arrays["rows"]
        self._make_room_for_rows(int(rows.max(initial=-1)) + 1)
        self._born[rows], self._values[:, rows] = arrays["born"], arrays["values"].T
        self.register(arrays["slots"].astype(np.int32), arrays)

    def check_invariants(self) -> None:
        """Assert that all columns agree, and that each list holds exactly its first rows, in order."""
        nodes, lists = self._nodes, self._lists
        assert not self._is_changed.any()
        used = lists.slot[: self._n_lists]
        assert self._list_of[used].tolist() == list(range(self._n_lists))
        assert (self._list_of >= 0).sum() == self._n_lists
        sizes = [self._size(which) for which in range(self._n_lists)]
        assert sum(sizes) == nodes.state[ordered.USED] <= nodes.state[ordered.MADE] <= len(nodes.key)
        images = self._all_rows()
        for which, size in enumerate(sizes):
            places = self._listed(which, size)
            self._check_tree(int(lists.top[which]))
            row, key, tie = self._first_rows(which, images, size)
            assert nodes.row[places].tolist() == row.tolist()
            assert nodes.key[places].tolist() == key.tolist()
            assert nodes.tie[places].tolist() == tie.tolist()
            k, is_open = int(lists.k[which]), lists.floor_tie[which] == OPEN
            assert size <= 2 * k
            assert (size == images.is_inside.sum()) if is_open else size >= k

    def explain(self) -> str:
        """One line: which index this is, how it works, and why it is the one."""
        return (
            f"long top-k lists: {self._n_lists} of them, each kept whole in a tree, because their k are large"
        )

    def _take_step(self, delta: RowDelta, cut: slice, cursor: Longs) -> None:
        """Take one step to all lists, and to the rows."""
        row = writable(delta.row[cut], np.int32)
        old = _images(delta.before[cut], delta.born_before[cut])
        new = _images(delta.after[cut], delta.born_after[cut])
        touched = writable(delta.touched[cut], np.bool_)
        with unwarned(kernels.apply_step):
            while True:
                status = compiled(kernels.apply_step)(
                    self._ranking, self._lists, self._n_lists, self._nodes, row, old, new, touched,
                    self._is_changed, self._stack, self._told, cursor,
                )  # fmt: skip
                if status == kernels.DONE:
                    break
                if status == kernels.OUT_FULL:
                    self._told = _longer_told(self._told)
                elif status == kernels.NODES_FULL:
                    self._make_room_for_nodes(len(row))
                else:
                    # The rows are still those before the step.
                    which = int(cursor[kernels.AT])
                    length = 2 * int(self._lists.k[which]) + len(row)
                    self._rank(which, self._all_rows(), length)
        compiled(kernels.store_images)(new, row, self._values, self._born)

    def _rank(self, which: int, images: Images, length: int) -> None:
        """Let a list hold the first `length` of `images`, which are all rows. Cost: linear, and sorting
        these."""
        lists = self._lists
        ordered.free_nodes(self._nodes, self._listed(which, self._size(which)))
        lists.top[which] = -1
        row, key, tie = self._first_rows(which, images, length)
        self._make_room_for_nodes(len(row))
        kernels.put_sorted(self._nodes, lists, which, key, tie, row)
        is_whole = len(row) == int(images.is_inside.sum())
        lists.floor[which] = np.inf if is_whole else key[-1]
        lists.floor_tie[which] = OPEN if is_whole else tie[-1]

    def _first_rows(self, which: int, images: Images, length: int) -> tuple[Ints, Floats, Longs]:
        """Slots, keys and ties of the first `length` rows of a subscription, in order."""
        with unwarned(kernels.mark_inside):
            kernels.mark_inside(self._ranking, self._lists, which, images, self._stack)
        row = np.flatnonzero(images.is_inside)
        if len(row) > length:
            key = images.key[row]
            row = row[key <= np.partition(key, length)[length]]
        tie = self._ranking.tie_sign * images.born[row]
        order = np.lexsort((tie, images.key[row]))[:length]
        return row[order].astype(np.int32), images.key[row][order], tie[order]

    def _all_rows(self) -> Images:
        """All rows by slot, as kernels take them. Cost: constant a slot."""
        count = len(self._born)
        return Images(
            self._values, self._born, self._born != ABSENT,
            np.empty(count), np.empty(count, np.bool_), np.empty(count, np.int64),
        )  # fmt: skip

    def _size(self, which: int) -> int:
        return ordered.size_of(self._nodes, int(self._lists.top[which]))

    def _listed(self, which: int, count: int) -> Ints:
        """The first `count` nodes of a list, which has as many, in order."""
        found: Ints = np.empty(count, np.int32)
        ordered.list_nodes(self._nodes, int(self._lists.top[which]), count, found)
        return found

    def _taken(self, count: int) -> ChangeSet:
        """The changes of a delta in their order."""
        if not count:
            return ChangeSet.empty()
        told = Told(
            ChangeSet._make(column[:count] for column in self._told.changes),
            self._told.key[:count],
            self._told.tie[:count],
        )
        changes = told.changes
        changes.other[:] = -1
        order = np.lexsort((told.tie, told.key, changes.op, changes.subscription, changes.step))
        return ChangeSet._make(column[order] for column in changes)

    def _make_room_for_rows(self, rows: int) -> None:
        if rows > len(self._born):
            self._born = grown(self._born, rows, ABSENT)
            self._values = widened(self._values, len(self._born))
            self._is_changed = grown(self._is_changed, len(self._born), False)

    def _make_room_for_nodes(self, more: int) -> None:
        room = int(self._nodes.state[ordered.USED]) + more
        columns = [grown(column, room) for column in self._nodes[:-1]]
        self._nodes = Nodes._make([*columns, self._nodes.state])

    def _check_tree(self, top: int) -> None:
        """Assert that nodes rank above those below them, and know how many these are."""
        nodes, waiting = self._nodes, [top] if top >= 0 else []
        while waiting:
            node = waiting.pop()
            below = [int(side[node]) for side in (nodes.before, nodes.after) if side[node] >= 0]
            assert nodes.size[node] == 1 + sum(int(nodes.size[other]) for other in below)
            assert all(ordered.rank_of(node) > ordered.rank_of(other) for other in below)
            waiting += below


def _images(columns: Floats, born: Longs) -> Images:
    count = len(born)
    return Images(
        column_wise(columns), writable(born, np.int64), born != ABSENT,
        np.empty(count), np.empty(count, np.bool_), np.empty(count, np.int64),
    )  # fmt: skip


def _longer(column: np.ndarray, count: int) -> np.ndarray:
    """`column` with room for `count` lists."""
    return grown(column, count) if column.ndim == 1 else widened(column, count)


def _empty_lists(dimensions: int, n_theta: int, capacity: int) -> Lists:
    return Lists(
        slot=np.zeros(capacity, np.int32),
        k=np.zeros(capacity, np.int64),
        lo=np.zeros((dimensions, capacity)),
        hi=np.zeros((dimensions, capacity)),
        theta=np.zeros((n_theta, capacity)),
        region=np.zeros((3, capacity)),
        floor=np.zeros(capacity),
        floor_tie=np.zeros(capacity, np.int64),
        top=np.full(capacity, -1, np.int32),
    )


def _empty_nodes(capacity: int) -> Nodes:
    state = np.zeros(ordered.STATE_SIZE, np.int64)
    state[ordered.FREE] = -1
    links = [np.zeros(capacity, np.int32) for _ in range(4)]
    return Nodes._make([np.zeros(capacity), np.zeros(capacity, np.int64), *links, state])


def _empty_told(room: int) -> Told:
    ints = [np.empty(room, np.int32) for _ in range(5)]
    changes = ChangeSet(ints[0], ints[1], np.empty(room, np.int8), ints[2], ints[3], np.empty(room), ints[4])
    return Told(changes, np.empty(room), np.empty(room, np.int64))


def _longer_told(told: Told) -> Told:
    room = 2 * len(told.key)
    changes = ChangeSet._make(grown(column, room) for column in told.changes)
    return Told(changes, grown(told.key, room), grown(told.tie, room))
