"""Top-k subscriptions partitioned by k, so that a long list does not slow down short ones.

An index shares work among its lists, and what is shared is sized for the largest k. So lists of about the
same k share an index, and the longest are maintained one by one (`LongLists`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.types import Arrays, Ints
from tocsin.indexes.contract import RangeIndex, RankedIndex, RowDelta, RowIndex, SubscriptionBounds


class LimitClass(NamedTuple):
    """Subscriptions whose k is above `above`, up to that of the next class."""

    above: int
    #: returns a new, empty index of the class
    make: Callable[[], RowIndex]
    #: the name of this index, empty if its own `explain` begins with one
    name: str = ""


class ByLimit:
    """One index for each class of k that has subscriptions, and always one for the first class.

    Every index receives all rows; that of a new class is loaded with the rows of the first.
    """

    def __init__(self, first: RankedIndex, others: Sequence[LimitClass], *, name: str = "") -> None:
        """`name` is that of the first index, empty if its own `explain` begins with one."""
        #: the largest k of each class but the last one, ascending
        self._most = np.array([other.above for other in others])
        self._first = first
        self._make = [other.make for other in others]
        self._names = [name, *(other.name for other in others)]
        #: the indexes of the other classes, None where there is no subscription
        self._others: list[RowIndex | None] = [None] * len(others)
        #: int8 (slots,): the class of a subscription, -1 if the slot is free
        self._class_of = np.full(16, -1, np.int8)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `k` (n,), and what else the indexes take.

        Cost: that of the indexes; the first of a class copies all rows.
        """
        if not len(slots):
            return
        self._class_of = ensure_capacity(self._class_of, int(slots.max()) + 1, -1)
        class_of = np.searchsorted(self._most, values["k"]).astype(np.int8)
        self._class_of[slots] = class_of
        for number in np.unique(class_of).tolist():
            members = class_of == number
            if members.all():
                self._index(number).register(slots, values)
            else:
                mine_only = {name: column[members] for name, column in values.items()}
                self._index(number).register(slots[members], mine_only)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions, and indexes that become empty. Cost: that of the indexes."""
        for number, index, members in self._parts(slots):
            index.terminate(members)
            self._class_of[members] = -1
            if number and not (self._class_of == number).any():
                self._others[number - 1] = None

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Cost: that of each index in use."""
        reported = [changes for index in self._indexes() if (changes := index.apply(delta))]
        changes = ChangeSet.concat(reported)
        if len(reported) < 2:
            return changes
        order = np.lexsort((changes.subscription, changes.step))
        return ChangeSet._make(column[order] for column in changes)

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting changes. Cost: that of the indexes."""
        for index in self._indexes():
            index.follow(delta)

    def result(self, slots: Ints) -> ChangeSet:
        """Cost: that of the indexes."""
        parts = [index.result(members) for _, index, members in self._parts(slots)]
        changes = ChangeSet.concat(parts)
        if len(parts) < 2:
            return changes
        place = np.empty(len(self._class_of), np.int64)
        place[slots] = np.arange(len(slots))
        order = np.argsort(place[changes.subscription], kind="stable")
        return ChangeSet._make(column[order] for column in changes)

    def parameters(self, slot: int) -> dict[str, object]:
        return self._index(int(self._class_of[slot])).parameters(slot)

    def arrays(self) -> Arrays:
        """The arrays of the first class unprefixed, others under their numbers, empty where unused."""
        arrays = self._first.arrays()
        for number, (index, make) in enumerate(zip(self._others, self._make, strict=True), start=1):
            of_class = (index or make()).arrays()
            arrays |= {f"class_{number}_{name}": column for name, column in of_class.items()}
        return arrays | {"class_of": self._class_of.copy()}

    def bounds(self) -> SubscriptionBounds:
        """The ranges of all subscriptions, where the indexes hold ranges. Cost: linear."""
        parts = []
        for index in self._indexes():
            assert isinstance(index, RangeIndex)
            parts.append(index.bounds())
        return SubscriptionBounds.concat(parts)

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from. Cost: that of the indexes."""
        self._class_of = arrays["class_of"].astype(np.int8)
        self._first.restore(_with_prefix_stripped("", arrays))
        for number, make in enumerate(self._make, start=1):
            if (self._class_of == number).any():
                index = self._others[number - 1] = make()
                index.restore(_with_prefix_stripped(f"class_{number}_", arrays))

    def check_invariants(self) -> None:
        """Assert the invariants of the indexes, and that each subscription is in the class of its k."""
        for index in self._indexes():
            index.check_invariants()
        for number, other in enumerate(self._others, start=1):
            assert (other is not None) == (self._class_of == number).any()
        for slot in np.flatnonzero(self._class_of >= 0).tolist():
            k = np.array([self.parameters(slot)["k"]], np.int64)
            assert np.searchsorted(self._most, k)[0] == self._class_of[slot]

    def explain(self) -> str:
        """The indexes in use, by ascending k, each after its class and its name."""
        in_use = enumerate([self._first, *self._others])
        parts = [(number, index.explain()) for number, index in in_use if index is not None]
        return "; ".join(
            f"{self._class_words(number)}: {prefixed(self._names[number], words)}" for number, words in parts
        )

    def _class_words(self, number: int) -> str:
        """The k of a class, in words."""
        if number == 0:
            return f"k to {self._most[0]:,}"
        most = f" to {self._most[number]:,}" if number < len(self._most) else ""
        return f"k above {self._most[number - 1]:,}{most}"

    def _indexes(self) -> list[RowIndex]:
        return [self._first, *(index for index in self._others if index is not None)]

    def _index(self, number: int) -> RowIndex:
        """The index of a class, created if there is none."""
        if number == 0:
            return self._first
        index = self._others[number - 1]
        if index is None:
            index = self._others[number - 1] = self._make[number - 1]()
            index.apply(self._first.rows())
        return index

    def _parts(self, slots: Ints) -> list[tuple[int, RowIndex, Ints]]:
        """The classes of `slots`: number, index, and the slots in it."""
        classes = self._class_of[slots]
        return [
            (number, self._index(number), slots[classes == number]) for number in np.unique(classes).tolist()
        ]


def prefixed(name: str, words: str) -> str:
    """What an index explains, after its name unless it says that itself."""
    return f"{name}: {words}" if name else words


def _with_prefix_stripped(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with `prefix`, without it; for none, those of the first class."""
    if not prefix:
        return {name: column for name, column in arrays.items() if not name.startswith("class_")}
    return {name.removeprefix(prefix): column for name, column in arrays.items() if name.startswith(prefix)}
