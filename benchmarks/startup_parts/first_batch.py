"""The first micro-batch of a job on Spark: `python first_batch.py tocsin|noop FOLDER` prints its seconds.

FOLDER holds `trades` and `thresholds`. It runs in an environment with the wheel, which has no benchmarks.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tocsin.spark import Job, session, start

SQL = "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"
MASTER = "local[2,4]"
SHARDS = 2


class Noop(StatefulProcessor):
    """Counts the rows of a key in its state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", "rows bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        before = self._count.get()
        count = (before[0] if before else 0) + sum(map(len, rows))
        self._count.update((count,))
        yield pd.DataFrame({"shard": [key[0]], "rows": [count]})

    def close(self) -> None:
        return


def start_noop(spark: SparkSession, folder: Path) -> StreamingQuery:
    """Trades into as many keys as there are shards, counts out into files."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("append").parquet(str(folder / "out"))

    reader = spark.readStream.name("trades").schema("price double, shares bigint")
    trades = reader.parquet(str(folder / "trades"))
    keyed = trades.withColumn("shard", trades.shares % SHARDS)
    counts = keyed.groupBy("shard").transformWithStateInPandas(
        Noop(), "shard bigint, rows bigint", "append", "none"
    )
    writer = counts.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "state"))
    return writer.trigger(availableNow=True).start()


def job_of(folder: Path) -> Job:
    """Thresholds over the trades."""
    return Job.of(
        {
            "job": {"name": "first", "checkpoint": str(folder / "state"), "shards": SHARDS},
            "streams": {
                "trades": {
                    "path": str(folder / "trades"),
                    "columns": {"price": "double", "shares": "bigint"},
                }
            },
            "subscriptions": [{"sql": SQL, "params": str(folder / "thresholds")}],
            "sink": {"path": str(folder / "out")},
        }
    )


def main(subject: str, folder: Path) -> None:
    """Run a job over all input, which is one micro-batch."""
    job = job_of(folder)
    spark = session(job, master=MASTER, log=folder / "spark.log")
    query = start(job, spark=spark, once=True) if subject == "tocsin" else start_noop(spark, folder)
    query.awaitTermination()
    while not query.recentProgress:
        time.sleep(0.05)
    print(query.recentProgress[0]["durationMs"]["triggerExecution"] / 1000)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
