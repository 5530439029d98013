"""The baseline CN-Relax: no server. An event goes to every range that holds it; subscribers store all rows.

A range top-k subscription is treated as a plain range subscription, and each subscriber finds the k best of
its rows. Nothing is searched here, and nearly all messages are useless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.contract import ABSENT
from tocsin.indexes.ranges.messages.messages import Messages


def relax_events(slots: Ints, x: Floats, y: Floats, born: Longs) -> Messages:
    """One message an event, to all ranges that hold x; a `born` of ABSENT says that the row at x is gone.

    A row that moves in x is two events. Cost: linear in the events.
    """
    numbers = np.arange(len(slots), dtype=np.int32)
    none = np.full(len(slots), np.nan)
    gone = np.asarray(born) == ABSENT
    return Messages(
        x + 0.0, x + 0.0, none, none, numbers, numbers, slots, x + 0.0, y + 0.0, np.asarray(born), gone
    )


class RelaxedSubscriber:
    """Stores every row of one range, to find the k best."""

    def __init__(self, lo: float, hi: float, k: int) -> None:
        self.lo, self.hi, self.k = lo, hi, k
        self._rows: dict[Any, tuple[float, int]] = {}

    def apply(self, messages: Iterable[Mapping[str, Any]]) -> int:
        """Apply messages in order; returns how many were for this range. Cost: constant each."""
        count = 0
        for message in messages:
            if self.lo <= message["inner_lo"] and message["inner_hi"] <= self.hi:
                count += 1
                if message["gone"]:
                    self._rows.pop(message["key"], None)
                else:
                    self._rows[message["key"]] = (message["y"], message["born"])
        return count

    def result(self) -> list[Any]:
        """The keys of the k best rows, best first. Cost: sorting all rows of the range."""
        return sorted(self._rows, key=self._rows.__getitem__)[: self.k]
