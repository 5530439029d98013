"""The hub when something goes wrong inside it, and when the disk does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tocsin import RowError, StateError
from tocsin.engine.engine import Engine
from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.catalog import own_id
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.sketches import SKETCHES
from tocsin.gateway.failures import QuotaExceeded, Unavailable

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
    assert [full for full, _ in hub.drain_batches()] == ["main/s"], "what was accepted before is told once"
    hub.publish("t", "json", b'[{"k": "c", "x": 0.5}]')
    assert hub.result("main", "s").to_pylist() == [{"k": "c"}, {"k": "a"}]
    hub.close()


def test_a_key_that_is_there_twice_is_refused_but_not_in_an_older_log(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twice = b'[{"k": "a", "x": 1, "x": 2}]'
    with pytest.raises(RowError, match="the body: each key of an object must appear once, got 'x' twice"):
        hub.publish("t", "json", twice)
    with pytest.raises(RowError, match="line 2: each key"):
        hub.publish("t", "ndjson", b'{"k": "b", "x": 1}\n{"k": "c", "k": "d"}')
    with monkeypatch.context() as older:
        older.setattr("tocsin.gateway.core.bodies.may_repeat_keys", lambda body, content: False)
        hub.publish("t", "json", twice)
    hub.sync()
    monkeypatch.setattr(hub, "snapshot", lambda: None)
    hub.close()
    again = Hub(tmp_path)
    assert again.result("main", "s").to_pylist() == [{"k": "a"}]
    again.close()


def test_a_disk_that_fails_is_not_acknowledged(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> int:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    hub.publish("t", "json", ROW)
    with pytest.raises(Unavailable):
        hub.sync()
    assert hub.is_dirty
    monkeypatch.undo()
    with pytest.raises(Unavailable):
        hub.publish("t", "json", ROW)
    hub.close()


def test_a_folder_is_locked(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(StateError, match="another process"):
        Hub(tmp_path)
    hub.close()
    again = Hub(tmp_path)
    assert again.subscriptions == 1
    again.close()


def test_a_quota_counts_what_is_live(hub: Hub) -> None:
    with pytest.raises(QuotaExceeded):
        hub.subscribe("main", TOP, {}, grants=ALL, limit=1)
    hub.unsubscribe("main", ["s"])
    hub.subscribe("main", TOP, {}, grants=ALL, limit=1)
    assert hub.live("main") == 1
    hub.close()


def test_what_has_ended_is_forgotten(hub: Hub) -> None:
    """Statements of every kind come and go, and spaces are looked at: nothing of it stays."""
    for number in range(30):
        sql = f"SELECT k FROM t WHERE x BETWEEN :lo AND :hi ORDER BY x LIMIT {number + 1}"
        hub.subscribe("main", sql, {"lo": 0, "hi": 1}, grants=ALL, id=f"n{number}")
        hub.space("main", f"n{number}", ALL)
    assert len(hub._sketches) == SKETCHES
    assert hub.unsubscribe("main", [f"n{number}" for number in range(30)] * 2).ids[-1] == "n29"
    assert [template.sql for template in hub._catalog.templates()] == [TOP]
    assert hub.subscriptions == 1
    assert hub.unsubscribe("main", ["n1"]).ids == ()
    hub.close()


def test_a_tenant_cannot_push_out_what_is_remembered_of_another(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.gateway.core.idempotency.REMEMBERED_BATCHES", 2)
    monkeypatch.setattr("tocsin.gateway.core.catalog.REMEMBERED", 2)
    hub.declare(Declaration("stream", "e", {"w": "bigint"}))
    alarm = "SELECT SUM(w) FROM e HAVING SUM(w) >= 1"
    hub.subscribe("quiet", alarm, {}, grants=ALL, id="q")
    first = hub.publish("e", "json", b'[{"w": 1}]', batch="quiet/e/b")
    for number in range(9):
        hub.subscribe("loud", alarm, {}, grants=ALL, id=f"l{number}")
        hub.publish("e", "json", b'[{"w": 1}]', batch=f"loud/e/{number}")
    assert hub.publish("e", "json", b'[{"w": 1}]', batch="quiet/e/b") == first
    assert hub.subscription("quiet", "q").is_matured
    assert [own_id(full) for full, _ in hub.page("loud")] == ["l7", "l8"]
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
