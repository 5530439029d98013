"""The slow, obvious answers of the network: who owns what, who is told, what everybody should hold."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from tocsin.papers.network.brokers import Box, Broker, Deliver, Parcel, Route, Send

Point = tuple[float, ...]


def owners(boxes: Sequence[Box], point: Point) -> list[int]:
    """Every zone that holds a point: there must be one."""
    return [zone for zone, box in enumerate(boxes) if box.holds(point)]


def is_told(area: Box, point: Point) -> bool:
    """Whether a subscription is in the area of a message."""
    return all(low <= p <= high for low, p, high in zip(area.low, point, area.high, strict=True))


class Journey:
    """A parcel handed from broker to broker until nobody has anything to do."""

    def __init__(self, brokers: Sequence[Broker], start: int, parcel: Parcel) -> None:
        self.sent: list[tuple[int, int]] = []
        self.routed: list[tuple[int, int]] = []
        self.delivered: list[int] = []
        waiting = deque([Send(start, Route(parcel))])
        while waiting:
            zone, event = waiting.popleft()
            for instruction in brokers[zone].handle(event):
                if isinstance(instruction, Deliver):
                    self.delivered.append(zone)
                    continue
                kind = self.routed if isinstance(instruction.event, Route) else self.sent
                kind.append((zone, instruction.zone))
                waiting.append(instruction)
                assert len(self.sent) + len(self.routed) < 10_000, "goes around in circles"


def hops(links: Mapping[int, Sequence[int]], start: int) -> dict[int, int]:
    """How many links every node is away from one."""
    found, waiting = {start: 0}, deque([start])
    while waiting:
        node = waiting.popleft()
        for other in links[node]:
            if other not in found:
                found[other] = found[node] + 1
                waiting.append(other)
    return found
