"""Conjunctions in flat columns: what is registered, saved and handed from one index to another.

Subscriptions differ in the number of their predicates, so each is a run of them; a predicate that its
bounds alone do not decide points at a test, and a test at a run of operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from tocsin.indexes.contract import Arrays, Bytes, Ints, Longs
from tocsin.indexes.matching.common_kernels import BOOLEAN, KINDS, OPERAND, PREDICATE, RANGE, TEST, Records
from tocsin.indexes.matching.predicates import TEST_NAMES, PredicateColumns, encode_predicates
from tocsin.indexes.shared.names_kernels import copy_texts

#: Fields of records that are saved, each as a column; the others are derived.
_SAVED = {
    "predicates": (PREDICATE, ("low", "high", "weight", "key", "test")),
    "tests": (TEST, ("kind", "count")),
    "operands": (OPERAND, ("value", "length")),
}


class Conjunctions(NamedTuple):
    """Conjunctions one after the other."""

    #: attributes: a predicate's `key` is KINDS * number in this list + kind of its operands
    names: list[str]
    #: int32 (conjunctions,): predicates of each
    counts: Ints
    #: PREDICATE, each pointing at a test, or -1
    predicates: Records
    #: TEST, each pointing at a run of operands
    tests: Records
    #: OPERAND, each pointing at a text
    operands: Records
    #: uint8: the texts of all operands
    heap: Bytes

    @classmethod
    def empty(cls) -> Conjunctions:
        """None."""
        tables = np.zeros(0, PREDICATE), np.zeros(0, TEST), np.zeros(0, OPERAND)
        return cls([], np.zeros(0, np.int32), *tables, np.zeros(0, np.uint8))

    @classmethod
    def from_columns(cls, columns: Sequence[PredicateColumns], count: int) -> Conjunctions:
        """`count` conjunctions, each of one predicate a column set. Cost: linear in the operands."""
        width = len(columns)
        names: dict[str, int] = {}
        predicates = np.zeros(count * width, PREDICATE)
        predicates["test"] = -1
        tests, operands, heaps = [np.zeros(0, TEST)], [np.zeros(0, OPERAND)], [np.zeros(0, np.uint8)]
        n_tests = n_operands = n_bytes = 0
        for number, column in enumerate(columns):
            encoded = encode_predicates(column)
            rows = predicates[number::width]
            rows["key"] = KINDS * names.setdefault(column.attribute, len(names)) + encoded.kind
            rows["low"], rows["high"], rows["weight"] = encoded.low, encoded.high, column.weight
            if encoded.test == RANGE:
                continue
            rows["test"] = n_tests + np.arange(count)
            n_values = encoded.values.shape[1]
            tests.append(np.zeros(count, TEST))
            tests[-1]["kind"], tests[-1]["count"] = encoded.test, n_values
            tests[-1]["start"] = n_operands + n_values * np.arange(count)
            operands.append(np.zeros(count * n_values, OPERAND))
            operands[-1]["value"] = encoded.values.ravel()
            operands[-1]["start"] = encoded.text_start.ravel() + n_bytes
            operands[-1]["length"] = encoded.text_length.ravel()
            heaps.append(encoded.heap)
            n_tests, n_operands = n_tests + count, n_operands + count * n_values
            n_bytes += len(encoded.heap)
        return cls(
            list(names),
            np.full(count, width, np.int32),
            predicates,
            np.concatenate(tests),
            np.concatenate(operands),
            np.concatenate(heaps),
        )

    def take(self, rows: Ints | Longs) -> Conjunctions:
        """Some of them in another order; what they point at is in their order, too, without gaps.

        Attributes are numbered as they come up, so equal conjunctions have equal columns. Cost: linear.
        """
        predicates = self.predicates[runs_of(starts_of(self.counts)[rows], self.counts[rows])]
        return self._replace(counts=self.counts[rows], predicates=predicates).compacted()

    def compacted(self) -> Conjunctions:
        """The same; tests, operands and texts may have been in any order, shared or unused. Cost: linear."""
        predicates = self.predicates.copy()
        is_tested = predicates["test"] >= 0
        tests = self.tests[predicates["test"][is_tested]]
        predicates["test"][is_tested] = np.arange(len(tests))
        operands = self.operands[runs_of(tests["start"], tests["count"])]
        heap = _copied(self.heap, operands)
        tests["start"], operands["start"] = starts_of(tests["count"]), starts_of(operands["length"])
        attribute, kind = np.divmod(predicates["key"] - 1, KINDS)
        used = _in_order_of_appearance(attribute, len(self.names))
        number = np.zeros(len(self.names), np.int32)
        number[used] = np.arange(len(used))
        predicates["key"] = KINDS * number[attribute] + kind + 1
        names = [self.names[place] for place in used.tolist()]
        return Conjunctions(names, self.counts.astype(np.int32), predicates, tests, operands, heap)

    def arrays(self) -> Arrays:
        """Plain columns, without what can be derived; how many predicates each has is not among them."""
        saved = {"heap": self.heap.copy()}
        for table, (_, fields) in _SAVED.items():
            saved |= {f"{table}_{field}": getattr(self, table)[field].copy() for field in fields}
        encoded = [name.encode() for name in self.names]
        saved["names"] = np.frombuffer(bytearray(b"".join(encoded)), np.uint8)
        saved["names_length"] = np.array([len(name) for name in encoded], np.int32)
        return saved

    @classmethod
    def from_arrays(cls, arrays: Arrays, counts: Ints) -> Conjunctions:
        """What `arrays` was taken from, if that had no gaps. Cost: linear."""
        text, ends = arrays["names"].tobytes(), np.cumsum(arrays["names_length"]).tolist()
        names = [text[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)]
        tables = {}
        for table, (dtype, fields) in _SAVED.items():
            tables[table] = np.zeros(len(arrays[f"{table}_{fields[0]}"]), dtype)
            for field in fields:
                tables[table][field] = arrays[f"{table}_{field}"]
        tables["tests"]["start"] = starts_of(tables["tests"]["count"])
        tables["operands"]["start"] = starts_of(tables["operands"]["length"])
        return cls(names, counts, **tables, heap=np.array(arrays["heap"], np.uint8))

    def describe(self, row: int) -> list[tuple[str, str, float]]:
        """The predicates of one conjunction: attribute, what is asked of it, weight. Cost: linear in them."""
        start = int(self.counts[:row].sum())
        shown = []
        for low, high, weight, key, test in self.predicates[start : start + self.counts[row]].tolist():
            words = _range_words(low, high, key)
            if test >= 0:
                kind, first, count = self.tests[test].tolist()
                words = (
                    f"{TEST_NAMES[kind]} {[self._operand(place) for place in range(first, first + count)]}"
                )
            shown.append((self.names[(key - 1) // KINDS], words, weight))
        return shown

    def _operand(self, place: int) -> str | float:
        value, start, length = self.operands[place].tolist()
        return self.heap[start : start + length].tobytes().decode() if length else float(value)


def _range_words(low: float, high: float, key: int) -> str:
    """What a range asks for, as one would say it."""
    if (key - 1) % KINDS + 1 == BOOLEAN:
        return f"= {bool(low)}"
    if low == high:
        return f"= {low}"
    if high == inf:
        return "any number" if low == -inf else f"at least {low}"
    return f"at most {high}" if low == -inf else f"from {low} to {high}"


def conjunctions_of(given: Sequence[PredicateColumns] | Conjunctions, count: int) -> Conjunctions:
    """Whichever form `count` conjunctions are registered in."""
    return given if isinstance(given, Conjunctions) else Conjunctions.from_columns(given, count)


def parameters_of(one: Conjunctions) -> dict[str, object]:
    """The predicates of the first conjunction in words, by number and attribute."""
    described = enumerate(one.describe(0), start=1)
    return {f"{number}: {name}": f"{words}, weight {weight}" for number, (name, words, weight) in described}


def joined(parts: Sequence[Conjunctions]) -> Conjunctions:
    """All conjunctions of the parts, one after the other. Cost: linear; one part is handed back as it is."""
    if len(parts) == 1:
        return parts[0]
    names: dict[str, int] = {}
    predicates, tests, operands = [], [], []
    n_tests = n_operands = n_bytes = 0
    for part in parts:
        predicates.append(renumbered(part, names))
        predicates[-1]["test"] += np.where(part.predicates["test"] >= 0, n_tests, 0).astype(np.int32)
        tests.append(part.tests.copy())
        tests[-1]["start"] += n_operands
        operands.append(part.operands.copy())
        operands[-1]["start"] += n_bytes
        n_tests, n_operands = n_tests + len(part.tests), n_operands + len(part.operands)
        n_bytes += len(part.heap)
    if not parts:
        return Conjunctions.empty()
    return Conjunctions(
        list(names),
        np.concatenate([part.counts for part in parts]),
        np.concatenate(predicates),
        np.concatenate(tests),
        np.concatenate(operands),
        np.concatenate([part.heap for part in parts]),
    )


def renumbered(part: Conjunctions, attributes: dict[str, int]) -> Records:
    """The predicates with keys that follow `attributes`, to which new names are added."""
    number = [attributes.setdefault(name, len(attributes)) for name in part.names]
    predicates = part.predicates.copy()
    attribute, kind = np.divmod(predicates["key"] - 1, KINDS)
    predicates["key"] = KINDS * np.array(number, np.int32)[attribute] + kind + 1
    return predicates


def starts_of(counts: Ints | Longs) -> Longs:
    """Where each of a row of runs begins."""
    return np.cumsum(counts, dtype=np.int64) - counts


def runs_of(starts: Longs, counts: Ints) -> Longs:
    """All indexes of the runs, one run after the other."""
    return np.repeat(starts - starts_of(counts), counts) + np.arange(int(counts.sum()))


def _in_order_of_appearance(numbers: Ints, top: int) -> Longs:
    """The different numbers, all below `top`, as they come up. Cost: linear."""
    first = np.full(top, len(numbers), np.int64)
    # The last write stays: backwards, that is the first appearance.
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < len(numbers))]


def _copied(heap: Bytes, operands: Records) -> Bytes:
    """The bytes of the operands' texts, one after the other."""
    offsets = np.zeros(len(operands) + 1, np.int64)
    np.cumsum(operands["length"], out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    copy_texts(heap, operands["start"].copy(), np.arange(len(operands)), offsets, copied)
    return copied
