"""Chooses the sink of a job."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tocsin.pipeline.filesystems.hadoop import SparkFileSystem
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.sinks.console import ConsoleSink
from tocsin.pipeline.sinks.contract import Sink
from tocsin.pipeline.sinks.files import FileSink
from tocsin.pipeline.sinks.functions import FunctionSink, SinkFunctions
from tocsin.pipeline.sinks.kafka import KafkaSink
from tocsin.pipeline.sources.file_rows import FORMATS

#: File systems on which a rename is atomic for every reader of the folder.
RENAMING = ("file", "hdfs", "viewfs")


def build_sink(spark: SparkSession, job: Job, owner: str, functions: SinkFunctions | None) -> Sink:
    """The sink that the job names, or the functions that replace it."""
    if functions is not None:
        return FunctionSink(job, functions)
    if job.sink.format in FORMATS:
        return _file_sink(SparkFileSystem(spark), job, owner)
    if job.sink.format == "nats":
        return _nats_sink(job, owner)
    return KafkaSink(spark, job) if job.sink.format == "kafka" else ConsoleSink(job)


def _file_sink(files: SparkFileSystem, job: Job, owner: str) -> Sink:
    """A sink to folders. Refuses file systems where a batch cannot be moved into place atomically."""
    for path in (job.sink.path, job.sink.rejects):
        scheme = files.scheme(path) if path is not None else RENAMING[0]
        if scheme not in RENAMING:
            raise JobError(
                f"sink path {path!r}: on {scheme!r} a reader could see half a batch, because renames there "
                "are not atomic; write to a local disk, HDFS or Kafka"
            )
    return FileSink(files, job, owner)


def _nats_sink(job: Job, owner: str) -> Sink:
    """A sink to NATS. Names the missing extra if its client is not installed."""
    try:
        from tocsin.pipeline.sinks.nats import NatsSink
    except ModuleNotFoundError as failure:
        raise JobError(f"{failure.name} is not installed; pip install 'tocsin[network]'") from None
    return NatsSink(job, owner)
