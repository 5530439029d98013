"""A job on Spark that sends its messages through NATS: edges end with what one engine answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tocsin
from tests.network.servers import NatsServer
from tests.pipeline.spark_jobs import Running, run
from tests.pipeline.test_messages import COLUMNS, JOB, RANGES, SPARSE, TOP, VALUES, answers, write_input
from tocsin.network.areas import points_of
from tocsin.network.edges import Edge
from tocsin.network.zones import Zones
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job

pytest.importorskip("nats")

from tocsin.network.nats import NatsCarrier
from tocsin.pipeline.sinks.nats import NatsSink

LO, HI = (np.array(column) for column in zip(*RANGES, strict=True))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    made = NatsServer(tmp_path)
    made.start()
    yield made
    made.kill()


def space_of(sql: str) -> dict[str, Any]:
    engine = tocsin.Engine()
    engine.create_table("stocks", key="symbol", columns=COLUMNS)
    engine.create_space(sql)
    described: dict[str, Any] = engine.spaces("stocks")[0]
    return described


async def held(address: str, sql: str) -> list[list[tuple[str, float]]]:
    """What an edge holds that starts now."""
    edge = Edge(space_of(sql), LO, HI, root="alerts")
    async with NatsCarrier(address, root="alerts") as carrier:
        await carrier.run(edge, lambda delivery: None, until=lambda: True)
    return [[(entry.key, entry.y) for entry in edge.result(number)] for number in range(len(edge))]


def write_job(folder: Path, address: str, zones: Zones) -> None:
    if not (folder / "in").exists():
        write_input(folder)
    (folder / "zones.json").write_text(zones.to_json())
    options = f'{{ servers = "{address}", zones = "zones.json" }}'
    sink = f'[sink]\nformat = "nats"\npath = "alerts"\noptions = {options}'
    (folder / "job.toml").write_text(JOB.replace('[sink]\npath = "out"', sink))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_that_is_killed_and_given_more_zones_tells_everybody(
    server: NatsServer, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    zones = Zones.build(points_of(LO, HI), 2)
    write_job(folder, server.address, zones)
    with Running(folder) as job:
        commits = folder / "state" / "commits"
        assert job.wait_until(lambda: len(list(commits.glob("[0-9]*"))) >= 3), job.said
        job.kill()
    write_job(folder, server.address, zones.split(points_of(LO, HI), 4))
    finished = run(folder)
    assert finished.returncode == 0, finished.stderr
    expected = answers()
    for sql in (TOP, VALUES):
        mine = [expected[sql, lo, hi] for lo, hi in RANGES]
        mine = [sorted(answer) for answer in mine] if sql == VALUES else mine
        assert asyncio.run(held(server.address, sql)) == mine


@pytest.mark.parametrize(
    ("sink", "words"),
    [
        ({"path": "a.b"}, "letters, digits"),
        ({"options": {"server": "x"}}, "no option 'server'"),
        ({"options": {"zones": "nowhere.json"}}, "nowhere.json"),
    ],
)
def test_sinks_that_cannot_be_made(sink: dict[str, Any], words: str) -> None:
    job = Job.of({**SPARSE, "sink": {"format": "nats", **sink}})
    with pytest.raises(JobError, match=words):
        NatsSink(job, "owner")


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("job", {"name": "test", "checkpoint": "unused"}, "a nats sink sends messages"),
        ("sink", {"format": "nats", "rows": True}, "rows applies to changes"),
    ],
)
def test_jobs_that_cannot_be_sent(section: str, change: dict[str, Any], words: str) -> None:
    given = {**SPARSE, "sink": {"format": "nats"}, section: change}
    with pytest.raises(JobError, match=words):
        Job.of(given)
