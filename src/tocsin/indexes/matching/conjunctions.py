"""Conjunctions of weighted predicates as flat arrays: registered, saved and passed between indexes as such.

Every predicate is first a *filter*: a range of doubles that an event's value must meet. For most predicates
on numbers the filter is all there is. A text enters it by its first bytes read as a number, which preserves
order; what the filter cannot decide is left to the predicate's *test*.

Subscriptions differ in their number of predicates, so each is a run of them; a predicate that its bounds
alone do not decide points at a test, and a test at a run of operands.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.arrays.strings_kernels import copy_texts
from tocsin.arrays.texts import Strings, texts_of
from tocsin.arrays.types import Arrays, Bools, Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.common_kernels import read_prefixes
from tocsin.indexes.matching.layout import (
    BOOLEAN,
    KINDS,
    NONE_OF,
    NUMBER,
    ONE_OF,
    OPERAND,
    PREDICATE,
    RANGE,
    TEST,
    TEXT,
    TEXT_ABOVE,
    TEXT_AT_LEAST,
    TEXT_AT_MOST,
    TEXT_BELOW,
    TEXT_BETWEEN,
    TEXT_NONE_OF,
    TEXT_ONE_OF,
    Records,
)

Operand: TypeAlias = "Floats | Bools | Strings"

_TEXT_TESTS = {
    "<": TEXT_BELOW,
    "<=": TEXT_AT_MOST,
    "=": TEXT_ONE_OF,
    "<>": TEXT_NONE_OF,
    ">=": TEXT_AT_LEAST,
    ">": TEXT_ABOVE,
    "BETWEEN": TEXT_BETWEEN,
    "IN": TEXT_ONE_OF,
    "NOT IN": TEXT_NONE_OF,
}
#: Each test in words.
TEST_NAMES = {
    RANGE: "range",
    ONE_OF: "one of",
    NONE_OF: "none of",
    TEXT_BELOW: "below",
    TEXT_AT_MOST: "at most",
    TEXT_AT_LEAST: "at least",
    TEXT_ABOVE: "above",
    TEXT_BETWEEN: "between",
    TEXT_ONE_OF: "one of",
    TEXT_NONE_OF: "none of",
}
_NUMBER_TESTS = {"<>": NONE_OF, "IN": ONE_OF, "NOT IN": NONE_OF}


class PredicateColumns(NamedTuple):
    """The same predicate of n subscriptions, each with its own operands.

    All operands are of one kind: float64, bool, or Arrow strings.
    """

    attribute: str
    #: `<`, `<=`, `=`, `<>`, `>=`, `>`, `BETWEEN`, `IN` or `NOT IN`
    operator: str
    operands: tuple[Operand, ...]
    #: float64 (n,)
    weight: Floats


class PredicatePiece(NamedTuple):
    """Predicates with the same operator, and with operands of the same kind and number."""

    #: which of the predicates these are
    rows: slice | Longs
    #: of all, or int32 (n,): its number in the names of the conjunctions
    attribute: int | Ints
    operator: str
    operands: tuple[Operand, ...]
    #: float64 (n,)
    weight: Floats


class EncodedPredicates(NamedTuple):
    """Predicates of one operator encoded: n rows."""

    kind: int
    test: int
    #: float64 (n,): the filter; NaN if nothing satisfies the predicate
    low: Floats
    high: Floats
    #: float64 (n, values): operands that the test reads; a text's first bytes
    values: Floats
    #: int64 and int32 (n, values): where a text lies in `heap`
    text_start: Longs
    text_length: Ints
    heap: Bytes


def encode_predicates(operator: str, operands: tuple[Operand, ...]) -> EncodedPredicates:
    """Filter, test and operands. Cost: linear in the operands."""
    first = operands[0]
    if isinstance(first, pa.Array | pa.ChunkedArray):
        return _encode_texts(operator, operands)
    values = np.column_stack([np.asarray(operand, np.float64) for operand in operands])
    kind = BOOLEAN if first.dtype == np.bool_ else NUMBER
    test = _NUMBER_TESTS.get(operator, RANGE)
    low, high = _filter(operator, values)
    if test == RANGE:
        values = values[:, :0]
    nothing = np.zeros(values.shape, np.int64)
    return EncodedPredicates(
        kind, test, low, high, values, nothing, nothing.astype(np.int32), np.empty(0, np.uint8)
    )


def prefixes_of(heap: Bytes, starts: Longs, lengths: Ints) -> Floats:
    """The first six bytes of each text as a number: texts in order have numbers in order."""
    prefixes = np.empty(len(starts), np.float64)
    read_prefixes(heap, starts, lengths, prefixes)
    return prefixes


def _encode_texts(operator: str, operands: tuple[Operand, ...]) -> EncodedPredicates:
    texts = [texts_of(operand) for operand in operands if isinstance(operand, pa.Array | pa.ChunkedArray)]
    bases = np.cumsum([0, *(len(text.heap) for text in texts)])
    starts = np.column_stack([text.offsets[:-1] + base for text, base in zip(texts, bases[:-1], strict=True)])
    lengths = np.column_stack([np.diff(text.offsets) for text in texts]).astype(np.int32)
    heap = np.concatenate([text.heap for text in texts])
    values = prefixes_of(heap, starts.ravel(), lengths.ravel()).reshape(starts.shape)
    # The filter must pass equal prefixes, whatever the operator: the closed one does.
    closed = {"<": "<=", ">": ">="}.get(operator, operator)
    low, high = _filter(closed, values)
    return EncodedPredicates(TEXT, _TEXT_TESTS[operator], low, high, values, starts, lengths, heap)


def _filter(operator: str, values: Floats) -> tuple[Floats, Floats]:
    """The range of doubles outside of which the predicate cannot hold."""
    first, last = values[:, 0], values[:, -1]
    least, most = np.full(len(values), -np.inf), np.full(len(values), np.inf)
    with np.errstate(all="ignore"):
        if operator == "<":
            least, most = least, np.where(first == -np.inf, np.nan, np.nextafter(first, -np.inf))
        elif operator == ">":
            least, most = np.where(first == np.inf, np.nan, np.nextafter(first, np.inf)), most
        elif operator == "<=":
            most = first
        elif operator == ">=":
            least = first
        elif operator in ("=", "BETWEEN"):
            least, most = np.where(first <= last, first, np.nan), last
        elif operator == "IN":
            least, most = values.min(axis=1), values.max(axis=1)
    # Unsatisfiable ranges look the same whatever the operator, and -0.0 becomes 0.0.
    is_empty = np.isnan(least) | np.isnan(most)
    return np.where(is_empty, np.nan, least + 0.0), np.where(is_empty, np.nan, most + 0.0)


#: Saved fields of records, each as a column; the others are derived.
_SAVED = {
    "predicates": (PREDICATE, ("low", "high", "weight", "key", "test")),
    "tests": (TEST, ("kind", "count")),
    "operands": (OPERAND, ("value", "length")),
}


class Conjunctions(NamedTuple):
    """Conjunctions in a row."""

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
        """No conjunctions."""
        tables = np.zeros(0, PREDICATE), np.zeros(0, TEST), np.zeros(0, OPERAND)
        return cls([], np.zeros(0, np.int32), *tables, np.zeros(0, np.uint8))

    @classmethod
    def from_columns(cls, columns: Sequence[PredicateColumns], count: int) -> Conjunctions:
        """`count` conjunctions, each with one predicate of every column set. Cost: linear in the operands."""
        width = len(columns)
        numbers: dict[str, int] = {}
        pieces = [
            PredicatePiece(
                slice(place, None, width),
                numbers.setdefault(column.attribute, len(numbers)),
                column.operator,
                column.operands,
                column.weight,
            )
            for place, column in enumerate(columns)
        ]
        return cls._encoded(list(numbers), np.full(count, width, np.int32), count * width, pieces)

    @classmethod
    def from_pieces(cls, names: list[str], counts: Ints, pieces: Iterable[PredicatePiece]) -> Conjunctions:
        """Conjunctions of `counts` predicates each, of which every one is in one of the pieces.

        Cost: linear in the operands.
        """
        return cls._encoded(names, counts, int(counts.sum()), pieces)

    @classmethod
    def _encoded(
        cls, names: list[str], counts: Ints, n_predicates: int, pieces: Iterable[PredicatePiece]
    ) -> Conjunctions:
        predicates = np.zeros(n_predicates, PREDICATE)
        key, low, high = predicates["key"], predicates["low"], predicates["high"]
        weight, test = predicates["weight"], predicates["test"]
        test[:] = -1
        tests, operands, heaps = [np.zeros(0, TEST)], [np.zeros(0, OPERAND)], [np.zeros(0, np.uint8)]
        n_tests = n_operands = n_bytes = 0
        for rows, attribute, operator, given, weights in pieces:
            encoded = encode_predicates(operator, given)
            key[rows] = KINDS * attribute + encoded.kind
            low[rows], high[rows], weight[rows] = encoded.low, encoded.high, weights
            if encoded.test == RANGE:
                continue
            count, n_values = encoded.values.shape
            test[rows] = n_tests + np.arange(count)
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
            names,
            counts,
            predicates,
            np.concatenate(tests),
            np.concatenate(operands),
            np.concatenate(heaps),
        )

    def take(self, rows: Ints | Longs) -> Conjunctions:
        """Some rows in this order; tests, operands and texts follow the same order, without gaps.

        Attributes are numbered by first appearance, so equal conjunctions have equal columns. Cost: linear.
        """
        predicates = self.predicates[runs_of(starts_of(self.counts)[rows], self.counts[rows])]
        return self._replace(counts=self.counts[rows], predicates=predicates).compacted()

    def compacted(self) -> Conjunctions:
        """The same conjunctions with tests, operands and texts in order, unshared, all used. Cost: linear."""
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
        """Plain columns, without what can be derived, and without `counts`."""
        saved = {"heap": self.heap.copy()}
        for table, (_, fields) in _SAVED.items():
            saved |= {f"{table}_{field}": getattr(self, table)[field].copy() for field in fields}
        encoded = [name.encode() for name in self.names]
        saved["names"] = np.frombuffer(bytearray(b"".join(encoded)), np.uint8)
        saved["names_length"] = np.array([len(name) for name in encoded], np.int32)
        return saved

    @classmethod
    def from_arrays(cls, arrays: Arrays, counts: Ints) -> Conjunctions:
        """The conjunctions that `arrays` was taken from, if they had no gaps. Cost: linear."""
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
        """The predicates of one conjunction: attribute, condition in words, weight. Cost: linear in them."""
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
    """A range in words."""
    if (key - 1) % KINDS + 1 == BOOLEAN:
        return f"= {bool(low)}"
    if low == high:
        return f"= {low}"
    if high == inf:
        return "any number" if low == -inf else f"at least {low}"
    return f"at most {high}" if low == -inf else f"from {low} to {high}"


def conjunctions_of(given: Sequence[PredicateColumns] | Conjunctions, count: int) -> Conjunctions:
    """`count` conjunctions, from either form in which they are registered."""
    return given if isinstance(given, Conjunctions) else Conjunctions.from_columns(given, count)


def parameters_of(one: Conjunctions) -> dict[str, object]:
    """The predicates of the first conjunction in words, by number and attribute."""
    described = enumerate(one.describe(0), start=1)
    return {f"{number}: {name}": f"{words}, weight {weight}" for number, (name, words, weight) in described}


def joined(parts: Sequence[Conjunctions]) -> Conjunctions:
    """All conjunctions of the parts in a row. Cost: linear; a single part is returned unchanged."""
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
    """The predicates with keys numbered by `attributes`, to which new names are added."""
    number = [attributes.setdefault(name, len(attributes)) for name in part.names]
    predicates = part.predicates.copy()
    attribute, kind = np.divmod(predicates["key"] - 1, KINDS)
    predicates["key"] = KINDS * np.array(number, np.int32)[attribute] + kind + 1
    return predicates


def saved_arrays(counts: Ints, held: Conjunctions) -> Arrays:
    """Conjunctions in slot order: `counts` has the predicates of each slot, -1 if it is free."""
    return {**held.arrays(), "slots_count": counts.astype(np.int32)}


def restored_arrays(arrays: Arrays) -> tuple[Ints, Conjunctions]:
    """The arguments of `saved_arrays`."""
    counts = arrays["slots_count"].astype(np.int32)
    return counts, Conjunctions.from_arrays(arrays, counts[counts >= 0])


def starts_of(counts: Ints | Longs) -> Longs:
    """Where each of consecutive runs begins."""
    return np.cumsum(counts, dtype=np.int64) - counts


def runs_of(starts: Longs, counts: Ints) -> Longs:
    """All indexes of the runs, run by run."""
    return np.repeat(starts - starts_of(counts), counts) + np.arange(int(counts.sum()))


def _in_order_of_appearance(numbers: Ints, top: int) -> Longs:
    """The distinct numbers, all below `top`, by first appearance. Cost: linear."""
    first = np.full(top, len(numbers), np.int64)
    # The last write wins: written backwards, that is the first appearance.
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return np.argsort(first, kind="stable")[: np.count_nonzero(first < len(numbers))]


def _copied(heap: Bytes, operands: Records) -> Bytes:
    """The bytes of the operands' texts in a row."""
    offsets = np.zeros(len(operands) + 1, np.int64)
    np.cumsum(operands["length"], out=offsets[1:])
    copied = np.empty(int(offsets[-1]), np.uint8)
    copy_texts(heap, operands["start"].copy(), np.arange(len(operands)), offsets, copied)
    return copied


def count_saved(arrays: Arrays) -> int:
    """How many slots there are in saved arrays, free ones included."""
    return len(arrays["slots_count"])
