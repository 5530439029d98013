"""kill -9 under load: what was acknowledged is there, nothing is told twice, and every list ends right."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gateway_parts.crowd import Crowd, Subscriber
from benchmarks.gateway_parts.market import SQL, Market
from benchmarks.gateway_parts.process import Gateway

from tocsin.client import Answer, AsyncClient, GatewayFailure

#: The crowd below is killed twice.
PEOPLE, ROWS, KILLS, BATCHES = 20, 200, 1, 40


async def follow(client: AsyncClient, name: str, heard: list[int], answers: dict[str, Answer]) -> None:
    async for update in client.watch(name):
        if update.kind == "changes":
            assert update.cursor is not None
            heard.append(int(update.cursor.partition(".")[2]))
        else:
            assert not heard, "the retained changes were enough to come back"
        answers[name] = update.answer


async def publish(client: AsyncClient, rows: list[dict[str, Any]], batch: str) -> None:
    """Until it is acknowledged."""
    while True:
        try:
            await client.publish("quotes", rows, batch=batch)
            return
        except GatewayFailure:
            await asyncio.sleep(0.1)


async def scenario(gateway: Gateway) -> None:
    market = Market(ROWS, PEOPLE)
    async with AsyncClient(gateway.url, gateway.key) as client:
        columns = {"symbol": "string", "place": "double", "price": "double"}
        await client.create_table("quotes", key="symbol", columns=columns)
        await client.publish("quotes", market.everything())
        await client.subscribe_many(SQL, market.params())
        heard: dict[str, list[int]] = {name: [] for name in market.names}
        answers: dict[str, Answer] = {}
        tasks = [asyncio.create_task(follow(client, name, heard[name], answers)) for name in market.names]
        while len(answers) < PEOPLE:
            await asyncio.sleep(0.05)
        for kill in range(KILLS):
            sending = asyncio.create_task(send(client, market, f"{kill}"))
            await asyncio.sleep(0.3)
            await asyncio.to_thread(gateway.kill)
            await asyncio.to_thread(gateway.start)
            await sending
        until = asyncio.get_running_loop().time() + 60
        while not all(holds(answers[name], market.top(n)) for n, name in enumerate(market.names)):
            assert asyncio.get_running_loop().time() < until, "a list is wrong"
            assert not any(task.done() for task in tasks)
            await asyncio.sleep(0.05)
        for numbers in heard.values():
            assert numbers == sorted(set(numbers)), "a change came twice, or late"
        results = {name: await client.result(name) for name in market.names}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for n, name in enumerate(market.names):
        assert [(row["symbol"], row["price"]) for row in results[name]] == market.top(n)


async def send(client: AsyncClient, market: Market, name: str) -> None:
    for number in range(BATCHES):
        await publish(client, market.change(5), f"{name}-{number}")


def holds(answer: Answer, expected: list[tuple[str, float]]) -> bool:
    return [(entry["key"], entry["score"]) for entry in answer.entries] == expected


@pytest.mark.slow
def test_killed_under_load(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    try:
        asyncio.run(scenario(gateway))
    finally:
        assert gateway.stop() == 0


class Logs:
    """What each of a crowd has heard, over all its connections."""

    def __init__(self, names: list[str]) -> None:
        self.answers = {name: Answer() for name in names}
        self.cursors: dict[str, str] = {}
        self.changes = 0

    def take(self, crowd: list[Subscriber]) -> None:
        """Take in what a crowd heard: first each begins with a snapshot, and later with its cursor."""
        for person in crowd:
            for _, message in person.messages():
                self._take(person.name, message)

    def _take(self, name: str, message: dict[str, Any]) -> None:
        kind, last = message["type"], self.cursors.get(name)
        if kind == "welcome":
            return
        assert kind in ("changes", "snapshot" if last is None else "resumed"), message
        number = int(message["cursor"].partition(".")[2])
        if kind == "changes":
            assert last is not None, "nothing comes before the snapshot"
            assert number > int(last.partition(".")[2]), f"{name} heard it twice, or late"
            self.answers[name].apply(message["changes"])
            self.changes += 1
        elif kind == "snapshot":
            self.answers[name].begin(message["changes"])
        self.cursors[name] = message["cursor"]


async def quiet(crowd: list[Subscriber]) -> None:
    """Until nothing more comes: what was told of an acknowledged batch is on its way by then."""
    heard = -1
    while heard != (heard := sum(len(person.heard) for person in crowd)):
        await asyncio.sleep(0.5)


async def crowded(gateway: Gateway, people: int, kills: int) -> int:
    """A crowd through some kills under load; how many lists were compared."""
    market = Market(people // 2, people)
    logs = Logs(market.names)
    # The first to subscribe may wait for a compiler.
    async with AsyncClient(gateway.url, gateway.key, timeout=240) as client:
        columns = {"symbol": "string", "place": "double", "price": "double"}
        await client.create_table("quotes", key="symbol", columns=columns)
        await client.publish("quotes", market.everything())
        await client.subscribe_many(SQL, market.params())
        crowd = Crowd(gateway.key, gateway.port)
        await crowd.gather(market.names)
        for kill in range(kills):
            sending = asyncio.create_task(send(client, market, f"crowd-{kill}"))
            while sum(len(person.heard) for person in crowd.people) < 3 * people:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(gateway.kill)
            assert not sending.done(), "it was killed while rows were coming"
            await asyncio.sleep(0.1)
            assert all(person.is_lost for person in crowd.people)
            logs.take(crowd.people)
            crowd.close()
            await asyncio.to_thread(gateway.start)
            crowd = Crowd(gateway.key, gateway.port)
            await crowd.gather(market.names, logs.cursors)
            await sending
        await quiet(crowd.people)
        logs.take(crowd.people)
        crowd.close()
    for number, name in enumerate(market.names):
        assert holds(logs.answers[name], market.top(number)), name
    assert logs.changes > people
    return len(logs.answers)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_crowd_comes_back_after_every_kill(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    people = 1_200 if most >= 3_000 else 300
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gateway = Gateway(tmp_path)
    try:
        assert asyncio.run(crowded(gateway, people, kills=2)) == people
    finally:
        assert gateway.stop() == 0
