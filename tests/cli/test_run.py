"""`tocsin run` around the query: what is shown and when, and the exit code. Spark is in `tests/pipeline`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_status import JOB, shard_figures
from tocsin.cli import display, run, status
from tocsin.pipeline.filesystems.local import LocalFileSystem
from tocsin.pipeline.job.progress import Progress

Script = Callable[[Progress], None]


class Query:
    """A query that is active until its script has run, in a thread of its own as Spark's is."""

    def __init__(self, script: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=script)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    def exception(self) -> None:
        return None


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(folder=tmp_path))
    (tmp_path / "state").mkdir()
    return path


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], None]:
    """Instead of Spark, a script of what happens to the progress of a run."""
    monkeypatch.setattr(run, "INTERVAL", 0.001)

    def use(script: Script) -> None:
        def start(job: Any, *, report: Any, **options: Any) -> Query:
            progress = Progress(job, report)
            progress.enter("starting Spark")
            progress.persist_to(LocalFileSystem())
            progress.enter("looking for input")
            return Query(lambda: script(progress))

        monkeypatch.setattr("tocsin.pipeline.job.running.start", start)

    return use


def rows(taken: int, rejected: int, why: str = "") -> dict[str, Any]:
    return {**shard_figures(), "sources": {"trades": {"taken": taken, "rejected": rejected, "why": why}}}


def test_something_is_shown_before_the_first_batch(
    job: Path, play: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "SILENCE_SECONDS", 0.01)
    printed: list[str] = []

    def script(progress: Progress) -> None:
        progress.enter("batch 0: reading and applying")
        while not any("batch 0: reading and applying (" in text for text in printed):
            printed.append(capsys.readouterr().err)
        assert status.main([str(job)]) == 0
        printed.append(capsys.readouterr().out)
        progress.record_batch(0, [rows(5, 0)])

    play(script)
    assert run.main([str(job), "--once"]) == 0
    before = "".join(printed)
    for phase in ("reading the job", "starting Spark", "looking for input", "batch 0: reading"):
        assert phase in before
    assert "no batch has been finished yet" in before
    assert "batch 0: 1000 rows so far" in capsys.readouterr().err


def test_kernels_are_counted_until_the_first_batch() -> None:
    known = {"phase": "batch 0: reading", "since": time.time(), "compiled": 34}
    assert display.phase_line(known) == "batch 0: reading (0 s, 34 kernels compiled)"
    assert display.phase_line({**known, "compiled": 0}) == "batch 0: reading (0 s)"
    assert display.phase_line({**known, "finished": 1}) == "batch 0: reading (0 s)"


def test_a_batch_that_a_killed_run_had_finished_is_shown_again(
    job: Path, play: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its progress outlives it; batches are told from what this run does, not from that file."""

    def batches(*numbers: int) -> Script:
        def script(progress: Progress) -> None:
            for number in numbers:
                progress.record_batch(number, [rows(5, 0)])

        return script

    play(batches(0, 1, 2))
    assert run.main([str(job), "--once"]) == 0
    capsys.readouterr()
    play(batches(2, 3))
    assert run.main([str(job), "--once"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines if "rows so far" in line] == ["batch 2", "batch 3"]
    known = json.loads((job.parent / "state/tocsin-progress.json").read_text())
    assert [batch["batch"] for batch in known["batches"]] == [0, 1, 2, 3]


def test_a_source_without_a_usable_row_fails_a_run_that_drains_it(
    job: Path, play: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = rows(0, 10_000, "a.parquet: column 'price' (string) fits in no row")
    play(lambda progress: progress.record_batch(0, [bad, rows(0, 0)]))
    assert run.main([str(job), "--once"]) == 1
    said = capsys.readouterr().err
    assert "every row of trades was rejected, 10,000 in total; a.parquet: column 'price'" in said
    assert "out.rejects" in said
    # A job that goes on was not drained: what comes next may be good.
    assert run.main([str(job)]) == 0


def test_some_rejects_are_said_and_fail_nothing(
    job: Path, play: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(progress: Progress) -> None:
        progress.record_batch(0, [rows(0, 7, "why"), rows(0, 0)])
        progress.record_batch(1, [rows(1, 0), rows(1, 0)])

    play(script)
    assert run.main([str(job), "--once"]) == 0
    said = capsys.readouterr().err
    assert "rows rejected: 7" in said
    assert "every row" not in said


def test_a_job_that_cannot_be_read_says_so_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main([str(tmp_path / "nowhere.toml")]) == 2
    assert "nowhere.toml" in capsys.readouterr().err.splitlines()[-1]
