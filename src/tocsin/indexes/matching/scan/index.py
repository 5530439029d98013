"""The match scan: compares every event with every subscription.

Exact, without structure: the baseline that an index must beat, and the right choice for a small set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Arrays, Ints
from tocsin.indexes.matching.conjunctions import (
    Conjunctions,
    PredicateColumns,
    conjunctions_of,
    parameters_of,
)
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import N_ROWS, SCORES, IdOrder, Matches
from tocsin.indexes.matching.reports import changes_of, empty_best, empty_report, enlarged_report
from tocsin.indexes.matching.scan.scan_kernels import ALWAYS, BLOCK, Tile, match_events
from tocsin.indexes.matching.scan.store import PredicateStore

#: Events of a tile: the more, the less often subscriptions are read from memory.
TILE = 128
#: Entries of a tile's tables, at most, so that they stay in the cache.
TILE_ENTRIES = 2**14


class MatchScan:
    """Holds conjunctions of weighted predicates and finds, for each event, those that it satisfies."""

    def __init__(self, capacity: int = 16, score_rule: str = "sum") -> None:
        """`score_rule` is `sum`, `max`, `min` or `product`: how the weights of predicates combine."""
        self._score_rule = score_rule
        self._store = PredicateStore(capacity)
        self._tile = _empty_tile(1, 1, 0)
        #: initial rows of the next report, by what the last one needed
        self._rows = capacity

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions, each with one predicate a column set; none is satisfied by every event.

        Cost: linear in predicates and operands.
        """
        self._store.add(slots, conjunctions_of(predicates, len(slots)))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: amortised linear in their predicates."""
        self._store.remove(slots)

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank.

        Cost: events x subscriptions, and the predicates of those whose filters an event meets.
        """
        if top is not None:
            top = min(top, self._store.top)
        if top == 0 or self._store.top == 0:
            return ChangeSet.empty()
        best = 0 if top is None else top
        self._fit_tile(best)
        columns = self._store.translate(events)
        out = empty_report(self._rows)
        size = min(len(self._tile.entry), events.n_events)
        # Interpreted, a double beyond all singles would warn.
        with np.errstate(all="ignore"):
            while not match_events(
                self._store.columns,
                self._store.n_blocks,
                columns,
                self._tile,
                best,
                SCORES[self._score_rule],
                ids,
                out,
            ):
                out = enlarged_report(out, size * max(best, BLOCK))
        n_rows = int(out.progress[N_ROWS])
        self._rows = 2 * (n_rows + size * BLOCK)
        return _changes(out, n_rows, events.n_events, best > 0)

    def result(self, slots: Ints) -> ChangeSet:
        """Nothing: a stream without a window holds no rows."""
        return ChangeSet.empty()

    def arrays(self) -> Arrays:
        """The whole state as flat arrays. Cost: linear."""
        return self._store.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from."""
        self._store.restore(arrays)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._store.check_invariants()

    def parameters(self, slot: int) -> dict[str, object]:
        """The predicates that a subscription was registered with, in words. Cost: linear in them."""
        return parameters_of(self._store.conjunctions(np.array([slot], np.int32)))

    def live(self) -> Ints:
        """The slots of all subscriptions, ascending. Cost: linear."""
        return self._store.live()

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """The conjunctions of subscriptions. Cost: linear in them."""
        return self._store.conjunctions(slots)

    def explain(self) -> str:
        """One line: how it works."""
        return (
            f"{len(self._store)} conjunctions, {self._store.n_predicates} predicates over "
            f"{len(self._store.attributes)} attributes; each event is compared with each"
        )

    def _fit_tile(self, top: int) -> None:
        """Fit the tile to the current number of keys and `top` best matches."""
        n_keys = self._store.n_keys
        size = max(1, min(TILE, TILE_ENTRIES // n_keys, TILE_ENTRIES // max(top, 1)))
        if self._tile.entry.shape != (size, n_keys) or self._tile.best.slot.shape != (size, top):
            self._tile = _empty_tile(size, n_keys, top)
        # Stale if memory ran out while the last report grew.
        self._tile.best.size[:] = 0


def _empty_tile(size: int, n_keys: int, top: int) -> Tile:
    """A tile without events."""
    tile = Tile(
        value=np.full((size, n_keys, 3), np.nan),
        rounded=np.full((size, 2, n_keys), np.nan, np.float32),
        entry=np.zeros((size, n_keys), np.int64),
        best=empty_best(size, top),
    )
    tile.rounded[:, :, ALWAYS] = 0.0
    return tile


def _changes(out: Matches, n_rows: int, n_events: int, is_ranked: bool) -> ChangeSet:
    """The report as changes, grouped by event."""
    step, subscription, score = out.step[:n_rows], out.subscription[:n_rows], out.score[:n_rows]
    if not is_ranked and n_events > 1:
        # Within a tile the kernel goes block by block. Sorting small integers takes linear time.
        order = np.argsort(step.astype(np.min_scalar_type(n_events)), kind="stable")
        step, subscription, score = step[order], subscription[order], score[order]
    return changes_of(step, subscription, score, out.rank[:n_rows] if is_ranked else None)
