"""Conjunctions of predicates in flat columns: what every index of this room keeps.

Subscriptions differ in the number of their predicates, so a slot points at a run of predicates; a
predicate that its bounds alone do not decide points at a test, and a test at a run of operands. What a
terminated subscription leaves is swept when it outweighs the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.indexes.contract import Arrays, Bytes, Ints, Longs
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.predicates import (
    TEST_NAMES,
    EncodedPredicates,
    PredicateColumns,
    encode_predicates,
)
from tocsin.indexes.matching.scan_kernels import (
    ALWAYS,
    BLOCK,
    FILTERS,
    HIGH,
    KINDS,
    LOW,
    OPERAND,
    PREDICATE,
    RANGE,
    SLOT,
    TEST,
    UNKNOWN,
    EventColumns,
    MatchColumns,
    Records,
    set_filters,
)
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.names_kernels import copy_texts

#: Less than this is not worth sweeping.
SMALL = 1024

#: Fields of records that are saved, each as a column; the others are derived.
_SAVED = {
    "slots": ("count",),
    "predicates": ("low", "high", "weight", "key", "test"),
    "tests": ("kind", "count"),
    "operands": ("value", "length"),
}
_FILLS = {"filter_bound": np.nan, "block_key": UNKNOWN, "slots": -1}


class PredicateStore:
    """Subscriptions by slot, their predicates, tests and operands, and the attributes that these name."""

    def __init__(self, capacity: int = 16) -> None:
        #: attribute to its number
        self.attributes: dict[str, int] = {}
        self.top = 0
        self._n_predicates = 0
        self._n_tests = 0
        self._n_operands = 0
        self._n_bytes = 0
        self._n_garbage = 0
        self.columns = MatchColumns(
            **_empty_filters(capacity),
            slots=np.full(capacity, -1, SLOT),
            predicates=np.zeros(capacity, PREDICATE),
            tests=np.zeros(capacity, TEST),
            operands=np.zeros(capacity, OPERAND),
            heap=np.zeros(capacity, np.uint8),
        )

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
        """Predicates in use and not yet swept."""
        return self._n_predicates

    def add(self, slots: Ints, predicates: Sequence[PredicateColumns]) -> None:
        """Keep n conjunctions, each of one predicate a column set. Cost: linear in what is kept."""
        count, width = len(slots), len(predicates)
        if count == 0:
            return
        self.top = max(self.top, int(slots.max()) + 1)
        begin, end = self._n_predicates, self._n_predicates + count * width
        self._reserve(self.top, "slots")
        self._reserve(self.n_blocks, "filter_bound", "filter_key", "block_key")
        self._reserve(end, "predicates")
        for number, predicate in enumerate(predicates):
            self._write(slice(begin + number, end, width), count, predicate)
        self._n_predicates = end
        self.columns.slots["start"][slots] = begin + width * np.arange(count)
        self.columns.slots["count"][slots] = width
        self._set_filters(slots)

    def remove(self, slots: Ints) -> None:
        """Forget subscriptions that are there. Cost: amortised linear in their predicates."""
        columns = self.columns
        predicates, tests, operands = self._runs(slots)
        n_bytes = int(columns.operands["length"][operands].sum())
        self._n_garbage += len(predicates) + len(tests) + len(operands) + n_bytes
        block, place = np.divmod(slots, BLOCK)
        columns.filter_bound[block, :, LOW, place] = np.nan
        columns.block_key[block] = UNKNOWN
        columns.slots["count"][slots] = -1
        if self._n_used > SMALL and 2 * self._n_garbage > self._n_used:
            self.sweep()

    def describe(self, slot: int) -> dict[str, object]:
        """The predicates of a slot in words, by attribute. Cost: linear in them."""
        columns, names = self.columns, list(self.attributes)
        shown: dict[str, object] = {}
        for number, predicate in enumerate(self._runs(np.array([slot]))[0].tolist()):
            low, high, weight, key, test = columns.predicates[predicate].tolist()
            words = f"from {low} to {high}"
            if test >= 0:
                kind, start, count = columns.tests[test].tolist()
                operands = [self._operand(place) for place in range(start, start + count)]
                words = f"{TEST_NAMES[kind]} {operands}"
            shown[f"{number + 1}: {names[(key - 1) // KINDS]}"] = f"{words}, weight {weight}"
        return shown

    def _operand(self, place: int) -> str | float:
        value, start, length = self.columns.operands[place].tolist()
        if length:
            return self.columns.heap[start : start + length].tobytes().decode()
        return float(value)

    def translate(self, events: Events) -> EventColumns:
        """Events, and which of their attributes are known here. Cost: linear in the names."""
        known = np.array([self.attributes.get(name, -1) for name in events.names], np.int32)
        return EventColumns(known, *events[1:])

    def sweep(self) -> None:
        """Write everything afresh in slot order, without what is no longer used. Cost: linear."""
        columns = self.columns
        predicate, test, operand = self._runs(np.flatnonzero(columns.slots["count"] >= 0))
        predicates, operands = columns.predicates[predicate], columns.operands[operand]
        is_test = predicates["test"] >= 0
        predicates["test"][is_test] = np.arange(len(test))
        attribute, kind = np.divmod(predicates["key"] - 1, KINDS)
        is_used = np.zeros(len(self.attributes), np.bool_)
        is_used[attribute] = True
        names = [name for name, number in self.attributes.items() if is_used[number]]
        self.attributes = {name: number for number, name in enumerate(names)}
        predicates["key"] = KINDS * (np.cumsum(is_used) - 1)[attribute] + kind + 1
        heap = _copied(columns.heap, operands)
        self._become(columns.slots["count"][: self.top], predicates, columns.tests[test], operands, heap)

    def arrays(self) -> Arrays:
        """Everything in slot order, swept first; what can be derived is left out."""
        self.sweep()
        saved = {"heap": self.columns.heap.copy()}
        for table, fields in _SAVED.items():
            for field in fields:
                saved[f"{table}_{field}"] = getattr(self.columns, table)[field].copy()
        names = [name.encode() for name in self.attributes]
        saved["attributes"] = np.frombuffer(bytearray(b"".join(names)), np.uint8)
        saved["attributes_length"] = np.array([len(name) for name in names], np.int32)
        return saved

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from."""
        text, ends = arrays["attributes"].tobytes(), np.cumsum(arrays["attributes_length"]).tolist()
        names = [text[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)]
        self.attributes = {name: number for number, name in enumerate(names)}
        tables = {}
        for table, fields in _SAVED.items():
            columns = [arrays[f"{table}_{field}"] for field in fields]
            tables[table] = np.zeros(len(columns[0]), getattr(self.columns, table).dtype)
            for field, column in zip(fields, columns, strict=True):
                tables[table][field] = column
        heap = np.array(arrays["heap"], np.uint8)
        self._become(
            tables["slots"]["count"], tables["predicates"], tables["tests"], tables["operands"], heap
        )

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        columns = self.columns
        slots = np.flatnonzero(columns.slots["count"] >= 0)
        assert (slots < self.top).all()
        assert list(self.attributes.values()) == list(range(len(self.attributes)))
        predicates, tests, operands = self._runs(slots)
        assert len(np.unique(predicates)) == len(predicates) <= self._n_predicates
        assert len(np.unique(tests)) == len(tests) <= self._n_tests
        assert len(np.unique(operands)) == len(operands) <= self._n_operands
        n_bytes = int(columns.operands["length"][operands].sum())
        assert self._n_used - self._n_garbage == len(predicates) + len(tests) + len(operands) + n_bytes
        keys = columns.predicates["key"][predicates]
        assert ((keys > 0) & (keys < self.n_keys)).all()
        self._check_filters()

    def _check_filters(self) -> None:
        """Filters hold the bounds of their predicates, and a block's shared keys are those of its slots."""
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
            # Not the other way round: NaN is a bound, too.
            assert not (bounds[: len(predicates), LOW] > predicates["low"]).any()
            assert not (bounds[: len(predicates), HIGH] < predicates["high"]).any()
            shared = columns.block_key[block]
            assert ((shared == keys) | (shared < 0) | np.isnan(bounds[:, LOW])).all()

    @property
    def _n_used(self) -> int:
        """Rows and bytes, garbage included."""
        return self._n_predicates + self._n_tests + self._n_operands + self._n_bytes

    def _write(self, rows: slice, count: int, predicate: PredicateColumns) -> None:
        """Write one predicate of each new subscription into every `width`-th row."""
        encoded = encode_predicates(predicate)
        attribute = self.attributes.setdefault(predicate.attribute, len(self.attributes))
        predicates = self.columns.predicates[rows]
        predicates["key"] = KINDS * attribute + encoded.kind
        predicates["test"] = -1
        predicates["low"] = encoded.low
        predicates["high"] = encoded.high
        predicates["weight"] = predicate.weight
        if encoded.test != RANGE:
            predicates["test"] = self._n_tests + np.arange(count)
            self._write_tests(encoded)

    def _write_tests(self, encoded: EncodedPredicates) -> None:
        """Append one test for each row of `encoded`, and its operands."""
        count, width = encoded.values.shape
        n_tests, n_operands = self._n_tests + count, self._n_operands + count * width
        n_bytes = self._n_bytes + len(encoded.heap)
        self._reserve(n_tests, "tests")
        self._reserve(n_operands, "operands")
        self._reserve(n_bytes, "heap")
        tests = self.columns.tests[self._n_tests : n_tests]
        tests["kind"] = encoded.test
        tests["start"] = self._n_operands + width * np.arange(count)
        tests["count"] = width
        operands = self.columns.operands[self._n_operands : n_operands]
        operands["value"] = encoded.values.ravel()
        operands["start"] = encoded.text_start.ravel() + self._n_bytes
        operands["length"] = encoded.text_length.ravel()
        self.columns.heap[self._n_bytes : n_bytes] = encoded.heap
        self._n_tests, self._n_operands, self._n_bytes = n_tests, n_operands, n_bytes

    def _set_filters(self, slots: Ints | Longs) -> None:
        # Without the compiler, a double beyond all singles would warn.
        with np.errstate(all="ignore"):
            set_filters(self.columns, slots.astype(np.int32))

    def _runs(self, slots: Ints | Longs) -> tuple[Longs, Ints, Longs]:
        """The predicates of the slots, the tests of these, and the operands of those."""
        predicates = _runs(self.columns.slots[slots])
        tests = self.columns.predicates["test"][predicates]
        tests = tests[tests >= 0]
        return predicates, tests, _runs(self.columns.tests[tests])

    def _reserve(self, rows: int, *names: str) -> None:
        """Room for `rows` rows in the named columns."""
        columns = {name: getattr(self.columns, name) for name in names}
        larger = {name: grown(column, rows, _FILLS.get(name, 0)) for name, column in columns.items()}
        self.columns = self.columns._replace(**larger)

    def _become(
        self, counts: Ints, predicates: Records, tests: Records, operands: Records, heap: Bytes
    ) -> None:
        """Keep these, deriving the rest: everything lies in order, without gaps."""
        self.top = len(counts)
        self._n_predicates, self._n_tests = len(predicates), len(tests)
        self._n_operands, self._n_bytes = len(operands), len(heap)
        self._n_garbage = 0
        slots = np.empty(self.top, SLOT)
        slots["count"] = counts
        slots["start"] = _starts(np.maximum(counts, 0))
        tests["start"] = _starts(tests["count"])
        operands["start"] = _starts(operands["length"])
        filters = _empty_filters(self.top)
        self.columns = MatchColumns(
            **filters, slots=slots, predicates=predicates, tests=tests, operands=operands, heap=heap
        )
        self._set_filters(np.flatnonzero(counts >= 0))


def _empty_filters(slots: int) -> Arrays:
    """The columns by block for that many slots, all free."""
    blocks = -(-slots // BLOCK)
    return {
        "filter_bound": np.full((blocks, FILTERS, 2, BLOCK), np.nan, np.float32),
        "filter_key": np.zeros((blocks, FILTERS, BLOCK), np.int32),
        "block_key": np.full((blocks, FILTERS), UNKNOWN, np.int32),
    }


def _starts(counts: Ints) -> Longs:
    """Where each of a row of runs begins."""
    return np.cumsum(counts, dtype=np.int64) - counts


def _runs(records: Records) -> Longs:
    """All indexes of the runs that the records point at, one run after the other."""
    starts, counts = records["start"], records["count"]
    return np.repeat(starts - _starts(counts), counts) + np.arange(int(counts.sum()))


def _copied(heap: Bytes, operands: Records) -> Bytes:
    """The bytes of the operands' texts, one after the other."""
    offsets = np.zeros(len(operands) + 1, np.int64)
    np.cumsum(operands["length"], out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    copy_texts(heap, operands["start"].copy(), np.arange(len(operands)), offsets, copied)
    return copied
