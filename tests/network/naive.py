"""The slow, obvious answers of the network: which zones own a point, which subscriptions an area covers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from tocsin.network.zones import Zones

Point = tuple[float, ...]

VALUES = [-math.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, 2.0, 3.0, 1.7976931348623157e308, math.inf]
value = st.sampled_from(VALUES)


class Box(NamedTuple):
    """A closed box."""

    low: Point
    high: Point

    def contains(self, point: Point) -> bool:
        return all(low <= p <= high for low, p, high in zip(self.low, point, self.high, strict=True))

    def intersects(self, other: Box) -> bool:
        ends = zip(self.low, self.high, other.low, other.high, strict=True)
        return all(low <= other_high and other_low <= high for low, high, other_low, other_high in ends)


def boxes_of(zones: Zones) -> list[Box]:
    """The box of each zone."""
    corners = zip(zones.tree.zone_low.tolist(), zones.tree.zone_high.tolist(), strict=True)
    return [Box(tuple(low), tuple(high)) for low, high in corners]


def owners(boxes: Sequence[Box], point: Point) -> list[int]:
    """Every zone that contains a point: there must be one."""
    return [zone for zone, box in enumerate(boxes) if box.contains(point)]


@st.composite
def maps(draw: st.DrawFn) -> Zones:
    """Zones over one or two dimensions, some split again."""
    dimensions = draw(st.sampled_from([1, 1, 2]))
    ranges = st.lists(st.tuples(*[value] * (2 * dimensions)), max_size=20)
    made = Zones.whole(dimensions)
    for count in draw(st.lists(st.integers(1, 12), min_size=1, max_size=2)):
        points = np.array(draw(ranges), np.float64).reshape(-1, 2 * dimensions)
        made = made.split(points, count)
    return made


@st.composite
def areas(draw: st.DrawFn, dimensions: int) -> Box:
    """The area of a message."""
    pairs = [sorted((draw(value), draw(value))) for _ in range(2 * dimensions)]
    return Box(tuple(low for low, _ in pairs), tuple(high for _, high in pairs))
