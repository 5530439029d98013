"""A job on Spark feeds a gateway over NATS: clients' lists are those of a scan of the same files."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.gateway_parts.process import Gateway

from tests.network.servers import NatsServer
from tests.pipeline.spark_jobs import QUICK, Running
from tocsin.client import Answer, AsyncClient

pytest.importorskip("nats")

TOP = "SELECT symbol, per FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 3"
LEAST = "SELECT MIN(per) FROM stocks WHERE risk BETWEEN :lo AND :hi"
VALUES = "SELECT DISTINCT per FROM stocks WHERE risk BETWEEN :lo AND :hi"

JOB = f"""\
[job]
name = "alerts"
checkpoint = "state"
output = "messages"
snapshot_after = 30

[tables.stocks]
format = "csv"
path = "in/stocks"
key = "symbol"
columns = {{ symbol = "string", risk = "double", per = "double" }}
options = {{ header = true, maxFilesPerTrigger = 1 }}

[[subscriptions]]
sql = "{TOP}"

[[subscriptions]]
sql = "{LEAST}"

[[subscriptions]]
sql = "{VALUES}"

[sink]
format = "nats"
path = "alerts"
options = {{ servers = "SERVERS" }}

{QUICK}"""

Row = tuple[str, float, float]
Entries = list[tuple[str, float | None]]

#: Every client is one statement and one range.
RANGES = [(0.0, 9.0), (2.0, 5.0), (4.0, 4.0), (7.0, 12.0), (13.0, 20.0)]


class Market:
    """Files of stocks, and what they come to: the last row of each symbol, in the order of arrival."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "in/stocks"
        self._folder.mkdir(parents=True)
        self._random = random.Random(11)
        self._files = 0
        self._rows: dict[str, Row] = {}

    def write(self, files: int) -> None:
        for _ in range(files):
            draw = self._random
            rows = [(f"S{draw.randrange(25)}", draw.randrange(14), draw.randrange(8)) for _ in range(12)]
            self._rows |= {symbol: (symbol, float(risk), float(per)) for symbol, risk, per in rows}
            lines = ["symbol,risk,per", *(",".join(map(str, row)) for row in rows)]
            # Written aside, so that nobody reads half a file.
            aside = self._folder / f".{self._files:04}"
            aside.write_text("\n".join(lines) + "\n")
            # Spark takes the oldest first.
            os.utime(aside, (1_700_000_000 + self._files, 1_700_000_000 + self._files))
            aside.rename(self._folder / f"{self._files:04}.csv")
            self._files += 1

    def answer(self, sql: str, lo: float, hi: float) -> Entries:
        """By looking at all rows. Of equals, the symbol that came first is first."""
        inside = [(symbol, per) for symbol, risk, per in self._rows.values() if lo <= risk <= hi]
        best = sorted(inside, key=lambda row: row[1])
        if sql == TOP:
            return [*best[:3]]
        if sql == LEAST:
            return [("", best[0][1] if best else None)]
        return sorted((str(per), per) for per in {per for _, per in inside})


def holds(sql: str, answer: Answer) -> Entries:
    if sql == LEAST:
        return [("", answer.value)]
    entries: Entries = [(entry["key"], entry["score"]) for entry in answer.entries]
    if sql == VALUES:
        return sorted((str(entry["row"]["per"]), entry["row"]["per"]) for entry in answer.entries)
    return entries


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    made = NatsServer(tmp_path)
    made.start()
    yield made
    made.kill()


async def follow(client: AsyncClient, name: str, answers: dict[str, Answer]) -> None:
    async for update in client.watch(name):
        answers[name] = update.answer


async def scenario(gateway: Gateway, market: Market, job: Running) -> int:
    """Subscribe, let rows come, subscribe more, kill the gateway, let rows come; the lists compared."""
    asked = {f"c{n}-{lo:g}": (sql, lo, hi) for n, sql in enumerate((TOP, LEAST, VALUES)) for lo, hi in RANGES}
    names = list(asked)
    answers: dict[str, Answer] = {}
    tasks: list[asyncio.Task[None]] = []

    async def until_right(names: list[str], what: str) -> int:
        wrong: dict[str, tuple[Entries, Entries]] = {}
        for _ in range(1200):
            held = {name: holds(asked[name][0], answers.get(name, Answer())) for name in names}
            wrong = {
                name: (held[name], right)
                for name in names
                if held[name] != (right := market.answer(*asked[name]))
            }
            if not wrong:
                return len(names)
            assert job.process.poll() is None, job.said
            await asyncio.sleep(0.1)
        raise AssertionError(f"{what}, what is held and should be: {wrong}\n{job.said}")

    async def begin(client: AsyncClient, some: list[str]) -> None:
        for name in some:
            sql, lo, hi = asked[name]
            await client.subscribe(sql, {"lo": lo, "hi": hi}, id=name)
            tasks.append(asyncio.create_task(follow(client, name, answers)))

    async with AsyncClient(gateway.url, gateway.key) as client:
        for _ in range(2400):
            if len(offered := await client.spaces()) == 3:
                break
            assert job.process.poll() is None, job.said
            await asyncio.sleep(0.1)
        assert {each["source"] for each in offered} == {"stocks"}
        assert {each["sql"] for each in offered} >= {LEAST, VALUES}
        await begin(client, names[::2])
        compared = await until_right(names[::2], "after the first files")
        market.write(3)
        await begin(client, names[1::2])
        compared += await until_right(names, "those who came later")
        await asyncio.to_thread(gateway.kill)
        market.write(2)
        await asyncio.to_thread(gateway.start)
        market.write(2)
        compared += await until_right(names, "after kill -9")
        for name, (sql, lo, hi) in asked.items():
            rows = await client.result(name)
            if sql == TOP:
                assert [(row["symbol"], row["per"]) for row in rows] == market.answer(sql, lo, hi)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return compared


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_spark_job_feeds_a_gateway(nats_server: NatsServer, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "job.toml").write_text(JOB.replace("SERVERS", nats_server.address))
    market = Market(folder)
    market.write(3)
    with Running(folder, "--master", "local[2,4]") as job:
        gateway = Gateway(tmp_path / "data", "--nats", nats_server.address, "--root", "alerts")
        try:
            compared = asyncio.run(scenario(gateway, market, job))
        finally:
            assert gateway.stop() == 0
    assert compared == 38
