"""Rows with values that no index can keep exactly go aside, in all shards alike, and stop nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tocsin.pipeline.blobs import BEGIN, POSITION, ROWS, Blob
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.shard import CHANGES, REJECTED, Shard

HUGE = 2**63 - 1
#: Statements with a limit on `x`, over a table and a stream.
STATEMENTS = [
    ("t", "SELECT SUM(x) FROM t"),
    ("t", "SELECT k FROM t WHERE x > 0 ORDER BY x LIMIT 2"),
    ("t", "SELECT DISTINCT k FROM t WHERE x > 0"),
    ("s", "SELECT COUNT(*) FROM s WHERE x > 0 HAVING COUNT(*) >= 2"),
    ("s", "SELECT k FROM s WHERE x > 0"),
]


def job(sql: str) -> Job:
    columns = {"k": "int", "x": "bigint"}
    source: dict[str, Any] = {"path": "unused", "columns": columns}
    return Job.of(
        {
            "job": {"name": "test", "checkpoint": "unused", "shards": 2},
            "tables": {"t": {**source, "key": "k"}},
            "streams": {"s": source},
            "subscriptions": [{"sql": sql, "id": "q"}],
            "sink": {"path": "unused"},
        }
    )


@pytest.mark.parametrize(("source", "sql"), STATEMENTS)
def test_a_value_beyond_the_limits_is_one_reject(source: str, sql: str) -> None:
    made = job(sql)
    rows = pa.table({"k": pa.array([1, 2, 3], pa.int32()), "x": [5, HUGE, 7], POSITION: [0, 1, 2]})
    shards = [Shard(made.shard_job(), number) for number in range(2)]
    begins = [Blob(BEGIN, "", "", pa.table({"id": shard.pending()})) for shard in shards]
    found = [
        list(shard.apply([*([begin] if begin.table.num_rows else []), Blob(ROWS, source, "a", rows)]))
        for shard, begin in zip(shards, begins, strict=True)
    ]
    rejected = [output.table.to_pylist() for each in found for output in each if output.kind == REJECTED]
    assert len(rejected) == 1, "the first shard alone reports it"
    assert "too large" in str(rejected[0])
    assert [shard.accepted[source] for shard in shards] == [2, 2]
    assert [shard.engine.counts(source)["rows"] for shard in shards] == [2, 2]
    assert any(output.kind == CHANGES for each in found for output in each)
