"""A broker owns one zone and knows its neighbours: events in, instructions out, no I/O.

A message is routed to the zone that contains its inner corner, and spreads from there to every zone that its
area intersects. Each of these receives it from exactly one neighbour: a broker determines, for each
neighbour, which zone forwards to it, and forwards if that is itself. No broker needs to remember messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nextafter
from typing import Any, NamedTuple, TypeAlias

from tocsin.network.zones import Zones

Point: TypeAlias = tuple[float, ...]


class Box(NamedTuple):
    """A closed box of subscription space."""

    low: Point
    high: Point

    def contains(self, point: Point) -> bool:
        return all(a <= p <= b for a, p, b in zip(self.low, point, self.high, strict=True))

    def intersects(self, other: Box) -> bool:
        ends = zip(self.low, self.high, other.low, other.high, strict=True)
        return all(low <= other_high and other_low <= high for low, high, other_low, other_high in ends)

    @property
    def inner(self) -> Point:
        """The inner corner: greatest lower ends, least upper ends."""
        half = len(self.low) // 2
        return self.high[:half] + self.low[half:]


class Envelope(NamedTuple):
    """A message in transit: the area that it applies to, and its content."""

    area: Box
    body: Any


class Route(NamedTuple):
    """An event: forward the message to the zone where it enters."""

    envelope: Envelope


class Spread(NamedTuple):
    """An event: the message has entered; deliver it and forward it."""

    envelope: Envelope


Event: TypeAlias = Route | Spread


class Send(NamedTuple):
    """An instruction: pass the event to the broker of a neighbouring zone."""

    zone: int
    event: Event


class Deliver(NamedTuple):
    """An instruction: deliver the message to this zone's subscribers in its area."""

    envelope: Envelope


Instruction: TypeAlias = Send | Deliver


class Broker:
    """The owner of one zone."""

    def __init__(self, box: Box, neighbours: Sequence[tuple[int, Box]]) -> None:
        self.box = box
        self._neighbours = list(neighbours)

    def handle(self, event: Event) -> list[Instruction]:
        """Process an event; returns instructions. Cost: the neighbours."""
        envelope = event.envelope
        if isinstance(event, Route) and not self.box.contains(envelope.area.inner):
            step = _step_towards(self.box, envelope.area.inner)
            return [Send(self._owner(step), event)]
        instructions: list[Instruction] = [Deliver(envelope)]
        for zone, box in self._neighbours:
            if box.intersects(envelope.area):
                step_back = _step_inwards(box, envelope.area)
                if step_back is not None and self.box.contains(step_back):
                    instructions.append(Send(zone, Spread(envelope)))
        return instructions

    def _owner(self, point: Point) -> int:
        return next(zone for zone, box in self._neighbours if box.contains(point))


def brokers_of(zones: Zones) -> list[Broker]:
    """One broker per zone."""
    boxes = [
        Box(tuple(low), tuple(high))
        for low, high in zip(zones.tree.zone_low.tolist(), zones.tree.zone_high.tolist(), strict=True)
    ]
    return [
        Broker(boxes[zone], [(other, boxes[other]) for other in near.tolist()])
        for zone, near in enumerate(zones.neighbours())
    ]


def _step_inwards(box: Box, area: Box) -> Point | None:
    """A point of the zone that forwards to the zone of `box`; None if the message enters there."""
    half = len(box.low) // 2
    pairs = enumerate(zip(box.low, box.high, area.low, area.high, strict=True))
    corner = [min(high, top) if dim < half else max(low, bottom) for dim, (low, high, bottom, top) in pairs]
    for dim, (value, goal) in enumerate(zip(corner, area.inner, strict=True)):
        if value != goal:
            corner[dim] = nextafter(value, inf if dim < half else -inf)
            return tuple(corner)
    return None


def _step_towards(box: Box, target: Point) -> Point:
    """A point of the next zone on the path to a target outside the box."""
    nearest = [min(max(t, low), high) for t, low, high in zip(target, box.low, box.high, strict=True)]
    dim = next(dim for dim, value in enumerate(nearest) if value != target[dim])
    nearest[dim] = nextafter(nearest[dim], inf if nearest[dim] < target[dim] else -inf)
    return tuple(nearest)
