"""Every file operation of the driver fails in turn: it refuses or is right, and a rerun makes it right."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.faults import DEATHS, ERRORS, Died, Faults
from tests.pipeline.samples import job
from tocsin.pipeline.filesystems.local import LocalFileSystem
from tocsin.pipeline.job import running
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.job.listing_rollback import roll_back_unplanned
from tocsin.pipeline.job.progress import Progress
from tocsin.pipeline.sinks import files
from tocsin.pipeline.sinks.files import FileSink

BATCHES = 3


class Frame:
    """A frame that Spark would write: overwrites a folder with two files."""

    def __init__(self, kind: str, batch: int) -> None:
        self.content = {f"part-{part}": f"{kind} {batch} {part}" for part in range(2)}

    @property
    def write(self) -> Frame:
        return self

    def mode(self, how: str) -> Frame:
        assert how == "overwrite"
        return self

    def format(self, kind: str) -> Frame:
        return self

    def option(self, name: str, value: str) -> Frame:
        return self

    def options(self, **given: str) -> Frame:
        return self

    def save(self, path: str) -> None:
        if os.path.exists(path):
            shutil.rmtree(path)
        os.makedirs(path)
        for name, text in self.content.items():
            with open(f"{path}/{name}", "w") as file:
                file.write(text)


class Stream:
    """A query without Spark: batches in order, each committed once its sink and progress are done."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._job = job(
            job={"name": "test", "checkpoint": str(folder / "state"), "shards": 2},
            sink={"path": str(folder / "out")},
        )
        self.committed = 0
        self._plan()

    @property
    def checkpoint(self) -> Path:
        return self._folder / "state"

    def run(self) -> None:
        files = LocalFileSystem()
        owner = running._update_description(files, self._job)
        roll_back_unplanned(files, str(self.checkpoint))
        sink = FileSink(files, self._job, owner)
        progress = Progress(self._job)
        progress.persist_to(files)
        for number in range(self.committed, BATCHES):
            progress.enter(f"batch {number}")
            outputs: Any = number
            sink.write(outputs, number, has_rejects=number != 1, has_snapshots=False)
            progress.record_batch(number, [])
            self.committed = number + 1

    def _plan(self) -> None:
        """A checkpoint in which batch 1 was planned, and listings past it were not."""
        (self.checkpoint / "offsets").mkdir(parents=True)
        (self.checkpoint / "offsets/1").write_text('v1\n{}\ntrades:{"logOffset":1}')
        listings = self.checkpoint / "sources/trades"
        listings.mkdir(parents=True)
        for number, name in enumerate(("0", "1", "2", "3.compact", "4")):
            numbers = range(number + 1) if "." in name else [number]
            entries = [json.dumps({"path": f"f{n}", "batchId": n}).replace(" ", "") for n in numbers]
            (listings / name).write_text("\n".join(["v1", *entries]))
            (listings / f".{name}.crc").write_text("what Spark noted")


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    monkeypatch.setattr(files, "changes_of", lambda outputs, job: Frame("change", outputs))
    monkeypatch.setattr(files, "rejects_of", lambda outputs: Frame("reject", outputs))
    return Faults(tmp_path, monkeypatch)


def visible(folder: Path) -> dict[str, dict[str, str]]:
    """The batches that a reader sees."""
    return {
        str(batch.relative_to(folder)): {path.name: path.read_text() for path in batch.iterdir()}
        for name in ("out", "out.rejects")
        for batch in sorted((folder / name).glob("batch=*"))
    }


def whole() -> dict[str, dict[str, str]]:
    changes = {f"out/batch={batch}": Frame("change", batch).content for batch in range(BATCHES)}
    return changes | {f"out.rejects/batch={b}": Frame("reject", b).content for b in range(BATCHES) if b != 1}


def folders(base: Path) -> Iterator[Path]:
    number = 0
    while True:
        folder = base / f"{number:04}"
        folder.mkdir()
        yield folder
        number += 1


@pytest.mark.parametrize("kind", [*ERRORS, *DEATHS])
def test_a_fault_at_every_call_in_turn(kind: str, tmp_path: Path, faults: Faults) -> None:
    calls = -1
    for place, folder in enumerate(folders(tmp_path)):
        faults.arm(-1, "")
        stream = Stream(folder)
        faults.arm(place, kind)
        with contextlib.suppress(OSError, JobError, Died):
            stream.run()
        calls = faults.count
        faults.arm(-1, "")
        seen = visible(folder)
        assert seen.items() <= whole().items(), f"half a batch is seen after call {place}"
        assert len([name for name in seen if name.startswith("out/")]) >= stream.committed
        stream.run()
        assert visible(folder) == whole(), f"not made right after call {place}"
        check_checkpoint(stream.checkpoint)
        assert not list(folder.rglob("*.writing/batch=*"))
        if place >= calls:
            break
    assert calls > 50, "the faults are not where the files are"


def check_checkpoint(checkpoint: Path) -> None:
    """What was listed for planned batches is there; a listing that was written anew has no old checksum."""
    listings = checkpoint / "sources/trades"
    assert sorted(path.name for path in listings.iterdir() if path.name[0] != ".") == ["0", "1", "3.compact"]
    assert (listings / "3.compact").read_text().count("path") == 2
    assert not (listings / ".3.compact.crc").exists()
    assert json.loads((checkpoint / "tocsin.json").read_text())["query"]


def test_a_folder_that_nothing_can_be_moved_into_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(JobError, match="use a folder below it"):
        FileSink(LocalFileSystem(), sample(tmp_path), "me")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"query"'])
def test_a_damaged_marker_or_description_is_refused(tmp_path: Path, text: str) -> None:
    made = sample(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/_tocsin.json").write_text(text)
    with pytest.raises(JobError, match="damaged"):
        FileSink(LocalFileSystem(), made, "me")
    (tmp_path / "state").mkdir()
    (tmp_path / "state/tocsin.json").write_text(text)
    with pytest.raises(JobError, match="damaged"):
        running._update_description(LocalFileSystem(), made)


def sample(folder: Path) -> Job:
    return job(
        job={"name": "test", "checkpoint": str(folder / "state"), "shards": 2},
        sink={"path": str(folder / "out")},
    )
