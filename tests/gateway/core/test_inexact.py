"""Rows are not refused for the sake of another tenant's subscription: one that cannot be exact is ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tocsin.engine.sources.catalog import Declaration
from tocsin.errors import RowError
from tocsin.gateway.core.answer_limits import INEXACT
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.failures import NotFound

ALL = {"*": ""}
FAR = 2**53 + 1
HUGE = 2**63 - 1


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    made = Hub(tmp_path)
    made.declare(Declaration("table", "t", {"k": "bigint", "n": "double"}, "k"))
    made.declare(Declaration("stream", "w", {"k": "bigint", "n": "double"}, window="10 rows"))
    made.declare(Declaration("stream", "s", {"k": "bigint", "n": "double"}))
    made.declare(Declaration("stream", "sparse", None))
    yield made
    made.close()


def publish(hub: Hub, source: str, tenant: str, **row: Any) -> int:
    return hub.publish(source, "json", json.dumps([row]).encode(), tenant=tenant).rows


@pytest.mark.parametrize(
    ("source", "sql", "row"),
    [
        ("t", "SELECT SUM(k) FROM t", {"k": FAR, "n": 1}),
        ("t", "SELECT MIN(n) FROM t WHERE k > 3", {"k": HUGE, "n": 1}),
        ("w", "SELECT n FROM w WHERE k > 3", {"k": HUGE, "n": 1}),
        ("s", "SELECT SUM(n) FROM s HAVING SUM(n) >= 10", {"k": 1, "n": 1e300}),
        ("s", "SELECT SUM(n) FROM s WHERE k > 3 HAVING SUM(n) >= 10", {"k": HUGE, "n": 1}),
        ("s", "SELECT n FROM s WHERE k = 3", {"k": HUGE, "n": 1}),
        ("sparse", "SELECT * FROM sparse WHERE k = 3", {"k": FAR}),
    ],
)
def test_a_neighbours_statement_stops_no_publish(
    hub: Hub, tmp_path: Path, source: str, sql: str, row: dict[str, Any]
) -> None:
    hub.subscribe("nosy", sql, {}, grants=ALL, id="q")
    other = f"SELECT * FROM {source}" + (" WHERE other = 1" if source == "sparse" else " WHERE n = 77")
    hub.subscribe("nosy", other, {}, grants=ALL, id="other")
    assert publish(hub, source, "", **row) == 1
    assert hub.drain_ended() == {"nosy/q": INEXACT}
    with pytest.raises(NotFound):
        hub.subscription("nosy", "q")
    assert publish(hub, source, "", **{**row, **({"k": HUGE - 1} if row["k"] == HUGE else {})}) == 1
    assert hub.live("nosy") == 1
    hub.sync()
    hub.close()
    again = Hub(tmp_path)
    assert again.drain_ended() == {}
    assert (again.number, again.live("nosy")) == (hub.number, 1)
    again.close()


@pytest.mark.parametrize(
    ("source", "sql", "row"),
    [
        ("t", "SELECT SUM(k) FROM t", {"k": FAR, "n": 1}),
        ("sparse", "SELECT * FROM sparse WHERE k = 3", {"k": FAR}),
    ],
)
def test_ones_own_statement_refuses_and_ends_nothing(
    hub: Hub, source: str, sql: str, row: dict[str, Any]
) -> None:
    hub.subscribe("nosy", sql, {}, grants=ALL, id="q")
    hub.subscribe("own", sql, {}, grants=ALL, id="q")
    with pytest.raises(RowError):
        publish(hub, source, "own", **row)
    assert hub.drain_ended() == {}
    assert (hub.live("own"), hub.live("nosy")) == (1, 1)
    hub.unsubscribe("own", ["q"])
    assert publish(hub, source, "own", **row) == 1
    assert hub.drain_ended() == {"nosy/q": INEXACT}


def test_rows_that_are_invalid_end_nothing(hub: Hub) -> None:
    hub.subscribe("nosy", "SELECT SUM(k) FROM t", {}, grants=ALL, id="q")
    with pytest.raises(RowError):
        publish(hub, "t", "", k=FAR, n="no number")
    assert hub.drain_ended() == {}
    assert hub.live("nosy") == 1
