"""Changes on Spark in two ways: the table in each shard, or one operator whose messages feed the shards.

`python -m benchmarks.range_parts.chained`

The first is what a job does. The second is the least that it could be: its second operator keeps nothing but
the points of its subscriptions, which it has from a file and not from the state store, and only says who gets
which message. The ranks, and who falls out of an answer, would come on top.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from rich.console import Console
from typing_extensions import override

from benchmarks import machine
from benchmarks.range_parts.workloads import ROWS, draw, ranges
from tocsin.indexes.ranges.messages import Messages
from tocsin.indexes.ranges.points import Points
from tocsin.indexes.ranges.unicast import Receivers
from tocsin.pipeline.blobs import dump
from tocsin.pipeline.frames import packed_outputs
from tocsin.pipeline.operator import unpack_outputs
from tocsin.pipeline.shard import MESSAGES
from tocsin.pipeline.sharding import shard_keys
from tocsin.spark import Job, session, start

RESULTS = Path(__file__).parents[1] / "results" / "ranges.jsonl"
SQL = "SELECT id, y FROM rows WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 10"
TOLD = "subscription string, seq bigint, key string, score double"
SHARDS = 2
SUBSCRIPTIONS = 500_000
#: Rows a batch, and how many batches of each size; two before them register, compile and warm.
SIZES = {100: 3, 1000: 3}
TABLE_IN_EACH = "table in each shard"
CHAINED = "messages to the shards"


class Told(StatefulProcessor):
    """The second operator: who gets which message."""

    def __init__(self, keys: tuple[int, ...], path: str) -> None:
        self._keys = keys
        self._path = path

    def init(self, handle: StatefulProcessorHandle) -> None:
        """It keeps nothing in the store."""

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        names, receivers = _share(self._path, self._keys.index(key[0]))
        for data in [bytes(data) for frame in rows for data in frame["data"]]:
            with pa.ipc.open_stream(data) as reader:
                told = reader.read_all()
            slots, ends = receivers.list(_tiles(told))
            message = np.repeat(np.arange(told.num_rows), np.diff(ends, prepend=0))
            told = told.select(["seq", "key", "y"]).take(pa.array(message)).rename_columns({"y": "score"})
            told = told.add_column(0, "subscription", names.take(pa.array(slots)))
            yield pd.DataFrame({"data": [dump(told)]})

    def close(self) -> None:
        return


@lru_cache
def _share(path: str, number: int) -> tuple[pa.ChunkedArray, Receivers]:
    """Ids and points of a shard's subscriptions: half of them, as by hash."""
    table = pq.read_table(path)
    mine = table.take(pa.array(np.arange(number, table.num_rows, SHARDS)))
    points = Points()
    columns = (mine.column(name).to_numpy() for name in ("lo", "hi"))
    points.insert(np.arange(mine.num_rows, dtype=np.int32), *columns)
    return mine.column("id"), Receivers(points)


def _tiles(told: pa.Table) -> Messages:
    """The rectangles of messages."""
    bounds = [
        pc.list_element(told.column(name), 0).to_numpy().astype(np.float64)
        for name in ("inner_lo", "inner_hi", "outer_lo", "outer_hi")
    ]
    number = np.arange(told.num_rows, dtype=np.int32)
    return Messages.empty()._replace(
        **dict(zip(("inner_lo", "inner_hi", "outer_lo", "outer_hi"), bounds, strict=True)), note=number
    )


def main() -> None:
    """Run both, print seconds a batch, and add to the results."""
    console = Console(width=120)
    surroundings = machine.describe()
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        home = Path(folder)
        _write(home)
        spark = session(_job(home, TABLE_IN_EACH), master="local[2,4]", log=home / "spark.log")
        took = {way: _run(spark, home, way) for way in (TABLE_IN_EACH, CHAINED)}
        spark.stop()
    surroundings["numpy_scan_ms_after"] = round(machine.numpy_scan_ms(), 4)
    records = []
    for way, batches in took.items():
        at = 2
        for size, count in SIZES.items():
            seconds = batches[at : at + count]
            at += count
            span = f"{min(seconds):.2f} to {max(seconds):.2f}"
            console.print(f"{way}, {size} rows a batch: {median(seconds):.2f} s ({span})")
            records.append({"what": "chained", "way": way, "batch": size, "seconds": seconds})
    with RESULTS.open("a") as lines:
        lines.writelines(json.dumps({**record, "machine": surroundings}) + "\n" for record in records)


