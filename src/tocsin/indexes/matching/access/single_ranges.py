"""A segment of the access index for single-predicate conjunctions that bounds alone decide."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tocsin.arrays.jit import entry_point
from tocsin.arrays.layout import check_layout
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.indexes.matching.access.single_range_kernels import (
    LISTED,
    SHORT_LIST,
    SLACK,
    SingleRangeColumns,
    count_listed,
    cut_intervals,
    delete_ranges,
    fill_lists,
    match_single_ranges,
)
from tocsin.indexes.matching.conjunctions import Conjunctions, starts_of
from tocsin.indexes.matching.events import Attributes, Events
from tocsin.indexes.matching.layout import KINDS, EventColumns, IdOrder, Matches, MatchHeaps
from tocsin.indexes.matching.report_kernels import MatchSortBuffer


class SingleRangeSegment:
    """Single ranges that were indexed together. Records are their numbers in this segment."""

    def __init__(self, slots: Ints, given: Conjunctions) -> None:
        """Index conjunctions of one predicate without a test each. Cost: n log n."""
        ranges = given.predicates
        # Lists are by descending weight, then by slot.
        order = np.lexsort((slots, -ranges["weight"]))
        #: int32 (records,): the subscription, -1 once terminated
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
        """Remove records. Cost: amortised logarithmic for each."""
        delete_ranges(self.columns, self._ranges[records], self.slots[records])
        self.slots[records] = -1
        self.n_alive -= len(records)

    def records(self) -> Ints:
        """The live records."""
        return np.flatnonzero(self.slots >= 0).astype(np.int32)

    def conjunctions(self, records: Ints) -> Conjunctions:
        """The conjunctions that records were built from, in their order. Cost: linear in them."""
        counts = np.ones(len(records), np.int32)
        held = Conjunctions.empty()._replace(names=self._names, counts=counts)
        return held._replace(predicates=self._ranges[records]).compacted()

    def prepare(self, events: Events, capacity: int) -> tuple[EventColumns, Ints]:
        """Events with this segment's attribute numbers, and scratch. Cost: linear in the names."""
        return self._attributes.translate(events), np.empty(len(events.attribute), np.int32)

    def match(
        self,
        prepared: tuple[EventColumns, Ints],
        begin: int,
        end: int,
        kind: int,
        best: MatchHeaps,
        ids: IdOrder,
        sort_buffer: MatchSortBuffer,
        out: Matches,
    ) -> int:
        """All matches of some events, or their best: see `match_single_ranges`."""
        return entry_point(match_single_ranges)(
            self.columns, prepared[0], begin, end, kind, prepared[1], best, ids, sort_buffer, out
        )

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        first, begin, starts, listed = self.columns
        check_layout(self.columns)
        assert self.n_alive == np.count_nonzero(self.slots >= 0)
        assert first[-1] == len(begin) - 1 == len(starts) - 1
        assert starts[-1] == len(listed)
        for key in range(len(first) - 1):
            mine = np.flatnonzero(self._ranges["key"] == key)
            low, high = self._ranges["low"][mine], self._ranges["high"][mine]
            bounds = [*begin[first[key] : first[key + 1]].tolist(), np.inf]
            assert len(bounds) == 1 or bounds[0] == -np.inf
            for interval, (begin_value, end_value) in enumerate(pairwise(bounds), int(first[key])):
                is_last = interval + 1 == first[key + 1]
                assert begin_value < end_value or is_last
                there = mine[(high >= begin_value) & ((low < end_value) | is_last)]
                held = listed[starts[interval] : starts[interval + 1]]
                is_alive = self.slots[there] >= 0
                assert np.array_equal(held["weight"], self._ranges["weight"][there])
                assert np.array_equal(held["slot"][is_alive], self.slots[there][is_alive])
                assert np.array_equal(~np.isnan(held["low"]), is_alive)
                self._check_length(there, begin_value, end_value)

    def _check_length(self, there: Longs, begin_value: float, end_value: float) -> None:
        """A list is at most SLACK times what any value of its interval hits; its least value may hit more."""
        low, high = self._ranges["low"][there], self._ranges["high"][there]
        held = [
            np.count_nonzero((low <= value) & (value <= high))
            for value in (begin_value, *low.tolist(), *_after(high).tolist())
            if begin_value <= value < end_value or value == begin_value
        ]
        assert len(there) <= max(SHORT_LIST, SLACK * int(min(held)), int(held[0]))


def is_single_range(given: Conjunctions) -> Bools:
    """Which conjunctions have one predicate, decided by its bounds alone. Cost: linear."""
    is_single: Bools = given.counts == 1
    is_single[is_single] = given.predicates["test"][starts_of(given.counts)[is_single]] < 0
    return is_single


def _after(values: Floats) -> Floats:
    """The next double after each."""
    # After the last one comes infinity: NumPy would warn.
    with np.errstate(over="ignore"):
        after: Floats = np.nextafter(values, np.inf)
    return after


def _build(ranges: np.ndarray, slots: Ints, n_keys: int) -> SingleRangeColumns:
    held = ranges[ranges["low"] <= ranges["high"]]
    key, low, end = held["key"], held["low"], _after(held["high"])
    key_first = np.zeros(n_keys + 1, np.int64)
    np.bincount(key, minlength=n_keys).cumsum(out=key_first[1:])
    first, begin = np.empty(n_keys + 1, np.int64), np.empty(2 * len(held) + n_keys)
    n_intervals = cut_intervals(
        key_first, low[np.lexsort((low, key))], end[np.lexsort((end, key))], first, begin
    )
    columns = SingleRangeColumns(
        first,
        np.append(begin[:n_intervals], -np.inf),
        np.zeros(n_intervals + 1, np.int64),
        np.zeros(0, LISTED),
    )
    count_listed(columns, ranges)
    columns = columns._replace(listed=np.zeros(int(columns.starts[-1]), LISTED))
    fill_lists(columns, ranges, slots)
    return columns
