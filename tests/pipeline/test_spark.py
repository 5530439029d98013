"""Jobs on a real local Spark, each in a process of its own; those that are killed are in `test_faults`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.pipeline.spark_jobs import changes, expected, rows_of, run, write_input

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_job_tells_what_the_engine_tells(tmp_path: Path) -> None:
    write_input(tmp_path)
    finished = run(tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)
    rejects = rows_of(tmp_path / "out.rejects")
    assert sorted((r["source"], Path(r["path"]).name, r["position"]) for r in rejects) == [
        ("stocks", "garbage.parquet", -1),
        ("subscriptions 0", "a.parquet", 50),
        ("trades", "00.csv", 3),
    ]
    assert all(reject["reason"] for reject in rejects)


def test_files_listed_for_a_batch_that_was_never_planned_stay_a_batch_of_their_own(tmp_path: Path) -> None:
    """What a kill leaves between the listing of a batch's files and the batch's plan."""
    write_input(tmp_path)
    with (tmp_path / "job.toml").open("a") as job:
        job.write('"spark.sql.streaming.fileSource.log.compactInterval" = 2\n')
    later = [*(tmp_path / "in/stocks").glob("0[3-9]*"), *(tmp_path / "in/trades").glob("0[4-9]*")]
    later.append(tmp_path / "in/stocks/garbage.parquet")
    for path in later:
        path.rename(tmp_path / f"{path.parent.name} {path.name}")
    finished = run(tmp_path)
    assert finished.returncode == 0, finished.stderr
    for path in later:
        (tmp_path / f"{path.parent.name} {path.name}").rename(path)
    sources = tmp_path / "state/sources"
    listed = [json.loads(line) for line in (sources / "stocks/2").read_text().splitlines()[1:]]
    early = [json.loads(line) for line in (sources / "stocks/1.compact").read_text().splitlines()[1:]]
    unplanned = {"stocks/3.compact": [*early, *listed, entry(tmp_path / "in/stocks/03.parquet", 3)]}
    unplanned["trades/4"] = [entry(tmp_path / "in/trades/04.csv", 4)]
    for name, entries in unplanned.items():
        assert not (sources / name).exists()
        (sources / name).write_text("\n".join(["v1", *map(json.dumps, entries)]))
    finished = run(tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)


def test_a_run_again_shows_its_own_batches_and_fails_if_nothing_is_usable(tmp_path: Path) -> None:
    """Files of Polars, whose text is `large_string`; then what a kill leaves, and one that does not fit."""
    write_input(tmp_path, files=2)
    for path in (tmp_path / "in/stocks").glob("0*.parquet"):
        when = path.stat().st_mtime
        pl.read_parquet(path).write_parquet(path)
        os.utime(path, (when, when))
    finished = run(tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert changes(tmp_path) == expected(tmp_path)
    assert len(rows_of(tmp_path / "out.rejects")) == 3
    shown = finished.stderr.index
    phases = ("reading the job", "starting Spark", "batch 0: reading", "rows so far")
    assert sorted(phases, key=shown) == list(phases)
    last = len(list((tmp_path / "state/commits").glob("[0-9]*"))) - 1
    # Killed before Spark's commit of the last batch, and between the two renames of a file and its checksum.
    for name in (str(last), f".{last}.crc"):
        (tmp_path / "state/commits" / name).unlink(missing_ok=True)
    description = tmp_path / "state/tocsin.json"
    description.write_text(description.read_text() + "\n")
    described = description.with_name(".tocsin.json.crc")
    described.write_bytes(described.read_bytes() if described.exists() else b"crc\0\0\0\2\0\0\0\0\0")
    other = pl.DataFrame({"symbol": ["A", "B"] * 5000, "risk": ["low", "high"] * 5000, "per": [1.0] * 10_000})
    other.write_parquet(tmp_path / "in/stocks/other.parquet")
    finished = run(tmp_path)
    assert finished.returncode == 1, finished.stderr
    lines = [line.split(":")[0] for line in finished.stderr.splitlines() if "rows so far" in line]
    assert lines == [f"batch {last}", f"batch {last + 1}"]
    assert "every row of stocks was rejected" in finished.stderr
    assert changes(tmp_path) == expected(tmp_path)
    (reject,) = (r for r in rows_of(tmp_path / "out.rejects") if r["path"].endswith("other.parquet"))
    assert "column 'risk' (string) fits in no row: 'low' is not a double" in reject["reason"]
    assert reject["rows"] == 10_000


def entry(path: Path, batch: int) -> dict[str, Any]:
    """A file as Spark's file source lists it."""
    return {"path": path.as_uri(), "timestamp": int(path.stat().st_mtime * 1000), "batchId": batch}
