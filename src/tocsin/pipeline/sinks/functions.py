"""Python functions as a sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from pyspark.sql import DataFrame

from tocsin.pipeline.frames import changes_of, rejects_of, snapshots_of
from tocsin.pipeline.job.jobs import Job

BatchFunction: TypeAlias = Callable[[DataFrame, int], None]


class SinkFunctions(NamedTuple):
    """Python functions that are called with a DataFrame and the number of its batch.

    Without one for rejects, these are only counted; without one for snapshots, these are dropped.
    """

    changes: BatchFunction
    rejects: BatchFunction | None
    snapshots: BatchFunction | None


class FunctionSink:
    """Calls functions, in the order in which the file sink writes."""

    def __init__(self, job: Job, functions: SinkFunctions) -> None:
        self._job = job
        self._functions = functions

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        functions = self._functions
        if has_snapshots and functions.snapshots:
            functions.snapshots(snapshots_of(outputs), batch)
        functions.changes(changes_of(outputs, self._job), batch)
        if has_rejects and functions.rejects:
            functions.rejects(rejects_of(outputs), batch)
