"""The interface between the engine and an index.

An index maintains the subscriptions of one *shape* (a statement without its numbers) over one source.
The engine owns rows, keys, ids and text; an index sees small integers and flat arrays:

* a **subscription** is a slot, a small `int32` that the engine assigns and reuses after `terminate`;
* a **row** of a table or a window is a slot too, which it keeps for as long as it exists;
* a **step** is what is reported together: the whole batch, or one row of it (`each=True`).

Nothing here knows SQL, Arrow, Spark or the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs

if TYPE_CHECKING:
    # What a match is registered with and reads; laid out, and documented, where kernels use it.
    from tocsin.indexes.matching import Conjunctions, Events, IdOrder, PredicateColumns

#: `born` of a row that is not there.
ABSENT = -1


class RowDelta(NamedTuple):
    """What happened to the rows of a table or a window, as seen through one shape's columns.

    Entries are grouped by step; within a step each row slot appears at most once. A row inserted
    has `born_before == ABSENT`, a row removed has `born_after == ABSENT`. Among live rows `born`
    is unique and grows with insertion (tables) or arrival (windows).
    """

    #: int64 (steps,): number of the source's row that caused the step.
    seq: Longs
    #: int32 (entries,): index into `seq`, non-decreasing.
    step: Ints
    #: int32 (entries,): slot of the row.
    row: Ints
    #: int64 (entries,): insertion number before the step, ABSENT if the row was not there.
    born_before: Longs
    #: int64 (entries,): insertion number after the step, ABSENT if the row is gone.
    born_after: Longs
    #: float64 (entries, columns), C-contiguous: values before; NaN where NULL or absent.
    before: Floats
    #: float64 (entries, columns), C-contiguous: values after; NaN where NULL or absent.
    after: Floats
    #: bool (entries,): exists before and after, and must be reported even if its rank and score stay:
    #: a selected column differs, or the key was deleted and inserted again.
    touched: Bools

    @classmethod
    def inserting(cls, row: Ints | Longs, born: Longs, values: Floats) -> Self:
        """One step that inserts rows, none of them touched."""
        count = len(row)
        return cls(
            seq=np.zeros(1, np.int64),
            step=np.zeros(count, np.int32),
            row=row.astype(np.int32),
            born_before=np.full(count, ABSENT, np.int64),
            born_after=born.astype(np.int64),
            before=np.full(values.shape, np.nan),
            after=np.ascontiguousarray(values, np.float64),
            touched=np.zeros(count, np.bool_),
        )


class SubscriptionBounds(NamedTuple):
    """The ranges of subscriptions, which are closed."""

    #: int32 (n,): the subscriptions
    slots: Ints
    #: float64 (dimensions, n)
    lo: Floats
    #: float64 (dimensions, n)
    hi: Floats
    #: int32 (n,): how many rows are in the answer; 1 where that does not apply
    k: Ints

    @classmethod
    def concat(cls, parts: list[Self]) -> Self:
        """Concatenate the parts."""
        return cls(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))


def step_bounds(delta: RowDelta) -> Longs:
    """int64 (steps + 1,): step `s` holds the entries from `bounds[s]` up to `bounds[s + 1]`."""
    if len(delta.seq) == 1:
        return np.array([0, len(delta.step)], np.int64)
    steps = np.arange(len(delta.seq) + 1, dtype=np.int32)
    return np.searchsorted(delta.step, steps).astype(np.int64)


class Index(Protocol):
    """What every index does, whatever its subscriptions and its input are.

    How it registers subscriptions and takes input, the protocol of its kind of question says: `RowIndex`,
    `DistinctIndex`, `JoinIndex`, `ThresholdIndex` or `MatchIndex`. Methods raise nothing on valid input; the
    engine validates.
    """

    def terminate(self, slots: Ints) -> None:
        """Remove registered subscriptions."""

    def result(self, slots: Ints) -> ChangeSet:
        """Current answers, as ENTER (by rank, else by born) or VALUE; for thresholds, of the weight so far.

        `step` is 0 everywhere; subscriptions come in the order of `slots`.
        """

    def arrays(self) -> Arrays:
        """The whole state as flat arrays, trimmed to what is in use. Only the index reads what is in them."""

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned, on a fresh index built with the same arguments."""

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""

    def explain(self) -> str:
        """One line: how it works, and with how much. Planning puts its name before it."""

    def parameters(self, slot: int) -> dict[str, object]:
        """Values that a subscription was registered with, by name. For `explain`."""


class BoundIndex(Index, Protocol):
    """An index whose subscriptions are defined by numbers alone."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: one array per bound value (see the class), in the order of `slots`."""


@runtime_checkable
class RowIndex(BoundIndex, Protocol):
    """An index over the rows of a table or a window."""

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Apply the delta's steps in order and report the net change of each."""

    def follow(self, delta: RowDelta) -> None:
        """Apply the delta without reporting changes."""


@runtime_checkable
class RangeIndex(RowIndex, Protocol):
    """An index over ranges that messages can address."""

    def bounds(self) -> SubscriptionBounds:
        """The ranges of all subscriptions. Cost: linear."""


class RankedIndex(RowIndex, Protocol):
    """A top-k index that can list its rows."""

    def rows(self) -> RowDelta:
        """All rows that can be in an answer, as one inserting step. Cost: linear."""


class RankedRangeIndex(RankedIndex, RangeIndex, Protocol):
    """An index of top-k over ranges."""


@runtime_checkable
class DistinctIndex(RangeIndex, Protocol):
    """An index of the distinct values in ranges.

    The last two columns of its delta are the value's code, a small whole number from 0 on, and the value,
    NaN where it is no number. A change names the code as its row.
    """


@runtime_checkable
class JoinIndex(BoundIndex, Protocol):
    """An index of pairs of rows of two tables. A side is 0 for the left table and 1 for the right one.

    The last column of a side's delta is the code of the value that rows are joined by. A change names the
    left row, and as `other` the right one.
    """

    def apply(self, delta: RowDelta, side: int) -> ChangeSet:
        """Apply the steps of one side in order and report the net change of each."""

    def most(self, delta: RowDelta, side: int) -> int:
        """An upper bound of the pairs that the delta changes, over all subscriptions. Cost: constant."""

    def count(self, delta: RowDelta, side: int) -> Longs:
        """How many changes `apply` would report, by subscription slot. Changes nothing."""

    def sizes(self, slots: Ints) -> Longs:
        """How many pairs each answer has."""


@runtime_checkable
class ThresholdIndex(BoundIndex, Protocol):
    """An index of sums towards thresholds, over events.

    Subscriptions, which count from their registration on, are `lo`, `hi` (n, dimensions), `tau`, `repeat`
    (n,).
    """

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        """Count a batch of events, values (events, dimensions): which subscriptions mature, and when."""

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        """Scaled weight reached, and missing to tau. A weight beyond int64 shows as the largest."""


@runtime_checkable
class MatchIndex(Index, Protocol):
    """An index of conjunctions over events."""

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions, each with one predicate a column set; none is satisfied by every event."""

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank."""

    def live(self) -> Ints:
        """The slots of all subscriptions, ascending. Cost: linear."""

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """The conjunctions of subscriptions. Cost: linear in them, and at most a scan of all."""
