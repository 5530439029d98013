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
    RANGE,
    UNKNOWN,
    WEIGHT,
    EventColumns,
    MatchColumns,
    set_filters,
)
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.names_kernels import copy_texts

#: Less than this is not worth sweeping.
SMALL = 1024

_SAVED = (
    "slot_count",
    "predicate_key",
    "predicate_test",
    "predicate_bound",
    "test_kind",
    "test_count",
    "operand_value",
    "operand_length",
    "heap",
)
_FILLS = {"slot_count": -1, "filter_bound": np.nan, "block_key": UNKNOWN}


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
            slot_start=np.zeros(capacity, np.int32),
            slot_count=np.full(capacity, -1, np.int32),
            predicate_key=np.zeros(capacity, np.int32),
            predicate_test=np.zeros(capacity, np.int32),
            predicate_bound=np.zeros((capacity, 3)),
            test_kind=np.zeros(capacity, np.int8),
            test_start=np.zeros(capacity, np.int32),
            test_count=np.zeros(capacity, np.int32),
            operand_value=np.zeros(capacity),
            operand_start=np.zeros(capacity, np.int64),
            operand_length=np.zeros(capacity, np.int32),
            heap=np.zeros(capacity, np.uint8),
        )

    def __len__(self) -> int:
        return int((self.columns.slot_count >= 0).sum())

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
        self._reserve("slot", self.top)
        self._reserve("filter", self.n_blocks)
        self._reserve("block", self.n_blocks)
        self._reserve("predicate", end)
        for number, predicate in enumerate(predicates):
            self._write(slice(begin + number, end, width), count, predicate)
        self._n_predicates = end
        self.columns.slot_start[slots] = begin + width * np.arange(count)
        self.columns.slot_count[slots] = width
        self._set_filters(slots)

    def remove(self, slots: Ints) -> None:
        """Forget subscriptions that are there. Cost: amortised linear in their predicates."""
        columns = self.columns
        predicates, tests, operands = self._runs(slots)
        n_bytes = int(columns.operand_length[operands].sum())
        self._n_garbage += len(predicates) + len(tests) + len(operands) + n_bytes
        block, place = np.divmod(slots, BLOCK)
        columns.filter_bound[block, 0, LOW, place] = np.nan
        columns.block_key[block] = UNKNOWN
        columns.slot_count[slots] = -1
        if self._n_used > SMALL and 2 * self._n_garbage > self._n_used:
            self.sweep()

    def describe(self, slot: int) -> dict[str, object]:
        """The predicates of a slot in words, by attribute. Cost: linear in them."""
        columns, names = self.columns, list(self.attributes)
        shown: dict[str, object] = {}
        for number, predicate in enumerate(self._runs(np.array([slot]))[0].tolist()):
            low, high, weight = columns.predicate_bound[predicate].tolist()
            words, test = f"from {low} to {high}", int(columns.predicate_test[predicate])
            if test >= 0:
                start, count = int(columns.test_start[test]), int(columns.test_count[test])
                operands = [self._operand(place) for place in range(start, start + count)]
                words = f"{TEST_NAMES[int(columns.test_kind[test])]} {operands}"
            attribute = names[(int(columns.predicate_key[predicate]) - 1) // KINDS]
            shown[f"{number + 1}: {attribute}"] = f"{words}, weight {weight}"
        return shown

    def _operand(self, place: int) -> str | float:
        columns = self.columns
        start, length = int(columns.operand_start[place]), int(columns.operand_length[place])
        if length:
            return columns.heap[start : start + length].tobytes().decode()
        return float(columns.operand_value[place])

    def translate(self, events: Events) -> EventColumns:
        """Events, and which of their attributes are known here. Cost: linear in the names."""
        known = np.array([self.attributes.get(name, -1) for name in events.names], np.int32)
        return EventColumns(known, *events[1:])

    def sweep(self) -> None:
        """Write everything afresh in slot order, without what is no longer used. Cost: linear."""
        columns = self.columns
        predicates, tests, operands = self._runs(np.flatnonzero(columns.slot_count >= 0))
        is_test = columns.predicate_test[predicates] >= 0
        attribute, kind = np.divmod(columns.predicate_key[predicates] - 1, KINDS)
        is_used = np.zeros(len(self.attributes), np.bool_)
        is_used[attribute] = True
        names = [name for name, number in self.attributes.items() if is_used[number]]
        self.attributes = {name: number for number, name in enumerate(names)}
        length = columns.operand_length[operands]
        self._load(
            {
                "slot_count": columns.slot_count[: self.top],
                "predicate_key": KINDS * (np.cumsum(is_used) - 1)[attribute] + kind + 1,
                "predicate_test": np.where(is_test, np.cumsum(is_test) - 1, -1),
                "predicate_bound": columns.predicate_bound[predicates],
                "test_kind": columns.test_kind[tests],
                "test_count": columns.test_count[tests],
                "operand_value": columns.operand_value[operands],
                "operand_length": length,
                "heap": _copied(columns.heap, columns.operand_start, operands, length),
            }
        )

    def arrays(self) -> Arrays:
        """Everything in slot order, swept first; what can be derived is left out."""
        self.sweep()
        names = [name.encode() for name in self.attributes]
        return {
            **{name: getattr(self.columns, name).copy() for name in _SAVED},
            "attribute_heap": np.frombuffer(b"".join(names), np.uint8),
            "attribute_length": np.array([len(name) for name in names], np.int32),
        }

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from."""
        heap, ends = arrays["attribute_heap"].tobytes(), np.cumsum(arrays["attribute_length"]).tolist()
        names = [heap[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)]
        self.attributes = {name: number for number, name in enumerate(names)}
        self._load(arrays)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        columns = self.columns
        slots = np.flatnonzero(columns.slot_count >= 0)
        assert (slots < self.top).all()
        assert list(self.attributes.values()) == list(range(len(self.attributes)))
        predicates, tests, operands = self._runs(slots)
        assert len(np.unique(predicates)) == len(predicates) <= self._n_predicates
        assert len(np.unique(tests)) == len(tests) <= self._n_tests
        assert len(np.unique(operands)) == len(operands) <= self._n_operands
        n_bytes = int(columns.operand_length[operands].sum())
        assert self._n_used - self._n_garbage == len(predicates) + len(tests) + len(operands) + n_bytes
        keys = columns.predicate_key[predicates]
        assert ((keys > 0) & (keys < self.n_keys)).all()
        self._check_filters()

    def _check_filters(self) -> None:
        """Filters hold their predicates' bounds, and a block's shared keys are those of its slots."""
        columns = self.columns
        for slot in range(BLOCK * len(columns.block_key)):
            block, place = divmod(slot, BLOCK)
            bounds = columns.filter_bound[block, :, :, place]
            count = int(columns.slot_count[slot]) if slot < self.top else -1
            if count < 0:
                assert np.isnan(bounds[0, LOW])
                continue
            assert (columns.filter_key[block, count:, place] == ALWAYS).all()
            for level in range(min(count, FILTERS)):
                predicate = columns.slot_start[slot] + level
                low, high, _ = columns.predicate_bound[predicate].tolist()
                assert columns.filter_key[block, level, place] == columns.predicate_key[predicate]
                assert bounds[level, LOW] <= low or np.isnan([low, bounds[level, LOW]]).all()
                assert bounds[level, HIGH] >= high or np.isnan([high, bounds[level, HIGH]]).all()
            is_known = columns.block_key[block] >= 0
            is_open = ~np.isnan(bounds[:, LOW])
            is_same = columns.block_key[block] == columns.filter_key[block, :, place]
            assert is_same[is_known & is_open].all()

    @property
    def _n_used(self) -> int:
        """Rows and bytes, garbage included."""
        return self._n_predicates + self._n_tests + self._n_operands + self._n_bytes

    def _write(self, rows: slice, count: int, predicate: PredicateColumns) -> None:
        """Write one predicate of each new subscription into every `width`-th row."""
        encoded = encode_predicates(predicate)
        attribute = self.attributes.setdefault(predicate.attribute, len(self.attributes))
        columns = self.columns
        columns.predicate_key[rows] = KINDS * attribute + encoded.kind
        columns.predicate_test[rows] = -1
        columns.predicate_bound[rows, LOW] = encoded.low
        columns.predicate_bound[rows, HIGH] = encoded.high
        columns.predicate_bound[rows, WEIGHT] = predicate.weight
        if encoded.test != RANGE:
            columns.predicate_test[rows] = self._n_tests + np.arange(count)
            self._write_tests(encoded)

    def _write_tests(self, encoded: EncodedPredicates) -> None:
        """Append one test for each row of `encoded`, and its operands."""
        count, width = encoded.values.shape
        tests = slice(self._n_tests, self._n_tests + count)
        operands = slice(self._n_operands, self._n_operands + count * width)
        texts = slice(self._n_bytes, self._n_bytes + len(encoded.heap))
        self._reserve("test", tests.stop)
        self._reserve("operand", operands.stop)
        self._reserve("heap", texts.stop)
        columns = self.columns
        columns.test_kind[tests] = encoded.test
        columns.test_start[tests] = self._n_operands + width * np.arange(count)
        columns.test_count[tests] = width
        columns.operand_value[operands] = encoded.values.ravel()
        columns.operand_start[operands] = encoded.text_start.ravel() + self._n_bytes
        columns.operand_length[operands] = encoded.text_length.ravel()
        columns.heap[texts] = encoded.heap
        self._n_tests, self._n_operands, self._n_bytes = tests.stop, operands.stop, texts.stop

    def _set_filters(self, slots: Ints | Longs) -> None:
        # Without the compiler, a double beyond all singles would warn.
        with np.errstate(all="ignore"):
            set_filters(self.columns, slots.astype(np.int32))

    def _runs(self, slots: Ints | Longs) -> tuple[Longs, Ints, Longs]:
        """The predicates of the slots, the tests of these, and the operands of those."""
        columns = self.columns
        predicates = _runs(columns.slot_start[slots], columns.slot_count[slots])
        tests = columns.predicate_test[predicates]
        tests = tests[tests >= 0]
        return predicates, tests, _runs(columns.test_start[tests], columns.test_count[tests])

    def _reserve(self, group: str, rows: int) -> None:
        """Room for `rows` rows in the columns of one group."""
        self.columns = self.columns._replace(
            **{
                name: grown(column, rows, _FILLS.get(name, 0))
                for name, column in self.columns._asdict().items()
                if name.startswith(group)
            }
        )

    def _load(self, saved: Arrays) -> None:
        """Become the saved columns, deriving the others: everything lies in order, without gaps."""
        fixed = {name: np.array(saved[name], getattr(self.columns, name).dtype) for name in _SAVED}
        count = fixed["slot_count"]
        self.top = len(count)
        self._n_predicates = len(fixed["predicate_key"])
        self._n_tests = len(fixed["test_kind"])
        self._n_operands = len(fixed["operand_value"])
        self._n_bytes = len(fixed["heap"])
        self._n_garbage = 0
        self.columns = MatchColumns(
            **_empty_filters(self.top),
            slot_start=_starts(np.maximum(count, 0)).astype(np.int32),
            test_start=_starts(fixed["test_count"]).astype(np.int32),
            operand_start=_starts(fixed["operand_length"]),
            **fixed,
        )
        self._set_filters(np.flatnonzero(count >= 0))


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


def _runs(starts: Ints, counts: Ints) -> Longs:
    """All indexes of the runs, one run after the other."""
    return np.repeat(starts - _starts(counts), counts) + np.arange(int(counts.sum()))


def _copied(heap: Bytes, starts: Longs, texts: Longs, lengths: Ints) -> Bytes:
    """The bytes of the texts, one after the other."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    copy_texts(heap, starts, texts, offsets, copied)
    return copied
