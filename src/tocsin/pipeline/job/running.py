"""Runs a job on Spark: its session, the job description in its checkpoint, and its query."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.arrays.shipped_kernels import are_kernels_there
from tocsin.pipeline.filesystems.hadoop import SparkFileSystem
from tocsin.pipeline.filesystems.local import FileSystem
from tocsin.pipeline.frames import as_job, figures_of, packed_outputs
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.job.listing_rollback import roll_back_unplanned
from tocsin.pipeline.job.logs import stderr_into
from tocsin.pipeline.job.progress import Progress, ProgressCallback
from tocsin.pipeline.sinks.build import build_sink
from tocsin.pipeline.sinks.functions import BatchFunction, SinkFunctions

#: The file in the checkpoint that describes its job.
DESCRIPTION = "tocsin.json"

#: Unlike plain `local[*]`, this retries a task whose Python worker died.
DEFAULT_MASTER = "local[*,4]"

#: Raised by calls to Spark when its process has ended or is ending.
SPARK_GONE = (Py4JError, ConnectionError)

_ADVICE = (
    "run it with a new checkpoint and a new sink path, which reads the sources from the start "
    "(the checkpoint now: {})"
)

_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(job: Job, *, master: str | None = None, log: str | PathLike[str] | None = None) -> SparkSession:
    """A Spark session configured for standing queries. The job's `[spark]` settings take precedence.

    `log` is a file for what Spark would write to standard error, if this call starts Spark.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(job.settings.name)
    settings: dict[str, Any] = {
        "spark.master": master or DEFAULT_MASTER,
        "spark.sql.shuffle.partitions": job.settings.shards,
        "spark.sql.streaming.stateStore.providerClass": _STORE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        **job.spark,
    }
    for name, value in settings.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    with stderr_into(log):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def start(
    job: Job | Mapping[str, Any] | str | PathLike[str],
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    log: str | PathLike[str] | None = None,
    once: bool = False,
    frames: Mapping[str, DataFrame] | None = None,
    sink: BatchFunction | None = None,
    rejects: BatchFunction | None = None,
    snapshots: BatchFunction | None = None,
    report: ProgressCallback | None = None,
) -> StreamingQuery:
    """Start a job. `once` drains its sources and stops. `master` and `log` are for `session`.

    `frames` maps source names to streaming DataFrames. `sink` replaces the job's `[sink]`: it is called with
    each batch's changes (or messages) and its number; `rejects` and `snapshots` likewise if a batch has any.
    After a failure a function is called with the same batch again. `report` is called with the progress of
    the run (see `Progress`): its phase, and the figures of each batch.
    """
    parsed = as_job(job)
    if sink is None and (rejects or snapshots):
        raise JobError("`rejects` and `snapshots` require `sink`, a function for changes")
    progress = Progress(parsed, report)
    # Executors have the package as the driver has it.
    first_batch = "; the first batch starts workers"
    if not are_kernels_there():
        first_batch += ", which compile kernels: `tocsin warm` does it ahead"
    if spark is None:
        progress.enter("starting Spark")
        spark = session(parsed, master=master, log=log)
    progress.enter("planning the query")
    try:
        # Nothing is written before all sources are known to exist.
        outputs = packed_outputs(spark, parsed, dict(frames or {}))
        with _writing(f"checkpoint {parsed.settings.checkpoint!r}"):
            owner = _update_description(SparkFileSystem(spark), parsed)
            roll_back_unplanned(SparkFileSystem(spark), parsed.settings.checkpoint)
        with _writing(f"sink {parsed.sink.path!r}"):
            target = build_sink(
                spark, parsed, owner, SinkFunctions(sink, rejects, snapshots) if sink else None
            )
    except PySparkException as failure:
        raise JobError(first_cause(str(failure))) from failure
    progress.persist_to(SparkFileSystem(spark))
    progress.enter("looking for input")

    def deliver(batch: DataFrame, number: int) -> None:
        first = "" if progress.known["finished"] else first_batch
        progress.enter(f"batch {number}: reading and applying{first}")
        # A sink reads a batch more than once; unless persisted, the operator would run each time.
        persisted = batch.persist()
        try:
            figures = figures_of(persisted)
            has = {kind: any(shard[kind] for shard in figures) for kind in ("rejects", "snapshots")}
            target.write(persisted, number, has_rejects=has["rejects"], has_snapshots=has["snapshots"])
            progress.record_batch(number, figures)
        finally:
            persisted.unpersist()

    writer = outputs.writeStream.queryName(parsed.settings.name).foreachBatch(deliver)
    writer = writer.option("checkpointLocation", parsed.settings.checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    elif parsed.settings.trigger:
        writer = writer.trigger(processingTime=parsed.settings.trigger)
    query = writer.start()
    progress.attach(query)
    return query


@contextmanager
def _writing(what: str) -> Iterator[None]:
    """Turn an error of a file system into a JobError that names `what`."""
    try:
        yield
    except OSError as failure:
        raise JobError(f"{what} cannot be written: {failure}") from None


def why_failed(query: StreamingQuery) -> str | None:
    """Why a query failed, in one line; None if it finished or was stopped. Spark's log has the details."""
    failure = query.exception()
    return None if failure is None else first_cause(str(failure))


def first_cause(text: str) -> str:
    """The line of a Java stack trace with the root cause, in Java or in Python."""
    lines = text.splitlines() or [""]
    last = max((number for number, line in enumerate(lines) if line.startswith("Caused by: ")), default=0)
    cause = lines[last].removeprefix("Caused by: ")
    if not cause.endswith("Traceback (most recent call last):"):
        return cause
    return next((line for line in lines[last + 1 :] if line and not line[0].isspace()), cause)


def _update_description(files: FileSystem, job: Job) -> str:
    """Check the job against the description in its checkpoint and update that; returns the query's id."""
    path = f"{job.settings.checkpoint.rstrip('/')}/{DESCRIPTION}"
    now = describe(job)
    owner = uuid.uuid4().hex
    if files.exists(path):
        try:
            stored = json.loads(files.read_text(path))
            owner, before = str(stored["query"]), stored["job"]
        except (ValueError, KeyError, TypeError):
            raise JobError(f"{path} is damaged; {_ADVICE.format(job.settings.checkpoint)}") from None
        _refuse_changes(before, now, job.settings.checkpoint)
    else:
        files.make_folder(job.settings.checkpoint)
    files.write_text(path, json.dumps({"query": owner, "job": now}, indent=2))
    return owner


def describe(job: Job) -> dict[str, Any]:
    """The parts of a job on which its state depends."""
    return {
        "shards": job.settings.shards,
        "output": job.settings.output,
        "indexes": job.settings.indexes,
        "sources": {name: asdict(declaration) for name, declaration in job.declarations.items()},
        "subscriptions": [
            {"sql": section.sql, "id": section.id, "params": section.params, "repeat": section.repeat}
            for section in job.subscriptions
        ],
    }


def _refuse_changes(before: dict[str, Any], now: dict[str, Any], checkpoint: str) -> None:
    advice = _ADVICE.format(checkpoint)
    if before["shards"] != now["shards"]:
        raise JobError(f"shards was {before['shards']} and is {now['shards']}; {advice}")
    # Checkpoints of versions without messages have no output.
    output = before.get("output", "changes")
    if output != now["output"]:
        raise JobError(f"output was {output!r} and is {now['output']!r}; {advice}")
    indexes = before.get("indexes", {})
    if indexes != now["indexes"]:
        raise JobError(f"indexes were {indexes} and are {now['indexes']}; {advice}")
    for name, declared in before["sources"].items():
        if now["sources"].get(name) != declared:
            what = "has been removed" if name not in now["sources"] else "is declared differently"
            raise JobError(f"{declared['kind']} {name!r} {what}; {advice}")
    for number, section in enumerate(before["subscriptions"]):
        if number >= len(now["subscriptions"]) or now["subscriptions"][number] != section:
            raise JobError(
                f"subscriptions {number} has changed (was: {section['sql']}); "
                f"add new sections after the old ones, or {advice}"
            )
