"""Jobs that write messages: shards without Spark, job files, and one job that is killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.pipeline.samples import packed, stocks
from tests.pipeline.spark_jobs import QUICK, Running, rows_of, run
from tests.pipeline.test_shard_state import DictStateStore, state_manager
from tocsin.pipeline.blobs import PARAMETERS, POSITION, Blob, unpack
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.shard import MESSAGES, SNAPSHOTS, Output
from tocsin.pipeline.state import shard_state, warm_cache

RANGE = "risk BETWEEN :lo AND :hi"
TOP = f"SELECT symbol, per FROM stocks WHERE {RANGE} ORDER BY per LIMIT 2"
MIN = f"SELECT MIN(per) FROM stocks WHERE {RANGE}"
VALUES = f"SELECT DISTINCT per FROM stocks WHERE {RANGE}"
STATEMENTS = (TOP, MIN, VALUES)
RANGES = [(0.0, 3.0), (1.0, 5.0), (2.0, 2.0), (-1.0, 9.0)]

COLUMNS = {"symbol": "string", "risk": "double", "per": "double"}
DENSE: dict[str, Any] = {
    "job": {"name": "test", "checkpoint": "unused", "output": "messages", "snapshot_after": 5},
    "tables": {"stocks": {"path": "unused", "key": "symbol", "columns": COLUMNS}},
    "subscriptions": [{"sql": sql} for sql in STATEMENTS],
    "sink": {"path": "unused"},
}
SPARSE = {
    **DENSE,
    "job": {**DENSE["job"], "algorithm": "sparse"},
    "subscriptions": [{"sql": sql, "params": "unused"} for sql in STATEMENTS],
}


def parameters(section: int) -> Blob:
    """The subscriptions of one section, with ids of its own."""
    lo, hi = zip(*RANGES, strict=True)
    ids = [f"{section}-{number}" for number in range(len(RANGES))]
    return Blob(
        PARAMETERS,
        str(section),
        "a",
        pa.table({"id": ids, "lo": lo, "hi": hi, POSITION: np.arange(len(RANGES))}),
    )


def batches() -> list[list[bytes]]:
    """Nine files of stocks with few distinct values."""
    random = np.random.default_rng(5)
    made = []
    for number in range(9):
        symbols = random.choice(list("ABCDEFGH"), 3, replace=False).tolist()
        rows = {name: tuple(map(float, random.integers(0, 6, 2))) for name in symbols}
        made.append(packed([stocks(f"{number}", {name: (x, y) for name, (x, y) in rows.items()})]))
    return made


def play(job: Job, folder: Path, *, lose: bool = False) -> list[Output]:
    """All outputs; `lose` makes every batch rebuild its shard from the store."""
    store, outputs = DictStateStore(), []
    registered = packed([parameters(section) for section in range(len(STATEMENTS))])
    for number, batch in enumerate(batches()):
        given = [*batch, *registered] if number == 0 and job.settings.algorithm == "sparse" else batch
        outputs += list(state_manager(job.shard_job(), store, folder).run(given))
        if lose:
            warm_cache._resident.clear()
            for path in folder.iterdir():
                path.unlink()
    return outputs


def answers() -> dict[tuple[str, float, float], list[tuple[str, float]]]:
    """What one engine answers in the end."""
    engine = tocsin.Engine()
    engine.create_table("stocks", key="symbol", columns=COLUMNS)
    sids = {
        (sql, *each): engine.subscribe(sql, lo=each[0], hi=each[1]) for sql in STATEMENTS for each in RANGES
    }
    for batch in batches():
        for data in batch:
            table = unpack(data).table.drop_columns([POSITION])
            engine.publish("stocks", table)
    found = {}
    for name, sid in sids.items():
        answers = engine.answers([sid])
        keys, scores = answers.column("key").to_pylist(), answers.column("score").to_pylist()
        found[name] = [pair for pair in zip(keys, scores, strict=True) if pair[1] is not None]
    return found


def held(snapshots: list[list[dict[str, Any]]], messages: list[dict[str, Any]], start: int) -> dict[Any, Any]:
    """What subscribers hold that began with one of the snapshots and got every message."""
    found = {}
    for sql in STATEMENTS:
        engine = tocsin.Engine()
        engine.create_table("stocks", key="symbol", columns=COLUMNS)
        engine.create_space(sql)
        (space,) = engine.spaces("stocks")
        for lo, hi in RANGES:
            subscriber = tocsin.Subscriber(lo, hi, **space)
            subscriber.start(snapshots[start])
            subscriber.apply(sorted(messages, key=lambda message: (message["seq"], message["n"])))
            found[sql, lo, hi] = [(entry.key, entry.y) for entry in subscriber.result()]
    return found


@pytest.mark.parametrize("given", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_whoever_starts_from_any_snapshot_ends_exact(given: dict[str, Any], tmp_path: Path) -> None:
    outputs = play(Job.of(given), tmp_path)
    messages = [row for output in outputs if output.kind == MESSAGES for row in output.table.to_pylist()]
    snapshots = [output.table.to_pylist() for output in outputs if output.kind == SNAPSHOTS]
    assert {output.kind for output in outputs} == {MESSAGES, SNAPSHOTS}
    assert len(snapshots) > 2, "as many as the messages pay for"
    expected = {
        name: sorted(answer) if "DISTINCT" in name[0] else answer for name, answer in answers().items()
    }
    for start in range(len(snapshots)):
        assert held(snapshots, messages, start) == expected


@pytest.mark.parametrize("given", [DENSE, SPARSE], ids=["dense", "sparse"])
@pytest.mark.parametrize("small", [1, 8 << 20], ids=["snapshots", "log"])
def test_a_shard_that_is_lost_tells_the_same(
    given: dict[str, Any],
    small: int,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job.of(given)
    calm = play(job, tmp_path_factory.mktemp("calm"))
    monkeypatch.setattr(shard_state, "SMALL_LOG", small)
    lossy = play(job, tmp_path_factory.mktemp("lossy"), lose=True)
    assert [(output.kind, output.table.to_pylist()) for output in calm] == [
        (output.kind, output.table.to_pylist()) for output in lossy
    ]


def test_tables_go_to_a_shard_each() -> None:
    tables = dict.fromkeys(("stocks", "bonds", "funds"), DENSE["tables"]["stocks"])
    job = Job.of({**DENSE, "tables": tables})
    assert [job.shard_of_table(name) for name in tables] == [0, 1, 0]
    assert [section.shard for section in job.shard_job().sections] == [0, 0, 0]


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("subscriptions", [{"sql": "SELECT COUNT(*) FROM stocks WHERE risk < 5"}], "MIN, MAX and DISTINCT"),
        ("subscriptions", [{"sql": TOP.replace("LIMIT 2", "LIMIT :k")}], ":k is missing"),
        ("subscriptions", [{"sql": TOP, "params": "in"}], "need no subscriptions"),
        ("subscriptions", [{"sql": TOP, "id": "one"}], "need no subscriptions"),
        ("job", {**DENSE["job"], "epsilon": 0.5}, "top-k only"),
        ("job", {**DENSE["job"], "epsilon": 2}, "less than or equal to 1"),
        ("job", {**DENSE["job"], "algorithm": "sparse"}, "has parameters"),
        ("job", {**DENSE["job"], "algorithm": "best"}, "algorithm"),
        ("sink", {"path": "unused", "format": "csv"}, "lists"),
        ("sink", {"path": "unused", "rows": True}, "rows applies to changes"),
        ("streams", {"trades": {"path": "in", "columns": {"price": "double"}}}, "'trades' is a stream"),
    ],
)
def test_jobs_that_cannot_write_messages(section: str, change: Any, words: str) -> None:
    with pytest.raises(JobError, match=words):
        Job.of({**DENSE, section: change})


JOB = f"""\
[job]
name = "test"
checkpoint = "state"
output = "messages"
snapshot_after = 20

