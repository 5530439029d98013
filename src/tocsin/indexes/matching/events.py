"""Events as flat columns, and with the numbers that an index gives their attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tocsin.arrays.types import Bytes, Floats, Ints, Longs, Ops
from tocsin.indexes.matching.layout import EventColumns


class Events(NamedTuple):
    """A batch of events. Event i has the entries `offsets[i]` to `offsets[i + 1]`, one for each attribute."""

    #: the distinct attributes of the batch
    names: list[str]
    #: int64 (events + 1,)
    offsets: Longs
    #: int32 (entries,): index into `names`
    attribute: Ints
    #: int8 (entries,): NUMBER, TEXT or BOOLEAN
    kind: Ops
    #: float64 (entries,): the number, the low end of a range, or 0 and 1 for booleans
    low: Floats
    #: float64 (entries,): the same, or the high end of a range; below `low` where the range is empty
    high: Floats
    #: int64 (entries,): where the text begins in `heap`
    text_start: Longs
    #: int32 (entries,): bytes of the text, UTF-8
    text_length: Ints
    #: uint8: all texts
    heap: Bytes
    #: float64 (entries,): the event's weight of that attribute
    weight: Floats
    #: by attribute, the first whole number that no double represents, and its row: it cannot be compared
    inexact: Mapping[str, str] = {}

    @property
    def n_events(self) -> int:
        return len(self.offsets) - 1

    @property
    def columns(self) -> tuple[Any, ...]:
        """All columns by event or by entry."""
        return self[1:-1]


def contiguous(events: Events) -> Events:
    """The same events with C-contiguous columns, which kernels require."""
    if all(column.flags.c_contiguous for column in events.columns):
        return events
    columns: Any = (np.ascontiguousarray(column) for column in events.columns)
    return Events._make([events.names, *columns, events.inexact])


class Attributes:
    """Numbers of a fixed set of attributes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._number = {name: number for number, name in enumerate(names)}
        #: names of the last events, and their numbers
        self._last_names: list[str] = []
        self._known: Ints = np.zeros(0, np.int32)

    def translate(self, events: Events) -> EventColumns:
        """Events with the numbers of their attributes. Cost: linear in the names."""
        if events.names != self._last_names:
            self._last_names = list(events.names)
            self._known = np.array([self._number.get(name, -1) for name in events.names], np.int32)
        return EventColumns(self._known, *events.columns)
