"""The slow, obvious answers of the range indexes: every row against every box, over Python objects.

A row is its insertion number and its values, by slot; NaN is NULL. An answer is a list of items in the
order in which a subscriber would show them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class RangeRow(NamedTuple):
    born: int
    values: tuple[float, ...]


class Item(NamedTuple):
    """One row, value or pair of an answer. `rank` is 0 where answers have none."""

    row: int
    other: int
    score: float
    rank: int


class IndexChange(NamedTuple):
    op: str
    row: int
    other: int
    score: float
    rank: int


Rows = dict[int, RangeRow]
Bounds = Sequence[tuple[float, float]]


def is_inside(values: Sequence[float], bounds: Bounds) -> bool:
    return all(lo <= x <= hi for x, (lo, hi) in zip(values, bounds, strict=True))


def top_k(rows: Rows, bounds: Bounds, k: int, descending: bool) -> list[Item]:
    """The first k rows inside by score; of equal scores, the row born earlier comes first."""
    found = []
    for slot, row in rows.items():
        *x, y = row.values
        if is_inside(x, bounds) and not math.isnan(y):
            found.append((-y if descending else y, row.born, slot, y + 0.0))
    found.sort()
    return [Item(slot, -1, y, rank) for rank, (_, _, slot, y) in enumerate(found[:k], start=1)]


def aggregate(rows: Rows, bounds: Bounds, function: str) -> tuple[int, float]:
    """The row that is the answer (-1 where no single row is), and the value."""
    if function in ("min", "max"):
        best = top_k(rows, bounds, 1, function == "max")
        return (best[0].row, best[0].score) if best else (-1, math.nan)
    inside = [row.values[-1] for row in rows.values() if is_inside(row.values[:-1], bounds)]
    inside = [y for y in inside if not math.isnan(y)]
    if function == "count":
        return -1, float(len(inside))
    if not inside:
        return -1, math.nan
    total = exact_sum(inside)
    return -1, total if function == "sum" else total / len(inside)


def exact_sum(values: Sequence[float]) -> float:
    """The double nearest to the sum; infinite where the sum is beyond all doubles."""
    infinities = {y for y in values if math.isinf(y)}
    if infinities:
        return sum(infinities)
    total = sum((Fraction(y) for y in values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def distinct(rows: Rows, bounds: Bounds) -> list[Item]:
    """The codes inside, ascending; the score is the value behind the code."""
    found = {}
    for row in rows.values():
        *x, code, y = row.values
        if is_inside(x, bounds) and not math.isnan(code):
            found[int(code)] = y + 0.0
    return [Item(code, -1, found[code], 0) for code in sorted(found)]


def join(left: Rows, right: Rows, left_bounds: Bounds, right_bounds: Bounds) -> list[Item]:
    """The pairs of equal codes inside, by insertion of the left row, then of the right row."""
    found = []
    for left_slot, mine in left.items():
        for right_slot, theirs in right.items():
            if (
                mine.values[-1] == theirs.values[-1]
                and is_inside(mine.values[:-1], left_bounds)
                and is_inside(theirs.values[:-1], right_bounds)
            ):
                found.append((mine.born, theirs.born, left_slot, right_slot))
    return [Item(mine, theirs, math.nan, 0) for _, _, mine, theirs in sorted(found)]


def is_same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def listing_changes(
    before: list[Item], after: list[Item], touched: set[tuple[int, int]]
) -> list[IndexChange]:
    """Leaves, then updates, then enters. `touched` holds the (row, other) that must be reported."""
    was = {item[:2]: item for item in before}
    now = {item[:2]: item for item in after}
    leaves = [
        IndexChange("leave", item.row, item.other, math.nan, 0) for item in before if item[:2] not in now
    ]
    updates = [
        IndexChange("update", *item)
        for item in after
        if item[:2] in was and (item[:2] in touched or not is_same(was[item[:2]].score, item.score))
    ]
    enters = [IndexChange("enter", *item) for item in after if item[:2] not in was]
    return leaves + updates + enters


def value_changes(before: tuple[int, float], after: tuple[int, float]) -> list[IndexChange]:
    """The new value, if it or the row that it names is another."""
    if before[0] == after[0] and is_same(before[1], after[1]):
        return []
    return [IndexChange("value", after[0], -1, after[1], 0)]


def replay(held: list[Item], changes: list[IndexChange]) -> list[Item]:
    """What a subscriber holds after these changes of one step: it removes what left or was updated, then
    inserts by rank. Ranks that others moved are counted anew."""
    gone = {change[1:3] for change in changes if change.op in ("leave", "update")}
    kept = [item for item in held if item[:2] not in gone]
    arriving = [Item(*change[1:]) for change in changes if change.op in ("update", "enter")]
    for item in sorted(arriving, key=lambda item: item.rank):
        kept.insert(item.rank - 1 if item.rank else len(kept), item)
    return [item._replace(rank=place if item.rank else 0) for place, item in enumerate(kept, start=1)]
