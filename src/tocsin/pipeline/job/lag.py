"""The lag of a job behind its sources: waiting files, and unread records of topics."""

from __future__ import annotations

import json
import os
import re
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.sources.file_rows import FORMATS
from tocsin.pipeline.sources.spark_streams import stream_name


def waiting_files(job: Job) -> dict[str, int]:
    """The number of files that no batch has listed yet, by source, except where the path is a pattern.

    Cost: lists the folders of all file sources, and reads their logs in the checkpoint.
    """
    folders = {name: section.path for name, section in job.sources.items() if section.format in FORMATS}
    for number, section in enumerate(job.subscriptions):
        if section.format in FORMATS and section.params is not None:
            folders[f"subscriptions {number}"] = section.params
    waiting = {}
    for name, folder in folders.items():
        if folder is None or set(folder) & set("*?[{"):
            continue
        listed = _listed(f"{job.settings.checkpoint.rstrip('/')}/sources/{stream_name(name)}")
        waiting[name] = len(_present(folder) - listed)
    return waiting


def records_behind(progress: dict[str, Any]) -> dict[str, int]:
    """The number of unread records when Spark planned a batch, by topic."""
    behind = {}
    for source in progress.get("sources", []):
        count = (source.get("metrics") or {}).get("maxOffsetsBehindLatest")
        topic = re.search(r"Subscribe(?:Pattern)?\[(.*)\]", str(source.get("description")))
        if count is not None and topic:
            behind[topic[1]] = int(float(count))
    return behind


def read_text(path: str) -> str | None:
    """The content of a small file on any file system that Arrow supports; None if it cannot be read."""
    system, inner = _system(path)
    try:
        with system.open_input_file(inner) as file:
            return bytes(file.read()).decode()
    except (OSError, UnicodeDecodeError):
        return None


def _present(folder: str) -> set[str]:
    """Data files below a folder, as paths without a scheme."""
    system, inner = _system(folder)
    found = system.get_file_info(pa.fs.FileSelector(inner, recursive=True, allow_not_found=True))
    files = (info.path for info in found if info.type == pa.fs.FileType.File)
    return {path for path in files if not PurePosixPath(path).name.startswith(("_", "."))}


def _listed(log: str) -> set[str]:
    """Files that Spark's file source has listed, as paths without a scheme."""
    listed = set()
    system, inner = _system(log)
    for info in system.get_file_info(pa.fs.FileSelector(inner, allow_not_found=True)):
        if re.fullmatch(r"\d+(\.compact)?", info.base_name):
            for line in (read_text(f"{log}/{info.base_name}") or "").splitlines():
                if line.startswith("{"):
                    listed.add(unquote(urlsplit(json.loads(line)["path"]).path))
    return listed


def _system(path: str) -> tuple[pa.fs.FileSystem, str]:
    if "://" in path:
        system, inner = pa.fs.FileSystem.from_uri(path)
        return system, inner
    local = pa.fs.LocalFileSystem()
    return local, os.path.abspath(path.removeprefix("file:"))
