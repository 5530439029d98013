"""Edge generations: subscriptions that arrived together, and the network edge that answers them.

An edge's subscriptions are fixed when it starts. So later ones get an edge of their own, which starts from
the newest snapshot. When a space has many edges, a new one with all their subscriptions replaces them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tocsin.gateway.edge.edge_hub import Placement, PlacementAnswer
from tocsin.network.edges import Deliver, Edge
from tocsin.network.nats import NatsCarrier

logger = logging.getLogger(__name__)

#: Seconds before a retry.
PAUSE = 0.5

#: Seconds between two checks whether a new edge has caught up with those that it replaces.
POLL = 0.05


class EdgeGeneration:
    """One edge: it starts, catches up, and notifies of answers that may have changed."""

    def __init__(
        self,
        placements: Mapping[str, Placement],
        root: str,
        notify: Callable[[EdgeGeneration, Iterable[str]], None],
    ) -> None:
        self.placements = dict(placements)
        #: whether the edge has applied everything that existed when it started
        self.is_ready = False
        self.is_ended = False
        self._fulls = list(placements)
        self._numbers = {full: number for number, full in enumerate(self._fulls)}
        self._notify = notify
        form = next(iter(placements.values())).query.form
        lo = np.array([placement.lo for placement in placements.values()], np.float64).reshape(
            len(placements), -1
        )
        hi = np.array([placement.hi for placement in placements.values()], np.float64).reshape(
            len(placements), -1
        )
        self._edge = Edge(form.describe(), lo, hi, root=root)
        self._task: asyncio.Task[None] | None = None

    def answer(self, full: str) -> PlacementAnswer:
        """The current answer of a subscription."""
        return PlacementAnswer(self.placements[full], self._edge.result(self._numbers[full]), self._edge.seq)

    def run(self, carrier: Callable[[], NatsCarrier]) -> None:
        """Start consuming the job."""
        self._task = asyncio.create_task(self._run(carrier))

    def end(self) -> None:
        self.is_ended = True
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until its task has finished."""
        while self._task is not None and not self._task.done():
            # Repeated, because the NATS library swallows some cancellations.
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.5)

    async def take_over(self, others: Iterable[EdgeGeneration]) -> None:
        """Wait until this edge has caught up with the others, so that no answer goes back in time."""
        generations = list(others)
        while not (self.is_ready and all(each.is_ended or self._is_level(each) for each in generations)):
            await asyncio.sleep(POLL)

    def _is_level(self, other: EdgeGeneration) -> bool:
        return self._edge.is_level_with(other._edge)

    async def _run(self, carrier: Callable[[], NatsCarrier]) -> None:
        last_failure = ""
        while not self.is_ended:
            self.is_ready = False
            try:
                await carrier().run(self._edge, self._deliver, caught_up=self._catch_up)
            except Exception as failure:
                # No snapshot yet, or no server: answers stay unchanged until there is one.
                if str(failure) != last_failure:
                    logger.info("an edge of %s is waiting: %s", self._edge.space, failure)
                last_failure = str(failure)
            await asyncio.sleep(PAUSE)

    def _catch_up(self) -> None:
        self.is_ready = True
        self._notify(self, list(self.placements))

    def _deliver(self, delivery: Deliver) -> None:
        if self.is_ready:
            fulls = (self._fulls[number] for number in delivery.numbers.tolist())
            self._notify(self, [full for full in fulls if full in self.placements])
