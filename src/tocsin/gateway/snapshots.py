"""Snapshots of the hub: a folder `snapshot-<record>` that holds all that the records up to it have made."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.engine.engine import Engine
from tocsin.errors import StateError
from tocsin.gateway.book import Book
from tocsin.gateway.history import History, Told
from tocsin.gateway.log import sync_folder

#: Grows when a snapshot of the version before can no longer be read.
FORMAT = 1


class State(NamedTuple):
    """What a snapshot holds."""

    #: the last record that is part of it
    number: int
    engine: Engine
    book: Book
    history: History
    #: small things: the hub's name, declarations, publishers' batches
    facts: dict[str, Any]


def name(number: int) -> str:
    """The folder of the snapshot after a record."""
    return f"snapshot-{number:020d}"


def write(folder: Path, state: State) -> int:
    """Write all or nothing, on disk before it returns; the bytes written. Cost: linear in the state."""
    whole = folder / name(state.number)
    aside = whole.with_name(f"{whole.name}.writing")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir()
    state.engine.save(aside / "engine.tocsin")
    templates, subscriptions = state.book.dump()
    floors = pa.array([state.history.floor(full) for full in subscriptions["id"].to_pylist()], pa.int64())
    _write_table(aside / "subscriptions.arrow", subscriptions.append_column("floor", floors))
    _write_table(aside / "history.arrow", _history_table(state.history))
    facts = {"format": FORMAT, "number": state.number, "templates": templates, **state.facts}
    _write_bytes(aside / "hub.json", json.dumps(facts, ensure_ascii=False).encode())
    sync_folder(aside)
    aside.rename(whole)
    sync_folder(folder)
    return sum(path.stat().st_size for path in whole.iterdir())


def read(folder: Path, history: History) -> State | None:
    """The newest snapshot, or None; `history` is filled. Raises StateError."""
    found = sorted(path for path in folder.glob("snapshot-*") if not path.name.endswith(".writing"))
    if not found:
        return None
    newest = found[-1]
    try:
        facts = json.loads((newest / "hub.json").read_bytes())
        if facts["format"] != FORMAT:
            raise StateError(f"{newest.name} has format {facts['format']!r}; this version reads {FORMAT}")
        subscriptions = _read_table(newest / "subscriptions.arrow")
        book = Book.load(facts["templates"], subscriptions)
        for row in _read_table(newest / "history.arrow").to_pylist():
            history.append(row["subscription"], Told(row["number"], row["changes"]))
        for row in subscriptions.select(["id", "floor"]).to_pylist():
            history.raise_floor(row["id"], row["floor"])
        engine = Engine.load(newest / "engine.tocsin")
    except (OSError, KeyError, ValueError, TypeError, pa.ArrowException) as failure:
        raise StateError(f"{newest.name} cannot be read: {failure}") from failure
    return State(facts["number"], engine, book, history, facts)


def forget(folder: Path, before: int) -> None:
    """Remove older snapshots, and what a crash left half-written."""
    for path in folder.glob("snapshot-*"):
        if path.name.endswith(".writing") or int(path.name[9:]) < before:
            shutil.rmtree(path, ignore_errors=True)


def _history_table(history: History) -> pa.Table:
    entries = list(history.entries())
    return pa.table(
        {
            "subscription": pa.array([subscription for subscription, _ in entries], pa.string()),
            "number": pa.array([told.number for _, told in entries], pa.int64()),
            "changes": pa.array([told.changes for _, told in entries], pa.large_string()),
        }
    )


def _write_table(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    _write_bytes(path, sink.getvalue())


def _read_table(path: Path) -> pa.Table:
    with pa.ipc.open_file(pa.py_buffer(path.read_bytes())) as reader:
        return reader.read_all()


def _write_bytes(path: Path, data: Any) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
