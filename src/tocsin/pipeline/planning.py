"""Batches that stay the same after a kill: what Spark listed but never planned is listed again.

For each batch Spark's file source first logs the files that it found, source by source, and then the
query logs the offsets up to which the batch reads. After a kill between the two, the next batch would
read the files that were found before and after the restart together: nothing would be lost, but two
batches would have become one, and what they tell with them.
"""

from __future__ import annotations

import json
import re

from tocsin.pipeline.files import Folders


def forget_unplanned(files: Folders, checkpoint: str) -> None:
    """Take back what file sources listed past the last planned batch. Nothing may run on the checkpoint."""
    checkpoint = checkpoint.rstrip("/")
    batches = [int(name) for name in _names(files, f"{checkpoint}/offsets") if name.isdigit()]
    planned = _planned(files.read_text(f"{checkpoint}/offsets/{max(batches)}")) if batches else {}
    for source in _names(files, f"{checkpoint}/sources"):
        _forget_after(files, f"{checkpoint}/sources/{source}", planned.get(source, -1))


def _planned(text: str) -> dict[str, int]:
    """The last listing that a batch reads, by source, from the query's offset log."""
    planned = {}
    for line in text.splitlines()[2:]:
        name, _, offset = line.partition(":")
        if re.fullmatch(r'\{"logOffset":-?\d+\}', offset):
            planned[name] = int(json.loads(offset)["logOffset"])
    return planned


def _forget_after(files: Folders, log: str, last: int) -> None:
    """Keep the listings up to `last`, the newest being dropped first: a kill here leaves no gap."""
    listings = {}
    for name in _names(files, log):
        digits, _, suffix = name.partition(".")
        if digits.isdigit() and suffix in ("", "compact"):
            listings[int(digits)] = name
    for number in sorted((number for number in listings if number > last), reverse=True):
        path = f"{log}/{listings[number]}"
        version, *entries = files.read_text(path).splitlines()
        if not all(entry.startswith('{"path":') for entry in entries):
            # The log of another kind of source, such as the offsets at which a topic began.
            return
        if listings[number].isdigit():
            files.delete(path)
        else:
            # It holds the earlier listings too, and may be all that is left of them.
            kept = [entry for entry in entries if json.loads(entry)["batchId"] <= last]
            files.write_text(path, "\n".join([version, *kept]))


def _names(files: Folders, folder: str) -> list[str]:
    return files.names(folder) if files.exists(folder) else []
