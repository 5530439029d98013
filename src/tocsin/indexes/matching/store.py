"""Conjunctions of predicates in flat columns: what every index of this room keeps.

Subscriptions differ in the number of their predicates, so a slot points at a run of predicates, and a
predicate at a run of operands. What a terminated subscription leaves is swept when it outweighs the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tocsin.indexes.contract import Arrays, Bytes, Ints, Longs
from tocsin.indexes.matching.events import TEXT, Events
from tocsin.indexes.matching.predicates import TEST_NAMES, PredicateColumns, encode_predicates, prefixes_of
from tocsin.indexes.matching.scan_kernels import ALWAYS, EventColumns, MatchColumns
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.names import Names
from tocsin.indexes.shared.names_kernels import copy_texts

#: Kinds of values; a key is `KINDS * attribute + kind`, with kinds counted from 1.
KINDS = 3
#: Less than this is not worth sweeping.
SMALL = 1024

_SAVED = (
    "slot_count",
    "predicate_key",
    "predicate_test",
    "predicate_low",
    "predicate_high",
    "predicate_weight",
    "predicate_count",
    "operand_value",
    "operand_length",
    "heap",
)


class PredicateStore:
    """Subscriptions by slot, their predicates and operands, and the attributes that these name."""

    def __init__(self, capacity: int = 16) -> None:
        self.attributes = Names(capacity)
        self.top = 0
        self._n_predicates = 0
        self._n_operands = 0
        self._n_bytes = 0
        self._n_garbage = 0
        self.columns = MatchColumns(
            first_key=np.full(capacity, ALWAYS, np.int32),
            first_low=np.full(capacity, np.nan),
            first_high=np.zeros(capacity),
            slot_start=np.zeros(capacity, np.int64),
            slot_count=np.full(capacity, -1, np.int32),
            predicate_key=np.zeros(capacity, np.int32),
            predicate_test=np.zeros(capacity, np.int8),
            predicate_low=np.zeros(capacity),
            predicate_high=np.zeros(capacity),
            predicate_weight=np.zeros(capacity),
            predicate_start=np.zeros(capacity, np.int64),
            predicate_count=np.zeros(capacity, np.int32),
            operand_value=np.zeros(capacity),
            operand_start=np.zeros(capacity, np.int64),
            operand_length=np.zeros(capacity, np.int32),
            heap=np.zeros(capacity, np.uint8),
        )

    def __len__(self) -> int:
        return int((self.columns.slot_count >= 0).sum())

    @property
    def n_keys(self) -> int:
        return KINDS * self.attributes.top + KINDS

    @property
    def n_predicates(self) -> int:
        """Predicates in use and not yet swept."""
        return self._n_predicates

    def add(self, slots: Ints, predicates: Sequence[PredicateColumns]) -> None:
        """Keep n conjunctions, each of one predicate a column set. Cost: linear in what is kept."""
        count, width = len(slots), len(predicates)
        if count == 0:
            return
        begin, end = self._n_predicates, self._n_predicates + count * width
        self._reserve("slot", int(slots.max()) + 1)
        self._reserve("predicate", end)
        for number, predicate in enumerate(predicates):
            self._write(slice(begin + number, end, width), count, predicate)
        self.top = max(self.top, int(slots.max()) + 1)
        self._n_predicates = end
        self.columns.slot_start[slots] = begin + width * np.arange(count)
        self.columns.slot_count[slots] = width
        self._set_first(slots)

    def remove(self, slots: Ints) -> None:
        """Forget subscriptions that are there. Cost: amortised linear in their predicates."""
        columns = self.columns
        predicates, operands = self._runs(slots)
        self._n_garbage += len(predicates) + len(operands) + int(columns.operand_length[operands].sum())
        columns.first_key[slots] = ALWAYS
        columns.first_low[slots] = np.nan
        columns.slot_count[slots] = -1
        used = self._n_predicates + self._n_operands + self._n_bytes
        if used > SMALL and 2 * self._n_garbage > used:
            self.sweep()

    def describe(self, slot: int) -> dict[str, object]:
        """The predicates of a slot in words, by attribute. Cost: linear in them."""
        shown: dict[str, object] = {}
        columns = self.columns
        for number, predicate in enumerate(self._runs(np.array([slot]))[0].tolist()):
            attribute = self.attributes.text((int(columns.predicate_key[predicate]) - 1) // KINDS)
            start, count = int(columns.predicate_start[predicate]), int(columns.predicate_count[predicate])
            operands = [self._operand(place) for place in range(start, start + count)]
            words = f"{TEST_NAMES[int(columns.predicate_test[predicate])]} {operands}"
            if not operands:
                words = f"from {columns.predicate_low[predicate]} to {columns.predicate_high[predicate]}"
            shown[f"{number + 1}: {attribute}"] = f"{words}, weight {columns.predicate_weight[predicate]}"
        return shown

    def _operand(self, place: int) -> str | float:
        columns = self.columns
        start, length = int(columns.operand_start[place]), int(columns.operand_length[place])
        if length:
            return columns.heap[start : start + length].tobytes().decode()
        return float(columns.operand_value[place])

    def translate(self, events: Events) -> EventColumns:
        """Events with their attributes as keys. Cost: linear in the entries."""
        low, high = events.low.astype(np.float64), events.high.astype(np.float64)
        is_text = events.kind == TEXT
        low[is_text] = prefixes_of(events.heap, events.text_start[is_text], events.text_length[is_text])
        high[is_text] = low[is_text]
        attributes = self.attributes.find(pa.array(events.names, pa.string())).astype(np.int64)
        key = KINDS * attributes[events.attribute] + events.kind
        key[(attributes[events.attribute] < 0) | ~(low <= high)] = -1
        return EventColumns(
            events.offsets, key, low, high, events.text_start, events.text_length, events.heap, events.weight
        )

    def sweep(self) -> None:
        """Write everything afresh in slot order, without what is no longer used. Cost: linear."""
        columns = self.columns
        slots = np.flatnonzero(columns.slot_count >= 0)
        predicates, operands = self._runs(slots)
        saved = {name: column for name, column in columns._asdict().items() if name in _SAVED}
        for name, column in saved.items():
            if name.startswith("predicate"):
                saved[name] = column[predicates]
            elif name.startswith("operand"):
                saved[name] = column[operands]
        saved["slot_count"] = columns.slot_count[: self.top]
        saved["heap"] = _copied(columns.heap, columns.operand_start, operands, saved["operand_length"])
        attributes, kinds = np.divmod(saved["predicate_key"] - 1, KINDS)
        used, place = np.unique(attributes, return_inverse=True)
        names = self.attributes.gather(used)
        self.attributes = Names(len(used))
        saved["predicate_key"] = KINDS * self.attributes.add(names)[0][place] + kinds + 1
        self._load(saved)

    def arrays(self) -> Arrays:
        """Everything in slot order, swept first; what can be derived is left out."""
        self.sweep()
        columns = self.columns._asdict()
        names = {f"attributes_{name}": array for name, array in self.attributes.arrays().items()}
        return {**{name: columns[name].copy() for name in _SAVED}, **names}

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from."""
        names = {name: arrays[f"attributes_{name}"] for name in self.attributes.arrays()}
        self.attributes.restore(names)
        self._load({name: arrays[name] for name in _SAVED})

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        columns = self.columns
        slots = np.flatnonzero(columns.slot_count >= 0)
        free = np.flatnonzero(columns.slot_count < 0)
        assert (slots < self.top).all()
        assert np.isnan(columns.first_low[free]).all()
        assert (columns.first_key[free] == ALWAYS).all()
        predicates, operands = self._runs(slots)
        assert len(np.unique(predicates)) == len(predicates) <= self._n_predicates
        assert len(np.unique(operands)) == len(operands) <= self._n_operands
        n_bytes = int(columns.operand_length[operands].sum())
        used = self._n_predicates + self._n_operands + self._n_bytes
        assert used - self._n_garbage == len(predicates) + len(operands) + n_bytes
        assert (
            (columns.predicate_key[predicates] > 0) & (columns.predicate_key[predicates] < self.n_keys)
        ).all()
        for slot in slots[columns.slot_count[slots] > 0].tolist():
            first = columns.slot_start[slot]
            assert columns.first_key[slot] == columns.predicate_key[first]
            assert np.array_equal(columns.first_low[slot], columns.predicate_low[first], equal_nan=True)
            assert np.array_equal(columns.first_high[slot], columns.predicate_high[first], equal_nan=True)
        self.attributes.check_invariants()

    def _write(self, rows: slice, count: int, predicate: PredicateColumns) -> None:
        """Write one predicate of each new subscription into every `width`-th row."""
        encoded = encode_predicates(predicate)
        width = encoded.values.shape[1]
        begin, end = self._n_operands, self._n_operands + count * width
        n_bytes = self._n_bytes + len(encoded.heap)
        self._reserve("operand", end)
        self._reserve("heap", n_bytes)
        columns = self.columns
        attribute, _ = self.attributes.add_one(predicate.attribute)
        columns.predicate_key[rows] = KINDS * attribute + encoded.kind
        columns.predicate_test[rows] = encoded.test
        columns.predicate_low[rows] = encoded.low
        columns.predicate_high[rows] = encoded.high
        columns.predicate_weight[rows] = predicate.weight
        columns.predicate_start[rows] = begin + width * np.arange(count)
        columns.predicate_count[rows] = width
        columns.operand_value[begin:end] = encoded.values.ravel()
        columns.operand_start[begin:end] = encoded.text_start.ravel() + self._n_bytes
        columns.operand_length[begin:end] = encoded.text_length.ravel()
        columns.heap[self._n_bytes : n_bytes] = encoded.heap
        self._n_operands = end
        self._n_bytes = n_bytes

    def _set_first(self, slots: Ints | Longs) -> None:
        """Copy the first predicate's filter to the slot; a conjunction of nothing lets everything pass."""
        columns = self.columns
        columns.first_key[slots] = ALWAYS
        columns.first_low[slots] = -np.inf
        columns.first_high[slots] = np.inf
        slots = slots[columns.slot_count[slots] > 0]
        first = columns.slot_start[slots]
        columns.first_key[slots] = columns.predicate_key[first]
        columns.first_low[slots] = columns.predicate_low[first]
        columns.first_high[slots] = columns.predicate_high[first]

    def _runs(self, slots: Ints | Longs) -> tuple[Longs, Longs]:
        """The predicates of the slots, and the operands of those."""
        columns = self.columns
        predicates = _runs(columns.slot_start[slots], columns.slot_count[slots])
        return predicates, _runs(columns.predicate_start[predicates], columns.predicate_count[predicates])

    def _reserve(self, group: str, rows: int) -> None:
        """Room for `rows` rows in the columns of one group."""
        groups = {"slot": ("slot", "first")}.get(group, (group,))
        fills = {"slot_count": -1, "first_low": np.nan}
        self.columns = self.columns._replace(
            **{
                name: grown(column, rows, fills.get(name, 0))
                for name, column in self.columns._asdict().items()
                if name.startswith(groups)
            }
        )

    def _load(self, saved: Arrays) -> None:
        """Become the saved columns, deriving the others: everything lies in order, without gaps."""
        fixed = {name: np.array(saved[name], getattr(self.columns, name).dtype) for name in _SAVED}
        count = fixed["slot_count"]
        self.top = len(count)
        self._n_predicates = len(fixed["predicate_key"])
        self._n_operands = len(fixed["operand_value"])
        self._n_bytes = len(fixed["heap"])
        self._n_garbage = 0
        self.columns = MatchColumns(
            first_key=np.full(self.top, ALWAYS, np.int32),
            first_low=np.full(self.top, np.nan),
            first_high=np.zeros(self.top),
            slot_start=_starts(np.maximum(count, 0)),
            predicate_start=_starts(fixed["predicate_count"]),
            operand_start=_starts(fixed["operand_length"]),
            **fixed,
        )
        self._set_first(np.flatnonzero(count >= 0))


def _starts(counts: Ints) -> Longs:
    """Where each of a row of runs begins."""
    return np.cumsum(counts, dtype=np.int64) - counts


def _runs(starts: Longs, counts: Ints) -> Longs:
    """All indexes of the runs, one run after the other."""
    return np.repeat(starts - _starts(counts), counts) + np.arange(int(counts.sum()))


def _copied(heap: Bytes, starts: Longs, texts: Longs, lengths: Ints) -> Bytes:
    """The bytes of the texts, one after the other."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    copy_texts(heap, starts, texts, offsets, copied)
    return copied
