"""The columns of matching indexes: predicates, tests, values of events, ids, and the report of matches."""

from __future__ import annotations

from typing import Annotated, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.layout import Column
from tocsin.arrays.strings_kernels import Whole
from tocsin.arrays.types import Bytes, Floats, Ints, Longs, Ops

Records: TypeAlias = NDArray[np.void]

#: Kinds of values, which do not compare with each other; and their number.
NUMBER = 1
TEXT = 2
BOOLEAN = 3
KINDS = 3

#: Tests. Bounds alone decide a RANGE, which has no test.
RANGE = 0
ONE_OF = 1
NONE_OF = 2
TEXT_ONE_OF = 3
TEXT_NONE_OF = 4
TEXT_BELOW = 5
TEXT_AT_MOST = 6
TEXT_AT_LEAST = 7
TEXT_ABOVE = 8
TEXT_BETWEEN = 9

#: How the weights of predicates combine into a score.
SUM = 0
MAX = 1
MIN = 2
PRODUCT = 3
#: Their names, as users give them.
SCORES = {"sum": SUM, "max": MAX, "min": MIN, "product": PRODUCT}

#: Places in `Matches.progress`.
EVENT = 0
CURRENT_BLOCK = 1
N_ROWS = 2
N_RUNS = 3

# Records, not a column a field: candidates are read whole and at random, and a row in one place costs one
# cache miss where five columns cost five.

#: A slot: first of its predicates, and their number; -1 if the slot is free.
SLOT = np.dtype([("start", np.int32), ("count", np.int32)], align=True)
#: A predicate: its bounds and weight; key, an attribute and a kind; its test, -1 for a RANGE.
PREDICATE = np.dtype(
    [
        ("low", np.float64),
        ("high", np.float64),
        ("weight", np.float64),
        ("key", np.int32),
        ("test", np.int32),
    ],
    align=True,
)
#: A test: ONE_OF … TEXT_BETWEEN; first of its operands, and their number.
TEST = np.dtype([("kind", np.int32), ("start", np.int32), ("count", np.int32)], align=True)
#: An operand: a number, or a text's first bytes, and where in the heap the text lies.
OPERAND = np.dtype([("value", np.float64), ("start", np.int64), ("length", np.int64)], align=True)


class EventColumns(NamedTuple):
    """A batch of events, as in `Events`, and the index's numbers of their attributes."""

    #: int32 (names,): attribute number of each name; -1 if no predicate is on it.
    known: Ints
    offsets: Longs
    attribute: Ints
    kind: Ops
    low: Floats
    high: Floats
    text_start: Longs
    text_length: Ints
    heap: Bytes
    weight: Floats


class Value(NamedTuple):
    """One event's value of one attribute."""

    low: float
    high: float
    text_start: Whole
    text_length: Whole
    heap: Bytes


class Matches(NamedTuple):
    """Output of a kernel, and its progress."""

    step: Ints
    subscription: Ints
    score: Floats
    #: int32: written if the best are asked for
    rank: Ints
    #: int64 (4,): first unfinished event, its first unfinished block, rows and runs written.
    progress: Longs


class IdOrder(NamedTuple):
    """Ids of subscriptions, to break ties: the interner's columns, and the owner of each slot."""

    heap: Bytes
    starts: Longs
    lengths: Ints
    #: int32 (slots,): subscription slot to slot of its id.
    owner: Ints


class MatchHeaps(NamedTuple):
    """The best matches so far of each of a few events, in heaps."""

    #: a heap, the worst at its root.
    score: Annotated[Floats, Column("events", "top", fill=None)]
    slot: Annotated[Ints, Column("events", "top", fill=None)]
    #: size of the heap.
    size: Annotated[Longs, Column("events")]
