"""Changes on Spark in two ways: the table in each shard, or one operator whose messages feed the shards.

`python -m benchmarks.range_parts.chained`

The first is what a job does. In the second, an operator makes messages of the table, and the shards of a
second one, which know only their subscriptions, keep the answers of all of them, apply the messages and tell
the same changes. Where there is a choice it favours the second way: its shards have their subscriptions from
a file, their answers are files mapped into memory, and the state store gets the log of messages alone.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, Literal, NamedTuple

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
from benchmarks.range_parts.answers_kernels import Answers, Changes, Told, apply_told, write_changes
from benchmarks.range_parts.workloads import draw, ranges
from tocsin.arrays.changes import LEAVE, OP_NAMES
from tocsin.indexes.ranges.messages.messages import Messages
from tocsin.indexes.ranges.messages.receivers import Receivers
from tocsin.indexes.ranges.structures.points import Points
from tocsin.pipeline.blobs import dump
from tocsin.pipeline.frames import packed_outputs
from tocsin.pipeline.operator import unpack_outputs
from tocsin.pipeline.shard import MESSAGES
from tocsin.pipeline.sharding import shard_keys
from tocsin.spark import Job, session, start

RESULTS = Path(__file__).parents[1] / "results" / "ranges.jsonl"
K = 10
SQL = f"SELECT id, y FROM rows WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT {K}"
TOLD = "subscription string, seq bigint, op string, key string, score double, rank int"
SHARDS = 2
ROWS = 20_000
SUBSCRIPTIONS = 200_000
#: Rows a batch, and how many batches of each size; two before them register, compile and warm.
SIZES = {100: 3, 1000: 3}
TABLE_IN_EACH = "table in each shard"
CHAINED = "messages to the shards"


class AnswersProcessor(StatefulProcessor):
    """The second operator: applies messages to the answers of its subscriptions, and tells what changed."""

    def __init__(self, keys: tuple[int, ...], path: str) -> None:
        self._keys = keys
        self._path = path

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._log = handle.getListState("log", "data binary")

    @override
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        share = share_of(self._path, self._keys.index(key[0]))
        given = [bytes(data) for frame in rows for data in frame["data"]]
        for data in given:
            self._log.appendValue((data,))
        told = pa.concat_tables(pa.ipc.open_stream(data).read_all() for data in given)
        changes = changes_of_share(share, told.sort_by([("seq", "ascending"), ("n", "ascending")]))
        yield pd.DataFrame({"data": [dump(changes)]})

    def close(self) -> None:
        return


class Share(NamedTuple):
    """What a shard knows."""

    names: pa.ChunkedArray
    receivers: Receivers
    answers: Answers


@lru_cache
def share_of(path: str, number: int) -> Share:
    """A shard's subscriptions, half of them as by hash, and their answers, which all workers see."""
    table = pq.read_table(path)
    mine = table.take(pa.array(np.arange(number, table.num_rows, SHARDS)))
    points = Points()
    columns = (mine.column(name).to_numpy() for name in ("lo", "hi"))
    points.insert(np.arange(mine.num_rows, dtype=np.int32), *columns)
    folder = Path(path).parents[1] / f"answers-{number}"
    is_new = not folder.exists()
    folder.mkdir(exist_ok=True)
    n = mine.num_rows
    shapes = {"key": (n, K + 1), "y": (n, K + 1), "born": (n, K + 1), "size": (n,)}
    shapes |= {f"old_{name}": shape for name, shape in shapes.items()} | {"met": (n,)}
    dtypes = {"y": np.float64, "old_y": np.float64, "born": np.int64, "old_born": np.int64, "met": np.int64}
    mode: Literal["w+", "r+"] = "w+" if is_new else "r+"
    columns_of = {
        name: np.asarray(np.memmap(folder / name, dtypes.get(name, np.int32), mode, shape=shape))
        for name, shape in shapes.items()
    }
    return Share(mine.column("id"), Receivers(points), Answers(**columns_of))