[tables.stocks]
path = "in/stocks"
key = "symbol"
columns = {{ symbol = "string", risk = "double", per = "double" }}
options = {{ maxFilesPerTrigger = 1 }}

[[subscriptions]]
sql = "{TOP}"

[[subscriptions]]
sql = "{VALUES}"

[sink]
path = "out"

{QUICK}"""


def write_input(folder: Path) -> None:
    (folder / "in/stocks").mkdir(parents=True)
    (folder / "job.toml").write_text(JOB)
    for number, batch in enumerate(batches()):
        path = folder / f"in/stocks/{number:02}.parquet"
        pq.write_table(unpack(batch[0]).table.drop_columns([POSITION]), path)
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_job_writes_the_same(tmp_path: Path) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    for folder in (calm, killed):
        folder.mkdir()
        write_input(folder)
    with Running(killed) as job:
        assert job.wait_for_batches(3)
        job.kill()
    for folder in (killed, calm):
        finished = run(folder)
        assert finished.returncode == 0, finished.stderr
    for name in ("out", "out.snapshots"):
        assert rows_of(killed / name) == rows_of(calm / name)
        assert rows_of(calm / name)
    expected = {name: answer for name, answer in answers().items() if name[0] == TOP}
    snapshots = [
        rows_of_batch(batch)
        for batch in sorted((calm / "out.snapshots").glob("batch=*"), key=lambda path: int(path.name[6:]))
    ]
    for start in range(len(snapshots)):
        found = held(snapshots, rows_of(calm / "out"), start)
        assert {name: answer for name, answer in found.items() if name[0] == TOP} == expected


def rows_of_batch(folder: Path) -> list[dict[str, Any]]:
    return [
        row for file in sorted(folder.glob("*.parquet")) for row in pq.ParquetFile(file).read().to_pylist()
    ]
