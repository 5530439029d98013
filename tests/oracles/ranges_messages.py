"""The slow, obvious answers to the queries of reformulation, and the expected answer of a subscriber."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan


@dataclass(frozen=True)
class MessageRow:
    """A row of a table: its slot, where it lies, its rank value, its insertion number."""

    slot: int
    x: float
    y: float
    born: int

    @property
    def rank(self) -> tuple[float, int]:
        return self.y, self.born


class World:
    """Rows by slot. A row with NaN in x or y is not there."""

    def __init__(self) -> None:
        self.rows: dict[int, MessageRow] = {}

    def put(self, slot: int, x: float, y: float, born: int) -> None:
        """Insert, change or (born below 0, or NaN) remove."""
        self.rows.pop(slot, None)
        if born >= 0 and not isnan(x) and not isnan(y):
            self.rows[slot] = MessageRow(slot, x + 0.0, y + 0.0, born)

    def copy(self) -> World:
        other = World()
        other.rows = dict(self.rows)
        return other

    def inside(self, low: float, high: float) -> list[MessageRow]:
        """Rows with low <= x <= high, best first."""
        return sorted((row for row in self.rows.values() if low <= row.x <= high), key=lambda row: row.rank)

    def top(self, low: float, high: float, k: int) -> list[MessageRow]:
        """The answer of a top-k subscription."""
        return self.inside(low, high)[:k]

    def least_above(self, low: float, high: float, rank: tuple[float, int]) -> MessageRow | None:
        """The paper's min_y: the best row of a range that ranks after `rank`."""
        return next((row for row in self.inside(low, high) if row.rank > rank), None)

    def first_xs(self, x: float, rank: tuple[float, int], k: int, *, left: bool) -> list[float]:
        """The x of the k nearest rows on one side, those at x included, that rank before `rank`."""
        below = [row.x for row in self.rows.values() if row.rank < rank]
        if left:
            near = sorted((near for near in below if near <= x), reverse=True)
        else:
            near = sorted(near for near in below if near >= x)
        return near[:k]

    def with_y(self, slot: int, y: float) -> World:
        """The same world with another y of one row."""
        other = self.copy()
        other.rows[slot] = replace(self.rows[slot], y=y)
        return other


Cell = tuple[int, int]


def fewest_tiles(region: set[Cell]) -> int:
    """How many disjoint rectangles of cells it takes, at least, to cover exactly the region. Tries all."""
    if not region:
        return 0
    column, row = min(region)
    best = len(region)
    # The least cell is a corner of the rectangle that covers it.
    for width in range(1, len(region) + 1):
        if (column + width - 1, row) not in region:
            break
        for height in range(1, len(region) + 1):
            tile = {(column + i, row + j) for i in range(width) for j in range(height)}
            if not tile <= region:
                break
            best = min(best, 1 + fewest_tiles(region - tile))
    return best


def fewest_messages(before: World, after: World, lo: float, hi: float, k: int) -> int:
    """How many messages a subscriber needs, at least, to get from one answer to the other: tries all sets.

    A message tells what became of one row. The subscriber puts it in, or out, and keeps the k best of what it
    knows; a row that is better than the true k-th one and is not there any more stays unless it is told.
    """
    held, wanted = before.top(lo, hi, k), after.top(lo, hi, k)
    touched = [row.slot for row in held if after.rows.get(row.slot) != row]
    missing = [row.slot for row in wanted if row not in held]
    names = sorted({*touched, *missing})
    best = len(names)
    for choice in range(2 ** len(names)):
        told = {name for number, name in enumerate(names) if choice >> number & 1}
        known = {row.slot: row for row in held}
        for slot in told:
            known.pop(slot, None)
            row = after.rows.get(slot)
            if row is not None and lo <= row.x <= hi:
                known[slot] = row
        if sorted(known.values(), key=lambda row: row.rank)[:k] == wanted and len(known) >= len(wanted):
            best = min(best, len(told))
    return best
