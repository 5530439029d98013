"""An Idempotency-Key: the same request is taken once, another one is refused; after a restart too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.servers import STOCKS, TOP, Gateway, running

ROWS = [{"symbol": "A", "risk": 1.0, "per": 2.0, "owner": 1}]
RANGE = {"lo": 0, "hi": 9}


def send(gateway: Gateway, path: str, given: Any, key: str = "k1", by: str | None = None) -> httpx.Response:
    return gateway.call("POST", path, given, key=by, headers={"Idempotency-Key": key})


@pytest.mark.parametrize("is_orderly", [True, False], ids=["snapshot", "log"])
def test_a_key_is_for_one_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_orderly: bool) -> None:
    if not is_orderly:
        monkeypatch.setattr("tocsin.gateway.core.hub.Hub.snapshot", lambda hub: None)
    rows, one, bulk = "/v1/tables/stocks/rows", "/v1/subscriptions", "/v1/subscriptions/bulk"
    asked = {"sql": TOP, "params": RANGE}
    many = {"sql": TOP, "params": {"lo": [0, 1], "hi": [5, 6]}}
    with running(tmp_path) as gateway:
        gateway.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": STOCKS})
        published = send(gateway, rows, ROWS)
        subscribed = send(gateway, one, asked)
        created = send(gateway, bulk, many, "k2")
        assert published.status_code == 200
        assert subscribed.status_code == created.status_code == 201
    with running(tmp_path) as gateway:
        for _ in range(2):
            assert send(gateway, rows, ROWS).json() == published.json()
            assert send(gateway, one, asked).json() == subscribed.json()
            assert send(gateway, bulk, many, "k2").json() == created.json()
        others: list[tuple[str, Any, str]] = [
            (rows, [{**ROWS[0], "per": 3.0}], "k1"),
            (one, {**asked, "params": {"lo": 0, "hi": 8}}, "k1"),
            (one, {**asked, "throttle": 1}, "k1"),
            (bulk, {**many, "params": {"lo": [0, 1], "hi": [5, 7]}}, "k2"),
            (bulk, many, "k1"),
        ]
        for path, given, key in others:
            refused = send(gateway, path, given, key)
            assert refused.status_code == 422, refused.text
            assert refused.json()["error"]["code"] == "key-reused"
        assert len(gateway.ok("GET", "/v1/subscriptions")["subscriptions"]) == 3
        assert send(gateway, rows, [{**ROWS[0], "per": 3.0}], "k9").status_code == 200


@pytest.mark.parametrize("is_orderly", [True, False], ids=["snapshot", "log"])
def test_a_key_is_for_rows_or_for_a_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_orderly: bool
) -> None:
    if not is_orderly:
        monkeypatch.setattr("tocsin.gateway.core.hub.Hub.snapshot", lambda hub: None)
    rows, deletion = "/v1/tables/stocks/rows", "/v1/tables/stocks/delete"
    with running(tmp_path) as gateway:
        gateway.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": STOCKS})
        assert send(gateway, rows, ROWS).status_code == 200
        refused = send(gateway, deletion, {"keys": ["A"]})
        assert refused.status_code == 422, refused.text
        assert refused.json()["error"]["code"] == "key-reused"
        assert gateway.ok("GET", "/v1/tables/stocks")["counts"]["rows"] == 1, "nothing was deleted"
        deleted = send(gateway, deletion, {"keys": ["A"]}, "k2")
        assert deleted.status_code == 200
        gateway.ok("POST", rows, ROWS)
    with running(tmp_path) as gateway:
        assert send(gateway, deletion, {"keys": ["A"]}, "k2").json() == deleted.json()
        assert gateway.ok("GET", "/v1/tables/stocks")["counts"]["rows"] == 3, "a retry deletes nothing"
        for path, given in ((rows, ROWS), (deletion, {"keys": ["B"]})):
            assert send(gateway, path, given, "k2").status_code == 422


def test_a_key_is_for_rows_or_for_a_time(tmp_path: Path) -> None:
    rows, advance = "/v1/streams/flows/rows", "/v1/streams/flows/advance"
    columns = {"bytes": "double", "at": "timestamp"}
    with running(tmp_path) as gateway:
        gateway.ok(
            "POST", "/v1/streams", {"name": "flows", "columns": columns, "window": "1 minute", "time": "at"}
        )
        assert send(gateway, rows, [{"bytes": 1.0, "at": "2024-03-01T12:00:00Z"}]).status_code == 200
        later = {"time": "2024-03-01T13:00:00Z"}
        assert send(gateway, advance, later).status_code == 422
        advanced = send(gateway, advance, later, "k2")
        assert advanced.status_code == 200
        assert send(gateway, advance, later, "k2").json() == advanced.json()


def test_a_key_is_of_one_tenant(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        gateway.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": STOCKS})
        gateway.ok("POST", "/v1/tenants", {"name": "acme", "grants": {"*": ""}})
        acme = gateway.make_key("acme", "publish", "subscribe")
        asked = {"sql": TOP, "params": RANGE}
        assert send(gateway, "/v1/subscriptions", asked).status_code == 201
        other = send(gateway, "/v1/subscriptions", {"sql": TOP, "params": {"lo": 1, "hi": 1}}, by=acme)
        assert other.status_code == 201
