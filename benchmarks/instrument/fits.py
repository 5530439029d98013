"""How a cost grows: a straight line through points of which both sides are logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Fit(NamedTuple):
    """cost ≈ factor × size ** exponent."""

    exponent: float
    factor: float
    #: how far the points lie from the line at most: 2.0 is half or twice
    off: float

    def at(self, size: float) -> float:
        return float(self.factor * size**self.exponent)


def fit(sizes: Sequence[float], costs: Sequence[float]) -> Fit | None:
    """The least squares of logarithms; None with fewer than two different sizes. Cost: linear."""
    if len(set(sizes)) < 2:
        return None
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(costs, float))
    exponent, offset = np.polyfit(x, y, 1)
    off = np.exp(np.abs(y - (exponent * x + offset)).max())
    return Fit(float(exponent), float(np.exp(offset)), float(off))


def crossing(sizes: Sequence[float], ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The size from which on `ours` stays the smaller cost, between points by their logarithms.

    The least size if it always is, None if it is not at the end.
    """
    order = np.argsort(sizes)
    size = np.asarray(sizes, float)[order]
    gap = np.log(np.asarray(ours, float)[order]) - np.log(np.asarray(theirs, float)[order])
    if gap[-1] > 0:
        return None
    behind = np.flatnonzero(gap > 0)
    if len(behind) == 0:
        return float(size[0])
    last = behind[-1]
    part = gap[last] / (gap[last] - gap[last + 1])
    return float(np.exp(np.log(size[last]) + part * (np.log(size[last + 1]) - np.log(size[last]))))
