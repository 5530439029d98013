"""The hub when something goes wrong inside it, and when the disk does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tocsin import StateError
from tocsin.engine.catalog import Declaration
from tocsin.engine.engine import Engine
from tocsin.gateway.failures import QuotaExceeded, Unavailable
from tocsin.gateway.hub import Hub

ALL = {"*": ""}
ROW = b'[{"k": "a", "x": 1}]'
TOP = "SELECT k FROM t WHERE x > 0 ORDER BY x LIMIT 3"


@pytest.fixture
def hub(tmp_path: Path) -> Hub:
    made = Hub(tmp_path)
    made.declare(Declaration("table", "t", {"k": "string", "x": "double"}, "k"))
    made.subscribe("main", TOP, {}, grants=ALL, id="s")
    made.sync()
    return made


def test_a_failure_in_the_middle_goes_back_to_what_is_on_disk(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish("t", "json", ROW)
    number = hub.number
    real = Engine.publish

    def broken(engine: Engine, *given: Any, **more: Any) -> Any:
        told = real(engine, *given, **more)
        if given[1] == [{"k": "b", "x": 2}]:
            raise RuntimeError("half-way")
        return told

    monkeypatch.setattr(Engine, "publish", broken)
    with pytest.raises(RuntimeError, match="half-way"):
        hub.publish("t", "json", b'[{"k": "b", "x": 2}]')
    assert hub.number == number
    assert hub.result("main", "s").to_pylist() == [{"k": "a"}]
    assert [full for full, _ in hub.told()] == ["main/s"], "what was accepted before is told once"
    hub.publish("t", "json", b'[{"k": "c", "x": 0.5}]')
    assert hub.result("main", "s").to_pylist() == [{"k": "c"}, {"k": "a"}]
    hub.close()


def test_a_disk_that_fails_is_not_acknowledged(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    hub.publish("t", "json", ROW)
    with pytest.raises(Unavailable):
        hub.sync()
    monkeypatch.undo()
    with pytest.raises(Unavailable):
        hub.publish("t", "json", ROW)
    hub.close()


def test_a_folder_is_locked(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="another process"):
        Hub(tmp_path)
    hub.close()
    Hub(tmp_path).close()


def test_a_quota_counts_what_is_live(hub: Hub) -> None:
    with pytest.raises(QuotaExceeded):
        hub.subscribe("main", TOP, {}, grants=ALL, limit=1)
    hub.unsubscribe("main", ["s"])
    hub.subscribe("main", TOP, {}, grants=ALL, limit=1)
    hub.close()


def test_a_log_that_is_long_is_cut_by_a_snapshot(hub: Hub, tmp_path: Path) -> None:
    for number in range(20):
        hub.publish("t", "json", ROW, batch=f"b{number}")
    before = hub.records_bytes
    hub.snapshot()
    assert hub.records_bytes < before
    hub.close()
    again = Hub(tmp_path)
    number = again.number
    again.publish("t", "json", ROW, batch="b3")
    assert again.number == number, "the batch is known after a snapshot too"
    again.close()
