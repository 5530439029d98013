"""Jobs on a real local Spark, each in a process of its own so that it can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

THRESHOLD = "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"
TOP = "SELECT symbol, per FROM stocks WHERE risk < 50 ORDER BY per LIMIT 3"
MATCH = "SELECT price FROM trades WHERE price > :low AND WEIGHT(shares >= 5, :weight)"
FILES = 6

JOB = f"""\
[job]
name = "test"
checkpoint = "state"
shards = 2

[tables.stocks]
path = "in/stocks"
key = "symbol"
columns = {{ symbol = "string", risk = "double", per = "double" }}
options = {{ maxFilesPerTrigger = 1 }}

[streams.trades]
format = "csv"
path = "in/trades"
columns = {{ price = "double", shares = "bigint" }}
options = {{ maxFilesPerTrigger = 1, header = true }}
top = 3

[[subscriptions]]
sql = "{THRESHOLD}"
params = "in/thresholds"

[[subscriptions]]
sql = "{MATCH}"
params = "in/matches"
format = "json"

[[subscriptions]]
sql = "{TOP}"
id = "cheap"

[sink]
path = "out"
"""


def test_a_job_tells_what_the_engine_tells(tmp_path: Path) -> None:
    write_input(tmp_path)
    finished = subprocess.run(command(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)
    rejects = rows_of(tmp_path / "out.rejects")
    assert sorted((r["source"], Path(r["path"]).name, r["position"]) for r in rejects) == [
        ("stocks", "garbage.parquet", -1),
        ("subscriptions 0", "a.parquet", 50),
        ("trades", "0.csv", 3),
    ]
    assert all(reject["reason"] for reject in rejects)


def test_nothing_is_lost_or_repeated_by_kill_9(tmp_path: Path) -> None:
    write_input(tmp_path)
    pauses = np.random.default_rng(7).uniform(0, 4, 5)
    for wanted, pause in enumerate(pauses):
        process = subprocess.Popen(
            command(),
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Kill the driver, the JVM and the Python workers, somewhere in or after the next batch.
        deadline = time.monotonic() + 240
        while process.poll() is None and batches(tmp_path) <= wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(pause)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = subprocess.run(command(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)


def test_files_listed_for_a_batch_that_was_never_planned_stay_a_batch_of_their_own(tmp_path: Path) -> None:
    """What a kill leaves between the listing of a batch's files and the batch's plan."""
    write_input(tmp_path)
    with (tmp_path / "job.toml").open("a") as job:
        job.write('[spark]\n"spark.sql.streaming.fileSource.log.compactInterval" = 2\n')
    later = [*(tmp_path / "in/stocks").glob("[3-9g]*"), *(tmp_path / "in/trades").glob("[4-9]*")]
    for path in later:
        path.rename(tmp_path / f"{path.parent.name} {path.name}")
    finished = subprocess.run(command(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    for path in later:
        (tmp_path / f"{path.parent.name} {path.name}").rename(path)
    sources = tmp_path / "state/sources"
    listed = [json.loads(line) for line in (sources / "stocks/2").read_text().splitlines()[1:]]
    early = [json.loads(line) for line in (sources / "stocks/1.compact").read_text().splitlines()[1:]]
    unplanned = {"stocks/3.compact": [*early, *listed, entry(tmp_path / "in/stocks/3.parquet", 3)]}
    unplanned["trades/4"] = [entry(tmp_path / "in/trades/4.csv", 4)]
    for name, entries in unplanned.items():
        assert not (sources / name).exists()
        (sources / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))
    finished = subprocess.run(command(), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)


def entry(path: Path, batch: int) -> dict[str, Any]:
    """A file as Spark's file source lists it."""
    return {"path": path.as_uri(), "timestamp": int(path.stat().st_mtime * 1000), "batchId": batch}


def command() -> list[str]:
    return [sys.executable, "-m", "tocsin", "run", "job.toml", "--once", "--master", "local[2,4]"]


def batches(folder: Path) -> int:
    return len(list((folder / "out").glob("batch=*")))


def write_input(folder: Path) -> None:
    """Six files a source, so that batches are the same each time; a few rows and one file are bad."""
    random = np.random.default_rng(1)
    (folder / "job.toml").write_text(JOB)
    for name in ("stocks", "trades", "thresholds", "matches"):
        (folder / "in" / name).mkdir(parents=True)
    lo = random.integers(0, 20, 50).astype(float)
    thresholds = {"id": [f"t{i}" for i in range(50)], "lo": lo, "hi": lo + 3, "tau": np.full(50, 90.0) + lo}
    good = pa.table(thresholds)
    bad = pa.table({"id": ["bad"], "lo": [0.0], "hi": [1.0], "tau": [-1.0]})
    pq.write_table(pa.concat_tables([good, bad]), folder / "in/thresholds/a.parquet")
    lines = [f'{{"id": "m{i}", "low": {i}, "weight": {1 + i % 3}}}' for i in range(20)]
    (folder / "in/matches/a.json").write_text("\n".join(lines))
    for number in range(FILES):
        prices, shares = random.integers(0, 25, 40), random.integers(1, 20, 40)
        rows = [f"{price},{share}" for price, share in zip(prices, shares, strict=True)]
        if number == 0:
            rows.insert(3, "dear,5")
        path = folder / f"in/trades/{number}.csv"
        path.write_text("\n".join(["price,shares", *rows]) + "\n")
        symbols = [f"S{i}" for i in random.choice(30, 10, replace=False)]
        table = pa.table(
            {"symbol": symbols, "risk": random.uniform(0, 100, 10), "per": random.uniform(1, 9, 10)}
        )
        pq.write_table(table, folder / f"in/stocks/{number}.parquet")
        for made in (path, folder / f"in/stocks/{number}.parquet"):
            os.utime(made, (1_700_000_000 + number, 1_700_000_000 + number))
    garbage = folder / "in/stocks/garbage.parquet"
    garbage.write_bytes(b"PAR1 this is no parquet file PAR1")
    os.utime(garbage, (1_700_000_100, 1_700_000_100))


def expected(folder: Path) -> list[tuple[Any, ...]]:
    """What one engine tells of the same batches."""
    engine = tocsin.Engine()
    engine.create_table(
        "stocks", key="symbol", columns={"symbol": "string", "risk": "double", "per": "double"}
    )
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint"})
    engine.subscribe_many(THRESHOLD, pq.read_table(folder / "in/thresholds/a.parquet").slice(0, 50))
    engine.subscribe_many(
        MATCH,
        {"id": [f"m{i}" for i in range(20)], "low": range(20), "weight": [1.0 + i % 3 for i in range(20)]},
    )
    engine.subscribe(TOP, id="cheap")
    told: list[dict[str, Any]] = []
    for number in range(FILES):
        lines = (folder / f"in/trades/{number}.csv").read_text().split()[1:]
        pairs = [line.split(",") for line in lines if not line.startswith("dear")]
        rows = [{"price": float(price), "shares": int(share)} for price, share in pairs]
        told += engine.publish("stocks", pq.read_table(folder / f"in/stocks/{number}.parquet")).to_pylist()
        told += engine.publish("trades", rows, top=3).to_pylist()
    return ordered(told)


def changes(folder: Path) -> list[tuple[Any, ...]]:
    """What the sink's folder holds for any reader."""
    return ordered(rows_of(folder / "out"))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("batch=*/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def ordered(told: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("subscription", "seq", "op", "key", "score", "rank")
    return sorted((tuple(change[name] for name in names) for change in told), key=repr)
