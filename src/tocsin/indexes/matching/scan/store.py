"""Conjunctions by slot, in the layout of the scan.

Garbage of terminated subscriptions is collected once it outweighs live rows.
"""

from __future__ import annotations

import numpy as np

from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Ints, Longs
from tocsin.indexes.matching.conjunctions import (
    Conjunctions,
    renumbered,
    restored_arrays,
    runs_of,
    saved_arrays,
    starts_of,
)
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import KINDS, EventColumns
from tocsin.indexes.matching.scan.scan_kernels import (
    ALWAYS,
    BLOCK,
    FILTERS,
    HIGH,
    LOW,
    UNKNOWN,
    MatchColumns,
    set_filters,
)

#: Fewer rows are not worth a garbage collection.
MIN_COLLECTED = 1024


class PredicateStore:
    """Subscriptions by slot, their predicates, tests and operands, and their attributes."""

    def __init__(self, capacity: int = 16) -> None:
        #: attribute to its number
        self.attributes: dict[str, int] = {}
        self.top = 0
        self._n_predicates = 0
        self._n_tests = 0
        self._n_operands = 0
        self._n_bytes = 0
        self._n_garbage = 0
        #: how often attributes were renumbered and predicates moved
        self.n_sweeps = 0
        sizes = dict.fromkeys(("slots", "predicates", "tests", "operands", "bytes"), capacity)
        self.columns = empty(MatchColumns, blocks=-(-capacity // BLOCK), **sizes)

    def __len__(self) -> int:
        return int((self.columns.slots["count"] >= 0).sum())

    @property
    def n_keys(self) -> int:
        """A key is `KINDS * attribute + kind`, with kinds counted from 1."""
        return KINDS * len(self.attributes) + KINDS

    @property
    def n_blocks(self) -> int:
        return -(-self.top // BLOCK)

    @property
    def n_predicates(self) -> int:
        """Predicates, garbage included."""
        return self._n_predicates

    def add(self, slots: Ints, given: Conjunctions) -> None:
        """Add conjunctions. Cost: linear in them."""
        if len(slots) == 0:
            return
        self.top = max(self.top, int(slots.max()) + 1)
        begin, end = self._n_predicates, self._n_predicates + len(given.predicates)
        n_tests, n_operands = self._n_tests + len(given.tests), self._n_operands + len(given.operands)
        n_bytes = self._n_bytes + len(given.heap)
        self.columns = columns = grow(
            self.columns,
            slots=self.top,
            blocks=self.n_blocks,
            predicates=end,
            tests=n_tests,
            operands=n_operands,
            bytes=n_bytes,
        )
        columns.predicates[begin:end] = renumbered(given, self.attributes)
        columns.predicates["test"][begin:end] += np.where(given.predicates["test"] >= 0, self._n_tests, 0)
        columns.tests[self._n_tests : n_tests] = given.tests
        columns.tests["start"][self._n_tests : n_tests] += self._n_operands
        columns.operands[self._n_operands : n_operands] = given.operands
        columns.operands["start"][self._n_operands : n_operands] += self._n_bytes
        columns.heap[self._n_bytes : n_bytes] = given.heap
        columns.slots["start"][slots] = begin + starts_of(given.counts)
        columns.slots["count"][slots] = given.counts
        self._n_predicates, self._n_tests = end, n_tests
        self._n_operands, self._n_bytes = n_operands, n_bytes
        self._set_filters(slots)

    def remove(self, slots: Ints) -> None:
        """Remove live subscriptions. Cost: amortised linear in their predicates."""
        columns = self.columns
        self._n_garbage += self._n_held(slots)
        block, place = np.divmod(slots, BLOCK)
        columns.filter_bound[block, :, LOW, place] = np.nan
        columns.block_key[block] = UNKNOWN
        columns.slots["count"][slots] = -1
        if self._n_used > MIN_COLLECTED and 2 * self._n_garbage > self._n_used:
            self.sweep()

    def live(self) -> Ints:
        """The slots in use, ascending. Cost: linear."""
        return np.flatnonzero(self.columns.slots["count"][: self.top] >= 0).astype(np.int32)

    def conjunctions(self, slots: Ints | Longs) -> Conjunctions:
        """The conjunctions of slots, in their order. Cost: linear in the whole store."""
        columns, held = self.columns, self.columns.slots[slots]
        predicates = columns.predicates[runs_of(held["start"], held["count"])]
        conjunctions = Conjunctions(
            list(self.attributes), held["count"], predicates, columns.tests, columns.operands, columns.heap
        )
        return conjunctions.compacted()

    def arrange(self, slots: Ints) -> None:
        """Move the predicates of these slots to the front, in this order, to match the order of reads.

        Cost: linear in the whole store.
        """
        others = np.setdiff1d(self.live(), slots)
        order = np.concatenate([slots, others]).astype(np.int64)
        held = self.columns.slots[order]
        predicates = self.columns.predicates[runs_of(held["start"], held["count"])]
        self.columns.slots["start"][order] = starts_of(held["count"])
        self.columns = self.columns._replace(predicates=predicates)
        self._n_garbage -= self._n_predicates - len(predicates)
        self._n_predicates = len(predicates)

    def translate(self, events: Events) -> EventColumns:
        """Events with the numbers of their attributes. Cost: linear in the names."""
        known = np.array([self.attributes.get(name, -1) for name in events.names], np.int32)
        return EventColumns(known, *events.columns)

    def sweep(self) -> None:
        """Rewrite everything in slot order, without garbage. Cost: linear."""
        self._replace_content(self.columns.slots["count"][: self.top], self.conjunctions(self.live()))
        self.n_sweeps += 1

    def arrays(self) -> Arrays:
        """Everything in slot order, after a `sweep`, without what can be derived."""
        self.sweep()
        return saved_arrays(self.columns.slots["count"], self.conjunctions(self.live()))

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from."""
        self._replace_content(*restored_arrays(arrays))

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        columns = self.columns
        check_layout(columns)
        slots = np.flatnonzero(columns.slots["count"] >= 0)
        assert (slots < self.top).all()
        assert list(self.attributes.values()) == list(range(len(self.attributes)))
        predicates, tests, operands = self._runs(slots)
        assert len(np.unique(predicates)) == len(predicates) <= self._n_predicates
        assert len(np.unique(tests)) == len(tests) <= self._n_tests
        assert len(np.unique(operands)) == len(operands) <= self._n_operands
        assert self._n_used - self._n_garbage == self._n_held(slots)
        keys = columns.predicates["key"][predicates]
        assert ((keys > 0) & (keys < self.n_keys)).all()
        self._check_filters()

    def _check_filters(self) -> None:
        """Filters contain the bounds of their predicates; a block's shared keys are those of its slots."""
        columns = self.columns
        is_free = np.ones(BLOCK * len(columns.block_key), np.bool_)
        is_free[np.flatnonzero(columns.slots["count"] >= 0)] = False
        for level in range(FILTERS):
            assert np.isnan(columns.filter_bound[:, level, LOW].ravel()[is_free]).all()
        for slot in np.flatnonzero(~is_free).tolist():
            block, place = divmod(slot, BLOCK)
            start, count = columns.slots[slot].tolist()
            keys, bounds = columns.filter_key[block, :, place], columns.filter_bound[block, :, :, place]
            predicates = columns.predicates[start : start + count][:FILTERS]
            assert keys.tolist() == [*predicates["key"], *[ALWAYS] * (FILTERS - len(predicates))]
            # Negated: a bound may be NaN.
            assert not (bounds[: len(predicates), LOW] > predicates["low"]).any()
            assert not (bounds[: len(predicates), HIGH] < predicates["high"]).any()
            shared = columns.block_key[block]
            assert ((shared == keys) | (shared < 0) | np.isnan(bounds[:, LOW])).all()

    @property
    def _n_used(self) -> int:
        """Rows and bytes, garbage included."""
        return self._n_predicates + self._n_tests + self._n_operands + self._n_bytes

    def _n_held(self, slots: Ints | Longs) -> int:
        """Rows and bytes of some slots."""
        predicates, tests, operands = self._runs(slots)
        n_bytes = int(self.columns.operands["length"][operands].sum())
        return len(predicates) + len(tests) + len(operands) + n_bytes

    def _set_filters(self, slots: Ints | Longs) -> None:
        # Interpreted, a double beyond all singles would warn.
        with np.errstate(all="ignore"):
            set_filters(self.columns, slots.astype(np.int32))

    def _runs(self, slots: Ints | Longs) -> tuple[Longs, Ints, Longs]:
        """The predicates of slots, the tests of these predicates, and the operands of these tests."""
        columns = self.columns
        predicates = runs_of(columns.slots["start"][slots], columns.slots["count"][slots])
        tests = columns.predicates["test"][predicates]
        tests = tests[tests >= 0]
        return predicates, tests, runs_of(columns.tests["start"][tests], columns.tests["count"][tests])

    def _replace_content(self, counts: Ints, given: Conjunctions) -> None:
        """Replace the content by conjunctions without gaps, one for each slot whose count is not -1."""
        self.top = len(counts)
        self.attributes = {name: number for number, name in enumerate(given.names)}
        self._n_predicates, self._n_tests = len(given.predicates), len(given.tests)
        self._n_operands, self._n_bytes = len(given.operands), len(given.heap)
        self._n_garbage = 0
        nothing = dict.fromkeys(("predicates", "tests", "operands", "bytes"), 0)
        columns = empty(MatchColumns, slots=self.top, blocks=self.n_blocks, **nothing)
        columns.slots["count"] = counts
        columns.slots["start"] = starts_of(np.maximum(counts, 0))
        self.columns = columns._replace(
            predicates=given.predicates, tests=given.tests, operands=given.operands, heap=given.heap
        )
        self._set_filters(np.flatnonzero(counts >= 0))
