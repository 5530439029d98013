"""What disks and half-planes hold, in Python's own doubles."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.oracles.ranges import RangeRow, Rows


def holds(kind: str, region: Sequence[float], x: float, z: float) -> bool:
    """Whether `DISTANCE(x, z, a, b) <= c`, or `a * x + b * z <= c`. NaN satisfies nothing."""
    a, b, c = region
    if kind == "disk":
        return math.sqrt((x - a) * (x - a) + (z - b) * (z - b)) <= c
    return a * x + b * z <= c


def rows_inside(rows: Rows, dimensions: int, kind: str, region: Sequence[float]) -> Rows:
    """The rows that a region holds, without their x and z, which come after the first `dimensions` values."""
    found = {}
    for slot, row in rows.items():
        x, z = row.values[dimensions : dimensions + 2]
        if holds(kind, region, x, z):
            found[slot] = RangeRow(row.born, row.values[:dimensions] + row.values[dimensions + 2 :])
    return found
