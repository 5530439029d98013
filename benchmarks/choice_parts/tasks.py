"""The tasks: ranges that hold a value, boxes that hold a point, three ranges of ten attributes.

All lie in [0, 1]. A subscription asks for some of the attributes, an event has all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.arrays.types import Floats, Longs
from tocsin.indexes.matching import Conjunctions, Events
from tocsin.indexes.matching.layout import KINDS
from tocsin.papers.be_star_tree.workload import boxes, points

#: Subscriptions that hold an event, on average, where the width follows from it.
HITS = 10


@dataclass(frozen=True)
class Task:
    """Subscriptions of as many ranges each, and events."""

    name: str
    dimensions: int
    #: as the engine's index takes them
    subscriptions: Conjunctions
    #: int64, float64 (subscriptions, ranges): what each asks for, in the order of attributes
    attribute: Longs
    low: Floats
    high: Floats
    seed: int = 1

    @property
    def count(self) -> int:
        return len(self.low)

    @property
    def ranges(self) -> int:
        return int(self.low.shape[1])

    def events(self, count: int, number: int = 0) -> tuple[Events, Floats]:
        """A batch of events, as the engine's index takes them and as a table."""
        drawn = points(count, self.dimensions, seed=100 + number)
        return drawn, drawn.low.reshape(count, self.dimensions)


def ranges_task(count: int) -> Task:
    """Ranges of which about ten hold a value."""
    return task_of("ranges that hold a value", boxes(count, 1, HITS / count, ranges=1), 1, 1)


def boxes_task(count: int) -> Task:
    """Boxes of two ranges, of which about ten hold a point."""
    return task_of("boxes that hold a point", boxes(count, 2, (HITS / count) ** 0.5, ranges=2), 2, 2)


def attributes_task(count: int, width: float) -> Task:
    """Three ranges over ten attributes each: the boxes of the matching benchmark."""
    kind = "narrow" if width < 0.1 else "wide"
    return task_of(f"three {kind} ranges of ten attributes", boxes(count, 10, width), 10, 3)


def task_of(name: str, subscriptions: Conjunctions, dimensions: int, ranges: int) -> Task:
    """A task of conjunctions that have as many ranges each."""
    table = subscriptions.predicates
    attribute = ((table["key"] - 1) // KINDS).astype(np.int64).reshape(-1, ranges)
    order = np.argsort(attribute, axis=1)

    def sorted_by_attribute(column: Floats) -> Floats:
        return np.take_along_axis(column.reshape(-1, ranges), order, axis=1)

    return Task(
        name,
        dimensions,
        subscriptions,
        np.take_along_axis(attribute, order, axis=1),
        sorted_by_attribute(table["low"]),
        sorted_by_attribute(table["high"]),
    )
