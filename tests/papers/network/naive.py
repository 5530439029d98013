"""The slow, obvious answers of the simulator: an envelope handed from broker to broker, hops in a graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from tocsin.papers.network.brokers import Broker, Deliver, Envelope, Route, Send


class Journey:
    """An envelope handed from broker to broker until none of them has an instruction left."""

    def __init__(self, brokers: Sequence[Broker], start: int, envelope: Envelope) -> None:
        self.sent: list[tuple[int, int]] = []
        self.routed: list[tuple[int, int]] = []
        self.delivered: list[int] = []
        waiting = deque([Send(start, Route(envelope))])
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
