"""Group-commit loop: applies queued commands to the hub, fsyncs once a round, then fans changes out to feeds.

Feeds receive changes in command order, and a watch starts between two commands, so a snapshot and the changes
that follow it have neither a gap nor an overlap.

Commands and disk writes run on one worker thread, because any of them can be slow: a single row may change a
long list. The event loop stays free meanwhile. Fan-out runs on the loop in short slices. The tenant served
least recently is next: a command waits for at most one command of each other tenant. A round ends before a
command that is likely to be slow if it already holds another tenant's outcome, which would wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from tocsin.gateway.core.history import DeliveredBatch
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import WatchRequest, WatchStart
from tocsin.gateway.failures import LimitTooLarge, Unavailable
from tocsin.gateway.live.feeds import Feed
from tocsin.gateway.live.turns import Costs, Turns
from tocsin.gateway.metrics import Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Commands queued at most; further ones are refused.
MAX_QUEUED = 20_000

#: Seconds of fan-out before the loop yields.
SLICE = 0.005

#: Commands that share one fsync at most, and seconds after which a round starts no more of them.
ROUND_COMMANDS = 512
ROUND_SECONDS = 0.02

#: Watches started in the first batch of a round; each further batch doubles while time allows.
FIRST_WATCHES = 8


class _Command(NamedTuple):
    tenant: str
    #: what to run on the hub, or a watch to start
    work: Callable[[Hub], Any] | WatchRequest
    #: called on the loop with the result or the failure
    done: Callable[[Any, BaseException | None], None]
    #: bytes of the request
    size: int = 0


class _Outcome(NamedTuple):
    command: _Command
    result: Any
    failure: BaseException | None
    batches: list[tuple[str, DeliveredBatch]]
    #: subscriptions that the command ended besides its own effect, and the reason to report
    ended: Mapping[str, str] = MappingProxyType({})


class GroupCommitter:
    """Runs commands on the hub, commits them in groups, and delivers their changes to feeds."""

    def __init__(self, hub: Hub, metrics: Metrics) -> None:
        self.epoch = hub.epoch
        self._hub = hub
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._turns: Turns[_Command] = Turns()
        #: used on the worker thread only
        self._costs = Costs(ROUND_SECONDS)
        self._wake = asyncio.Event()
        self._is_closing = False
        #: why no more commands are accepted, if so
        self.failure: str | None = None
        self._feeds: dict[str, list[Feed]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hub")
        self._aside = ThreadPoolExecutor(1, thread_name_prefix="aside")
        self._working = asyncio.create_task(self._work())

    def now(self) -> float:
        return self._loop.time()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._loop.call_later(seconds, call)

    def count(self, what: str) -> None:
        self._metrics.slow.labels(what).inc()

    async def execute(
        self,
        work: Callable[[Hub], T],
        *,
        tenant: str = "",
        after: Callable[[T], None] | None = None,
        size: int = 0,
    ) -> T:
        """Run a command; returns its result once it and all earlier commands are durable.

        Commands of one tenant run in order. `after` is called before the changes of any later command go out.
        `size` is that of the request in bytes, a hint of how long the command takes.
        """
        future: asyncio.Future[T] = self._loop.create_future()

        def done(result: Any, failure: BaseException | None) -> None:
            if failure is None and after is not None:
                after(result)
            if future.done():
                return
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

        self._submit(_Command(tenant, work, done, size))
        return await future

    async def watch(self, feed: Feed, request: WatchRequest) -> WatchStart:
        """Start a feed; returns how it started. Raises NotFound."""
        future: asyncio.Future[WatchStart] = self._loop.create_future()

        def begin(start: Any, failure: BaseException | None) -> None:
            if failure is None and feed.is_open:
                feed.begin(start)
                if start.kind != "too-old":
                    self._feeds.setdefault(feed.full, []).append(feed)
            if future.done():
                return
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(start)

        self._submit(_Command(request.tenant, request, begin))
        return await future

    def unwatch(self, feed: Feed) -> None:
        """Stop delivering to a feed."""
        feed.is_open = False
        feeds = self._feeds.get(feed.full)
        if feeds and feed in feeds:
            feeds.remove(feed)
            if not feeds:
                del self._feeds[feed.full]

    def watched(self, full: str) -> bool:
        """Whether any feed watches a subscription."""
        return full in self._feeds

    def end(self, full: str, reason: str) -> None:
        """A subscription has ended: notify its feeds."""
        for feed in self._feeds.pop(full, ()):
            feed.end(reason)

    def answer(self, full: str, call: Callable[[int, str], None], failed: Callable[[], None]) -> None:
        def done(result: Any, failure: BaseException | None) -> None:
            if failure is None:
                call(*result)
            elif isinstance(failure, LimitTooLarge):
                self.end(full, str(failure))
            else:
                logger.warning("an answer could not be read: %s", type(failure).__name__)
                failed()

        try:
            tenant = full.partition("/")[0]
            self._submit(_Command(tenant, lambda hub: (hub.number, hub.answer(full)), done))
        except Unavailable:
            failed()

    def aside(self, work: Callable[[], T], call: Callable[[T | None], None]) -> None:
        def done(finished: asyncio.Future[T]) -> None:
            failure = finished.exception()
            if failure is not None:
                logger.error("changes could not be coalesced for a feed", exc_info=failure)
            call(None if failure is not None else finished.result())

        self._loop.run_in_executor(self._aside, work).add_done_callback(done)

    async def close(self) -> None:
        """Run the queued commands, write a snapshot, release the folder."""
        self._is_closing = True
        self._wake.set()
        await self._working
        if self.failure is None:
            await self._loop.run_in_executor(self._thread, self._snapshot)
        self._hub.close()
        self._thread.shutdown()
        self._aside.shutdown(cancel_futures=True)

    def _submit(self, command: _Command) -> None:
        if self.failure is not None or self._is_closing:
            raise Unavailable(self.failure or "the server is stopping", retry_after=1.0)
        if self._turns.count >= MAX_QUEUED:
            raise Unavailable("the server is overloaded: try again", retry_after=1.0)
        self._turns.add(command)
        self._wake.set()

    async def _work(self) -> None:
        """Run rounds until the committer closes. Nothing else touches the hub."""
        while True:
            await self._wake.wait()
            if not self._turns:
                if self._is_closing:
                    return
                self._wake.clear()
                continue
            commands = self._turns.take(ROUND_COMMANDS)
            try:
                await self._round(commands)
            except Exception:
                # Some feeds got the changes and some did not: stop rather than send wrong answers.
                logger.critical("delivery failed; restart the server", exc_info=True)
                self.failure = "the server has failed and must be restarted"
                for command in commands:
                    command.done(None, Unavailable(self.failure))

    async def _round(self, commands: list[_Command]) -> None:
        if self.failure is not None:
            for command in commands:
                command.done(None, Unavailable(self.failure))
            return
        start = time.perf_counter()
        outcomes = await self._loop.run_in_executor(self._thread, self._perform, commands)
        self._turns.settle(commands[: len(outcomes)], commands[len(outcomes) :])
        if self._hub.failure is not None:
            # What is on disk is unknown: no command or read of this round is answered; a restart finds out.
            logger.critical("restart the server: %s", self._hub.failure)
            self.failure = self._hub.failure
            refusal = Unavailable(self.failure)
            outcomes = [_Outcome(outcome.command, None, refusal, []) for outcome in outcomes]
        await self._settle(outcomes, time.perf_counter() - start)
        if self.failure is None and self._hub.is_snapshot_due:
            await self._loop.run_in_executor(self._thread, self._snapshot)

    def _perform(self, commands: list[_Command]) -> list[_Outcome]:
        """The outcomes of the first commands: as many as the round has time for."""
        outcomes: list[_Outcome] = []
        now = time.perf_counter()
        end = now + ROUND_SECONDS
        n_watches = FIRST_WATCHES
        while len(outcomes) < len(commands) and (not outcomes or now < end):
            rest = commands[len(outcomes) :]
            is_slow = self._costs.is_slow(rest[0])
            if is_slow and any(outcome.command.tenant != rest[0].tenant for outcome in outcomes):
                break
            if isinstance(rest[0].work, WatchRequest):
                # Consecutive watches start together, which is cheaper.
                others = [] if is_slow else takewhile(self._is_quick_watch, rest[1:n_watches])
                performed = self._open([rest[0], *others])
            else:
                performed = [self._try(rest[0])]
            begun, now = now, time.perf_counter()
            for outcome in performed:
                self._costs.note(outcome.command.tenant, (now - begun) / len(performed))
            outcomes += performed
            n_watches *= 2
        if self._hub.is_dirty and self._hub.failure is None:
            # The hub records the failure, and the callers get it from there.
            with suppress(Unavailable):
                self._hub.sync()
        return outcomes

    def _is_quick_watch(self, command: _Command) -> bool:
        return isinstance(command.work, WatchRequest) and not self._costs.is_slow(command)

    def _open(self, commands: list[_Command]) -> list[_Outcome]:
        requests = [command.work for command in commands if isinstance(command.work, WatchRequest)]
        try:
            starts: list[Any] = list(self._hub.open(requests))
        except Exception as failure:
            logger.exception("watches could not start")
            starts = [failure] * len(commands)
        return [
            _Outcome(command, None, start, [])
            if isinstance(start, Exception)
            else _Outcome(command, start, None, [])
            for command, start in zip(commands, starts, strict=True)
        ]

    def _try(self, command: _Command) -> _Outcome:
        assert callable(command.work)
        try:
            result, failure = command.work(self._hub), None
        except Exception as raised:
            result, failure = None, raised
        return _Outcome(command, result, failure, self._hub.drain_batches(), self._hub.drain_ended())

    async def _settle(self, outcomes: list[_Outcome], seconds: float) -> None:
        """Deliver to feeds, then resolve the caller, command by command. Yields to other tasks in between."""
        delivered = 0
        since = time.perf_counter()
        for outcome in outcomes:
            for full, batch in outcome.batches:
                for feed in list(self._feeds.get(full, ())):
                    since = await _yield_if_due(since)
                    feed.deliver(batch)
                    delivered += 1
            for full, reason in outcome.ended.items():
                logger.warning("the subscription %s was ended: %s", full, reason)
                self.end(full, reason)
            since = await _yield_if_due(since)
            outcome.command.done(outcome.result, outcome.failure)
        self._metrics.delivered.inc(delivered)
        self._metrics.commits.observe(seconds)
        self._metrics.log_bytes.set(self._hub.records_bytes)
        self._metrics.subscriptions.set(self._hub.subscriptions)
        self._after_round()

    def _after_round(self) -> None:
        """Hook that runs after each round, while nothing touches the hub."""

    def _snapshot(self) -> None:
        try:
            self._hub.snapshot()
        except Exception as failure:
            # Nothing is lost: the log has every record, and grows until a snapshot succeeds.
            logger.error("no snapshot could be written: %s", failure)


async def _yield_if_due(since: float) -> float:
    """Yield to the loop if this slice has lasted long enough; returns when the current slice started."""
    if time.perf_counter() - since <= SLICE:
        return since
    await asyncio.sleep(0)
    return time.perf_counter()
