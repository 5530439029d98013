"""Prints batches to the console."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tocsin.pipeline.frames import changes_of, rejects_of
from tocsin.pipeline.job.jobs import Job


class ConsoleSink:
    """Prints each batch."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        changes_of(outputs, self._job).show(100, truncate=False)
        if has_rejects:
            rejects_of(outputs).show(100, truncate=False)
