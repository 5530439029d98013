"""How a job is doing: what it is at and figures of its last batches, for who runs it and `tocsin status`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from tocsin.pipeline.files import Folders
from tocsin.pipeline.jobs import Job
from tocsin.pipeline.lag import records_behind

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE = "tocsin-progress.json"
#: Batches that are remembered.
REMEMBERED = 20

#: Called with what is known, after each change of it; not always by the same thread.
Report: TypeAlias = Callable[[dict[str, Any]], None]


class Progress:
    """Keeps what is known of a run: told to `report`, and written beside the checkpoint."""

    def __init__(self, job: Job, report: Report | None = None) -> None:
        self._path = f"{job.settings.checkpoint.rstrip('/')}/{FILE}"
        self._report = report
        self._files: Folders | None = None
        self._query: StreamingQuery | None = None
        self.known: dict[str, Any] = {
            "job": job.settings.name,
            #: what it is at, and since when
            "phase": "",
            "since": 0.0,
            #: how many batches this run has finished
            "finished": 0,
            #: by source: rows of this run that were taken, that were rejected, and why the first of these was
            "sources": {},
            #: the last batches, also of runs before this one
            "batches": [],
        }

    def keep_in(self, files: Folders) -> None:
        """From now on, write the file; go on with the batches that a run before has left there."""
        self._files = files
        try:
            self.known["batches"] = json.loads(files.read_text(self._path))["batches"]
        except (OSError, ValueError, KeyError, TypeError):
            return

    def follow(self, query: StreamingQuery) -> None:
        """Take Spark's own figures from this query: of each batch, they are there with the next."""
        self._query = query

    def enter(self, phase: str) -> None:
        """Say what the job is at now."""
        self.known.update(phase=phase, since=time.time())
        self._tell()

    def note(self, batch: int, shards: list[dict[str, Any]]) -> None:
        """Add a finished batch; it replaces what a killed run said of a batch that Spark runs again."""
        self._add_spark_figures()
        known = [earlier for earlier in self.known["batches"] if earlier["batch"] < batch]
        known.append({"batch": batch, "time": time.time(), "shards": shards})
        self.known["batches"] = known[-REMEMBERED:]
        self.known["finished"] += 1
        _add_sources(self.known["sources"], shards)
        self.enter("waiting for input")

    def _tell(self) -> None:
        """Progress is for people: that it cannot be written stops nothing."""
        if self._report is not None:
            self._report(self.known)
        if self._files is not None:
            try:
                self._files.write_text(self._path, json.dumps(self.known))
            except OSError:
                return

    def _add_spark_figures(self) -> None:
        told = self._query.lastProgress if self._query is not None else None
        for known in self.known["batches"]:
            if told is not None and known["batch"] == told["batchId"]:
                known["stages"] = {name: took / 1000 for name, took in told["durationMs"].items()}
                known["behind"] = records_behind(json.loads(told.json))


def wholly_rejected(known: dict[str, Any]) -> list[str]:
    """Sources that had rows in this run, none of which could be used."""
    return [name for name, rows in known["sources"].items() if rows["rejected"] and not rows["taken"]]


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


def _add_sources(known: dict[str, Any], shards: list[dict[str, Any]]) -> None:
    """Add what the shards say of their sources. A row that all of them take is one row."""
    for name in sorted({name for shard in shards for name in shard["sources"]}):
        of_shards = [shard["sources"][name] for shard in shards if name in shard["sources"]]
        rows = known.setdefault(name, {"taken": 0, "rejected": 0, "why": ""})
        rows["taken"] += max(each["taken"] for each in of_shards)
        rows["rejected"] += sum(each["rejected"] for each in of_shards)
        rows["why"] = rows["why"] or next((each["why"] for each in of_shards if each["why"]), "")
