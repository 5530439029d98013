"""Streaming DataFrames of a job's sources, packed for the shards."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tocsin.language import Join, Match
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.job.sections import Options, SourceSection, SubscriptionSection
from tocsin.pipeline.sources.file_rows import CSV_OPTIONS, FORMATS
from tocsin.pipeline.sources.kafka import kafka_defaults, require_kafka
from tocsin.pipeline.sources.packing import (
    PACKED,
    ParametersPacker,
    RowsPacker,
    pack_files,
    pack_frame,
    pack_kafka,
)

_FILES = "path string, modificationTime timestamp, length bigint, content binary"


def packed_sources(
    spark: SparkSession, job: Job, keys: tuple[int, ...], frames: dict[str, DataFrame]
) -> DataFrame:
    """All sources and parameters of the job as one DataFrame of (shard, data)."""
    parts = []
    for name, section in job.sources.items():
        columns = job.schemas()[name].columns or {}
        required = {column: role for column, role in ((section.key, "key"), (section.time, "time")) if column}
        own_keys = _keys_of(job, name, keys)
        packer = RowsPacker(name, columns, required, own_keys, ops=job.declarations[name].kind == "table")
        if name in frames:
            parts.append(_from_frame(frames[name], packer))
        else:
            parts.append(_read(spark, name, section, packer))
    for number, (subscription, plan) in enumerate(zip(job.subscriptions, job.plans(), strict=True)):
        if subscription.params is not None:
            numbers = not isinstance(plan, Match)
            own_keys = keys if isinstance(plan, Join) else _keys_of(job, plan.source, keys)
            packed = ParametersPacker(str(number), numbers, own_keys)
            parts.append(_read(spark, f"subscriptions {number}", subscription, packed))
    return reduce(DataFrame.unionByName, parts)


def _keys_of(job: Job, name: str, keys: tuple[int, ...]) -> tuple[int, ...]:
    """Keys of the shards that receive a source and its subscriptions: all, or for messages one."""
    shard = job.shard_of_table(name)
    return keys if shard is None else (keys[shard],)


def _read(
    spark: SparkSession,
    name: str,
    section: SourceSection | SubscriptionSection,
    packer: RowsPacker | ParametersPacker,
) -> DataFrame:
    path = section.params if isinstance(section, SubscriptionSection) else section.path
    # Named sources let a later version of the job add more to the same checkpoint.
    reader = spark.readStream.name(stream_name(name))
    if section.format in FORMATS:
        own, sparks = _split(section.options)
        listing = reader.format("binaryFile").schema(_FILES).options(**sparks).load(path).select("path")
        return listing.mapInArrow(pack_files(packer, section.format, own), PACKED)
    if section.format == "kafka":
        require_kafka(spark)
        options = _texts({**kafka_defaults(path), **section.options})
        records = reader.format("kafka").options(**options).load()
        records = records.select("topic", "partition", "offset", "value")
        return records.mapInArrow(pack_kafka(packer), PACKED)
    frame = reader.format(section.format).options(**_texts(section.options))
    return _from_frame(frame.load(path) if path else frame.load(), packer)


def stream_name(name: str) -> str:
    """The name of a source in Spark, and in the checkpoint."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def _from_frame(frame: DataFrame, packer: RowsPacker | ParametersPacker) -> DataFrame:
    names = [name for name in frame.columns if not packer.columns or name in packer.columns or name == "_op"]
    return frame.select(*names).mapInArrow(pack_frame(packer, _partition), PACKED)


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context else 0


def _split(options: Options) -> tuple[dict[str, Any], dict[str, str]]:
    """Options of Tocsin's reader, and options of Spark's file source."""
    mine = {name: value for name, value in options.items() if name in CSV_OPTIONS}
    return mine, _texts({name: value for name, value in options.items() if name not in CSV_OPTIONS})


def _texts(options: Options) -> dict[str, str]:
    return {
        name: json.dumps(value) if isinstance(value, bool) else str(value) for name, value in options.items()
    }
