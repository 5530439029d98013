"""`tocsin status` from what a job leaves behind."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tocsin.cli import status

JOB = """\
[job]
name = "alerts"
checkpoint = "{folder}/state"

[streams.trades]
path = "{folder}/in/trades"
columns = {{ price = "double" }}

[[subscriptions]]
sql = "SELECT COUNT(*) FROM trades HAVING COUNT(*) >= 10"
id = "ten"

[sink]
path = "{folder}/out"
"""


def test_figures_and_what_waits(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_progress(job.parent / "state")
    assert status.main([str(job)]) == 0
    shown = capsys.readouterr().out
    assert "alerts: batch 4" in shown
    assert "1,000" in shown
    assert "topic: 7 records behind" in shown
    assert "addBatch 0.90" in shown
    assert "waiting files: trades 2" in shown


def test_json_for_a_monitor(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_progress(job.parent / "state")
    assert status.main([str(job), "--json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert known["waiting"] == {"trades": 2}
    assert known["batches"][0]["shards"][0]["subscriptions"] == 5


def test_a_job_that_has_not_finished_a_batch(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main([str(job)]) != 0
    assert "no batch has been finished yet" in capsys.readouterr().err


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job with four files: one was listed by itself, one in a compacted log, and two wait."""
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(folder=tmp_path))
    folder = tmp_path / "in/trades"
    folder.mkdir(parents=True)
    for name in ("a b.parquet", "b.parquet", "c.parquet", "d.parquet", "_SUCCESS"):
        (folder / name).touch()
    log = tmp_path / "state/sources/trades"
    log.mkdir(parents=True)
    (log / "9.compact").write_text("v1\n" + json.dumps({"path": (folder / "a b.parquet").as_uri()}))
    (log / "10").write_text("v1\n" + json.dumps({"path": (folder / "b.parquet").as_uri()}))
    return path


def shard_figures() -> dict[str, Any]:
    """What a shard says of a batch."""
    return {
        "shard": 0,
        "subscriptions": 5,
        "rows": 1000,
        "changes": 3,
        "rejects": 0,
        "sources": {"trades": {"taken": 1000, "rejected": 0, "why": ""}},
        "found": "warm",
        "find_seconds": 0.0,
        "apply_seconds": 0.1,
        "keep_seconds": 0.1,
        "snapshot_bytes": 0,
        "log_bytes": 10,
    }


def write_progress(checkpoint: Path) -> None:
    batch = {"batch": 4, "time": time.time(), "shards": [shard_figures()]}
    figures = {"stages": {"addBatch": 0.9, "walCommit": 0.001}, "behind": {"topic": 7}}
    (checkpoint / "tocsin-progress.json").write_text(
        json.dumps({"job": "alerts", "batches": [{**batch, **figures}]})
    )
