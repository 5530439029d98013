"""The HTTP API as a client meets it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.gateway.servers import TOP, Gateway
from tocsin.arrow_streams import write_arrow

ARROW = "application/vnd.apache.arrow.stream"


def publish(gateway: Gateway, body: bytes, form: str, **headers: str) -> httpx.Response:
    given = {"Content-Type": form, **headers}
    return gateway.call("POST", "/v1/tables/stocks/rows", content=body, headers=given)


def test_health_alone_answers_without_a_key(gateway: Gateway) -> None:
    assert gateway.bare("GET", "/health").json()["status"] == "alive"
    assert gateway.bare("GET", "/ready").json() == {"status": "ready"}
    description = gateway.ok("GET", "/openapi.json")
    for path, methods in description["paths"].items():
        for method in methods:
            answer = gateway.bare(method.upper(), path.format(name="stocks", id="x"))
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer tocsin_x", "Basic abc", "Bearer " + "x" * 5000])
def test_a_wrong_key_is_no_key(gateway: Gateway, header: str) -> None:
    answer = gateway.bare("GET", "/v1/tables", headers={"Authorization": header})
    assert answer.status_code == 401


def test_rows_in_every_form_give_the_same_answer(gateway: Gateway) -> None:
    sid = gateway.ok("POST", "/v1/subscriptions", {"sql": TOP, "params": {"lo": 0, "hi": 9}})["id"]
    rows = [{"symbol": "A", "risk": 1.0, "per": 3.0}, {"symbol": "B", "risk": 2.0, "per": 2.0}]
    bodies = {
        "application/json": json.dumps(rows).encode(),
        "application/json; charset=utf-8": json.dumps({"rows": rows}).encode(),
        "application/x-ndjson": b"\n".join(json.dumps(row).encode() for row in rows),
        ARROW: write_arrow(pa.Table.from_pylist(rows)),
    }
    for form, body in bodies.items():
        gateway.ok("POST", "/v1/tables/stocks/delete", {"keys": ["A", "B"]})
        assert gateway.ok("GET", f"/v1/subscriptions/{sid}/result")["rows"] == []
        receipt = publish(gateway, body, form)
        assert receipt.status_code == 200, receipt.text
        assert receipt.json()["rows"] == 2
        found = gateway.ok("GET", f"/v1/subscriptions/{sid}/result")["rows"]
        assert found == [{"symbol": "B", "per": 2.0}, {"symbol": "A", "per": 3.0}]
    gateway.ok("DELETE", f"/v1/subscriptions/{sid}")


@pytest.mark.parametrize(
    ("form", "body", "status"),
    [
        ("application/json", b"[{", 400),
        ("application/json", b'{"no": 1}', 400),
        ("application/json", b'[{"symbol": NaN}]', 400),
        ("application/json", b'[{"symbol": "\\ud800"}]', 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b'[{"symbol": null}]', 400),
        ("application/json", b'[{"symbol": "A", "per": "x"}]', 400),
        ("application/json", b'[{"symbol": "A", "per": 1e400, "risk": 123456789012345678901234567890}]', 400),
        ("application/json", b'[{"symbol": "A", "colour": 1}]', 400),
        ("application/json", b"\xff\xfe", 400),
        ("application/x-ndjson", b'{"symbol": "A"}\n7', 400),
        ("application/x-ndjson", b'{"symbol": "A"}\n{"symbol": "B", "risk": 1, "symbol": "C"}', 400),
        ("application/json", b'[{"symbol": "A", "risk": 1, "risk": 2}]', 400),
        ("application/json", b'{"rows": [{"symbol": "A"}], "rows": []}', 400),
        (ARROW, b"nothing of the kind", 400),
        ("text/csv", b"a,b", 415),
    ],
)
def test_bad_rows_are_refused_and_change_nothing(
    gateway: Gateway, form: str, body: bytes, status: int
) -> None:
    before = gateway.ok("GET", "/v1/tables/stocks")["counts"]
    answer = publish(gateway, body, form)
    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) >= {"code", "message"}
    assert gateway.ok("GET", "/v1/tables/stocks")["counts"] == before


def test_a_batch_that_is_sent_again_is_taken_once(gateway: Gateway) -> None:
    body = b'[{"symbol": "Z", "risk": 50, "per": 1}]'
    first = publish(gateway, body, "application/json", **{"Idempotency-Key": "monday"})
    again = publish(gateway, body, "application/json", **{"Idempotency-Key": "monday"})
    assert first.json() == again.json()
    other = publish(gateway, body, "application/json", **{"Idempotency-Key": "tuesday"})
    assert other.json()["cursor"] != first.json()["cursor"]


def test_a_long_body_is_refused(gateway: Gateway) -> None:
    assert publish(gateway, b" " * (17 << 20), "application/json").status_code == 413


def test_subscriptions_are_listed_page_by_page(gateway: Gateway) -> None:
    params = {"id": [f"bulk{n}" for n in range(25)], "lo": [0] * 25, "hi": list(range(25))}
    asked = {"sql": TOP, "params": params}
    assert gateway.ok("POST", "/v1/subscriptions/bulk", asked)["count"] == 25
    headers = {"Tocsin-Subscription": json.dumps({"sql": TOP}), "Content-Type": ARROW}
    body = write_arrow(pa.table({"lo": [1.0, 2.0], "hi": [3.0, 4.0]}))
    created = gateway.call("POST", "/v1/subscriptions/bulk", content=body, headers=headers)
    assert created.json()["count"] == 2
    found: list[dict[str, Any]] = []
    after = ""
    while True:
        page = gateway.ok("GET", f"/v1/subscriptions?limit=10{after}")
        found += page["subscriptions"]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert [each["id"] for each in found if each["id"].startswith("bulk")] == params["id"]
    assert found[3]["params"] == {"lo": 0, "hi": 3}
    for each in found:
        gateway.ok("DELETE", f"/v1/subscriptions/{each['id']}")
    assert gateway.ok("GET", "/v1/subscriptions")["subscriptions"] == []


def test_a_wrong_statement_is_underlined(gateway: Gateway) -> None:
    sql = "SELECT symbol FROM stocks WHERE riks > 5 ORDER BY per LIMIT 3"
    error = gateway.call("POST", "/v1/check", {"sql": sql}).json()["error"]
    assert error["code"] == "sql-error"
    assert sql[error["start"] : error["end"]] == "riks"
    assert gateway.ok("POST", "/v1/check", {"sql": TOP}) == {"kind": "top-k", "parameters": ["hi", "lo"]}


def test_an_id_is_taken_once(gateway: Gateway) -> None:
    asked = {"sql": TOP, "params": {"lo": 0, "hi": 1}, "id": "mine"}
    gateway.ok("POST", "/v1/subscriptions", asked)
    assert gateway.call("POST", "/v1/subscriptions", asked).status_code == 409
    assert "range top-k" in gateway.ok("GET", "/v1/subscriptions/mine/explain")["text"]
    gateway.ok("DELETE", "/v1/subscriptions/mine")
    assert gateway.call("DELETE", "/v1/subscriptions/mine").status_code == 404


def test_an_event_is_tried_without_publishing_it(gateway: Gateway) -> None:
    sql = "SELECT * FROM visitors WHERE age > 30 AND WEIGHT(city = 'Oslo', 0.5)"
    gateway.ok("POST", "/v1/subscriptions", {"sql": sql, "id": "oslo"})
    tried = gateway.ok("POST", "/v1/streams/visitors/try", {"event": {"age": 41, "city": "Oslo"}})["tried"]
    assert [(each["id"], each["matches"]) for each in tried] == [("oslo", True)]
    tried = gateway.ok("POST", "/v1/streams/visitors/try", {"event": {"age": {"low": 20, "high": 25}}})[
        "tried"
    ]
    assert not tried[0]["matches"]
    assert len(tried[0]["predicates"]) == 2
    assert gateway.ok("GET", "/v1/streams/visitors")["counts"]["rows"] == 0
    gateway.ok("DELETE", "/v1/subscriptions/oslo")


def test_time_moves_on(gateway: Gateway) -> None:
    sql = "SELECT bytes FROM flows ORDER BY bytes + 0 DESC LIMIT 2"
    gateway.ok("POST", "/v1/subscriptions", {"sql": sql, "id": "big"})
    rows = [{"bytes": 5, "at": "2026-01-01T00:00:00Z"}, {"bytes": 7, "at": "2026-01-01T00:00:30Z"}]
    gateway.ok("POST", "/v1/streams/flows/rows", rows)
    assert [row["bytes"] for row in gateway.ok("GET", "/v1/subscriptions/big/result")["rows"]] == [7, 5]
    gateway.ok("POST", "/v1/streams/flows/advance", {"time": "2026-01-01T00:01:10Z"})
    assert [row["bytes"] for row in gateway.ok("GET", "/v1/subscriptions/big/result")["rows"]] == [7]
    gateway.ok("DELETE", "/v1/subscriptions/big")


def test_metrics_count(gateway: Gateway) -> None:
    text = gateway.call("GET", "/metrics").text
    assert 'tocsin_rows_total{source="stocks"}' in text
    assert "tocsin_commit_seconds_bucket" in text


def test_a_subscription_space_is_drawn(gateway: Gateway) -> None:
    columns = {"n": "int", "x": "double", "y": "double"}
    gateway.ok("POST", "/v1/tables", {"name": "points", "key": "n", "columns": columns})
    rows = [{"n": n, "x": n, "y": 10 - n} for n in range(8)]
    gateway.ok("POST", "/v1/tables/points/rows", rows)
    sql = "SELECT n FROM points WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 2"
    params = {"id": ["p0", "p1", "p2"], "lo": [0, 1, 2], "hi": [4, 5, 6]}
    gateway.ok("POST", "/v1/subscriptions/bulk", {"sql": sql, "params": params})
    drawn = gateway.ok("GET", "/v1/subscriptions/p0/space")
    assert (drawn["column"], drawn["ranges"], drawn["tiles"]) == ("x", [[0, 4], [1, 5], [2, 6]], [])
    gateway.ok("POST", "/v1/tables/points/rows", [{"n": 3, "x": 3, "y": 0}])
    tiles = gateway.ok("GET", "/v1/subscriptions/p0/space")["tiles"]
    assert tiles
    assert all(tile["inner_lo"] <= 3 <= tile["inner_hi"] for tile in tiles)
    gateway.ok("POST", "/v1/tables/points/delete", {"keys": [3]})
    assert any(
        tile["gone"] or tile["key"] != "3"
        for tile in gateway.ok("GET", "/v1/subscriptions/p0/space")["tiles"]
    )
    gateway.ok("POST", "/v1/subscriptions", {"sql": "SELECT COUNT(*) FROM points", "id": "count"})
    assert gateway.call("GET", "/v1/subscriptions/count/space").status_code == 400
    for name in ("p0", "p1", "p2", "count"):
        gateway.ok("DELETE", f"/v1/subscriptions/{name}")
