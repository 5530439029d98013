"""Which ranges hold which values: the slow, obvious answer to range DISTINCT."""

from __future__ import annotations

from collections.abc import Iterable


def values_inside(rows: Iterable[tuple[int, float]], lo: float, hi: float) -> set[int]:
    """The values of the rows (value, x) with lo <= x <= hi."""
    return {value for value, x in rows if lo <= x <= hi}
