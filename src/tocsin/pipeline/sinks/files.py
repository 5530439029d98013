"""Writes batches as folders, each moved into place by one rename."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame

from tocsin.pipeline.filesystems.local import FileSystem
from tocsin.pipeline.frames import changes_of, rejects_of, snapshots_of
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job

MARKER = "_tocsin.json"
PROBE = "_tocsin.probe"


class FileSink:
    """Writes folders `batch=N` of changes (or messages and snapshots) and of rejects.

    One rename moves each into place, so a reader sees whole batches only, whatever is killed.
    """

    def __init__(self, files: FileSystem, job: Job, owner: str) -> None:
        assert job.sink.path is not None
        self._job = job
        self._files = files
        self._changes = job.sink.path.rstrip("/")
        self._rejects = (job.sink.rejects or f"{self._changes}.rejects").rstrip("/")
        self._snapshots = f"{self._changes}.snapshots"
        snapshots = [self._snapshots] if job.settings.output == "messages" else []
        for path in (self._changes, self._rejects, *snapshots):
            self._claim(path, owner)

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        if has_snapshots:
            # First, so that a reader that sees a batch of messages sees the snapshots before it.
            self._put(snapshots_of(outputs), self._snapshots, batch)
        self._put(changes_of(outputs, self._job), self._changes, batch)
        if has_rejects:
            self._put(rejects_of(outputs), self._rejects, batch)

    def _put(self, frame: DataFrame, folder: str, batch: int) -> None:
        target = f"{folder}/batch={batch}"
        if self._files.exists(target):
            return
        aside = f"{folder}.writing/batch={batch}"
        options = {name: str(value) for name, value in self._job.sink.options.items()}
        writer = frame.write.mode("overwrite").format(self._job.sink.format)
        if self._job.sink.format == "csv":
            writer = writer.option("header", "true")
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").options(**options).save(
            aside
        )
        self._files.rename(aside, target)

    def _claim(self, path: str, owner: str) -> None:
        self._files.make_folder(path)
        marker = f"{path}/{MARKER}"
        if self._files.exists(marker):
            last_owner = _owner_in(self._files.read_text(marker), marker)
            if last_owner != owner:
                raise JobError(
                    f"sink path {path!r} belongs to another query ({last_owner}); use another path, "
                    "or the checkpoint that wrote it"
                )
        else:
            self._try_moving_in(path)
            self._files.write_text(marker, json.dumps({"query": owner}))

    def _try_moving_in(self, path: str) -> None:
        """Refuse a folder that cannot be renamed into, before there is a batch to rename."""
        aside, probe = f"{path}.writing/{PROBE}", f"{path}/{PROBE}"
        self._files.make_folder(aside)
        self._files.delete(probe)
        try:
            self._files.rename(aside, probe)
        except OSError as failure:
            raise JobError(
                f"sink path {path!r}: batches are written to {path}.writing and moved in by one rename, "
                f"which fails: {failure}; if the path is a mount point, use a folder below it"
            ) from None
        self._files.delete(probe)


def _owner_in(text: str, marker: str) -> str:
    try:
        return str(json.loads(text)["query"])
    except (ValueError, KeyError, TypeError):
        raise JobError(
            f"{marker} is damaged, so the query that wrote the folder is unknown; use another path"
        ) from None
