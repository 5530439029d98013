"""Where changes go. A sink is called once a micro-batch, and again with the same batch after a failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tocsin.pipeline.frames import changes_of, rejects_of
from tocsin.pipeline.hadoop import Files
from tocsin.pipeline.jobs import Job, JobError
from tocsin.pipeline.kafka import require_kafka
from tocsin.pipeline.reading import FORMATS

#: File systems on which a rename is one step, for every reader of the folder.
RENAMING = ("file", "hdfs", "viewfs")

MARKER = "_tocsin.json"


class Sink(Protocol):
    """Takes the packed outputs of one micro-batch, which are persisted: it may read them more than once."""

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool) -> None:
        """Make the batch visible, once: a batch that is there already is left as it is."""


class FileSink:
    """Folders `batch=N` of changes, and of rejects, each moved in by one rename.

    A reader of the folder sees whole batches only, whatever is killed.
    """

    def __init__(self, spark: SparkSession, job: Job, owner: str) -> None:
        assert job.sink.path is not None
        self._job = job
        self._files = Files(spark)
        self._changes = job.sink.path.rstrip("/")
        self._rejects = (job.sink.rejects or f"{self._changes}.rejects").rstrip("/")
        for path in (self._changes, self._rejects):
            self._claim(path, owner)

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool) -> None:
        self._put(changes_of(outputs, self._job), self._changes, batch)
        if has_rejects:
            self._put(rejects_of(outputs), self._rejects, batch)

    def _put(self, frame: DataFrame, folder: str, batch: int) -> None:
        target = f"{folder}/batch={batch}"
        if self._files.exists(target):
            return
        aside = f"{folder}.writing/batch={batch}"
        options = {name: str(value) for name, value in self._job.sink.options.items()}
        writer = frame.write.mode("overwrite").format(self._job.sink.format)
        if self._job.sink.format == "csv":
            writer = writer.option("header", "true")
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").options(**options).save(
            aside
        )
        self._files.rename(aside, target)

    def _claim(self, path: str, owner: str) -> None:
        scheme = self._files.scheme(path)
        if scheme not in RENAMING:
            raise JobError(
                f"sink path {path!r}: on {scheme!r} a reader could see half a batch, because a rename there "
                "is not one step; write to a local disk, HDFS or Kafka"
            )
        self._files.make_folder(path)
        marker = f"{path}/{MARKER}"
        if self._files.exists(marker):
            known = json.loads(self._files.read_text(marker))["query"]
            if known != owner:
                raise JobError(
                    f"sink path {path!r} belongs to another query ({known}); use another path, "
                    "or the checkpoint that wrote it"
                )
        else:
            self._files.write_text(marker, json.dumps({"query": owner}))


class KafkaSink:
    """Changes and rejects as JSON, in a topic each.

    Kafka may get a batch again after a failure. A record's key is a JSON array of texts that no other
    record has: [batch, source, subscription, seq, op, key] of a change, [batch, source, path, position]
    of a reject. A consumer drops a key that it has seen; once a partition has a record of a later batch,
    the keys of the earlier ones may be forgotten.
    """

    def __init__(self, spark: SparkSession, job: Job) -> None:
        require_kafka(spark)
        self._job = job
        self._options = {name: str(value) for name, value in job.sink.options.items()}
        topic = job.sink.path or self._options.pop("topic", None)
        if topic is None:
            raise JobError("a kafka sink needs a path: the topic for changes")
        self._changes = topic
        self._rejects = job.sink.rejects or f"{topic}.rejects"

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool) -> None:
        changes = changes_of(outputs, self._job)
        self._send(changes, self._changes, batch, ("source", "subscription", "seq", "op", "key"))
        if has_rejects:
            self._send(rejects_of(outputs), self._rejects, batch, ("source", "path", "position"))

    def _send(self, frame: DataFrame, topic: str, batch: int, names: tuple[str, ...]) -> None:
        parts = [f.coalesce(f.col(name).cast("string"), f.lit("")) for name in names]
        records = frame.select(
            f.to_json(f.array(f.lit(str(batch)), *parts)).alias("key"),
            f.to_json(f.struct(f.lit(batch).alias("batch"), *frame.columns)).alias("value"),
        )
        records.write.format("kafka").options(**self._options).option("topic", topic).save()


class ConsoleSink:
    """Prints each batch."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool) -> None:
        changes_of(outputs, self._job).show(100, truncate=False)
        if has_rejects:
            rejects_of(outputs).show(100, truncate=False)


class FunctionSink:
    """Calls a Python function with (changes, batch number)."""

    def __init__(self, job: Job, function: Callable[[DataFrame, int], None]) -> None:
        self._job = job
        self._function = function

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool) -> None:
        self._function(changes_of(outputs, self._job), batch)


def build_sink(
    spark: SparkSession, job: Job, owner: str, function: Callable[[DataFrame, int], None] | None
) -> Sink:
    """The sink that the job names, or the function given instead."""
    if function is not None:
        return FunctionSink(job, function)
    if job.sink.format in FORMATS:
        return FileSink(spark, job, owner)
    return KafkaSink(spark, job) if job.sink.format == "kafka" else ConsoleSink(job)
