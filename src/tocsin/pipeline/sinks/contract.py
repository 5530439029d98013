"""The contract of sinks: called once per micro-batch, and again with the same batch after a failure."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame


class Sink(Protocol):
    """Writes the packed outputs of one micro-batch. They are persisted, so it may read them repeatedly."""

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        """Make the batch visible exactly once: a batch that was written before stays untouched."""
