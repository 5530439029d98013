"""Kafka sources: the connector, a jar of its own, and defaults that suit standing queries."""

from __future__ import annotations

from typing import Any

import pyspark
from pyspark.sql import SparkSession

from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.sections import Options

_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def require_kafka(spark: SparkSession) -> None:
    """Raise JobError with the setting that adds the connector if the session lacks it."""
    context: Any = spark.sparkContext
    if context._jvm.org.apache.spark.util.Utils.classIsLoadable(_PROVIDER):
        return
    package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    raise JobError(
        "Spark's Kafka connector is missing; add it under [spark] of the job file: "
        f'"spark.jars.packages" = "{package}"'
    )


def kafka_defaults(topic: str | None) -> Options:
    """Default options of a source: its `path` is the topic, and a new checkpoint reads it from the start."""
    options: Options = {"startingOffsets": "earliest"}
    return {"subscribe": topic, **options} if topic else options
