"""Waves: subscriptions that came together, and the edge that holds them.

An edge's subscriptions are settled when it starts. So those that come later get an edge of their own, which
starts from the newest snapshot, and when there are many edges of a space, one that holds all takes over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tocsin.gateway.edge_hub import Known, Seat
from tocsin.network.edges import Deliver, Edge
from tocsin.network.nats import NatsCarrier

logger = logging.getLogger(__name__)

#: Seconds before something that failed is tried again.
PAUSE = 0.5

#: Seconds between two looks whether an edge knows all that those know which it is to replace.
LOOK = 0.05


class Wave:
    """One edge on its way: it starts, catches up, and tells whose answers may have changed."""

    def __init__(
        self, seats: Mapping[str, Seat], root: str, news: Callable[[Wave, Iterable[str]], None]
    ) -> None:
        self.seats = dict(seats)
        #: whether the edge has read all that was there when it started
        self.is_ready = False
        self.is_over = False
        self._fulls = list(seats)
        self._numbers = {full: number for number, full in enumerate(self._fulls)}
        self._news = news
        form = next(iter(seats.values())).asked.form
        lo = np.array([seat.lo for seat in seats.values()], np.float64).reshape(len(seats), -1)
        hi = np.array([seat.hi for seat in seats.values()], np.float64).reshape(len(seats), -1)
        self._edge = Edge(form.describe(), lo, hi, root=root)
        self._task: asyncio.Task[None] | None = None

    def answer(self, full: str) -> Known:
        """The answer of a subscription now."""
        return Known(self.seats[full], self._edge.result(self._numbers[full]), self._edge.seq)

    def run(self, carrier: Callable[[], NatsCarrier]) -> None:
        """Follow the job from now on."""
        self._task = asyncio.create_task(self._run(carrier))

    def end(self) -> None:
        self.is_over = True
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Return when nothing runs any more."""
        while self._task is not None and not self._task.done():
            # Once may not be enough: the library takes some cancellations for its own.
            self._task.cancel()
            await asyncio.wait([self._task], timeout=0.5)

    async def take_over(self, others: Iterable[Wave]) -> None:
        """Return when this wave knows all that the others know, so that no answer goes back in time."""
        waves = list(others)
        while not (self.is_ready and all(each.is_over or self._knows(each) for each in waves)):
            await asyncio.sleep(LOOK)

    def _knows(self, other: Wave) -> bool:
        return self._edge.is_level_with(other._edge)

    async def _run(self, carrier: Callable[[], NatsCarrier]) -> None:
        said = ""
        while not self.is_over:
            self.is_ready = False
            try:
                await carrier().run(self._edge, self._deliver, caught_up=self._catch_up)
            except Exception as failure:
                # No snapshot yet, or no server: what is told stays told until there is one.
                if str(failure) != said:
                    logger.info("an edge of %s waits: %s", self._edge.space, failure)
                said = str(failure)
            await asyncio.sleep(PAUSE)

    def _catch_up(self) -> None:
        self.is_ready = True
        self._news(self, list(self.seats))

    def _deliver(self, delivery: Deliver) -> None:
        if self.is_ready:
            fulls = (self._fulls[number] for number in delivery.numbers.tolist())
            self._news(self, [full for full in fulls if full in self.seats])
