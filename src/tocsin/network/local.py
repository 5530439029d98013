"""A carrier inside one process. As in every carrier, subjects are logs that begin at 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tocsin.network.edges import Deliver, Edge, Instruction, Subscribe, origin_of
from tocsin.network.wire import MAP, SNAPSHOT, OutboundMessage, space_subject

#: Called with an edge and the instruction to deliver.
Delivery = Callable[[Edge, Deliver], None]


class LocalCarrier:
    """Stores every payload in memory, and delivers to edges what they subscribe to.

    `publish` only stores; `bring` delivers all stored payloads to the edges, in rounds over their subjects.
    """

    def __init__(self, deliver: Delivery | None = None) -> None:
        self._logs: dict[str, list[bytes]] = {}
        self._cursors: dict[Edge, dict[str, int]] = {}
        self._deliver = deliver or (lambda edge, delivery: None)

    def publish(self, messages: Iterable[OutboundMessage]) -> None:
        """Store payloads in order. Cost: linear."""
        for subject, payload in messages:
            self._logs.setdefault(subject, []).append(payload)

    def attach(self, edge: Edge) -> None:
        """Start an edge from the newest snapshot; one that is attached already starts over.

        Raises StateError while there is no snapshot.
        """
        maps = self._logs.get(space_subject(edge.root, edge.space, MAP), [])
        snapshots = self._logs.get(space_subject(edge.root, edge.space, SNAPSHOT), [])
        instructions = edge.start(origin_of(maps, snapshots))
        self._cursors[edge] = {}
        self._execute(edge, instructions)

    def detach(self, edge: Edge) -> None:
        """Drop an edge, as if it had died."""
        del self._cursors[edge]

    def bring(self) -> int:
        """Deliver to every edge what it has not received yet; returns the number of payloads."""
        count = 0
        while (moved := sum(self._round(edge) for edge in list(self._cursors))) > 0:
            count += moved
        return count

    def _round(self, edge: Edge) -> int:
        """Deliver one payload of each subject that has more; returns their number."""
        count = 0
        cursors = self._cursors[edge]
        for subject in list(cursors):
            log = self._logs.get(subject, [])
            if subject in cursors and cursors[subject] < len(log):
                cursors[subject] += 1
                count += 1
                self._execute(edge, edge.handle(subject, log[cursors[subject] - 1]))
        return count

    def _execute(self, edge: Edge, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Deliver):
                self._deliver(edge, instruction)
            elif isinstance(instruction, Subscribe):
                self._cursors[edge].setdefault(instruction.subject, 0)
            else:
                self._cursors[edge].pop(instruction.subject, None)
