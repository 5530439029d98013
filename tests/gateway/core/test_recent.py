"""The last matches and firings: who comes late sees them, over restarts, and nobody pushes out another's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.servers import Gateway, running
from tocsin.client import Client
from tocsin.gateway.core.changes import newest_events, texts
from tocsin.gateway.core.recent import Recent

MATCH = {"sql": "SELECT x FROM e WHERE x > 10", "id": "match"}
ALARM = {"sql": "SELECT SUM(x) FROM e HAVING SUM(x) >= 20", "id": "alarm", "repeat": True}
ONCE = {"sql": "SELECT SUM(x) FROM e HAVING SUM(x) >= 20", "id": "once"}


def begun(gateway: Gateway, name: str) -> dict[str, Any]:
    """The snapshot that somebody who was away begins with."""
    with gateway.live() as live:
        return live.ask(type="watch", subscription=name)


def seen(gateway: Gateway) -> list[Any]:
    matches = [change["row"]["x"] for change in begun(gateway, "match")["recent"]]
    return [matches, *([c["op"] for c in begun(gateway, name)["recent"]] for name in ("alarm", "once"))]


@pytest.mark.parametrize("is_orderly", [True, False], ids=["snapshot", "log"])
def test_who_was_away_sees_the_last_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_orderly: bool
) -> None:
    if not is_orderly:
        monkeypatch.setattr("tocsin.gateway.core.hub.Hub.snapshot", lambda hub: None)
    expected = [[14, 15, 16], ["mature"] * 3, ["mature"]]
    with running(tmp_path, recent=3) as gateway:
        gateway.ok("POST", "/v1/streams", {"name": "e", "columns": {"x": "int"}})
        for asked in (MATCH, ALARM, ONCE):
            gateway.ok("POST", "/v1/subscriptions", asked)
            assert begun(gateway, str(asked["id"]))["recent"] == []
        for batch in ([11, 12, 13], [14], [1, 15, 2], [16]):
            gateway.ok("POST", "/v1/streams/e/rows", [{"x": x} for x in batch])
        assert seen(gateway) == expected
    with running(tmp_path, recent=3) as gateway:
        assert seen(gateway) == expected
        with Client(gateway.url, gateway.key) as client:
            update = next(client.watch("match"))
        assert [change["row"]["x"] for change in update.recent] == [14, 15, 16]
        gateway.ok("DELETE", "/v1/subscriptions/match")
        gateway.ok("POST", "/v1/subscriptions", MATCH)
        assert begun(gateway, "match")["recent"] == []


def test_a_busy_tenant_pushes_out_its_own() -> None:
    recent = Recent(count=4, characters=20)
    recent.extend(1, [("quiet/s", '"q"')])
    for number in range(2, 50):
        recent.extend(number, [("busy/s", "12345678"), ("busy/t", "12345678")])
    assert recent.of("quiet/s") == '["q"]'
    assert sum(len(told.changes) for _, told in recent.entries()) <= 20 + 3
    recent.forget("busy/s")
    recent.forget("nobody/s")
    assert recent.of("busy/s") == recent.of("nobody/s") == "[]"


CHANGES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["match", "mature", "enter"])), min_size=1
)


@given(given_=CHANGES, count=st.integers(0, 3))
def test_the_newest_of_each(given_: list[tuple[str, str]], count: int) -> None:
    size = len(given_)
    table = pa.table(
        {
            "subscription": [subscription for subscription, _ in given_],
            "op": [op for _, op in given_],
            "seq": pa.array(range(size), pa.int64()),
            "key": [str(number) for number in range(size)],
            "score": pa.array([1.0] * size),
            "rank": pa.array([None] * size, pa.int32()),
        }
    )
    found = [(name, json.loads(text)["seq"]) for name, text in newest_events(table, texts(table), count)]
    events = [(name, seq) for seq, (name, op) in enumerate(given_) if op != "enter"]
    expected = [
        each
        for place, each in enumerate(events)
        if [name for name, _ in events[place:]].count(each[0]) <= count
    ]
    assert found == expected
