"""Following a job over NATS: which spaces it has, edges for those who subscribe, and their news."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping

from tocsin.errors import StateError
from tocsin.gateway.edge_hub import Known, Seat
from tocsin.gateway.failures import Unavailable
from tocsin.gateway.waves import PAUSE, Wave
from tocsin.network.nats import NatsCarrier

logger = logging.getLogger(__name__)

#: Seconds that NATS is given to answer at the start.
PATIENCE = 10.0

#: Seconds that a watch waits for the first answer.
FIRST = 20.0

#: Seconds in which those who subscribe become one wave.
GATHERING = 0.02

#: Waves of a space at most, before one takes over from all.
WAVES = 8

#: Seconds between two looks for new spaces.
LOOK = 1.0


class Follower:
    """All edges of one gateway. `tell` takes in answers; `learn` the names of the spaces."""

    def __init__(
        self,
        servers: str,
        root: str,
        tell: Callable[[Mapping[str, Known]], Awaitable[None]],
        learn: Callable[[list[str]], Awaitable[None]],
    ) -> None:
        self._servers = servers
        self._root = root
        self._tell = tell
        self._learn = learn
        #: the connection that edges use, and the one that is being made
        self._carrier = self._trying = NatsCarrier(servers, root=root)
        #: what went wrong last, if nothing has gone well since
        self._failure: Exception | None = None
        self._tasks: set[asyncio.Future[None]] = set()
        self._waves: dict[str, list[Wave]] = {}
        self._merging: set[str] = set()
        self._wave_of: dict[str, Wave] = {}
        self._pending: dict[str, Seat] = {}
        #: by full id: set when the first answer is there
        self._first: dict[str, asyncio.Event] = {}
        self._changed: set[str] = set()
        self._has_changed = asyncio.Event()
        self._is_over = False

    @property
    def is_connected(self) -> bool:
        """Whether NATS is there."""
        return self._failure is None and self._carrier.is_connected

    async def start(self) -> None:
        """Begin to follow. Raises StateError if NATS does not answer."""
        connected = asyncio.Event()
        self._spawn(self._stay_connected(connected))
        try:
            await asyncio.wait_for(connected.wait(), PATIENCE)
        except TimeoutError:
            failure = self._failure or self._trying.failure
            raise StateError(
                f"no NATS server with JetStream answers at {without_secrets(self._servers)} within "
                f"{PATIENCE:.0f} seconds: {_said(failure)}"
            ) from None
        self._spawn(self._pass_on())

    async def stop(self) -> None:
        """Let go of everything."""
        self._is_over = True
        waves = [wave for waves in self._waves.values() for wave in waves]
        for wave in waves:
            wave.end()
        for wave in waves:
            await wave.ended()
        while self._tasks:
            # Once may not be enough: the library takes some cancellations for its own.
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks, timeout=0.5)

    def admit(self, seats: Mapping[str, Seat]) -> None:
        """New subscriptions. Those of one space that come together share an edge."""
        if not seats:
            return
        if not self._pending:
            self._spawn(self._gather())
        for full, seat in seats.items():
            self._pending[full] = seat
            self._first.setdefault(full, asyncio.Event())

    def dismiss(self, fulls: Iterable[str]) -> None:
        """Subscriptions that have ended. Their edge holds them until the next one takes over."""
        for full in fulls:
            self._pending.pop(full, None)
            self._changed.discard(full)
            first = self._first.pop(full, None)
            if first is not None:
                first.set()
            self._unseat(full)

    async def ready(self, full: str) -> None:
        """Return when there is an answer, or no such subscription. Raises Unavailable."""
        first = self._first.get(full)
        if first is None:
            return
        try:
            await asyncio.wait_for(first.wait(), FIRST)
        except TimeoutError:
            raise Unavailable("the job has sent no snapshot yet: try again", retry_after=1.0) from None

    async def all_ready(self, seconds: float) -> None:
        """Return when all subscriptions have an answer, or after some seconds."""
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
            logger.critical("following stopped; restart the server", exc_info=task.exception())

    async def _stay_connected(self, connected: asyncio.Event) -> None:
        """Connect, and look for spaces; a connection that is given up is made anew."""
        # The library may answer a cancellation with a failure of its own: so there is a flag, too.
        while not self._is_over:
            try:
                self._trying = NatsCarrier(self._servers, root=self._root)
                async with self._trying as carrier:
                    self._carrier = carrier
                    while True:
                        await self._learn(await carrier.spaces())
                        self._failure = None
                        connected.set()
                        await asyncio.sleep(LOOK)
            except Exception as failure:
                if str(failure) != str(self._failure):
                    logger.warning("NATS at %s: %s", without_secrets(self._servers), _said(failure))
                self._failure = failure
            await asyncio.sleep(PAUSE)

    async def _gather(self) -> None:
        await asyncio.sleep(GATHERING)
        pending, self._pending = self._pending, {}
        by_space: dict[str, dict[str, Seat]] = {}
        for full, seat in pending.items():
            by_space.setdefault(str(seat.asked.form), {})[full] = seat
        for space, seats in by_space.items():
            for full in seats:
                self._unseat(full)
            wave = self._new_wave(space, seats)
            self._wave_of.update(dict.fromkeys(seats, wave))
            if len(self._waves[space]) > WAVES and space not in self._merging:
                self._merging.add(space)
                self._spawn(self._merge(space))

    def _new_wave(self, space: str, seats: Mapping[str, Seat]) -> Wave:
        wave = Wave(seats, self._root, self._note)
        self._waves.setdefault(space, []).append(wave)
        wave.run(lambda: self._carrier)
        return wave

    async def _merge(self, space: str) -> None:
        """One wave for all that have caught up. Cost: reading a snapshot for all their subscriptions."""
        old = [wave for wave in self._waves[space] if wave.is_ready]
        seats = {full: seat for wave in old for full, seat in wave.seats.items()}
        if len(old) > 1 and seats:
            new = self._new_wave(space, seats)
            await new.take_over(old)
            logger.info("one edge of %s takes over from %d", space, len(old))
            for full in seats:
                if self._wave_of.get(full) in old:
                    self._wave_of[full] = new
                else:
                    new.seats.pop(full, None)
            for wave in old:
                self._end(wave)
            if new.seats:
                self._note(new, list(new.seats))
            else:
                self._end(new)
        self._merging.discard(space)

    def _unseat(self, full: str) -> None:
        wave = self._wave_of.pop(full, None)
        if wave is not None:
            wave.seats.pop(full, None)
            if not wave.seats:
                self._end(wave)

    def _end(self, wave: Wave) -> None:
        wave.end()
        for waves in self._waves.values():
            if wave in waves:
                waves.remove(wave)

    def _note(self, wave: Wave, fulls: Iterable[str]) -> None:
        """Answers that may have changed; of a wave that has not taken over yet, nobody hears."""
        self._changed.update(full for full in fulls if self._wave_of.get(full) is wave)
        self._has_changed.set()

    async def _pass_on(self) -> None:
        """Tell what has changed; what changes meanwhile is told together."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            fulls, self._changed = self._changed, set()
            seated = ((full, self._wave_of.get(full)) for full in fulls)
            # One that starts anew tells of all when it has caught up.
            found = {full: wave.answer(full) for full, wave in seated if wave is not None and wave.is_ready}
            if not found:
                continue
            try:
                await self._tell(found)
            except Unavailable:
                self._changed |= fulls
                self._has_changed.set()
                await asyncio.sleep(PAUSE)
                continue
            for full in found:
                first = self._first.pop(full, None)
                if first is not None:
                    first.set()


def without_secrets(servers: str) -> str:
    """Addresses without the passwords in them."""
    return re.sub(r"//[^@/,]*@", "//", servers)


def _said(failure: Exception | None) -> str:
    return "nothing came" if failure is None else str(failure) or type(failure).__name__
