"""The gateway under a crowd: from publish to delivery, nothing lost, nothing repeated."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gateway_parts.crowd import Crowd, Subscriber
from benchmarks.gateway_parts.market import SQL, Market
from benchmarks.gateway_parts.process import Gateway
from benchmarks.machine import describe
from tocsin.client import Answer, AsyncClient

#: Rows a request, and requests before it counts.
TOGETHER, WARM = 50, 20

#: Seconds that the last deliveries are waited for.
LATE = 2.0

#: Subscribers, seconds, rows a second.
RUNS = [(1_000, 10.0, 1_000), (10_000, 10.0, 250), (10_000, 10.0, 1_000)]
QUICK = [(1_000, 3.0, 500)]

#: Subscribers whose lists are compared after every batch; the others at the end.
FOLLOWED = 100

RESULTS = Path(__file__).parent / "results" / "gateway.jsonl"


def main(quick: bool) -> None:
    """Run, print, and write down what was measured."""
    measured = [asyncio.run(measure(*run)) for run in (QUICK if quick else RUNS)]
    for each in measured:
        print(json.dumps(each))
    with RESULTS.open("a") as lines:
        lines.write(json.dumps({"machine": describe() | {"quick": quick}, "runs": measured}) + "\n")


def market_of(people: int) -> Market:
    """A table of half as many rows as there are ranges: an update then changes about twenty lists."""
    return Market(people // 2, people)


async def measure(people: int, seconds: float, rate: int) -> dict[str, Any]:
    """One run: so many subscribers, so many seconds of publishing."""
    with tempfile.TemporaryDirectory() as folder:
        gateway = Gateway(Path(folder))
        try:
            return await _run(gateway, market_of(people), seconds, rate)
        finally:
            gateway.stop()


async def _run(gateway: Gateway, market: Market, seconds: float, rate: int) -> dict[str, Any]:
    async with AsyncClient(gateway.url, gateway.key) as client:
        columns = {"symbol": "string", "place": "double", "price": "double"}
        await client.create_table("quotes", key="symbol", columns=columns)
        await client.publish("quotes", market.everything())
        await client.subscribe_many(SQL, market.params())
        start = time.perf_counter()
        async with Crowd(gateway.key, gateway.port) as crowd:
            await crowd.gather(market.names)
            connecting = time.perf_counter() - start
            for _ in range(WARM):
                await client.publish("quotes", market.change(TOGETHER))
            # Subscribers only write down what they hear: to look through that for cycles would be measured.
            gc.collect()
            gc.disable()
            cpu, own = gateway.cpu_seconds(), time.process_time()
            begin = time.perf_counter()
            batches, sent = await _publish(client, market, seconds, rate)
            took = time.perf_counter() - begin
            await asyncio.sleep(LATE)
            cpu, own = gateway.cpu_seconds() - cpu, time.process_time() - own
            gc.enable()
    report = check(crowd.people, market_of(len(market.names)), batches, sent)
    return {
        "subscribers": len(crowd.people),
        "seconds": seconds,
        "rows_per_second": rate,
        "connecting_seconds": round(connecting, 1),
        "took_seconds": round(took, 1),
        "load": round(os.getloadavg()[0], 1),
        "server_cores": round(cpu / took, 2),
        "clients_cores": round(own / took, 2),
        "server_us_per_delivery": round(1e6 * cpu / max(1, report["deliveries"])),
        **report,
    }


async def _publish(
    client: AsyncClient, market: Market, seconds: float, rate: int
) -> tuple[list[list[dict[str, Any]]], dict[int, float]]:
    """Publish at a steady pace, whatever the answers take; batches in order, and when each was sent."""
    batches: list[list[dict[str, Any]]] = []
    sent: dict[int, float] = {}
    waiting: set[asyncio.Task[None]] = set()

    async def send(rows: list[dict[str, Any]], when: float) -> None:
        receipt = await client.publish("quotes", rows)
        sent[int(receipt["cursor"].partition(".")[2])] = when

    begin = time.perf_counter()
    for number in range(int(seconds * rate / TOGETHER)):
        due = begin + number * TOGETHER / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if waiting:
            # One at a time, so that batches arrive in order; a late one is measured from when it was due.
            await asyncio.wait(waiting)
        rows = market.change(TOGETHER)
        batches.append(rows)
        task = asyncio.create_task(send(rows, due))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
    if waiting:
        await asyncio.wait(waiting)
    return batches, sent


def check(
    crowd: list[Subscriber], oracle: Market, batches: list[list[dict[str, Any]]], sent: dict[int, float]
) -> dict[str, Any]:
    """Delays of all deliveries, and whether every list was right. Raises AssertionError if one was not."""
    delays, deliveries = [], 0
    for _ in range(WARM):
        oracle.change(TOGETHER)
    answers = [Answer() for _ in crowd]
    told: list[dict[int, list[dict[str, Any]]]] = []
    for person, answer in zip(crowd, answers, strict=True):
        assert not person.is_lost, f"{person.name} lost its connection"
        later: dict[int, list[dict[str, Any]]] = {}
        last = 0
        for when, message in person.messages():
            if message["type"] == "snapshot":
                answer.begin(message["changes"])
            elif message["type"] == "changes":
                number = int(message["cursor"].partition(".")[2])
                assert number > last, f"{person.name} heard {number} after {last}"
                last = number
                later[number] = message["changes"]
                if number in sent:
                    delays.append(when - sent[number])
                    deliveries += 1
        told.append(later)
    first = min(sent)
    for number in sorted({number for later in told for number in later if number < first}):
        for later, answer in zip(told, answers, strict=True):
            answer.apply(later.pop(number, ()))
    for number, rows in zip(sorted(sent), batches, strict=True):
        _take(oracle, rows)
        for place, (later, answer) in enumerate(zip(told, answers, strict=True)):
            if number in later:
                answer.apply(later[number])
            if place < FOLLOWED:
                _compare(crowd[place].name, answer, oracle.top(place))
    for place, answer in enumerate(answers):
        _compare(crowd[place].name, answer, oracle.top(place))
    p50, p99, worst = np.percentile(delays, [50, 99, 100]) * 1000
    return {
        "deliveries": deliveries,
        "deliveries_per_row": round(deliveries / (len(batches) * TOGETHER), 1),
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "worst_ms": round(float(worst), 1),
    }


def _take(oracle: Market, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        oracle.price[int(row["symbol"][1:])] = row["price"]


def _compare(name: str, answer: Answer, expected: list[tuple[str, float]]) -> None:
    held = [(entry["key"], entry["score"]) for entry in answer.entries]
    assert held == expected, f"{name} holds {held}, and should hold {expected}"
