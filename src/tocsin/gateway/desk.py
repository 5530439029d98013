"""The desk: the hub at work, one round of jobs after the other, and its news carried to the feeds.

Jobs that wait are done together and synced once (group commit). What a job has caused is told to feeds in the
order of the jobs, and a watch begins between two jobs: so that a snapshot and the changes after it have
neither a gap nor an overlap.

Jobs and the disk are for one thread, since any of them can take long: a single row may change a long list.
The event loop goes on meanwhile. What there is to tell is told on the loop, in turns.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from tocsin.gateway.dealings import Asking, Opening
from tocsin.gateway.failures import Unavailable
from tocsin.gateway.feeds import Feed
from tocsin.gateway.history import Told
from tocsin.gateway.hub import Hub
from tocsin.gateway.metrics import Metrics

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Jobs that wait at most; more are refused.
WAITING = 20_000

#: Seconds for which feeds are told without a pause.
TURN = 0.005

#: Jobs that share one sync at most.
TOGETHER = 512


class _Job(NamedTuple):
    #: what is to be done, or a watch that is to begin
    work: Callable[[Hub], Any] | Asking
    #: called on the loop with the result, or the failure
    done: Callable[[Any, BaseException | None], None]


class _Outcome(NamedTuple):
    job: _Job
    result: Any
    failure: BaseException | None
    told: list[tuple[str, Told]]


class Desk:
    """Takes jobs from the loop to the hub, and news from the hub to the feeds."""

    def __init__(self, hub: Hub, metrics: Metrics) -> None:
        self.epoch = hub.epoch
        self._hub = hub
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._jobs: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._is_closing = False
        #: why nothing more is taken, if so
        self.failure: str | None = None
        self._feeds: dict[str, list[Feed]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hub")
        self._working = asyncio.create_task(self._work())

    def now(self) -> float:
        return self._loop.time()

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._loop.call_later(seconds, call)

    def count(self, what: str) -> None:
        self._metrics.slow.labels(what).inc()

    async def do(self, work: Callable[[Hub], T], *, after: Callable[[T], None] | None = None) -> T:
        """The result of a job, after all that it and the jobs before it have changed is on disk.

        `after` is called with it before any later job is heard of.
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

        self._submit(_Job(work, done))
        return await future

    async def watch(self, feed: Feed, asking: Asking) -> Opening:
        """Begin to tell a feed; how it began. Raises NotFound."""
        future: asyncio.Future[Opening] = self._loop.create_future()

        def begin(opening: Any, failure: BaseException | None) -> None:
            if failure is None and feed.is_open:
                feed.begin(opening)
                if opening.kind != "too-old":
                    self._feeds.setdefault(feed.full, []).append(feed)
            if future.done():
                return
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(opening)

        self._submit(_Job(asking, begin))
        return await future

    def unwatch(self, feed: Feed) -> None:
        """Tell a feed no more."""
        feed.is_open = False
        feeds = self._feeds.get(feed.full)
        if feeds and feed in feeds:
            feeds.remove(feed)
            if not feeds:
                del self._feeds[feed.full]

    def watched(self, full: str) -> bool:
        """Whether somebody watches a subscription."""
        return full in self._feeds

    def end(self, full: str, reason: str) -> None:
        """A subscription is gone: tell those who watch it."""
        for feed in self._feeds.pop(full, ()):
            feed.end(reason)

    def answer(self, full: str, call: Callable[[int, str], None], failed: Callable[[], None]) -> None:
        def done(result: Any, failure: BaseException | None) -> None:
            if failure is None:
                call(*result)
            else:
                logger.warning("an answer could not be read: %s", type(failure).__name__)
                failed()

        try:
            self._submit(_Job(lambda hub: (hub.number, hub.answer(full)), done))
        except Unavailable:
            failed()

    async def close(self) -> None:
        """Finish what waits, write a snapshot, let go of the folder."""
        self._is_closing = True
        self._wake.set()
        await self._working
        if self.failure is None:
            await self._loop.run_in_executor(self._thread, self._snapshot)
        self._hub.close()
        self._thread.shutdown()

    def _submit(self, job: _Job) -> None:
        if self.failure is not None or self._is_closing:
            raise Unavailable(self.failure or "the server is stopping", retry_after=1.0)
        if len(self._jobs) >= WAITING:
            raise Unavailable("the server has more to do than it can: try again", retry_after=1.0)
        self._jobs.append(job)
        self._wake.set()

    async def _work(self) -> None:
        """Rounds of jobs until it is told to stop. Nobody else touches the hub."""
        while True:
            await self._wake.wait()
            if not self._jobs:
                if self._is_closing:
                    return
                self._wake.clear()
                continue
            jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), TOGETHER))]
            try:
                await self._round(jobs)
            except Exception:
                # Some have been told, and nobody knows who: better nothing more than something wrong.
                logger.critical("telling has failed; restart the server", exc_info=True)
                self.failure = "the server has failed, and must be restarted"
                for job in jobs:
                    job.done(None, Unavailable(self.failure))

    async def _round(self, jobs: list[_Job]) -> None:
        if self.failure is not None:
            for job in jobs:
                job.done(None, Unavailable(self.failure))
            return
        start = time.perf_counter()
        outcomes = await self._loop.run_in_executor(self._thread, self._perform, jobs)
        if self._hub.failure is not None:
            # What is on disk is unknown: nobody hears of these jobs, nor reads, and a restart finds out.
            logger.critical("restart the server: %s", self._hub.failure)
            self.failure = self._hub.failure
            refusal = Unavailable(self.failure)
            outcomes = [_Outcome(outcome.job, None, refusal, []) for outcome in outcomes]
        await self._settle(outcomes, time.perf_counter() - start)
        if self.failure is None and self._hub.is_snapshot_due:
            await self._loop.run_in_executor(self._thread, self._snapshot)

    def _perform(self, jobs: list[_Job]) -> list[_Outcome]:
        outcomes: list[_Outcome] = []
        # Watches that begin one after the other begin together, which is cheaper.
        for is_watch, run in groupby(jobs, key=lambda job: isinstance(job.work, Asking)):
            together = list(run)
            outcomes += self._open(together) if is_watch else map(self._try, together)
        if self._hub.is_dirty and self._hub.failure is None:
            # The hub says that it has failed; whoever asked is told so.
            with suppress(Unavailable):
                self._hub.sync()
        return outcomes

    def _open(self, jobs: list[_Job]) -> list[_Outcome]:
        asked = [job.work for job in jobs if isinstance(job.work, Asking)]
        try:
            openings: list[Any] = list(self._hub.open(asked))
        except Exception as failure:
            logger.exception("watches could not begin")
            openings = [failure] * len(jobs)
        return [
            _Outcome(job, None, opening, [])
            if isinstance(opening, Exception)
            else _Outcome(job, opening, None, [])
            for job, opening in zip(jobs, openings, strict=True)
        ]

    def _try(self, job: _Job) -> _Outcome:
        assert callable(job.work)
        try:
            result, failure = job.work(self._hub), None
        except Exception as raised:
            result, failure = None, raised
        return _Outcome(job, result, failure, self._hub.told())

    async def _settle(self, outcomes: list[_Outcome], seconds: float) -> None:
        """Tell the feeds, then those who wait, job by job. Others have their turn in between."""
        delivered = 0
        turn = time.perf_counter()
        for outcome in outcomes:
            for full, told in outcome.told:
                if time.perf_counter() - turn > TURN:
                    await asyncio.sleep(0)
                    turn = time.perf_counter()
                feeds = self._feeds.get(full)
                if feeds:
                    delivered += len(feeds)
                    for feed in list(feeds):
                        feed.tell(told)
            outcome.job.done(outcome.result, outcome.failure)
        self._metrics.delivered.inc(delivered)
        self._metrics.commits.observe(seconds)
        self._metrics.log_bytes.set(self._hub.records_bytes)
        self._metrics.subscriptions.set(self._hub.subscriptions)
        self._after_round()

    def _after_round(self) -> None:
        """For desks that have more to do when a round of jobs is settled, and nobody touches the hub."""

    def _snapshot(self) -> None:
        try:
            self._hub.snapshot()
        except Exception as failure:
            # The log has everything; it only grows on until a snapshot works.
            logger.error("no snapshot could be written: %s", failure)
