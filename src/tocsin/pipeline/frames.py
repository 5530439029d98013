"""Standing queries as a streaming DataFrame: sources in, changes out."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.operator import (
    CHANGES_DDL,
    FIGURES,
    MESSAGES_DDL,
    OUTPUT,
    REJECTS_DDL,
    SNAPSHOTS_DDL,
    ShardProcessor,
    merge_matches,
    unpack_outputs,
)
from tocsin.pipeline.shard import CHANGES, MESSAGES, REJECTED, SNAPSHOTS
from tocsin.pipeline.sharding import shard_keys
from tocsin.pipeline.sources.spark_streams import packed_sources


def standing_queries(
    spark: SparkSession,
    job: Job | Mapping[str, Any] | str | PathLike[str],
    frames: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """The changes (or messages) of a job's standing queries, as a streaming DataFrame in append mode.

    `job` is a job file, its content as a dict, or a `Job`. `frames` maps source names to streaming
    DataFrames; sources without one are read as the job describes. The session must come from `session`
    or be configured in the same way.
    """
    parsed = as_job(job)
    return changes_of(packed_outputs(spark, parsed, dict(frames or {})), parsed)


def as_job(job: Job | Mapping[str, Any] | str | PathLike[str]) -> Job:
    """A job from a `Job`, a dict or the path of a job file."""
    if isinstance(job, Job):
        return job
    return Job.of(dict(job)) if isinstance(job, Mapping) else Job.read(job)


def packed_outputs(spark: SparkSession, job: Job, frames: dict[str, DataFrame]) -> DataFrame:
    """The outputs of all shards, still packed, as (kind, data)."""
    shards = job.settings.shards
    if int(str(spark.conf.get("spark.sql.shuffle.partitions"))) != shards:
        spark.conf.set("spark.sql.shuffle.partitions", shards)
    keys = tuple(shard_keys(shards))
    name = hashlib.sha256(os.path.abspath(job.settings.checkpoint).encode()).hexdigest()[:16]
    processor = ShardProcessor(job.shard_job(), keys, str(warm_folder()), name)
    packed = packed_sources(spark, job, keys, frames)
    return packed.groupBy("shard").transformWithStateInPandas(processor, OUTPUT, "append", "none")


def changes_of(outputs: DataFrame, job: Job) -> DataFrame:
    """The changes among packed outputs, as rows; the messages instead if the job writes messages."""
    if job.settings.output == "messages":
        packed = outputs.filter(outputs.kind == MESSAGES).select("data")
        return packed.mapInArrow(unpack_outputs, MESSAGES_DDL)
    packed = outputs.filter(outputs.kind == CHANGES).select("data")
    changes = packed.mapInArrow(unpack_outputs, CHANGES_DDL)
    top = job.shard_job().top
    if top and job.settings.shards > 1:
        merged = changes.repartition(job.settings.shards, "source", "seq")
        changes = merged.mapInArrow(merge_matches(top), CHANGES_DDL)
    return changes if job.sink.rows else changes.drop("row")


def snapshots_of(outputs: DataFrame) -> DataFrame:
    """The rows of snapshots among packed outputs."""
    packed = outputs.filter(outputs.kind == SNAPSHOTS).select("data")
    return packed.mapInArrow(unpack_outputs, SNAPSHOTS_DDL)


def rejects_of(outputs: DataFrame) -> DataFrame:
    """The rejected rows among packed outputs."""
    packed = outputs.filter(outputs.kind == REJECTED).select("data")
    return packed.mapInArrow(unpack_outputs, REJECTS_DDL)


def figures_of(outputs: DataFrame) -> list[dict[str, Any]]:
    """The figures of a batch, one dict per shard."""
    rows = outputs.filter(outputs.kind == FIGURES).select("data").collect()
    return [json.loads(bytes(row.data)) for row in rows]


def warm_folder() -> Path:
    """The folder of warm copies: in memory where the machine has a memory file system, else on disk."""
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() and os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    return base / f"tocsin-{os.getuid()}"
