"""What the engine and an index say to each other.

An index keeps the subscriptions of one *shape* (a statement without its numbers) over one source.
The engine owns rows, keys, ids and text; an index sees small integers and flat arrays:

* a **subscription** is a slot, a small `int32` that the engine hands out and hands out again after
  `terminate`;
* a **row** of a table or a window is a slot too, and the same row keeps it while it is there;
* a **step** is what is reported together: the whole batch, or one row of it (`each=True`).

Nothing here knows SQL, Arrow, Spark or the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Ops: TypeAlias = NDArray[np.int8]
Arrays: TypeAlias = dict[str, np.ndarray]

#: Change operations, in the order in which one subscription's changes are reported within a step.
LEAVE = 0
UPDATE = 1
ENTER = 2
VALUE = 3
MATURE = 4
MATCH = 5
OP_NAMES = ("leave", "update", "enter", "value", "mature", "match")

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
    #: bool (entries,): there before and after, and a subscriber must hear of it even if its place
    #: and score stay: a selected column differs, or the key was deleted and inserted again.
    touched: Bools

    @classmethod
    def inserting(cls, row: Ints | Longs, born: Longs, values: Floats) -> Self:
        """One step that inserts rows, which nothing says anything about yet."""
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


class ChangeSet(NamedTuple):
    """Changes as an index reports them: parallel columns, in reporting order.

    Ordered by step, then by subscription slot, then `op`, then rank: leaves by the rank they had.
    Unranked entries of one op are ordered by the row's `born`, those of DISTINCT by code. The best
    matches of an event come by rank alone.
    """

    #: int32: index into the delta's `seq`, or the event's position in its batch.
    step: Ints
    #: int32: slot of the subscription.
    subscription: Ints
    #: int8: LEAVE … MATCH.
    op: Ops
    #: int32: slot of the row (a join's left row; an event's position in its batch); -1 for none.
    row: Ints
    #: int32: slot of a join's right row; -1 otherwise.
    other: Ints
    #: float64: score or value; NaN for null.
    score: Floats
    #: int32: 1-based rank; 0 for none.
    rank: Ints

    @classmethod
    def empty(cls) -> Self:
        """No changes."""
        ints = np.empty(0, np.int32)
        return cls(ints, ints, np.empty(0, np.int8), ints, ints, np.empty(0, np.float64), ints)

    @classmethod
    def concat(cls, parts: list[Self]) -> Self:
        """The parts one after the other, as they are."""
        if not parts:
            return cls.empty()
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def part(self, begin: int, end: int) -> Self:
        """The changes from `begin` to before `end`: views."""
        cut = slice(begin, end)
        return type(self)(
            self.step[cut], self.subscription[cut], self.op[cut], self.row[cut],
            self.other[cut], self.score[cut], self.rank[cut],
        )  # fmt: skip

    def __bool__(self) -> bool:
        return len(self.step) > 0


class Index(Protocol):
    """What every index can do. Methods raise nothing on valid input; the engine validates.

    Each also has `register(slots, values)`, which adds subscriptions, and `apply`, which takes what
    happened; what these take differs by room and is said there.
    """

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions that are there."""

    def result(self, slots: Ints) -> ChangeSet:
        """Current answers, as ENTER (by rank, else by born) or VALUE; for thresholds, of the weight so far.

        `step` is 0 everywhere; subscriptions come in the order of `slots`.
        """

    def arrays(self) -> Arrays:
        """The whole state as flat arrays, trimmed to what is in use."""

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Called on a fresh index built with the same arguments."""

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""

    def explain(self) -> str:
        """One line: which index this is and how it works."""

    def parameters(self, slot: int) -> dict[str, object]:
        """The values that a subscription was registered with, by name. For `explain`."""


class BoundIndex(Index, Protocol):
    """An index whose subscriptions are given by numbers alone."""

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: one array a bound value (the class says which), rows in the order of `slots`."""


class RowIndex(BoundIndex, Protocol):
    """An index over the rows of a table or a window."""

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Take the delta's steps one after the other and report what each changes, net within a step."""


class RankedIndex(RowIndex, Protocol):
    """An index of top-k over rows that can say what rows it has."""

    def rows(self) -> RowDelta:
        """All rows that can be in an answer, as one step that inserts them. Cost: linear."""
