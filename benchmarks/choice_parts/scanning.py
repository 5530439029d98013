"""The NumPy scan: what one would write first, and what tells how fast a machine is.

It needs nothing but NumPy and a task, so that every program can take its time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.choice_parts.tasks import Task
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.matching import Events

#: Where a range holds a larger share of all values, to sift by one range after the other leaves too many.
WIDE = 0.1


class NumpyScan:
    """An event at a time: one range after the other for those that are left, or, if they are wide, all."""

    def __init__(self, task: Task) -> None:
        is_wide = np.mean(task.high - task.low) > WIDE
        self._way: Sieve | Comparisons = Comparisons(task) if is_wide else Sieve(task)

    def match(self, events: Events, table: Floats) -> tuple[np.ndarray, np.ndarray]:
        found = [self._way.holders(row) for row in self._way.prepared(table)]
        return np.repeat(np.arange(len(table)), [len(slots) for slots in found]), np.concatenate(found)


class Sieve:
    """Two comparisons over all subscriptions of an attribute, more for what is left."""

    def __init__(self, task: Task) -> None:
        self._parts = [(attribute, Part.of(columns)) for attribute, columns in parts_of(task)]

    def prepared(self, table: Floats) -> Floats:
        """Events as they are."""
        return table

    def holders(self, row: Floats) -> Longs:
        """Who holds an event."""
        found = []
        for attribute, part in self._parts:
            slots = np.flatnonzero((part.low[0] <= row[attribute]) & (row[attribute] <= part.high[0]))
            for other, low, high in zip(part.attribute[1:], part.low[1:], part.high[1:], strict=True):
                value = row[other[slots]]
                slots = slots[(low[slots] <= value) & (value <= high[slots])]
            found.append(part.slots[slots])
        return np.concatenate(found) if len(found) > 1 else found[0]


class Comparisons:
    """All ranges of all subscriptions, as whole numbers of half the size, into buffers that are kept.

    Subscriptions are in the order of their attributes, so that what they are compared with comes in few runs.
    """

    def __init__(self, task: Task) -> None:
        bounds = [(task.attribute == place, task.low, task.high) for place in range(task.dimensions)]
        self._bounds = [np.unique([low[mine], high[mine]]) for mine, low, high in bounds]
        self._order = np.lexsort(task.attribute.T[::-1])
        self._ranges = []
        for columns in zip(task.attribute.T, task.low.T, task.high.T, strict=True):
            attribute, low, high = (column[self._order] for column in columns)
            begin = np.flatnonzero(np.diff(attribute, prepend=-1))
            lengths = np.diff(begin, append=len(attribute))
            codes = [np.empty(len(attribute), np.int32) for _ in range(2)]
            for place in range(task.dimensions):
                mine = attribute == place
                for code, bound in zip(codes, (low, high), strict=True):
                    code[mine] = self._coded(place, bound[mine])
            self._ranges.append((attribute[begin], lengths, *codes))
        self._holds, self._is_met = np.empty((2, task.count), np.bool_)

    def prepared(self, table: Floats) -> Ints:
        """Events as the places of their values among the bounds."""
        return np.stack([self._coded(place, column) for place, column in enumerate(table.T)], axis=1)

    def holders(self, row: Ints) -> Longs:
        """Who holds an event."""
        self._holds[:] = True
        for attribute, lengths, low, high in self._ranges:
            value = np.repeat(row[attribute], lengths)
            self._holds &= np.less_equal(low, value, out=self._is_met)
            self._holds &= np.less_equal(value, high, out=self._is_met)
        found: Longs = self._order[np.flatnonzero(self._holds)]
        return found

    def _coded(self, place: int, values: Floats) -> Ints:
        """Values as whole numbers in the same order: odd ones for bounds, even ones in between."""
        bounds = self._bounds[place]
        at = np.searchsorted(bounds, values)
        is_bound = bounds[np.minimum(at, len(bounds) - 1)] == values
        codes: Ints = (2 * at + is_bound).astype(np.int32)
        return codes


class Part(NamedTuple):
    """Subscriptions with the same first attribute: a column a range."""

    slots: Longs
    attribute: list[Longs]
    low: list[Floats]
    high: list[Floats]

    @classmethod
    def of(cls, columns: dict[str, np.ndarray]) -> Part:
        ranges = range(sum(name.startswith("lo") for name in columns))
        others = [[columns[f"{name}{number}"] for number in ranges] for name in ("a", "lo", "hi")]
        return cls(columns["id"], *others)


def parts_of(task: Task) -> list[tuple[int, dict[str, np.ndarray]]]:
    """Subscriptions by their first attribute: their numbers, and attribute, low and high of each range."""
    parts = []
    for attribute in range(task.dimensions):
        mine = np.flatnonzero(task.attribute[:, 0] == attribute)
        if len(mine) == 0:
            continue
        columns: dict[str, np.ndarray] = {"id": mine}
        for number in range(task.ranges):
            columns |= {
                f"a{number}": task.attribute[mine, number],
                f"lo{number}": task.low[mine, number],
                f"hi{number}": task.high[mine, number],
            }
        parts.append((attribute, columns))
    return parts
