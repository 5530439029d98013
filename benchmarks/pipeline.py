"""The pipeline: threshold subscriptions on Spark, batch by batch, against the plain Spark way."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from tocsin.pipeline.frames import warm_folder
from tocsin.spark import Job, session, start

RESULTS = Path(__file__).parent / "results" / "pipeline.jsonl"
SQL = "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"
#: The line that prices lie on, and the part of it that a subscription spans.
DOMAIN, WIDTH = 100_000, 10_000
MASTER = "local[2,4]"
#: Of the plain way; a job has as many batches, or more.
REPEATS = 5
#: Rows of the batches before those that count.
FIRST = (10_000, 10_000)
#: Width of the bins of the binned join: a subscription lies in eleven.
BIN = 1000


class Batch(NamedTuple):
    """One micro-batch: its rows, its seconds, and where they went."""

    rows: int
    seconds: float
    #: seconds by stage, as Spark and the shards tell; shards work side by side
    stages: dict[str, float]


def main(quick: bool) -> None:
    """Measure, print tables, and add to the results."""
    console = Console(width=140)
    surroundings = machine.describe() | {"quick": quick}
    console.print(surroundings)
    subscriptions = 100_000 if quick else 1_000_000
    counted = REPEATS if quick else 8
    sizes = {10_000: 10, 100_000: counted, 400_000: counted} | ({} if quick else {2_000_000: counted})
    few, events = (10_000, 20_000) if quick else (100_000, 20_000)
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        home = Path(folder)
        spark = session(_job(home / "grown"), master=MASTER, log=home / "spark.log")
        grown = _measure_job(
            home / "grown", subscriptions, [n for n, count in sizes.items() for _ in range(count)]
        )
        console.print(_sizes_table(subscriptions, grown))
        _measure_job(home / "whole", subscriptions, [400_000] * 4, shards=1)
        # Its Python workers, which remember their shards, go with the session.
        spark.stop()
        spark = session(_job(home / "grown"), master=MASTER, log=home / "spark.log")
        recovery = {
            subscriptions // 2: _measure_recovery(home / "grown", shards=2),
            subscriptions: _measure_recovery(home / "whole", shards=1),
        }
        for size, seconds in recovery.items():
            console.print(f"a shard of {size:,} from the state store: {seconds:.1f} s")
        plain = _measure_plain(spark, home / "plain", few, events)
        ours = _measure_job(home / "few", few, [400_000] * counted)
        rates = [batch.rows / batch.seconds for batch in ours]
        rate = float(np.median(rates))
        for name, slow in plain.items():
            times = rate / float(np.median(slow))
            console.print(f"{few:,} subscriptions: {rate:,.0f} events/s, {times:,.0f} times the {name} join")
        stored = {
            count: _bytes_of(home / name / "state" / "state") / (2 * sum(batch.rows for batch in batches))
            for count, name, batches in ((subscriptions, "grown", grown), (few, "few", ours))
        }
        for count, used in stored.items():
            console.print(f"{count:,} subscriptions: {used:.1f} bytes in the checkpoint a row and shard")
        written = {
            "subscriptions": subscriptions,
            "batches": [batch._asdict() for batch in grown],
            "recovery_s": recovery,
            "checkpoint_bytes_a_row_and_shard": stored,
            "few": {
                "subscriptions": few,
                "events_per_s": rates,
                **{f"{name}_events_per_s": slow for name, slow in plain.items()},
            },
            "machine": surroundings | {"numpy_scan_ms_after": machine.numpy_scan_ms()},
        }
        spark.stop()
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a") as lines:
        lines.write(json.dumps(written) + "\n")
    console.print(f"written: {RESULTS.name}")


def _job(folder: Path, shards: int = 2) -> Job:
    return Job.of(
        {
            "job": {"name": folder.name, "checkpoint": str(folder / "state"), "shards": shards},
            "streams": {
                "trades": {
                    "path": str(folder / "trades"),
                    "columns": {"price": "double", "shares": "bigint"},
                    "options": {"maxFilesPerTrigger": 1},
                }
            },
            "subscriptions": [{"sql": SQL, "params": str(folder / "thresholds")}],
            "sink": {"path": str(folder / "out")},
        }
    )


def _measure_job(folder: Path, subscriptions: int, sizes: list[int], shards: int = 2) -> list[Batch]:
    """A job over one file a batch; the first batches, which register and compile, are left out."""
    _write_input(folder, subscriptions, sizes)
    return _run(folder, [*FIRST, *sizes], shards)[len(FIRST) :]


def _write_input(folder: Path, subscriptions: int, sizes: list[int]) -> None:
    _write_thresholds(folder, subscriptions, events=sum(sizes))
    for number, rows in enumerate([*FIRST, *sizes]):
        _write_trades(folder, number, rows)


def _run(folder: Path, sizes: Iterable[int], shards: int) -> list[Batch]:
    query = start(_job(folder, shards), once=True)
    seen: dict[int, dict[str, Any]] = {}
    told: dict[int, list[dict[str, Any]]] = {}
    while True:
        active = query.isActive
        for progress in query.recentProgress:
            seen[progress["batchId"]] = progress["durationMs"]
        path = folder / "state" / "tocsin-progress.json"
        if path.exists():
            for known in json.loads(path.read_text())["batches"]:
                told[known["batch"]] = known["shards"]
        if not active:
            break
        time.sleep(0.2)
    failure = query.exception()
    if failure is not None:
        raise failure
    batches = []
    for number, rows in zip(sorted(seen), sizes, strict=False):
        spark = {
            f"spark {name}": took / 1000 for name, took in seen[number].items() if name != "triggerExecution"
        }
        ours = {
            f"shard {name}": max(shard[f"{name}_seconds"] for shard in told[number])
            for name in ("find", "apply", "keep")
        }
        batches.append(Batch(rows, seen[number]["triggerExecution"] / 1000, spark | ours))
    return batches


def _measure_recovery(folder: Path, shards: int) -> float:
    """Seconds until a shard is back when this machine remembers nothing of it."""
    for path in warm_folder().glob("*"):
        path.unlink()
    _write_trades(folder, 10_000, 10_000)
    query = start(_job(folder, shards), once=True)
    query.awaitTermination()
    known = json.loads((folder / "state" / "tocsin-progress.json").read_text())["batches"][-1]["shards"]
    assert {shard["found"] for shard in known} == {"store"}, known
    return max(float(shard["find_seconds"]) for shard in known)


def _measure_plain(
    spark: SparkSession, folder: Path, subscriptions: int, events: int
) -> dict[str, list[float]]:
    """Events/s of the plain ways, in turn, a first round left out: all pairs, or those of one bin."""
    _write_thresholds(folder, subscriptions, events)
    _write_trades(folder, 0, events)
    trades = spark.read.parquet(str(folder / "trades")).repartition(2)
    ranges = spark.read.parquet(str(folder / "thresholds"))
    inside = trades.price.between(ranges.lo, ranges.hi)
    # What those do who have no range join: an equality join by bins, and the range as a filter.
    bins = f.sequence(f.floor(ranges.lo / BIN), f.floor(ranges.hi / BIN))
    binned = ranges.withColumn("bin", f.explode(bins))
    placed = trades.withColumn("bin", f.floor(trades.price / BIN))
    near = (placed.bin == binned.bin) & placed.price.between(binned.lo, binned.hi)
    ways = {
        "plain": trades.join(f.broadcast(ranges), inside),
        "binned": placed.join(f.broadcast(binned), near),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(REPEATS + 1):
        for name, joined in ways.items():
            began = time.perf_counter()
            joined.groupBy("id").agg(f.sum("shares")).write.format("noop").mode("overwrite").save()
            if repeat:
                rates[name].append(events / (time.perf_counter() - began))
    return rates


def _write_thresholds(folder: Path, count: int, events: int) -> None:
    """Ranges of a tenth of the line; half of them are reached in the course of the run."""
    random = np.random.default_rng(1)
    low = random.integers(0, DOMAIN - WIDTH, count).astype(np.float64)
    most = 2 * events * 100 * WIDTH / DOMAIN
    columns = {
        "id": pa.array([f"t{number}" for number in range(count)]),
        "lo": low,
        "hi": low + WIDTH,
        "tau": random.uniform(most / 100, most, count),
    }
    path = folder / "thresholds" / "all.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def _write_trades(folder: Path, number: int, rows: int) -> None:
    random = np.random.default_rng(number)
    table = pa.table(
        {
            "price": random.integers(0, DOMAIN, rows).astype(np.float64),
            "shares": np.maximum(np.rint(random.normal(100, 15, rows)), 1).astype(np.int64),
        }
    )
    path = folder / "trades" / f"{number:06d}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _sizes_table(subscriptions: int, batches: list[Batch]) -> Table:
    table = Table(title=f"{subscriptions:,} threshold subscriptions, {MASTER}")
    for column in ("rows a batch", "batches", "p50 s", "p99 s", "events/s at p50", "where the time goes"):
        table.add_column(column, justify="right")
    for rows in sorted({batch.rows for batch in batches}):
        mine = [batch for batch in batches if batch.rows == rows]
        took = [batch.seconds for batch in mine]
        median = float(np.median(took))
        stages = {
            name: float(np.median([batch.stages.get(name, 0) for batch in mine])) for name in mine[0].stages
        }
        largest = sorted(stages.items(), key=lambda stage: -stage[1])
        shown = ", ".join(f"{name} {seconds:.2f}" for name, seconds in largest if seconds >= 0.02)
        table.add_row(
            f"{rows:,}",
            str(len(mine)),
            f"{median:.2f}",
            f"{np.percentile(took, 99):.2f}",
            f"{rows / median:,.0f}",
            shown,
        )
    return table


def _measure_one_size(folder: Path, subscriptions: int, rows: int, batches: int, is_prepared: bool) -> None:
    """One size of micro-batches alone, over input that may be there already; adds to the results."""
    sizes = [rows] * batches
    if not is_prepared:
        _write_input(folder, subscriptions, sizes)
    surroundings = machine.describe() | {"quick": False}
    spark = session(_job(folder), master=MASTER, log=folder / "spark.log")
    found = _run(folder, [*FIRST, *sizes], shards=2)[len(FIRST) :]
    spark.stop()
    Console(width=140).print(_sizes_table(subscriptions, found))
    surroundings["numpy_scan_ms_after"] = machine.numpy_scan_ms()
    line = {
        "subscriptions": subscriptions,
        "batches": [batch._asdict() for batch in found],
        "machine": surroundings,
    }
    with RESULTS.open("a") as lines:
        lines.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description="one size alone")
    parser.add_argument("folder", type=Path, help="where its files are to be, or are")
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--prepare", action="store_true", help="only write the input")
    parser.add_argument("--prepared", action="store_true", help="the input is there")
    options = parser.parse_args()
    if options.prepare:
        _write_input(options.folder, options.subscriptions, [options.rows] * options.batches)
    else:
        _measure_one_size(
            options.folder, options.subscriptions, options.rows, options.batches, options.prepared
        )
