"""The range top-k paper's workload, read so that its tables come out.

10,000 rows at evenly spaced x with uniform y; an event picks a row and, with even chances, raises its y to
U(y, 1) or lowers it to U(0, y). The rows do not settle, so the number of events matters: 50,000.
Subscriptions are uniform over all ranges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.types import Floats, Ints, Longs

ROWS = 10_000
EVENTS = 50_000
SUBSCRIPTIONS = 2_000_000


class Table(NamedTuple):
    """Rows by slot; also events, as rows put."""

    slot: Ints
    x: Floats
    y: Floats
    born: Longs

    def part(self, begin: int, end: int) -> Table:
        return Table._make(column[begin:end] for column in self)


def draw(seed: int, n_rows: int, n_events: int) -> tuple[Table, Table]:
    """A table, and events that change y."""
    random = np.random.default_rng(seed)
    slots, born = np.arange(n_rows, dtype=np.int32), np.arange(n_rows, dtype=np.int64)
    x, y = (slots + 0.5) / n_rows, random.random(n_rows)
    chosen = random.integers(0, n_rows, n_events).astype(np.int32)
    is_raised, part = random.random(n_events) < 0.5, random.random(n_events)
    now, after = y.copy(), np.empty(n_events)
    for event, slot in enumerate(chosen.tolist()):
        value = now[slot]
        now[slot] = value + (1 - value) * part[event] if is_raised[event] else value * part[event]
        after[event] = now[slot]
    return Table(slots, x, y, born), Table(chosen, x[chosen], after, born[chosen])


def ranges(seed: int, count: int) -> tuple[Floats, Floats]:
    """Lower and upper bounds of subscriptions, uniform over 0 <= lo <= hi <= 1."""
    ends = np.random.default_rng(seed + 1_000_000).random((2, count))
    return ends.min(axis=0), ends.max(axis=0)
