"""Predicates as they are registered, and how each becomes a filter and a test.

Every predicate is first a *filter*: a range of doubles that an event's value must meet. For most
predicates on numbers the filter is all there is. Text enters it by its first bytes read as a number,
which keeps the order of texts; what the filter cannot decide is left to the predicate's *test*.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.indexes.contract import Bools, Bytes, Floats, Ints, Longs
from tocsin.indexes.matching.common_kernels import (
    BOOLEAN,
    NONE_OF,
    NUMBER,
    ONE_OF,
    RANGE,
    TEXT,
    TEXT_ABOVE,
    TEXT_AT_LEAST,
    TEXT_AT_MOST,
    TEXT_BELOW,
    TEXT_BETWEEN,
    TEXT_NONE_OF,
    TEXT_ONE_OF,
    read_prefixes,
)
from tocsin.indexes.shared.texts import Strings, texts_of

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
#: What each test asks, in words.
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


class EncodedPredicates(NamedTuple):
    """A `PredicateColumns` as the columns keep it: n rows."""

    kind: int
    test: int
    #: float64 (n,): the filter; NaN where nothing satisfies the predicate
    low: Floats
    high: Floats
    #: float64 (n, values): operands that the test reads; a text's first bytes
    values: Floats
    #: int64 and int32 (n, values): where a text lies in `heap`
    text_start: Longs
    text_length: Ints
    heap: Bytes


def encode_predicates(predicates: PredicateColumns) -> EncodedPredicates:
    """Filter, test and operands. Cost: linear in the operands."""
    first = predicates.operands[0]
    if isinstance(first, pa.Array | pa.ChunkedArray):
        return _encode_texts(predicates)
    values = np.column_stack([np.asarray(operand, np.float64) for operand in predicates.operands])
    kind = BOOLEAN if first.dtype == np.bool_ else NUMBER
    test = _NUMBER_TESTS.get(predicates.operator, RANGE)
    low, high = _filter(predicates.operator, values)
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


def _encode_texts(predicates: PredicateColumns) -> EncodedPredicates:
    texts = [
        texts_of(operand)
        for operand in predicates.operands
        if isinstance(operand, pa.Array | pa.ChunkedArray)
    ]
    bases = np.cumsum([0, *(len(text.heap) for text in texts)])
    starts = np.column_stack([text.offsets[:-1] + base for text, base in zip(texts, bases[:-1], strict=True)])
    lengths = np.column_stack([np.diff(text.offsets) for text in texts]).astype(np.int32)
    heap = np.concatenate([text.heap for text in texts])
    values = prefixes_of(heap, starts.ravel(), lengths.ravel()).reshape(starts.shape)
    # The filter must let equal prefixes pass, whatever the operator: the closed one does.
    closed = {"<": "<=", ">": ">="}.get(predicates.operator, predicates.operator)
    low, high = _filter(closed, values)
    return EncodedPredicates(TEXT, _TEXT_TESTS[predicates.operator], low, high, values, starts, lengths, heap)


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
    # What nothing satisfies looks the same whatever the operator, and -0.0 is 0.0.
    is_empty = np.isnan(least) | np.isnan(most)
    return np.where(is_empty, np.nan, least + 0.0), np.where(is_empty, np.nan, most + 0.0)
