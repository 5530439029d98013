"""A job on Spark: the session it needs, what its checkpoint remembers of it, and the query."""

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

from tocsin.pipeline.files import Folders
from tocsin.pipeline.frames import as_job, figures_of, packed_outputs
from tocsin.pipeline.hadoop import Files
from tocsin.pipeline.jobs import Job, JobError
from tocsin.pipeline.logs import stderr_into
from tocsin.pipeline.planning import forget_unplanned
from tocsin.pipeline.progress import Progress, Report
from tocsin.pipeline.sinks import Function, Functions, build_sink

#: What the checkpoint remembers of the job that made it.
DESCRIPTION = "tocsin.json"

#: Plain `local[*]` does not retry a task whose Python worker died.
DEFAULT_MASTER = "local[*,4]"

#: Raised by whatever asks Spark once its process has ended, or while it ends.
SPARK_GONE = (Py4JError, ConnectionError)

_ADVICE = (
    "run it with a new checkpoint and a new sink path, which reads the sources from the start "
    "(the checkpoint now: {})"
)

_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def session(job: Job, *, master: str | None = None, log: str | PathLike[str] | None = None) -> SparkSession:
    """A Spark session set up for standing queries. The job's `[spark]` settings come last.

    `log` is a file for what Spark would write to standard error, if it is this call that starts it.
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
    sink: Function | None = None,
    rejects: Function | None = None,
    snapshots: Function | None = None,
    report: Report | None = None,
) -> StreamingQuery:
    """Start a job. `once` drains what is there and stops. `master` and `log` are for `session`.

    `frames` gives streaming frames for sources by name. `sink` is called with each batch's changes (or
    messages) and its number, instead of the job's `[sink]`; `rejects` and `snapshots` likewise, where a batch
    has any. After a failure a function is called with the same batch again. `report` is called with what is
    known of the run (see `Progress`): what it is at, and the figures of each batch.
    """
    made = as_job(job)
    if sink is None and (rejects or snapshots):
        raise JobError("functions for rejects or snapshots go with one for changes: give `sink`, too")
    progress = Progress(made, report)
    if spark is None:
        progress.enter("starting Spark")
        spark = session(made, master=master, log=log)
    progress.enter("planning the query")
    try:
        # Nothing is written before the sources are known to be there.
        outputs = packed_outputs(spark, made, dict(frames or {}))
        with _writing(f"checkpoint {made.settings.checkpoint!r}"):
            owner = _remember(Files(spark), made)
            forget_unplanned(Files(spark), made.settings.checkpoint)
        with _writing(f"sink {made.sink.path!r}"):
            target = build_sink(spark, made, owner, Functions(sink, rejects, snapshots) if sink else None)
    except PySparkException as failure:
        raise JobError(first_cause(str(failure))) from failure
    progress.keep_in(Files(spark))
    progress.enter("looking for input")

    def deliver(batch: DataFrame, number: int) -> None:
        first = "; the first batch starts workers, and after an upgrade compiles"
        progress.enter(f"batch {number}: reading and applying{'' if progress.known['finished'] else first}")
        # A sink reads a batch more than once; without this the operator would run each time.
        kept = batch.persist()
        try:
            figures = figures_of(kept)
            has = {kind: any(shard[kind] for shard in figures) for kind in ("rejects", "snapshots")}
            target.write(kept, number, has_rejects=has["rejects"], has_snapshots=has["snapshots"])
            progress.note(number, figures)
        finally:
            kept.unpersist()

    writer = outputs.writeStream.queryName(made.settings.name).foreachBatch(deliver)
    writer = writer.option("checkpointLocation", made.settings.checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    elif made.settings.trigger:
        writer = writer.trigger(processingTime=made.settings.trigger)
    query = writer.start()
    progress.follow(query)
    return query


@contextmanager
def _writing(what: str) -> Iterator[None]:
    """Turn a file system's error into what the job cannot do."""
    try:
        yield
    except OSError as failure:
        raise JobError(f"{what} cannot be written: {failure}") from None


def why_failed(query: StreamingQuery) -> str | None:
    """Why a query ended, in a line; None if it finished or was stopped. The whole story is in Spark's log."""
    failure = query.exception()
    return None if failure is None else first_cause(str(failure))


def first_cause(text: str) -> str:
    """The line of a Java stack trace that says what went wrong first, in Java or in Python."""
    lines = text.splitlines() or [""]
    last = max((number for number, line in enumerate(lines) if line.startswith("Caused by: ")), default=0)
    cause = lines[last].removeprefix("Caused by: ")
    if not cause.endswith("Traceback (most recent call last):"):
        return cause
    return next((line for line in lines[last + 1 :] if line and not line[0].isspace()), cause)


def _remember(files: Folders, job: Job) -> str:
    """Check the job against what its checkpoint remembers, and update that; the query's own id."""
    path = f"{job.settings.checkpoint.rstrip('/')}/{DESCRIPTION}"
    now = describe(job)
    owner = uuid.uuid4().hex
    if files.exists(path):
        try:
            known = json.loads(files.read_text(path))
            owner, before = str(known["query"]), known["job"]
        except (ValueError, KeyError, TypeError):
            raise JobError(f"{path} is damaged; {_ADVICE.format(job.settings.checkpoint)}") from None
        _refuse_changes(before, now, job.settings.checkpoint)
    else:
        files.make_folder(job.settings.checkpoint)
    files.write_text(path, json.dumps({"query": owner, "job": now}, indent=2))
    return owner


def describe(job: Job) -> dict[str, Any]:
    """What of a job must stay as it was for its state to stay valid."""
    return {
        "shards": job.settings.shards,
        "output": job.settings.output,
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
    # A checkpoint of a version that knew no messages does not say.
    output = before.get("output", "changes")
    if output != now["output"]:
        raise JobError(f"output was {output!r} and is {now['output']!r}; {advice}")
    for name, declared in before["sources"].items():
        if now["sources"].get(name) != declared:
            what = "is gone" if name not in now["sources"] else "is declared differently"
            raise JobError(f"{declared['kind']} {name!r} {what}; {advice}")
    for number, section in enumerate(before["subscriptions"]):
        if number >= len(now["subscriptions"]) or now["subscriptions"][number] != section:
            raise JobError(
                f"subscriptions {number} has changed (was: {section['sql']}); "
                f"add new sections after the old ones, or {advice}"
            )
