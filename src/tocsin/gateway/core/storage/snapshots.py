"""Snapshots of the hub: a folder `snapshot-<record>` holds the state after that record.

Its file `checksums` has the SHA-256 of every other file, and its own in the first line. All are verified
before anything is parsed.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.engine import saving
from tocsin.engine.engine import Engine
from tocsin.errors import StateError
from tocsin.gateway.core.catalog import SubscriptionCatalog
from tocsin.gateway.core.history import DeliveredBatch, History
from tocsin.gateway.core.recent import Recent
from tocsin.gateway.core.storage import files

logger = logging.getLogger(__name__)

#: The current format, and those that can be read. Format 1 has no checksums.
FORMAT = 2
_READ = (1, 2)

CHECKSUMS = "checksums"


class State(NamedTuple):
    """The contents of a snapshot."""

    #: the last record that it covers
    number: int
    engine: Engine
    catalog: SubscriptionCatalog
    history: History
    recent: Recent
    #: as JSON: declarations and keyed requests
    facts: dict[str, Any]


def name(number: int) -> str:
    """The folder of the snapshot after a record."""
    return f"snapshot-{number:020d}"


def write(folder: Path, state: State) -> int:
    """Write a snapshot atomically and durably; returns its size in bytes. Cost: linear in the state."""
    whole = folder / name(state.number)
    aside = whole.with_name(f"{whole.name}.writing")
    if aside.exists():
        files.remove_folder(aside)
    try:
        files.make_folder(aside)
        _write(aside, state)
        files.sync_folder(aside)
        files.rename(aside, whole)
        files.sync_folder(folder)
    except BaseException:
        # On a full disk, a partial snapshot takes space that the log needs.
        with suppress(OSError):
            files.remove_folder(aside)
        raise
    return sum(path.stat().st_size for path in whole.iterdir())


def read(folder: Path, history: History, recent: Recent) -> State | None:
    """Read the newest snapshot, if any; fills `history` and `recent`. Raises StateError."""
    folders = sorted(path for path in folder.glob("snapshot-*") if not path.name.endswith(".writing"))
    if not folders:
        return None
    newest = folders[-1]
    try:
        is_checked = verify(newest)
        facts = json.loads(files.read_all(newest / "hub.json"))
        if facts["format"] not in _READ:
            raise StateError(f"{newest.name} has format {facts['format']!r}; this version reads {FORMAT}")
        if facts["format"] > 1 and not is_checked:
            raise StateError(_refusal(newest, CHECKSUMS, "is missing"))
        subscriptions = _read_table(newest / "subscriptions.arrow")
        catalog = SubscriptionCatalog.load(facts["templates"], subscriptions)
        for row in _read_table(newest / "history.arrow").to_pylist():
            history.append(row["subscription"], DeliveredBatch(row["number"], row["changes"]))
        if is_checked:
            for row in _read_table(newest / "recent.arrow").to_pylist():
                recent.extend(row["number"], [(row["subscription"], row["changes"])])
        for row in subscriptions.select(["id", "floor"]).to_pylist():
            history.raise_floor(row["id"], row["floor"])
        engine = Engine.load(newest / "engine.tocsin")
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as failure:
        raise StateError(f"{newest} cannot be read: {failure}") from failure
    return State(facts["number"], engine, catalog, history, recent, facts)


def verify(snapshot: Path) -> bool:
    """Verify every file's checksum; False if there are none. Raises StateError, OSError."""
    if not (snapshot / CHECKSUMS).exists():
        return False
    own, _, lines = files.read_all(snapshot / CHECKSUMS).partition(b"\n")
    if hashlib.sha256(lines).hexdigest().encode() != own:
        raise StateError(_refusal(snapshot, CHECKSUMS, "is damaged"))
    for line in lines.decode().splitlines():
        expected, _, named = line.partition("  ")
        if not (snapshot / named).exists():
            raise StateError(_refusal(snapshot, named, "is missing"))
        if files.checksum(snapshot / named) != expected:
            raise StateError(_refusal(snapshot, named, "is damaged"))
    return True


def forget(folder: Path, before: int) -> None:
    """Remove older snapshots, and partial ones that a crash left."""
    for path in folder.glob("snapshot-*"):
        if path.name.endswith(".writing") or int(path.name[9:]) < before:
            try:
                files.remove_folder(path)
            except OSError as failure:
                # Harmless: nothing reads it, and the next snapshot removes it.
                logger.warning("%s could not be removed: %s", path.name, failure.strerror)


def _write(folder: Path, state: State) -> None:
    templates, subscriptions = state.catalog.dump()
    floors = pa.array([state.history.floor(full) for full in subscriptions["id"].to_pylist()], pa.int64())
    facts = {"format": FORMAT, "number": state.number, "templates": templates, **state.facts}
    checksums = {}
    with files.Writer(folder / "engine.tocsin") as file:
        saving.dump(file, *state.engine.state())
    checksums["engine.tocsin"] = file.checksum
    for named, table in (
        ("subscriptions.arrow", subscriptions.append_column("floor", floors)),
        ("history.arrow", _batch_table(state.history.entries())),
        ("recent.arrow", _batch_table(state.recent.entries())),
    ):
        with files.Writer(folder / named) as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        checksums[named] = file.checksum
    with files.Writer(folder / "hub.json") as file:
        file.write(json.dumps(facts, ensure_ascii=False).encode())
    checksums["hub.json"] = file.checksum
    lines = "".join(f"{checksum}  {named}\n" for named, checksum in checksums.items()).encode()
    with files.Writer(folder / CHECKSUMS) as file:
        file.write(hashlib.sha256(lines).hexdigest().encode() + b"\n" + lines)


def _refusal(snapshot: Path, named: str, what: str) -> str:
    return (
        f"{snapshot / named} {what}: this snapshot cannot be read. Nothing has been changed. Restore "
        f"a copy of {snapshot.parent}, and remove the file 'epoch' in it: older cursors "
        "must not be mistaken for new ones"
    )


def _batch_table(batches: Iterable[tuple[str, DeliveredBatch]]) -> pa.Table:
    entries = list(batches)
    return pa.table(
        {
            "subscription": pa.array([subscription for subscription, _ in entries], pa.string()),
            "number": pa.array([batch.number for _, batch in entries], pa.int64()),
            "changes": pa.array([batch.changes for _, batch in entries], pa.large_string()),
        }
    )


def _read_table(path: Path) -> pa.Table:
    with pa.ipc.open_file(pa.py_buffer(files.read_all(path))) as reader:
        return reader.read_all()
