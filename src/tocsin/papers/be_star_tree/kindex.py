"""Inverted indexes of predicates: counting, and the k-index with its conjunction algorithm.

Both need all expressions in advance: after registrations and terminations they are rebuilt at the next event.
The paper lists every value of a range, which a continuous domain does not allow: here a range is cut into a
logarithmic number of segments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.matching.access.build_kernels import group_bounds
from tocsin.indexes.matching.conjunctions import (
    Conjunctions,
    PredicateColumns,
    conjunctions_of,
    parameters_of,
    runs_of,
)
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import N_ROWS, SCORES, IdOrder, Records
from tocsin.indexes.matching.reports import (
    changes_of,
    empty_best,
    empty_report,
    enlarged_report,
    sorted_changes,
)
from tocsin.indexes.matching.scan.store import PredicateStore
from tocsin.papers.be_star_tree.kindex_kernels import (
    NEVER,
    Counter,
    Postings,
    match_postings,
    measure_expressions,
    post_expressions,
    score_expressions,
)

#: Keys of an expression that can be counted; one with more is compared with every event.
MAX_KEYS = 255


class CountingIndex:
    """Counts, for each event, how many keys of each expression hold."""

    is_joining = False

    def __init__(self, capacity: int = 16, *, score_rule: str = "sum") -> None:
        self._store = PredicateStore(capacity)
        self._score_rule = np.int64(SCORES[score_rule])
        self._capacity = capacity
        self._rows = capacity
        self._postings: Postings | None = None

    def __len__(self) -> int:
        return len(self._store)

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions, each with one predicate a column set. Cost: linear, and a rebuild."""
        self._store.add(slots, conjunctions_of(predicates, len(slots)))
        self._postings = None

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their predicates, and a rebuild."""
        self._store.remove(slots)
        self._postings = None

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank.

        Cost of an event: the posting lists of its values, one entry for each predicate that holds.
        """
        if len(self) == 0 or events.n_events == 0 or top == 0:
            return ChangeSet.empty()
        postings = self._built()
        best = empty_best(1, 0 if top is None else min(top, len(self)))
        columns, counter = self._store.translate(events), self._counter(postings)
        out = empty_report(self._rows)
        kept = self._store.columns
        with np.errstate(all="ignore"):
            while not match_postings(
                postings, kept, columns, counter, self.is_joining, self._score_rule, best, ids, out
            ):
                out = enlarged_report(out, len(out.step) + best.slot.shape[1] + 1)
            n_rows = int(out.progress[N_ROWS])
            self._rows = max(self._capacity, n_rows + n_rows // 4)
            if top is None:
                return sorted_changes(out, events.n_events, self._store.top)
        return changes_of(out.step[:n_rows], out.subscription[:n_rows], out.score[:n_rows], out.rank[:n_rows])

    def result(self, slots: Ints) -> ChangeSet:
        """Nothing: a stream without a window holds no rows."""
        return ChangeSet.empty()

    def live(self) -> Ints:
        """The slots of all subscriptions, ascending. Cost: linear."""
        return self._store.live()

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """The conjunctions of subscriptions. Cost: linear in the whole store."""
        return self._store.conjunctions(slots)

    def parameters(self, slot: int) -> dict[str, object]:
        """The predicates of a subscription, in words. Cost: linear in the whole store."""
        return parameters_of(self._store.conjunctions(np.array([slot], np.int32)))

    def arrays(self) -> Arrays:
        """The whole state as flat arrays. Cost: linear."""
        self._postings = None
        return self._store.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from."""
        self._store.restore(arrays)
        self._postings = None

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._store.check_invariants()
        postings = self._built()
        assert (np.diff(postings.first) >= 0).all()
        assert (np.diff(postings.size) >= 0).all()
        for begin, end in zip(postings.first[:-1].tolist(), postings.first[1:].tolist(), strict=True):
            assert (np.diff(postings.number[begin:end]) > 0).all()
        for begin, end in zip(
            postings.bound_first[:-1].tolist(), postings.bound_first[1:].tolist(), strict=True
        ):
            assert (np.diff(postings.bound[begin:end]) > 0).all()

    def explain(self) -> str:
        """One line: how it works."""
        return f"{len(self)} conjunctions; an event reads its values' posting lists"

    def _built(self) -> Postings:
        """The current posting lists, rebuilt if stale."""
        if self._postings is None:
            self._postings = self._build()
        return self._postings

    def _build(self) -> Postings:
        """Number expressions, find the bounds of each key, then write the lists. Cost: n log n."""
        slots, size = self._numbered(np.flatnonzero(self._store.columns.slots["count"] >= 0))
        self._store.arrange(slots.astype(np.int32))
        columns = self._store.columns
        held = columns.slots[slots]
        used = columns.predicates[runs_of(held["start"], held["count"])]
        n_keys = self._store.n_keys
        values = _different_bounds(used, n_keys)
        n_bounds = np.array([len(one) for one in values])
        bound_first, segment_first = np.zeros(n_keys + 1, np.int64), np.zeros(n_keys + 1, np.int64)
        np.cumsum(n_bounds, out=bound_first[1:])
        np.cumsum(np.where(n_bounds > 0, 2 * (2 * n_bounds + 1), 0), out=segment_first[1:])
        size_first = np.searchsorted(size, np.arange(size.max(initial=0) + 2)).astype(np.int32)
        postings = Postings(
            slot=slots.astype(np.int32),
            size=size.astype(np.uint8),
            is_plain=np.empty(len(slots), np.bool_),
            score=np.empty(len(slots)),
            bound_first=bound_first,
            bound=np.concatenate(values),
            segment_first=segment_first,
            first=np.zeros(segment_first[-1] + 1, np.int64),
            number=np.zeros(0, np.int32),
            weight=np.zeros(segment_first[-1]),
            size_first=size_first,
        )
        lengths = np.zeros(segment_first[-1], np.int64)
        with np.errstate(all="ignore"):
            score_expressions(columns.slots, columns.predicates, postings, self._score_rule)
            post_expressions(columns.slots, columns.predicates, postings, True, lengths)
            np.cumsum(lengths, out=postings.first[1:])
            postings = postings._replace(number=np.empty(postings.first[-1], np.int32))
            post_expressions(columns.slots, columns.predicates, postings, False, postings.first[:-1].copy())
        return postings

    def _numbered(self, slots: Longs) -> tuple[Longs, Ints]:
        """The slots that some event can satisfy, by their number of distinct keys; and that number.

        Those of equal size are by first key and where its range begins: similar ones are counted together.
        """
        columns, count = self._store.columns, len(slots)
        size, least, low = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count)
        measure_expressions(columns.slots, columns.predicates, slots, size, least, low)
        size[size > MAX_KEYS] = 0
        order = np.lexsort((low, least, size))
        order = order[size[order] != NEVER]
        return slots[order], size[order]

    def _counter(self, postings: Postings) -> Counter:
        n_keys, count = self._store.n_keys, len(postings.slot)
        n_lists = 64 * n_keys
        return Counter(
            n_left=np.zeros(count, np.uint8),
            last=np.full(count, -1, np.int32),
            low=np.full(n_keys, np.nan),
            high=np.full(n_keys, np.nan),
            weight=np.ones(n_keys),
            entry=np.zeros(n_keys, np.int64),
            keys=np.empty(n_keys, np.int32),
            here=np.empty(n_lists, np.int64),
            end=np.empty(n_lists, np.int64),
            most=np.empty(n_lists),
            found=np.empty(count, np.int32),
            found_most=np.empty(count),
        )


class KIndex(CountingIndex):
    """Joins the posting lists of an event by expression, those of the most keys first.

    An event with a range lies in several segments of one height: for such events, keys are counted.
    """

    is_joining = True


def _different_bounds(predicates: Records, n_keys: int) -> list[Floats]:
    """The distinct bounds of each key, ascending. Cost: n log n."""
    first, low, high = np.empty(n_keys + 1, np.int64), np.empty(len(predicates)), np.empty(len(predicates))
    group_bounds(predicates, first, low, high)
    found = []
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        bounds = np.sort(np.concatenate([low[begin:end], high[begin:end]]))
        is_new = np.ones(len(bounds), np.bool_)
        is_new[1:] = bounds[1:] != bounds[:-1]
        found.append(bounds[is_new])
    return found
