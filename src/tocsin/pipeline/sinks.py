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
from tocsin.pipeline.reading import FORMATS

#: File systems on which a rename is one step, for every reader of the folder.
RENAMING = ("file", "hdfs", "viewfs")

MARKER = "_tocsin.json"


class Sink(Protocol):
    """Takes the packed outputs of one micro-batch, which are persisted: it may read them more than once."""

    def write(self, outputs: DataFrame, batch: int) -> None:
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

    def write(self, outputs: DataFrame, batch: int) -> None:
        self._put(changes_of(outputs, self._job), self._changes, batch)
        rejects = rejects_of(outputs)
        if not rejects.isEmpty():
            self._put(rejects, self._rejects, batch)

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
    """Changes as JSON. The record's key is the JSON array [subscription, seq, op, key].

    Kafka may get a batch twice after a failure: a consumer drops a key that it has seen.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, outputs: DataFrame, batch: int) -> None:
        changes = changes_of(outputs, self._job)
        identity = f.array("subscription", f.col("seq").cast("string"), "op", f.coalesce("key", f.lit("")))
        records = changes.select(
            f.to_json(identity).alias("key"), f.to_json(f.struct(*changes.columns)).alias("value")
        )
        options = {name: str(value) for name, value in self._job.sink.options.items()}
        records.write.format("kafka").options(**options).save()


class ConsoleSink:
    """Prints each batch."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, outputs: DataFrame, batch: int) -> None:
        changes_of(outputs, self._job).show(100, truncate=False)


class FunctionSink:
    """Calls a Python function with (changes, batch number)."""

    def __init__(self, job: Job, function: Callable[[DataFrame, int], None]) -> None:
        self._job = job
        self._function = function

    def write(self, outputs: DataFrame, batch: int) -> None:
        self._function(changes_of(outputs, self._job), batch)


def build_sink(
    spark: SparkSession, job: Job, owner: str, function: Callable[[DataFrame, int], None] | None
) -> Sink:
    """The sink that the job names, or the function given instead."""
    if function is not None:
        return FunctionSink(job, function)
    if job.sink.format in FORMATS:
        return FileSink(spark, job, owner)
    return KafkaSink(job) if job.sink.format == "kafka" else ConsoleSink(job)