def changes_of_share(share: Share, messages: pa.Table) -> pa.Table:
    """Apply a batch of messages to the answers: what is different after it."""
    slots, ends = share.receivers.list(_rectangles(messages))
    seq = int(pc.max(messages.column("seq")).as_py())
    told = Told(
        slots.copy(),
        ends,
        pc.cast(messages.column("key"), pa.int32()).to_numpy().copy(),
        messages.column("y").to_numpy().copy(),
        messages.column("born").to_numpy().copy(),
        pc.cast(messages.column("gone"), pa.int32()).to_numpy().copy(),
    )
    met = np.empty(len(share.names), np.int32)
    n_met = apply_told(share.answers, told, seq + 1, K, met)
    room = 2 * K * n_met
    ints = (np.empty(room, np.int32) for _ in range(3))
    found = Changes(next(ints), np.empty(room, np.int8), next(ints), np.empty(room), next(ints))
    count = write_changes(share.answers, met, n_met, found)
    slot, op, key, score, rank = (column[:count] for column in found)
    is_gone = op == LEAVE
    return pa.table(
        {
            "subscription": share.names.take(pa.array(slot)),
            "seq": np.full(count, seq),
            "op": pa.array(OP_NAMES).take(pa.array(op)),
            "key": pc.cast(pa.array(key), pa.string()),
            "score": pa.array(score, mask=is_gone),
            "rank": pa.array(rank, mask=is_gone),
        }
    )


def _rectangles(told: pa.Table) -> Messages:
    """The rectangles of messages."""
    bounds = [
        pc.list_element(told.column(name), 0).to_numpy().astype(np.float64)
        for name in ("inner_lo", "inner_hi", "outer_lo", "outer_hi")
    ]
    number = np.arange(told.num_rows, dtype=np.int32)
    return Messages.empty()._replace(
        **dict(zip(("inner_lo", "inner_hi", "outer_lo", "outer_hi"), bounds, strict=True)), payload=number
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
        is_same = all(_rows(home, "each", batch) == _rows(home, "chained", batch) for batch in took[CHAINED])
        console.print("both tell the same" if is_same else "they do not tell the same")
    surroundings["numpy_scan_ms_after"] = round(machine.numpy_scan_ms(), 4)
    records = []
    for way, took_of in took.items():
        batches = list(took_of.values())
        at = 2
        for size, count in SIZES.items():
            seconds = batches[at : at + count]
            at += count
            span = f"{min(seconds):.2f} to {max(seconds):.2f}"
            console.print(f"{way}, {size} rows a batch: {median(seconds):.2f} s ({span})")
            records.append(
                {"what": "chained", "way": way, "batch": size, "seconds": seconds, "is_same": is_same}
            )
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


def _rows(home: Path, way: str, batch: int) -> list[tuple[object, ...]]:
    """What one way told in a batch, in order."""
    names = ["subscription", "op", "key", "score", "rank"]
    files = sorted((home / way / "out" / f"batch={batch}").glob("*.parquet"))
    table = pa.concat_tables(pq.ParquetFile(file).read(names) for file in files)
    columns = table.sort_by([(name, "ascending") for name in names[:3]]).to_pydict().values()
    return list(zip(*columns, strict=True))


def _run(spark: SparkSession, home: Path, way: str) -> dict[int, float]:
    """Seconds of each batch of one way, by its number."""
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
    return dict(sorted(seen.items()))


def _told(outputs: DataFrame, path: str) -> DataFrame:
    """Messages to all shards, and from there what changes."""
    keys = tuple(shard_keys(SHARDS))

    def to_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for key in keys:
                shard = pa.array(np.full(batch.num_rows, key), pa.int32())
                yield pa.record_batch([shard, batch.column("data")], ["shard", "data"])

    messages = outputs.filter(outputs.kind == MESSAGES).select("data")
    packed = messages.mapInArrow(to_all, "shard int, data binary")
    told = packed.groupBy("shard").transformWithStateInPandas(
        AnswersProcessor(keys, path), "data binary", "append", "none"
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
