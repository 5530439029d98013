"""How a job is doing: figures of the last batches, kept beside the checkpoint for `tocsin status`."""

from __future__ import annotations

import json
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from tocsin.pipeline.hadoop import Files
from tocsin.pipeline.jobs import Job
from tocsin.pipeline.lag import records_behind

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE = "tocsin-progress.json"
#: Batches that are remembered.
REMEMBERED = 20


class Progress:
    """Writes the figures of the last batches after each."""

    def __init__(self, files: Files, job: Job) -> None:
        self._files = files
        self._path = f"{job.settings.checkpoint.rstrip('/')}/{FILE}"
        self._name = job.settings.name
        self._batches: deque[dict[str, Any]] = deque(maxlen=REMEMBERED)
        self._query: StreamingQuery | None = None

    def follow(self, query: StreamingQuery) -> None:
        """Take Spark's own figures from this query: of each batch, they are there with the next."""
        self._query = query

    def note(self, batch: int, shards: list[dict[str, Any]]) -> None:
        """Add a batch. Progress is for people: that it cannot be written stops nothing."""
        self._add_spark_figures()
        self._batches.append({"batch": batch, "time": time.time(), "shards": shards})
        try:
            self._files.write_text(
                self._path, json.dumps({"job": self._name, "batches": list(self._batches)})
            )
        except OSError:
            return

    def _add_spark_figures(self) -> None:
        told = self._query.lastProgress if self._query is not None else None
        for known in self._batches:
            if told is not None and known["batch"] == told["batchId"]:
                known["stages"] = {name: took / 1000 for name, took in told["durationMs"].items()}
                known["behind"] = records_behind(json.loads(told.json))


def totals(batch: dict[str, Any]) -> dict[str, Any]:
    """Figures of one batch over all shards. Every shard sees all rows, and only its own changes."""
    shards = batch["shards"]
    return {
        "rows": max((shard["rows"] for shard in shards), default=0),
        "subscriptions": sum(shard["subscriptions"] for shard in shards),
        "changes": sum(shard["changes"] for shard in shards),
        "rejects": sum(shard["rejects"] for shard in shards),
        "bytes": sum(shard["snapshot_bytes"] + shard["log_bytes"] for shard in shards),
        "seconds": max(
            (shard["find_seconds"] + shard["apply_seconds"] + shard["keep_seconds"] for shard in shards),
            default=0.0,
        ),
    }
