"""Snapshots: every file is compared with its checksum before anything reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tocsin import StateError
from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.storage import snapshots

ALL = {"*": ""}
FILES = ["checksums", "engine.tocsin", "history.arrow", "hub.json", "recent.arrow", "subscriptions.arrow"]


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """The newest snapshot of a hub that was closed."""
    hub = Hub(tmp_path)
    hub.declare(Declaration("table", "t", {"k": "string", "x": "double"}, "k"))
    hub.subscribe("main", "SELECT k FROM t WHERE x > 0 ORDER BY x LIMIT 3", {}, grants=ALL, id="s")
    hub.publish("t", "json", b'[{"k": "a", "x": 1}]')
    hub.snapshot()
    hub.close()
    (found,) = tmp_path.glob("snapshot-*")
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_refused_before_it_is_read(snapshot: Path, name: str) -> None:
    assert sorted(path.name for path in snapshot.iterdir()) == FILES
    path = snapshot / name
    good = path.read_bytes()
    for place in {0, len(good) // 3, len(good) // 2, len(good) - 2}:
        data = bytearray(good)
        data[place] ^= 1
        path.write_bytes(data)
        with pytest.raises(StateError, match=f"{name} is damaged") as refused:
            Hub(snapshot.parent)
        assert "Restore" in str(refused.value)
    path.write_bytes(good[:-1])
    with pytest.raises(StateError, match="is damaged"):
        Hub(snapshot.parent)
    path.unlink()
    with pytest.raises(StateError, match=f"{name} is missing"):
        Hub(snapshot.parent)
    path.write_bytes(good)
    hub = Hub(snapshot.parent)
    assert hub.result("main", "s").to_pylist() == [{"k": "a"}]
    hub.close()


def test_a_snapshot_of_the_version_before_is_read(snapshot: Path) -> None:
    (snapshot / snapshots.CHECKSUMS).unlink()
    facts = json.loads((snapshot / "hub.json").read_bytes())
    (snapshot / "hub.json").write_text(json.dumps({**facts, "format": 1}))
    hub = Hub(snapshot.parent)
    assert hub.result("main", "s").to_pylist() == [{"k": "a"}]
    hub.close()
