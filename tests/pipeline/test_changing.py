"""A job that changes between two runs: what may be added, what is refused, and the replay that remains.

All of it in one Spark session.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.spark_jobs import MATCH, THRESHOLD, TOP, changes, engine, ordered
from tocsin.cli.run import main
from tocsin.spark import Job, JobError, session, start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = [
    [{"price": float(i % 7), "shares": 1 + i % 5} for i in range(20)],
    [{"price": float(i % 9), "shares": 2 + i % 3} for i in range(20)],
]
STOCKS = [
    {"symbol": "A", "risk": 10.0, "per": 3.0},
    {"symbol": "B", "risk": 20.0, "per": 1.0},
    {"symbol": "C", "risk": 90.0, "per": 0.5},
]
LIMITS = [{"id": f"t{i}", "lo": float(i), "hi": float(i + 2), "tau": 20.0 + i} for i in range(6)]
LOWS = [{"id": f"m{i}", "low": float(i), "weight": 1.0} for i in range(4)]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    made = session(Job.of(first_job(tmp_path_factory.mktemp("unused"))), master="local[2,4]")
    yield made
    made.stop()


def first_job(folder: Path) -> dict[str, Any]:
    """Thresholds over trades."""
    for name in ("trades", "limits"):
        (folder / "in" / name).mkdir(parents=True, exist_ok=True)
    return {
        "job": {"name": "test", "checkpoint": str(folder / "state"), "shards": 2},
        "streams": {
            "trades": {
                "format": "json",
                "path": str(folder / "in/trades"),
                "columns": {"price": "double", "shares": "bigint"},
                "options": {"maxFilesPerTrigger": 1},
            }
        },
        "subscriptions": [{"sql": THRESHOLD, "params": str(folder / "in/limits"), "format": "json"}],
        "sink": {"path": str(folder / "out")},
        "spark": {"spark.ui.enabled": False},
    }


def later_job(folder: Path) -> dict[str, Any]:
    """The same with a table, a stream, a template and a statement more."""
    for name in ("stocks", "quotes", "lows"):
        (folder / "in" / name).mkdir(parents=True, exist_ok=True)
    made = first_job(folder)
    made["tables"] = {
        "stocks": {
            "path": str(folder / "in/stocks"),
            "key": "symbol",
            "columns": {"symbol": "string", "risk": "double", "per": "double"},
        }
    }
    made["streams"]["quotes"] = {**made["streams"]["trades"], "path": str(folder / "in/quotes")}
    made["subscriptions"] += [
        {"sql": MATCH.replace("trades", "quotes"), "params": str(folder / "in/lows"), "format": "json"},
        {"sql": TOP, "id": "cheap"},
    ]
    return made


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("\n".join(map(json.dumps, rows)))


def run_once(spark: SparkSession, job: dict[str, Any]) -> None:
    start(job, spark=spark, once=True).awaitTermination()


def test_sources_and_templates_are_added_others_refused_and_replayed(
    tmp_path: Path, spark: SparkSession
) -> None:
    first, emitted = first_job(tmp_path), []
    write(tmp_path / "in/limits/a.json", LIMITS)
    write(tmp_path / "in/trades/a.json", ROWS[0])
    run_once(spark, first)
    one = engine()
    one.subscribe_many(THRESHOLD, pa.Table.from_pylist(LIMITS))
    emitted += one.publish("trades", ROWS[0]).to_pylist()
    assert changes(tmp_path) == ordered(emitted)

    later = later_job(tmp_path)
    write(tmp_path / "in/lows/a.json", LOWS)
    write(tmp_path / "in/quotes/a.json", ROWS[0])
    pq.write_table(pa.Table.from_pylist(STOCKS), tmp_path / "in/stocks/a.parquet")
    write(tmp_path / "in/trades/b.json", ROWS[1])
    run_once(spark, later)
    one.create_stream("quotes", columns={"price": "double", "shares": "bigint"})
    one.subscribe_many(MATCH.replace("trades", "quotes"), pa.Table.from_pylist(LOWS))
    one.subscribe(TOP, id="cheap")
    emitted += one.publish("stocks", STOCKS).to_pylist()
    emitted += one.publish("trades", ROWS[1]).to_pylist()
    emitted += one.publish("quotes", ROWS[0]).to_pylist()
    assert changes(tmp_path) == ordered(emitted)

    described = (tmp_path / "state/tocsin.json").read_text()
    for refused, words in refusals(tmp_path):
        with pytest.raises(JobError, match=words) as caught:
            start(refused, spark=spark, once=True)
        assert "new checkpoint" in str(caught.value)
        assert "new sink path" in str(caught.value)
    assert (tmp_path / "state/tocsin.json").read_text() == described
    assert changes(tmp_path) == ordered(emitted)

    replayed = later_job(tmp_path)
    replayed["job"].update(shards=3, checkpoint=str(tmp_path / "state2"))
    with pytest.raises(JobError, match="belongs to another query"):
        start(replayed, spark=spark, once=True)
    replayed["sink"]["path"] = str(tmp_path / "out2")
    run_once(spark, replayed)
    assert changes(tmp_path, "out2") == ordered(emitted)


def refusals(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """Jobs that the state of `later_job` does not fit, and what is said of them."""
    job = later_job(folder)
    job["job"]["shards"] = 3
    yield job, "shards was 2 and is 3"
    job = later_job(folder)
    job["job"]["indexes"] = {"thresholds": "r-tree"}
    yield job, "indexes were {} and are {'thresholds': 'r-tree'}"
    job = later_job(folder)
    job["subscriptions"][0]["sql"] = THRESHOLD.replace("BETWEEN :lo AND :hi", "< :hi")
    yield job, "subscriptions 0 has changed"
    job = later_job(folder)
    job["tables"]["stocks"]["columns"]["name"] = "string"
    job["tables"]["stocks"]["key"] = "name"
    yield job, "table 'stocks' is declared differently"
    job = later_job(folder)
    job["subscriptions"][1:] = [job["subscriptions"][2]]
    del job["streams"]["quotes"]
    yield job, "stream 'quotes' has been removed"


def test_a_checkpoint_that_cannot_be_written_is_said(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    del spark  # the command finds it running
    (tmp_path / "file").write_text("")
    (tmp_path / "in/trades").mkdir(parents=True)
    (tmp_path / "job.toml").write_text(f"""\
[job]
name = "test"
checkpoint = "{tmp_path}/file/state"
[streams.trades]
format = "json"
path = "{tmp_path}/in/trades"
columns = {{ price = "double", shares = "bigint" }}
[[subscriptions]]
sql = "SELECT COUNT(*) FROM trades HAVING COUNT(*) >= 10"
id = "ten"
[sink]
path = "{tmp_path}/out"
""")
    assert main([str(tmp_path / "job.toml"), "--once"]) == 2
    said = capsys.readouterr().err
    assert f"checkpoint '{tmp_path}/file/state' cannot be written: " in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_a_missing_source_is_said_and_nothing_written(tmp_path: Path, spark: SparkSession) -> None:
    job = first_job(tmp_path)
    (tmp_path / "in/trades").rmdir()
    with pytest.raises(JobError, match="in/trades"):
        start(job, spark=spark)
    job["streams"]["trades"].update(format="kafka", path="trades")
    with pytest.raises(JobError, match=r'"spark\.jars\.packages" = "org\.apache\.spark:'):
        start(job, spark=spark)
    assert not (tmp_path / "state").exists()
    assert not (tmp_path / "out").exists()
