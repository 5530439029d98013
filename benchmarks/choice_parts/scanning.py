"""The NumPy scan: what one would write first, and what tells how fast a machine is.

It needs nothing but NumPy and a task, so that every program can take its time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.choice_parts.tasks import Task
from tocsin.indexes.contract import Floats, Longs
from tocsin.indexes.matching import Events


class NumpyScan:
    """An event at a time: two comparisons over all subscriptions of an attribute, more for what is left."""

    def __init__(self, task: Task) -> None:
        self._parts = [(attribute, Part.of(columns)) for attribute, columns in parts_of(task)]

    def match(self, events: Events, table: Floats) -> tuple[np.ndarray, np.ndarray]:
        found = [self._one(row) for row in table]
        return np.repeat(np.arange(len(table)), [len(slots) for slots in found]), np.concatenate(found)

    def _one(self, row: Floats) -> Longs:
        found = []
        for attribute, part in self._parts:
            slots = np.flatnonzero((part.low[0] <= row[attribute]) & (row[attribute] <= part.high[0]))
            for other, low, high in zip(part.attribute[1:], part.low[1:], part.high[1:], strict=True):
                value = row[other[slots]]
                slots = slots[(low[slots] <= value) & (value <= high[slots])]
            found.append(part.slots[slots])
        return np.concatenate(found) if len(found) > 1 else found[0]


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
