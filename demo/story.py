"""What the job told, read from the sink's folder while it runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from demo.queries import family_of

#: Alerts that are remembered.
NEWEST = 6


@dataclass
class Story:
    """Counted on the way, told at the end."""

    folder: Path
    #: changes of each subscription
    by_subscription: Counter[str] = field(default_factory=Counter)
    #: changes by operation
    by_op: Counter[str] = field(default_factory=Counter)
    #: changes by batch and family
    by_batch: Counter[tuple[int, str]] = field(default_factory=Counter)
    #: batches that have been read
    n_batches: int = 0
    #: the last thresholds that were reached, newest first: subscription and weight
    alerts: list[tuple[str, float]] = field(default_factory=list)
    #: rows of the answers that are followed: subscription, then key to score
    boards: dict[str, dict[str, float]] = field(default_factory=dict)

    def follow(self, *subscriptions: str) -> None:
        """Keep the answers of these up to date."""
        self.boards.update({subscription: {} for subscription in subscriptions})

    def read_news(self) -> bool:
        """Read the batches that have been written since; whether there were any."""
        before = self.n_batches
        while (folder := self.folder / f"batch={self.n_batches}").is_dir():
            self._add(ds.dataset(folder, format="parquet").to_table())
            self.n_batches += 1
        return self.n_batches > before

    def _add(self, changes: pa.Table) -> None:
        if changes.num_rows == 0:
            return
        grouped = changes.group_by(["subscription", "op"]).aggregate([([], "count_all")])
        for entry in grouped.to_pylist():
            subscription, count = entry["subscription"], entry["count_all"]
            self.by_subscription[subscription] += count
            self.by_batch[self.n_batches, family_of(subscription)] += count
            self.by_op[entry["op"]] += count
        matured = changes.filter(pc.equal(changes.column("op"), "mature")).sort_by("seq")
        for row in matured.slice(max(matured.num_rows - NEWEST, 0)).to_pylist():
            self.alerts = [(row["subscription"], row["score"]), *self.alerts][:NEWEST]
        followed = pc.is_in(changes.column("subscription"), pa.array(list(self.boards), pa.string()))
        told = changes.filter(followed).to_pylist()
        for row in told:
            if row["op"] == "leave":
                self.boards[row["subscription"]].pop(row["key"], None)
        for row in told:
            if row["op"] != "leave":
                self.boards[row["subscription"]][row["key"] or ""] = row["score"]
