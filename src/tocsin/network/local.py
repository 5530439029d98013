"""The carrier inside one process, and the contract of every carrier: subjects are logs that begin at 0."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tocsin.network.edges import Deliver, Edge, Instruction, Subscribe, origin_of
from tocsin.network.post import MAP, SNAPSHOT, Letter, space_subject

#: Called with an edge and the instruction to deliver.
Delivery = Callable[[Edge, Deliver], None]


class LocalCarrier:
    """Keeps every payload in memory, and brings edges what they ask for.

    `publish` only keeps; `bring` moves everything that is there to the edges, in rounds over their subjects.
    """

    def __init__(self, deliver: Delivery | None = None) -> None:
        self._logs: dict[str, list[bytes]] = {}
        self._cursors: dict[Edge, dict[str, int]] = {}
        self._deliver = deliver or (lambda edge, delivery: None)

    def publish(self, letters: Iterable[Letter]) -> None:
        """Keep payloads, in order. Cost: linear."""
        for subject, payload in letters:
            self._logs.setdefault(subject, []).append(payload)

    def attach(self, edge: Edge) -> None:
        """Start an edge from the newest snapshot; one that is attached already starts anew.

        Raises StateError while there is no snapshot.
        """
        maps = self._logs.get(space_subject(edge.root, edge.space, MAP), [])
        snapshots = self._logs.get(space_subject(edge.root, edge.space, SNAPSHOT), [])
        instructions = edge.start(origin_of(maps, snapshots))
        self._cursors[edge] = {}
        self._follow(edge, instructions)

    def detach(self, edge: Edge) -> None:
        """Forget an edge, as if it had died."""
        del self._cursors[edge]

    def bring(self) -> int:
        """Bring every edge what it has not had: how many payloads that were."""
        count = 0
        while (moved := sum(self._round(edge) for edge in list(self._cursors))) > 0:
            count += moved
        return count

    def _round(self, edge: Edge) -> int:
        """One payload of each subject that has more."""
        count = 0
        cursors = self._cursors[edge]
        for subject in list(cursors):
            log = self._logs.get(subject, [])
            if subject in cursors and cursors[subject] < len(log):
                cursors[subject] += 1
                count += 1
                self._follow(edge, edge.handle(subject, log[cursors[subject] - 1]))
        return count

    def _follow(self, edge: Edge, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Deliver):
                self._deliver(edge, instruction)
            elif isinstance(instruction, Subscribe):
                self._cursors[edge].setdefault(instruction.subject, 0)
            else:
                self._cursors[edge].pop(instruction.subject, None)
