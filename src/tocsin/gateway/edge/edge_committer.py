"""Group commit for a gateway fed over NATS: applies the job consumer's answers to the hub."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.gateway.core.protocol import WatchRequest, WatchStart
from tocsin.gateway.edge.edge_hub import EdgeHub, PlacementAnswer
from tocsin.gateway.edge.job_consumer import JobConsumer
from tocsin.gateway.live.committer import GroupCommitter
from tocsin.gateway.live.feeds import Feed
from tocsin.gateway.metrics import Metrics

#: Seconds that startup waits for the answers of existing subscriptions.
CATCHING_UP = 30.0


class EdgeCommitter(GroupCommitter):
    """A committer whose hub receives answers, not rows."""

    def __init__(self, hub: EdgeHub, metrics: Metrics, servers: str, root: str) -> None:
        super().__init__(hub, metrics)
        self._edge_hub = hub
        self._consumer = JobConsumer(servers, root, self._update_answers, self._set_spaces)
        metrics.nats.set_function(lambda: float(self._consumer.is_connected))

    async def start(self) -> None:
        """Start consuming the job, for the existing subscriptions. Raises StateError."""
        await self._consumer.start()
        self._pass_on_moves()
        await self._consumer.all_ready(CATCHING_UP)

    async def watch(self, feed: Feed, request: WatchRequest) -> WatchStart:
        await self._consumer.ready(feed.full)
        return await super().watch(feed, request)

    async def close(self) -> None:
        await self._consumer.stop()
        await super().close()

    def _after_round(self) -> None:
        self._pass_on_moves()

    def _pass_on_moves(self) -> None:
        """Pass new and ended subscriptions on to the consumer. Called between two rounds."""
        arrived, gone = self._edge_hub.drain_moves()
        self._consumer.dismiss(gone)
        self._consumer.admit(arrived)

    async def _update_answers(self, found: Mapping[str, PlacementAnswer]) -> None:
        count = await self.execute(lambda _: self._edge_hub.update_answers(found))
        self._metrics.changes.labels("nats").inc(count)

    async def _set_spaces(self, spaces: list[str]) -> None:
        if spaces != self._edge_hub.spaces:
            # A single assignment: commands on the worker thread see the old list or the new one.
            self._edge_hub.spaces = spaces
