"""The desk of a gateway that is fed over NATS: it brings the follower's news to the hub."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.gateway.dealings import Asking, Opening
from tocsin.gateway.desk import Desk
from tocsin.gateway.edge_hub import EdgeHub, Known
from tocsin.gateway.feeds import Feed
from tocsin.gateway.following import Follower
from tocsin.gateway.metrics import Metrics

#: Seconds that a start waits for the answers of subscriptions that are there already.
CATCHING_UP = 30.0


class EdgeDesk(Desk):
    """A desk whose hub hears of answers, not of rows."""

    def __init__(self, hub: EdgeHub, metrics: Metrics, servers: str, root: str) -> None:
        super().__init__(hub, metrics)
        self._edge_hub = hub
        self._follower = Follower(servers, root, self._tell, self._learn)
        metrics.nats.set_function(lambda: float(self._follower.is_connected))

    async def follow(self) -> None:
        """Begin to follow the job, for the subscriptions that are there. Raises StateError."""
        await self._follower.start()
        self._notice()
        await self._follower.all_ready(CATCHING_UP)

    async def watch(self, feed: Feed, asking: Asking) -> Opening:
        await self._follower.ready(feed.full)
        return await super().watch(feed, asking)

    async def close(self) -> None:
        await self._follower.stop()
        await super().close()

    def _after_round(self) -> None:
        self._notice()

    def _notice(self) -> None:
        """Who has come and gone is the follower's business too. Called between two rounds of jobs."""
        arrived, gone = self._edge_hub.moves()
        self._follower.dismiss(gone)
        self._follower.admit(arrived)

    async def _tell(self, found: Mapping[str, Known]) -> None:
        count = await self.do(lambda _: self._edge_hub.tell(found))
        self._metrics.changes.labels("nats").inc(count)

    async def _learn(self, spaces: list[str]) -> None:
        if spaces != self._edge_hub.spaces:
            # One assignment: jobs in another thread see the old list or the new one.
            self._edge_hub.spaces = spaces
