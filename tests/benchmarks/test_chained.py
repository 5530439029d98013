"""What shards that get messages tell, beside what an engine tells: without Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin

pytest.importorskip("pyspark")

from benchmarks.range_parts import chained

COLUMNS = {"id": "bigint", "x": "double", "y": "double"}


def test_answers_kept_by_messages_change_as_the_engine_says(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    bounds = np.sort(random.integers(0, 40, (60, 2)), axis=1).astype(np.float64)
    ids = [f"s{number}" for number in range(len(bounds))]
    (tmp_path / "ranges").mkdir()
    path = tmp_path / "ranges" / "all.parquet"
    pq.write_table(pa.table({"id": ids, "lo": bounds[:, 0], "hi": bounds[:, 1]}), path)
    server, engine = tocsin.Engine(), tocsin.Engine()
    for each in (server, engine):
        each.create_table("rows", key="id", columns=COLUMNS)
    server.create_space(chained.SQL)
    engine.subscribe_many(chained.SQL, {"id": ids, "lo": bounds[:, 0], "hi": bounds[:, 1]})
    n_told = 0
    for size in (80, 1, 7, 30, 1, 15):
        keys = random.choice(80, size, replace=False) if n_told else np.arange(80)
        rows = pa.table(
            {"id": keys, "x": (keys * 7 % 40).astype(float), "y": random.integers(0, 9, len(keys)) / 1.0}
        )
        messages = server.messages("rows", rows)
        found: list[tuple[object, ...]] = []
        for number in range(chained.SHARDS if messages.num_rows else 0):
            found += as_rows(chained.changes_of_share(chained.share_of(str(path), number), messages))
        expected = as_rows(engine.publish("rows", rows))
        assert sorted(found, key=str) == sorted(expected, key=str)
        n_told += len(found)
    assert n_told > 500


def as_rows(table: pa.Table) -> list[tuple[object, ...]]:
    columns = (table.column(name).to_pylist() for name in ("subscription", "op", "key", "score", "rank"))
    return list(zip(*columns, strict=True))
