"""The progress of a job: its phase and the figures of its last batches, for displays and `tocsin status`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tocsin.pipeline.filesystems.local import FileSystem
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.job.lag import records_behind

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE = "tocsin-progress.json"
#: Batches in the progress file.
REMEMBERED = 20

#: Called with the progress after each change, from any thread.
ProgressCallback: TypeAlias = Callable[[dict[str, Any]], None]


class Progress:
    """Records the progress of a run, passes it to `report` and writes it to a file beside the checkpoint."""

    def __init__(self, job: Job, report: ProgressCallback | None = None) -> None:
        self._path = f"{job.settings.checkpoint.rstrip('/')}/{FILE}"
        self._report = report
        self._files: FileSystem | None = None
        self._query: StreamingQuery | None = None
        self.known: dict[str, Any] = {
            "job": job.settings.name,
            #: current phase, and when it began
            "phase": "",
            "since": 0.0,
            #: kernels compiled on this machine since the run began, if that is counted
            "compiled": 0,
            #: batches that this run has finished
            "finished": 0,
            #: by source: accepted and rejected rows of this run, and the reason of the first reject
            "sources": {},
            #: the last batches, including those of earlier runs
            "batches": [],
        }

    def persist_to(self, files: FileSystem) -> None:
        """Start writing the file, and continue with the batches of earlier runs that it lists."""
        self._files = files
        try:
            self.known["batches"] = json.loads(files.read_text(self._path))["batches"]
        except (OSError, ValueError, KeyError, TypeError):
            return

    def attach(self, query: StreamingQuery) -> None:
        """Read Spark's own figures from this query. Those of a batch arrive with the next one."""
        self._query = query

    def enter(self, phase: str) -> None:
        """Enter a phase."""
        self.known.update(phase=phase, since=time.time())
        self._publish()

    def record_batch(self, batch: int, shards: list[dict[str, Any]]) -> None:
        """Add a finished batch; if Spark repeats a batch of a killed run, it replaces that one."""
        self._add_spark_figures()
        batches = [earlier for earlier in self.known["batches"] if earlier["batch"] < batch]
        batches.append({"batch": batch, "time": time.time(), "shards": shards})
        self.known["batches"] = batches[-REMEMBERED:]
        self.known["finished"] += 1
        _add_sources(self.known["sources"], shards)
        self.enter("waiting for input")

    def _publish(self) -> None:
        """Report and write the progress. A failing write is ignored: it must not stop the job."""
        if self._report is not None:
            self._report(self.known)
        if self._files is not None:
            try:
                self._files.write_text(self._path, json.dumps(self.known))
            except OSError:
                return

    def _add_spark_figures(self) -> None:
        spark_progress = self._query.lastProgress if self._query is not None else None
        for known in self.known["batches"]:
            if spark_progress is not None and known["batch"] == spark_progress["batchId"]:
                known["stages"] = {name: took / 1000 for name, took in spark_progress["durationMs"].items()}
                known["behind"] = records_behind(json.loads(spark_progress.json))


def wholly_rejected(known: dict[str, Any]) -> list[str]:
    """Sources all of whose rows in this run were rejected."""
    return [name for name, rows in known["sources"].items() if rows["rejected"] and not rows["taken"]]


def totals(batch: dict[str, Any]) -> dict[str, Any]:
    """Figures of one batch over all shards. Every shard counts all rows, and only its own changes."""
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


def _add_sources(known: dict[str, Any], shards: list[dict[str, Any]]) -> None:
    """Add the counts of the shards. A row that every shard accepts counts once."""
    for name in sorted({name for shard in shards for name in shard["sources"]}):
        of_shards = [shard["sources"][name] for shard in shards if name in shard["sources"]]
        rows = known.setdefault(name, {"taken": 0, "rejected": 0, "why": ""})
        rows["taken"] += max(each["taken"] for each in of_shards)
        rows["rejected"] += sum(each["rejected"] for each in of_shards)
        rows["why"] = rows["why"] or next((each["why"] for each in of_shards if each["why"]), "")
