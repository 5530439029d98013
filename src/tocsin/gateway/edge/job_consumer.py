"""Consumes a job over NATS: discovers its spaces, runs edges for subscriptions, and reports their answers."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping

from tocsin.errors import StateError
from tocsin.gateway.edge.edge_hub import Placement, PlacementAnswer
from tocsin.gateway.edge.generations import PAUSE, EdgeGeneration
from tocsin.gateway.failures import Unavailable
from tocsin.network.nats import NatsCarrier

logger = logging.getLogger(__name__)

#: Seconds that startup waits for NATS.
PATIENCE = 10.0

#: Seconds that a watch waits for the first answer.
FIRST = 20.0

#: Seconds during which new subscriptions are collected into one generation.
GATHERING = 0.02

#: Generations of a space at most, before they are merged into one.
MAX_GENERATIONS = 8

#: Seconds between two polls for new spaces.
POLL = 1.0


class JobConsumer:
    """Runs all edges of one gateway; calls `deliver` with answers, `set_spaces` with the names of spaces."""

    def __init__(
        self,
        servers: str,
        root: str,
        deliver: Callable[[Mapping[str, PlacementAnswer]], Awaitable[None]],
        set_spaces: Callable[[list[str]], Awaitable[None]],
    ) -> None:
        self._servers = servers
        self._root = root
        self._deliver = deliver
        self._set_spaces = set_spaces
        #: the connection that edges use, and the latest connection attempt
        self._carrier = self._trying = NatsCarrier(servers, root=root)
        #: the last failure, if nothing has succeeded since
        self._failure: Exception | None = None
        self._tasks: set[asyncio.Future[None]] = set()
        self._generations: dict[str, list[EdgeGeneration]] = {}
        self._merging: set[str] = set()
        self._generation_of: dict[str, EdgeGeneration] = {}
        self._pending: dict[str, Placement] = {}
        #: by full id: set when the first answer has arrived
        self._first: dict[str, asyncio.Event] = {}
        self._changed: set[str] = set()
        self._has_changed = asyncio.Event()
        self._is_over = False

    @property
    def is_connected(self) -> bool:
        """Whether NATS is connected."""
        return self._failure is None and self._carrier.is_connected

    async def start(self) -> None:
        """Connect and start consuming. Raises StateError if NATS does not answer."""
        connected = asyncio.Event()
        self._spawn(self._stay_connected(connected))
        try:
            await asyncio.wait_for(connected.wait(), PATIENCE)
        except TimeoutError:
            failure = self._failure or self._trying.failure
            raise StateError(
                f"no NATS server with JetStream answers at {without_secrets(self._servers)} within "
                f"{PATIENCE:.0f} seconds: {_describe(failure)}"
            ) from None
        self._spawn(self._pass_on())

    async def stop(self) -> None:
        """Stop all edges and tasks."""
        self._is_over = True
        generations = [generation for generations in self._generations.values() for generation in generations]
        for generation in generations:
            generation.end()
        for generation in generations:
            await generation.ended()
        while self._tasks:
            # Repeated, because the NATS library swallows some cancellations.
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=0.5)

    def admit(self, placements: Mapping[str, Placement]) -> None:
        """Add subscriptions. Those of one space that arrive together share an edge."""
        if not placements:
            return
        if not self._pending:
            self._spawn(self._gather())
        for full, placement in placements.items():
            self._pending[full] = placement
            self._first.setdefault(full, asyncio.Event())

    def dismiss(self, fulls: Iterable[str]) -> None:
        """Remove ended subscriptions. Their edge still has them until it is replaced."""
        for full in fulls:
            self._pending.pop(full, None)
            self._changed.discard(full)
            first = self._first.pop(full, None)
            if first is not None:
                first.set()
            self._displace(full)

    async def ready(self, full: str) -> None:
        """Wait for the first answer; returns at once for unknown subscriptions. Raises Unavailable."""
        first = self._first.get(full)
        if first is None:
            return
        try:
            await asyncio.wait_for(first.wait(), FIRST)
        except TimeoutError:
            raise Unavailable("the job has sent no snapshot yet: try again", retry_after=1.0) from None

    async def all_ready(self, seconds: float) -> None:
        """Wait until all subscriptions have an answer, or for `seconds`."""
        waiting = [asyncio.create_task(first.wait()) for first in self._first.values()]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for task in late:
                task.cancel()

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.critical("consuming the job has stopped; restart the server", exc_info=task.exception())

    async def _stay_connected(self, connected: asyncio.Event) -> None:
        """Connect, poll for spaces, and reconnect whenever the connection is lost."""
        # A flag, because the library may turn a cancellation into an error of its own.
        while not self._is_over:
            try:
                self._trying = NatsCarrier(self._servers, root=self._root)
                async with self._trying as carrier:
                    self._carrier = carrier
                    while True:
                        await self._set_spaces(await carrier.spaces())
                        self._failure = None
                        connected.set()
                        await asyncio.sleep(POLL)
            except Exception as failure:
                if str(failure) != str(self._failure):
                    logger.warning("NATS at %s: %s", without_secrets(self._servers), _describe(failure))
                self._failure = failure
            await asyncio.sleep(PAUSE)

    async def _gather(self) -> None:
        await asyncio.sleep(GATHERING)
        pending, self._pending = self._pending, {}
        by_space: dict[str, dict[str, Placement]] = {}
        for full, placement in pending.items():
            by_space.setdefault(str(placement.query.form), {})[full] = placement
        for space, placements in by_space.items():
            for full in placements:
                self._displace(full)
            generation = self._new_generation(space, placements)
            self._generation_of.update(dict.fromkeys(placements, generation))
            if len(self._generations[space]) > MAX_GENERATIONS and space not in self._merging:
                self._merging.add(space)
                self._spawn(self._merge(space))

    def _new_generation(self, space: str, placements: Mapping[str, Placement]) -> EdgeGeneration:
        generation = EdgeGeneration(placements, self._root, self._note)
        self._generations.setdefault(space, []).append(generation)
        generation.run(lambda: self._carrier)
        return generation

    async def _merge(self, space: str) -> None:
        """Merge the generations that have caught up. Cost: reading a snapshot for all their subscriptions."""
        old = [generation for generation in self._generations[space] if generation.is_ready]
        placements = {
            full: placement for generation in old for full, placement in generation.placements.items()
        }
        if len(old) > 1 and placements:
            new = self._new_generation(space, placements)
            await new.take_over(old)
            logger.info("one edge of %s takes over from %d", space, len(old))
            for full in placements:
                if self._generation_of.get(full) in old:
                    self._generation_of[full] = new
                else:
                    new.placements.pop(full, None)
            for generation in old:
                self._end(generation)
            if new.placements:
                self._note(new, list(new.placements))
            else:
                self._end(new)
        self._merging.discard(space)

    def _displace(self, full: str) -> None:
        generation = self._generation_of.pop(full, None)
        if generation is not None:
            generation.placements.pop(full, None)
            if not generation.placements:
                self._end(generation)

    def _end(self, generation: EdgeGeneration) -> None:
        generation.end()
        for generations in self._generations.values():
            if generation in generations:
                generations.remove(generation)

    def _note(self, generation: EdgeGeneration, fulls: Iterable[str]) -> None:
        """Queue answers that may have changed; ignores a generation that has not taken over yet."""
        self._changed.update(full for full in fulls if self._generation_of.get(full) is generation)
        self._has_changed.set()

    async def _pass_on(self) -> None:
        """Deliver changed answers; those that change meanwhile are delivered together."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            fulls, self._changed = self._changed, set()
            placed = ((full, self._generation_of.get(full)) for full in fulls)
            # An edge that restarts reports all of its answers once it has caught up.
            answers = {
                full: generation.answer(full)
                for full, generation in placed
                if generation is not None and generation.is_ready
            }
            if not answers:
                continue
            try:
                await self._deliver(answers)
            except Unavailable:
                self._changed |= fulls
                self._has_changed.set()
                await asyncio.sleep(PAUSE)
                continue
            for full in answers:
                first = self._first.pop(full, None)
                if first is not None:
                    first.set()


def without_secrets(servers: str) -> str:
    """Addresses without the passwords in them."""
    return re.sub(r"//[^@/,]*@", "//", servers)


def _describe(failure: Exception | None) -> str:
    return "no answer" if failure is None else str(failure) or type(failure).__name__
