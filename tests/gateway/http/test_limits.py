"""What one who wants to break things can and cannot do: quotas, rights that change, floods, slow bodies."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from benchmarks.gateway_parts.crowd import masked
from websockets.exceptions import ConnectionClosed

from tests.gateway.servers import STOCKS, TOP, Gateway, running
from tocsin import RowError
from tocsin.arrow_streams import write_arrow
from tocsin.gateway.core.arrow_limits import refuse_bombs
from tocsin.gateway.core.bodies import read_arrow
from tocsin.gateway.http import request_timeouts

ALL = "SELECT symbol FROM stocks"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("limits"), linger=0.3, body_patience=0.5, bodies=1 << 20) as made:
        made.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": STOCKS})
        made.ok("POST", "/v1/streams", {"name": "trades", "columns": {"price": "double", "shares": "bigint"}})
        rows = [{"symbol": f"s{n}", "risk": n, "per": n, "owner": n % 2} for n in range(6)]
        made.ok("POST", "/v1/tables/stocks/rows", rows)
        yield made


def until(is_so: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_what_is_counted_is_for_those_who_run_the_server(gateway: Gateway) -> None:
    gateway.ok("POST", "/v1/tenants", {"name": "curious", "grants": {"trades": ""}})
    key = gateway.make_key("curious", "publish", "subscribe", "admin")
    assert gateway.call("GET", "/metrics", key=key).status_code == 403, "it names everybody's tables"
    assert 'source="stocks"' in gateway.call("GET", "/metrics").text


def test_those_who_run_the_server_end_any_key(gateway: Gateway) -> None:
    gateway.ok("POST", "/v1/tenants", {"name": "guests", "grants": {}})
    made = gateway.ok("POST", "/v1/keys", {"tenant": "guests", "scopes": ["subscribe", "admin"]})
    listed = gateway.ok("GET", "/v1/keys?tenant=guests")["keys"]
    assert [each["id"] for each in listed] == [made["id"]]
    assert gateway.call("GET", "/v1/keys?tenant=main", key=made["key"]).status_code == 403
    mine = gateway.ok("GET", "/v1/keys")["keys"][0]["id"]
    assert gateway.call("DELETE", f"/v1/keys/{mine}", key=made["key"]).status_code == 404
    gateway.ok("DELETE", f"/v1/keys/{made['id']}")
    assert gateway.call("GET", "/v1/me", key=made["key"]).status_code == 401


def test_many_requests_at_once_are_counted_one_by_one(gateway: Gateway) -> None:
    gateway.ok("POST", "/v1/tenants", {"name": "hasty", "grants": {"trades": ""}, "rows_per_second": 2})
    key = gateway.make_key("hasty", "publish")
    rows = [{"price": 1, "shares": 1}] * 500

    def send(_: int) -> int:
        return gateway.call("POST", "/v1/streams/trades/rows", rows, key=key).status_code

    with ThreadPoolExecutor(16) as pool:
        answers = sorted(pool.map(send, range(16)))
    assert answers == [200] + [429] * 15


def test_a_batch_is_known_by_its_source_too(gateway: Gateway) -> None:
    headers = {"Idempotency-Key": "monday"}
    row = [{"symbol": "m", "risk": 900, "per": 1, "owner": 3}]
    for path, rows in (("streams/trades", [{"price": 1, "shares": 1}]), ("tables/stocks", row)):
        assert gateway.ok("POST", f"/v1/{path}/rows", rows, headers=headers)["rows"] == 1
    sid = gateway.ok("POST", "/v1/subscriptions", {"sql": f"{ALL} WHERE risk = 900"})["id"]
    assert gateway.ok("GET", f"/v1/subscriptions/{sid}/result")["rows"] == [{"symbol": "m"}]
    gateway.ok("POST", "/v1/tables/stocks/delete", {"keys": ["m"]})


def test_an_open_connection_goes_on_with_the_new_rights(gateway: Gateway) -> None:
    gateway.ok("POST", "/v1/tenants", {"name": "watched", "grants": {"stocks": "", "trades": ""}})
    key = gateway.make_key("watched", "subscribe")
    with gateway.live(key) as live:
        gateway.ok("PUT", "/v1/tenants/watched", {"name": "watched", "grants": {"stocks": "owner = 1"}})
        assert live.ask(type="subscribe", sql=ALL, id="mine")["type"] == "subscribed"
        told = live.next()["changes"]
        assert sorted(change["key"] for change in told) == ["s1", "s3", "s5"]
        assert live.ask(type="subscribe", sql="SELECT * FROM trades WHERE price > 1")["code"] == "sql-error"


def test_servers_on_one_registry_notice_what_the_other_changes(tmp_path: Path) -> None:
    shared = f"sqlite:///{tmp_path}/registry.db"
    with (
        running(tmp_path / "a", database=shared, recheck=0.2) as one,
        running(tmp_path / "b", database=shared, recheck=0.2) as two,
    ):
        two.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": STOCKS})
        one.ok("POST", "/v1/tenants", {"name": "both", "grants": {"stocks": ""}})
        made = one.ok("POST", "/v1/keys", {"tenant": "both", "scopes": ["subscribe"]})
        for name in ("seen", "unseen"):
            two.ok("POST", "/v1/subscriptions", {"sql": ALL, "id": name}, key=made["key"])
        with two.live(made["key"]) as live:
            live.ask(type="watch", subscription="seen")
            one.ok("PUT", "/v1/tenants/both", {"name": "both", "grants": {"stocks": "owner = 1"}})
            assert live.next()["type"] == "ended"
            listed = "/v1/subscriptions"
            until(lambda: two.ok("GET", listed, key=made["key"])["subscriptions"] == [], "one is left")
            two.ok("POST", "/v1/subscriptions", {"sql": ALL, "id": "after"}, key=made["key"])
            one.ok("DELETE", f"/v1/keys/{made['id']}")
            with pytest.raises(ConnectionClosed):
                live.next()
        new = one.make_key("both", "subscribe")
    with running(tmp_path / "a", database=shared) as one:
        one.ok("PUT", "/v1/tenants/both", {"name": "both", "grants": {"stocks": "owner = 2"}})
    with running(tmp_path / "b", database=shared) as two:
        assert two.call("GET", "/v1/subscriptions/after", key=new).status_code == 404, (
            "it was by an old right"
        )


def raw(gateway: Gateway) -> socket.socket:
    place = urlsplit(gateway.url)
    made = socket.create_connection((place.hostname or "", place.port or 0))
    made.settimeout(30)
    return made


def test_a_flood_of_frames_from_one_who_does_not_listen_is_held_back(gateway: Gateway) -> None:
    """Each frame gets an answer as long as itself; answers that are not taken stop the reading of more."""
    frame = masked(json.dumps({"type": "watch", "request": "x" * 60_000}).encode())
    with raw(gateway) as connection:
        connection.sendall(
            f"GET /v1/live HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {gateway.key}\r\n\r\n".encode()
        )
        assert b"101" in connection.recv(4096)
        connection.settimeout(1)
        sent = 0
        with suppress(TimeoutError):
            while sent < 1000:
                connection.sendall(frame)
                sent += 1
    assert 1 < sent < 700
    assert gateway.bare("GET", "/ready").status_code == 200


def test_a_head_that_comes_in_drops_is_cut_off(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_timeouts, "PATIENCE", 0.3)
    for begun in (
        b"",
        b"GET /health HTTP/1.1\r\nHost: x\r\n",
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /",
    ):
        with raw(gateway) as connection:
            connection.sendall(begun)
            came = b""
            try:
                while part := connection.recv(4096):
                    came += part
            except ConnectionResetError:
                pass
            assert (b"alive" in came) == begun.endswith(b"GET /")
    with raw(gateway) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 100_000)
        assert b"400" in connection.recv(4096)


def test_a_body_that_comes_in_drops_is_refused(gateway: Gateway) -> None:
    head = f"POST /v1/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with raw(gateway) as connection:
        connection.sendall(head.encode())
        assert b"408" in connection.recv(4096)


def test_bodies_together_are_bounded(gateway: Gateway) -> None:
    rows = [{"symbol": "x" * 1000}] * 2000
    answer = gateway.call("POST", "/v1/tables/stocks/rows", rows)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    gateway.ok("POST", "/v1/check", {"sql": ALL})


def test_a_temporary_subscription_that_nobody_gets_to_watch_ends(gateway: Gateway) -> None:
    with gateway.live() as live:
        made = live.ask(type="subscribe", sql=TOP, params={"lo": 0, "hi": 1}, temporary=True)
        assert live.next()["type"] == "snapshot"
        assert live.ask(type="watch", subscription=made["id"], cursor="0000.1")["type"] == "too-old"
        path = f"/v1/subscriptions/{made['id']}"
        until(lambda: gateway.call("GET", path).status_code == 404, "it is still there")


def test_an_id_that_is_used_again_is_not_ended_with_the_old_one(gateway: Gateway) -> None:
    asked = {"sql": ALL, "id": "phoenix"}
    gateway.ok("POST", "/v1/subscriptions", asked)
    for _ in range(10):
        with ThreadPoolExecutor(2) as pool, gateway.live() as live:
            live.ask(type="watch", subscription="phoenix")
            ending = pool.submit(gateway.call, "DELETE", "/v1/subscriptions/phoenix")
            while gateway.call("POST", "/v1/subscriptions", asked).status_code != 201:
                pass
            live.say(type="watch", subscription="phoenix")
            kinds: list[str] = []
            while not kinds or kinds[-1] != "snapshot":
                kinds.append(live.next()["type"])
            assert ending.result().status_code == 204
            assert live.ask(type="ping")["type"] == "pong", "nothing more was ended"


def packed(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_arrow_streams_that_would_unpack_to_gigabytes(gateway: Gateway) -> None:
    plain = pa.table({"symbol": ["a"], "tag": pa.array(["x"]).dictionary_encode()})
    assert read_arrow(write_arrow(plain)) == plain
    bombs = [
        packed(pa.table({"symbol": ["a" * 1_000_000]}), compression="zstd"),
        packed(pa.table({"symbol": pa.array(["a" * 100]).dictionary_encode()}), compression="lz4"),
        packed(pa.table({"symbol": pa.nulls(10**9)})),
    ]
    for bomb in bombs:
        with pytest.raises(RowError, match=r"without compression|cannot have"):
            refuse_bombs(bomb)
        headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
        answer = gateway.call("POST", "/v1/tables/stocks/rows", content=bomb, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-rows")
