"""Lone ranges: a part of the access index, for conjunctions of one predicate without a test."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tocsin.indexes.contract import Bools, Floats, Ints, Longs
from tocsin.indexes.matching.access_report_kernels import Desk
from tocsin.indexes.matching.attributes import Attributes
from tocsin.indexes.matching.common_kernels import KINDS, Best, EventColumns, IdOrder, Matches
from tocsin.indexes.matching.conjunctions import Conjunctions, starts_of
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.lone_kernels import (
    LISTED,
    SHORT_LIST,
    SLACK,
    LoneColumns,
    count_listed,
    cut_stretches,
    fill_lists,
    match_lone,
    strike_ranges,
)
from tocsin.indexes.shared.direct import compiled


class LoneRanges:
    """Lone ranges that were indexed together. Records are its own numbers for them."""

    def __init__(self, slots: Ints, given: Conjunctions) -> None:
        """Index conjunctions, of one predicate without a test each. Cost: n log n."""
        ranges = given.predicates
        # In lists the greatest weights come first, and then the least slots.
        order = np.lexsort((slots, -ranges["weight"]))
        #: int32 (records,): the subscription, -1 where it has been terminated
        self.slots: Ints = slots[order]
        #: PREDICATE (records,)
        self._ranges = ranges[order]
        self._names = given.names
        self._attributes = Attributes(given.names)
        self.columns = _build(self._ranges, self.slots, KINDS * len(given.names) + KINDS)
        self.n_alive = len(slots)

    @property
    def n_records(self) -> int:
        return len(self.slots)

    def remove(self, records: Ints) -> None:
        """Forget records. Cost: amortised logarithmic for each."""
        strike_ranges(self.columns, self._ranges[records], self.slots[records])
        self.slots[records] = -1
        self.n_alive -= len(records)

    def records(self) -> Ints:
        """The records that are there."""
        return np.flatnonzero(self.slots >= 0).astype(np.int32)

    def conjunctions(self, records: Ints) -> Conjunctions:
        """What records were made from, in their order. Cost: linear in them."""
        counts = np.ones(len(records), np.int32)
        held = Conjunctions.empty()._replace(names=self._names, counts=counts)
        return held._replace(predicates=self._ranges[records]).compacted()

    def ask(self, events: Events, room: int) -> tuple[EventColumns, Ints]:
        """Events as this part knows them, and where their values are found. Cost: linear in the names."""
        return self._attributes.translate(events), np.empty(len(events.attribute), np.int32)

    def match(
        self,
        asked: tuple[EventColumns, Ints],
        begin: int,
        end: int,
        kind: int,
        best: Best,
        ids: IdOrder,
        desk: Desk,
        out: Matches,
    ) -> int:
        """All matches of some events, or their best: see `match_lone`."""
        return compiled(match_lone)(self.columns, asked[0], begin, end, kind, asked[1], best, ids, desk, out)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        first, begin, starts, listed = self.columns
        assert self.n_alive == np.count_nonzero(self.slots >= 0)
        assert first[-1] == len(begin) - 1 == len(starts) - 1
        assert starts[-1] == len(listed)
        for key in range(len(first) - 1):
            mine = np.flatnonzero(self._ranges["key"] == key)
            low, high = self._ranges["low"][mine], self._ranges["high"][mine]
            bounds = [*begin[first[key] : first[key + 1]].tolist(), np.inf]
            assert len(bounds) == 1 or bounds[0] == -np.inf
            for stretch, (since, until) in enumerate(pairwise(bounds), int(first[key])):
                is_last = stretch + 1 == first[key + 1]
                assert since < until or is_last
                there = mine[(high >= since) & ((low < until) | is_last)]
                held = listed[starts[stretch] : starts[stretch + 1]]
                is_alive = self.slots[there] >= 0
                assert np.array_equal(held["weight"], self._ranges["weight"][there])
                assert np.array_equal(held["slot"][is_alive], self.slots[there][is_alive])
                assert np.array_equal(~np.isnan(held["low"]), is_alive)
                self._check_length(there, since, until)

    def _check_length(self, there: Longs, since: float, until: float) -> None:
        """A list is not longer than what each value is held by says; its least value alone may have more."""
        low, high = self._ranges["low"][there], self._ranges["high"][there]
        held = [
            np.count_nonzero((low <= value) & (value <= high))
            for value in (since, *low.tolist(), *_after(high).tolist())
            if since <= value < until or value == since
        ]
        assert len(there) <= max(SHORT_LIST, SLACK * int(min(held)), int(held[0]))


def is_lone(given: Conjunctions) -> Bools:
    """Which conjunctions are of one predicate that its bounds alone decide. Cost: linear."""
    lone: Bools = given.counts == 1
    lone[lone] = given.predicates["test"][starts_of(given.counts)[lone]] < 0
    return lone


def _after(values: Floats) -> Floats:
    """The next double after each."""
    # After the last one comes infinity, of which NumPy would warn.
    with np.errstate(over="ignore"):
        after: Floats = np.nextafter(values, np.inf)
    return after


def _build(ranges: np.ndarray, slots: Ints, n_keys: int) -> LoneColumns:
    held = ranges[ranges["low"] <= ranges["high"]]
    key, low, end = held["key"], held["low"], _after(held["high"])
    key_first = np.zeros(n_keys + 1, np.int64)
    np.bincount(key, minlength=n_keys).cumsum(out=key_first[1:])
    first, begin = np.empty(n_keys + 1, np.int64), np.empty(2 * len(held) + n_keys)
    n_stretches = cut_stretches(
        key_first, low[np.lexsort((low, key))], end[np.lexsort((end, key))], first, begin
    )
    columns = LoneColumns(
        first,
        np.append(begin[:n_stretches], -np.inf),
        np.zeros(n_stretches + 1, np.int64),
        np.zeros(0, LISTED),
    )
    count_listed(columns, ranges)
    columns = columns._replace(listed=np.zeros(int(columns.starts[-1]), LISTED))
    fill_lists(columns, ranges, slots)
    return columns
