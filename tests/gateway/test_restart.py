"""kill -9 under load: what was acknowledged is there, nothing is told twice, and every list ends right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from benchmarks.gateway_parts.market import SQL, Market
from benchmarks.gateway_parts.process import Gateway

from tocsin.client import Answer, AsyncClient, GatewayFailure

PEOPLE, ROWS, KILLS, BATCHES = 20, 200, 2, 40


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
        except (httpx.TransportError, GatewayFailure):
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