def _job(home: Path, way: str) -> Job:
    is_chained = way == CHAINED
    subscriptions = {"sql": SQL} if is_chained else {"sql": SQL, "params": str(home / "ranges")}
    folder = home / ("chained" if is_chained else "each")
    return Job.of(
        {
            "job": {
                "name": folder.name,
                "checkpoint": str(folder / "state"),
                "shards": SHARDS,
                "output": "messages" if is_chained else "changes",
            },
            "tables": {
                "rows": {
                    "path": str(home / "rows"),
                    "key": "id",
                    "columns": {"id": "bigint", "x": "double", "y": "double"},
                    "options": {"maxFilesPerTrigger": 1},
                }
            },
            "subscriptions": [subscriptions],
            "sink": {"path": str(folder / "out")},
        }
    )


def _run(spark: SparkSession, home: Path, way: str) -> list[float]:
    """Seconds of each batch of one way."""
    job = _job(home, way)
    if way == TABLE_IN_EACH:
        query = start(job, spark=spark, once=True)
    else:
        told = _told(packed_outputs(spark, job, {}), str(home / "ranges" / "all.parquet"))

        def write(batch: DataFrame, number: int) -> None:
            batch.write.parquet(f"{job.sink.path}/batch={number}")

        query = (
            told.writeStream.foreachBatch(write)
            .option("checkpointLocation", job.settings.checkpoint)
            .trigger(availableNow=True)
            .start()
        )
    seen: dict[int, float] = {}
    while True:
        is_active = query.isActive
        for progress in query.recentProgress:
            seen[progress["batchId"]] = progress["durationMs"]["triggerExecution"] / 1000
        if not is_active:
            break
        time.sleep(0.2)
    failure = query.exception()
    if failure is not None:
        raise failure
    return [seen[number] for number in sorted(seen)]


def _told(outputs: DataFrame, path: str) -> DataFrame:
    """Messages to all shards, and from there who gets them."""
    keys = tuple(shard_keys(SHARDS))

    def to_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for key in keys:
                shard = pa.array(np.full(batch.num_rows, key), pa.int32())
                yield pa.record_batch([shard, batch.column("data")], ["shard", "data"])

    messages = outputs.filter(outputs.kind == MESSAGES).select("data")
    packed = messages.mapInArrow(to_all, "shard int, data binary")
    told = packed.groupBy("shard").transformWithStateInPandas(
        Told(keys, path), "data binary", "append", "none"
    )
    return told.mapInArrow(unpack_outputs, TOLD)


def _write(home: Path) -> None:
    """The table as the first file, then events; a file a batch."""
    sizes = [100, *(size for size, count in SIZES.items() for _ in range(count))]
    table, events = draw(11, ROWS, sum(sizes))
    low, high = ranges(11, SUBSCRIPTIONS)
    (home / "ranges").mkdir()
    (home / "rows").mkdir()
    names = pa.array([f"s{number}" for number in range(SUBSCRIPTIONS)])
    pq.write_table(pa.table({"id": names, "lo": low, "hi": high}), home / "ranges" / "all.parquet")
    at = 0
    for number, size in enumerate([0, *sizes]):
        part = events.part(at, at + size) if number else table
        at += size
        rows = pa.table({"id": part.slot.astype("int64"), "x": part.x, "y": part.y})
        pq.write_table(rows, home / "rows" / f"{number:04}.parquet")
        time.sleep(0.02)


if __name__ == "__main__":
    # By its full name, by which Spark's workers can find what is in here.
    from benchmarks.range_parts import chained

    chained.main()
