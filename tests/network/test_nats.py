"""The same edges over a real NATS server: killed and started again, they hold what the engine answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tocsin
from tests.network.servers import NatsServer
from tocsin.errors import StateError
from tocsin.network.areas import points_of
from tocsin.network.edges import Edge
from tocsin.network.publishing import Publisher
from tocsin.network.zones import Zones

pytest.importorskip("nats")

from tocsin.network.nats import NatsCarrier

SQL = "SELECT k, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 3"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    made = NatsServer(tmp_path)
    made.start()
    yield made
    made.kill()


class Table:
    """An engine with rows that change at random, and ranges to subscribe to."""

    def __init__(self) -> None:
        self.engine = tocsin.Engine()
        self.engine.create_table("t", key="k", columns={"k": "string", "x": "double", "y": "double"})
        self.space = self.engine.create_space(SQL)
        (self.described,) = self.engine.spaces("t")
        self._random = np.random.default_rng(5)
        ends = self._random.integers(0, 20, (2, 200)).astype(np.float64)
        self.lo, self.hi = ends.min(axis=0), ends.max(axis=0)
        self.points = points_of(self.lo, self.hi)
        self.engine.publish("t", self.rows(30))

    def rows(self, count: int) -> list[dict[str, object]]:
        numbers = self._random.integers(0, 40, count).tolist()
        values = self._random.integers(0, 9, count).tolist()
        return [
            {"k": f"r{n}", "x": float(n % 20), "y": float(y)} for n, y in zip(numbers, values, strict=True)
        ]

    def check(self, edge: Edge) -> None:
        for number in range(len(edge)):
            sid = self.engine.subscribe(SQL, lo=self.lo[number], hi=self.hi[number])
            answers = self.engine.answers([sid])
            pairs = zip(answers.column("key").to_pylist(), answers.column("score").to_pylist(), strict=True)
            assert [(entry.key, entry.y) for entry in edge.result(number)] == list(pairs)
            self.engine.unsubscribe(sid)


@pytest.mark.slow
def test_edges_over_nats_end_exact(server: NatsServer) -> None:
    table, publisher = Table(), Publisher()

    async def run() -> list[Edge]:
        async with NatsCarrier(server.address) as carrier:
            edge = Edge(table.described, table.lo, table.hi)
            await carrier.publish(publisher.open(table.space, Zones.build(table.points, 6)))
            with pytest.raises(StateError, match="no snapshot"):
                await carrier.origin(edge)
            await carrier.publish(publisher.snapshot(table.engine.snapshot("t", table.space)))
            following = asyncio.create_task(carrier.run(edge, lambda delivery: None))
            for number in range(12):
                letters = publisher.post(table.engine.messages("t", table.rows(5)))
                await carrier.publish(letters, batch=str(number))
                if number in (3, 7):
                    old = publisher.zones(table.space)
                    publisher.switch(table.space, old.split(table.points, len(old) + 4))
                if number == 5:
                    # An edge dies while others go on.
                    following.cancel()
                    await carrier.publish(publisher.snapshot(table.engine.snapshot("t", table.space)))
                    await carrier.delete_snapshots(table.space, 2)
                if number == 8:
                    # A batch that is sent again, as after a failure.
                    await carrier.publish(letters, batch=str(number))
                    await carrier.publish(letters)
            again, late = Edge(table.described, table.lo, table.hi), Edge(table.described, table.lo, table.hi)
            for each in (again, late):
                await carrier.run(each, lambda delivery: None, until=lambda: True)
            found = await carrier.newest_map(table.space)
            assert found is not None
            assert found.version == 3
            assert await carrier.newest_map("another") is None
            return [again, late]

    for edge in asyncio.run(run()):
        table.check(edge)


@pytest.mark.slow
def test_a_server_that_is_killed_has_kept_all(server: NatsServer) -> None:
    table, publisher = Table(), Publisher()

    async def first() -> None:
        async with NatsCarrier(server.address) as carrier:
            await carrier.publish(publisher.snapshot(table.engine.snapshot("t", table.space)))
            await carrier.publish(publisher.post(table.engine.messages("t", table.rows(5))))

    async def second() -> Edge:
        async with NatsCarrier(server.address) as carrier:
            await carrier.publish(publisher.post(table.engine.messages("t", table.rows(5))))
            edge = Edge(table.described, table.lo, table.hi)
            await carrier.run(edge, lambda delivery: None, until=lambda: True)
            return edge

    asyncio.run(first())
    server.kill()
    server.start()
    table.check(asyncio.run(second()))


@pytest.mark.slow
def test_an_edge_outlives_the_server(server: NatsServer) -> None:
    table, publisher = Table(), Publisher()
    done: list[bool] = []

    async def run() -> Edge:
        edge = Edge(table.described, table.lo, table.hi)
        async with NatsCarrier(server.address) as first:
            await first.publish(publisher.snapshot(table.engine.snapshot("t", table.space)))
            following = asyncio.create_task(first.run(edge, lambda delivery: None, until=lambda: bool(done)))
            await first.publish(publisher.post(table.engine.messages("t", table.rows(5))))
            await asyncio.sleep(0.2)
            server.kill()
            server.start()
            async with NatsCarrier(server.address) as second:
                await second.publish(publisher.post(table.engine.messages("t", table.rows(5))))
            done.append(True)
            await following
        return edge

    table.check(asyncio.run(run()))


@pytest.mark.slow
def test_an_edge_says_when_it_has_caught_up(server: NatsServer) -> None:
    table, publisher = Table(), Publisher()

    async def run() -> None:
        edge, earlier = (Edge(table.described, table.lo, table.hi) for _ in range(2))
        ready = asyncio.Event()
        # Any of the servers will do.
        async with NatsCarrier(f"{server.address},nats://127.0.0.1:1") as carrier:
            assert await carrier.spaces() == []
            await carrier.publish(publisher.open(table.space, Zones.build(table.points, 4)))
            assert await carrier.spaces() == [table.space]
            await carrier.publish(publisher.snapshot(table.engine.snapshot("t", table.space)))
            await carrier.run(earlier, lambda delivery: None, until=lambda: True)
            await carrier.publish(publisher.post(table.engine.messages("t", table.rows(5))))
            following = asyncio.create_task(carrier.run(edge, lambda delivery: None, caught_up=ready.set))
            await asyncio.wait_for(ready.wait(), 30)
            table.check(edge)
            assert edge.is_level_with(earlier)
            assert not earlier.is_level_with(edge)
            assert edge.seq > earlier.seq
            # It goes on from there.
            await carrier.publish(publisher.post(table.engine.messages("t", table.rows(5))))
            seq = edge.seq
            while edge.seq == seq:
                await asyncio.sleep(0.02)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    asyncio.run(run())
