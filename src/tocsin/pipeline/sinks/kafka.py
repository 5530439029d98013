"""Writes changes and rejects to Kafka."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tocsin.pipeline.frames import changes_of, rejects_of, snapshots_of
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.sources.kafka import require_kafka


class KafkaSink:
    """Writes changes and rejects as JSON, to one topic each.

    A batch may be written again after a failure. A record's key is a JSON array of strings that no other
    record has: [batch, source, subscription, seq, op, key] of a change, [batch, source, path, position]
    of a reject, [batch, space, seq, n] of a message, [batch, space, seq, key, x] of a snapshot's row. A
    consumer drops keys that it has seen; once a partition has a record of a later batch, it may forget the
    keys of earlier ones.
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
