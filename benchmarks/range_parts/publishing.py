"""What `publish` costs beside writing the changes that it returns, as a job does, to a Parquet file."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

import tocsin
from benchmarks.range_parts.workloads import ROWS, draw, ranges

SQL = "SELECT id, y FROM rows WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 10"


@dataclass
class Published:
    """All repeats of one size of batches; seconds are of the processor."""

    batch: int
    publish_s: list[float] = field(default_factory=list)
    write_s: list[float] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Of a batch in the middle."""
        return median(self.publish_s) / median(self.write_s)

    @property
    def total_ratio(self) -> float:
        """Of all batches together, to which the few with most changes contribute most."""
        return sum(self.publish_s) / sum(self.write_s)

    def record(self) -> dict[str, object]:
        """One line of the results."""
        ratios = {"ratio": round(self.ratio, 3), "total_ratio": round(self.total_ratio, 3)}
        return {"what": "publish", **asdict(self), **ratios}


def measure_publish(subscriptions: int, repeats: int) -> list[Published]:
    """Batches of several sizes, in turn, of events that are as the paper's; the small ones several times."""
    turns = {10: 8, 100: 1, 1000: 1}
    table, events = draw(11, ROWS, sum(size * times for size, times in turns.items()) * (repeats + 1))
    engine = tocsin.Engine()
    engine.create_table("rows", key="id", columns={"id": "bigint", "x": "double", "y": "double"})
    engine.publish("rows", pa.table({"id": table.slot.astype("int64"), "x": table.x, "y": table.y}))
    low, high = ranges(11, subscriptions)
    names = [f"s{number}" for number in range(subscriptions)]
    engine.subscribe_many(SQL, pa.table({"id": names, "lo": low, "hi": high}))
    measured = [Published(size) for size in turns]
    in_turn = [result for result in measured for _ in range(turns[result.batch])]
    begin = 0
    for repeat in range(repeats + 1):
        for result in in_turn:
            batch = events.part(begin, begin + result.batch)
            begin += result.batch
            rows = pa.table({"id": batch.slot.astype("int64"), "x": batch.x, "y": batch.y})
            start = time.process_time()
            changes = engine.publish("rows", rows)
            published = time.process_time()
            pq.write_table(changes, pa.BufferOutputStream())
            written = time.process_time()
            # The first round compiles.
            if repeat:
                result.publish_s.append(published - start)
                result.write_s.append(written - published)
                result.changes.append(changes.num_rows)
    return measured
