"""Rolls back file listings that Spark logged but never planned, so that batches are the same after a kill.

For each batch Spark's file sources first log the files that they found, source by source; then the query
logs the offsets up to which the batch reads. After a kill between the two, the next batch would read the
files found before and after the restart together: nothing would be lost, but two batches, and the changes
that they emit, would become one.
"""

from __future__ import annotations

import json
import re

from tocsin.pipeline.filesystems.local import FileSystem


def roll_back_unplanned(files: FileSystem, checkpoint: str) -> None:
    """Remove what file sources listed after the last planned batch. No query may run on the checkpoint."""
    checkpoint = checkpoint.rstrip("/")
    batches = [int(name) for name in _names(files, f"{checkpoint}/offsets") if name.isdigit()]
    planned = _planned(files.read_text(f"{checkpoint}/offsets/{max(batches)}")) if batches else {}
    for source in _names(files, f"{checkpoint}/sources"):
        _remove_after(files, f"{checkpoint}/sources/{source}", planned.get(source, -1))


def _planned(text: str) -> dict[str, int]:
    """The last listing that a planned batch reads, by source, from the query's offset log."""
    planned = {}
    for line in text.splitlines()[2:]:
        name, _, offset = line.partition(":")
        if re.fullmatch(r'\{"logOffset":-?\d+\}', offset):
            planned[name] = int(json.loads(offset)["logOffset"])
    return planned


def _remove_after(files: FileSystem, log: str, last: int) -> None:
    """Remove the listings after `last`, newest first, so that a kill in between leaves no gap."""
    listings = {}
    for name in _names(files, log):
        digits, _, suffix = name.partition(".")
        if digits.isdigit() and suffix in ("", "compact"):
            listings[int(digits)] = name
    for number in sorted((number for number in listings if number > last), reverse=True):
        path = f"{log}/{listings[number]}"
        version, *entries = files.read_text(path).splitlines()
        if not all(entry.startswith('{"path":') for entry in entries):
            # The log of another kind of source, such as the initial offsets of a topic.
            return
        if listings[number].isdigit():
            files.delete(path)
        else:
            # It has the earlier listings too, and may be their only copy.
            earlier = [entry for entry in entries if json.loads(entry)["batchId"] <= last]
            files.write_text(path, "\n".join([version, *earlier]))


def _names(files: FileSystem, folder: str) -> list[str]:
    return files.names(folder) if files.exists(folder) else []
