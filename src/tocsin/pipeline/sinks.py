"""Where changes go. A sink is called once a micro-batch, and again with the same batch after a failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tocsin.pipeline.files import Folders
from tocsin.pipeline.frames import changes_of, rejects_of, snapshots_of
from tocsin.pipeline.hadoop import Files
from tocsin.pipeline.jobs import Job, JobError
from tocsin.pipeline.kafka import require_kafka
from tocsin.pipeline.reading import FORMATS

#: File systems on which a rename is one step, for every reader of the folder.
RENAMING = ("file", "hdfs", "viewfs")

MARKER = "_tocsin.json"
PROBE = "_tocsin.probe"

Function: TypeAlias = Callable[[DataFrame, int], None]


class Sink(Protocol):
    """Takes the packed outputs of one micro-batch, which are persisted: it may read them more than once."""

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        """Make the batch visible, once: a batch that is there already is left as it is."""


class FileSink:
    """Folders `batch=N` of changes (or messages and snapshots), and of rejects, each moved in by one rename.

    A reader of the folder sees whole batches only, whatever is killed.
    """

    def __init__(self, files: Folders, job: Job, owner: str) -> None:
        assert job.sink.path is not None
        self._job = job
        self._files = files
        self._changes = job.sink.path.rstrip("/")
        self._rejects = (job.sink.rejects or f"{self._changes}.rejects").rstrip("/")
        self._snapshots = f"{self._changes}.snapshots"
        snapshots = [self._snapshots] if job.settings.output == "messages" else []
        for path in (self._changes, self._rejects, *snapshots):
            self._claim(path, owner)

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        if has_snapshots:
            # First, so that whoever sees a batch of messages sees the snapshots before it.
            self._put(snapshots_of(outputs), self._snapshots, batch)
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
        self._files.make_folder(path)
        marker = f"{path}/{MARKER}"
        if self._files.exists(marker):
            known = _owner_in(self._files.read_text(marker), marker)
            if known != owner:
                raise JobError(
                    f"sink path {path!r} belongs to another query ({known}); use another path, "
                    "or the checkpoint that wrote it"
                )
        else:
            self._try_moving_in(path)
            self._files.write_text(marker, json.dumps({"query": owner}))

    def _try_moving_in(self, path: str) -> None:
        """Refuse a folder that nothing can be renamed into, before there is a batch to rename."""
        aside, probe = f"{path}.writing/{PROBE}", f"{path}/{PROBE}"
        self._files.make_folder(aside)
        self._files.delete(probe)
        try:
            self._files.rename(aside, probe)
        except OSError as failure:
            raise JobError(
                f"sink path {path!r}: batches are written to {path}.writing and moved in by one rename, "
                f"which fails: {failure}; if the path is a mount point, use a folder below it"
            ) from None
        self._files.delete(probe)


class KafkaSink:
    """Changes and rejects as JSON, in a topic each.

    Kafka may get a batch again after a failure. A record's key is a JSON array of texts that no other
    record has: [batch, source, subscription, seq, op, key] of a change, [batch, source, path, position]
    of a reject, [batch, space, seq, n] of a message, [batch, space, seq, key, x] of a snapshot's row. A
    consumer drops a key that it has seen; once a partition has a record of a later batch, the keys of the
    earlier ones may be forgotten.
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

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        is_messages = self._job.settings.output == "messages"
        names = "space seq n" if is_messages else "source subscription seq op key"
        if has_snapshots:
            topic = f"{self._changes}.snapshots"
            self._send(snapshots_of(outputs), topic, batch, ("space", "seq", "key", "x"))
        self._send(changes_of(outputs, self._job), self._changes, batch, tuple(names.split()))
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

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        changes_of(outputs, self._job).show(100, truncate=False)
        if has_rejects:
            rejects_of(outputs).show(100, truncate=False)


class Functions(NamedTuple):
    """Python functions that are called with a frame and the number of its batch.

    Without one for rejects, these are only counted; without one for snapshots, there are none.
    """

    changes: Function
    rejects: Function | None
    snapshots: Function | None


class FunctionSink:
    """Calls functions: in the order in which files would be written."""

    def __init__(self, job: Job, functions: Functions) -> None:
        self._job = job
        self._functions = functions

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        functions = self._functions
        if has_snapshots and functions.snapshots:
            functions.snapshots(snapshots_of(outputs), batch)
        functions.changes(changes_of(outputs, self._job), batch)
        if has_rejects and functions.rejects:
            functions.rejects(rejects_of(outputs), batch)


def build_sink(spark: SparkSession, job: Job, owner: str, functions: Functions | None) -> Sink:
    """The sink that the job names, or the functions given instead."""
    if functions is not None:
        return FunctionSink(job, functions)
    if job.sink.format in FORMATS:
        return _file_sink(Files(spark), job, owner)
    if job.sink.format == "nats":
        return _nats_sink(job, owner)
    return KafkaSink(spark, job) if job.sink.format == "kafka" else ConsoleSink(job)


def _file_sink(files: Files, job: Job, owner: str) -> Sink:
    """The sink to folders, on a file system where a batch can be moved in as a whole."""
    for path in (job.sink.path, job.sink.rejects):
        scheme = files.scheme(path) if path is not None else RENAMING[0]
        if scheme not in RENAMING:
            raise JobError(
                f"sink path {path!r}: on {scheme!r} a reader could see half a batch, because a rename there "
                "is not one step; write to a local disk, HDFS or Kafka"
            )
    return FileSink(files, job, owner)


def _owner_in(text: str, marker: str) -> str:
    try:
        return str(json.loads(text)["query"])
    except (ValueError, KeyError, TypeError):
        raise JobError(
            f"{marker} is damaged, so that it is not known which query wrote the folder; use another path"
        ) from None


def _nats_sink(job: Job, owner: str) -> Sink:
    """The sink to NATS, whose client is an extra of its own."""
    try:
        from tocsin.pipeline.nats import NatsSink
    except ModuleNotFoundError as failure:
        raise JobError(f"{failure.name} is not installed; pip install 'tocsin[network]'") from None
    return NatsSink(job, owner)
