"""WebSockets and server-sent events: a snapshot, then every change, and back again after a loss."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.gateway.servers import TOP, Gateway, Live
from tocsin.client import Answer


@pytest.fixture
def sid(gateway: Gateway) -> Iterator[str]:
    name = gateway.ok("POST", "/v1/subscriptions", {"sql": TOP, "params": {"lo": 0, "hi": 9}})["id"]
    yield name
    gateway.call("DELETE", f"/v1/subscriptions/{name}")
    gateway.ok("POST", "/v1/tables/stocks/delete", {"keys": list("ABCDEFG")})


def put(gateway: Gateway, symbol: str, per: float) -> str:
    rows = [{"symbol": symbol, "risk": 1, "per": per}]
    return str(gateway.ok("POST", "/v1/tables/stocks/rows", rows)["cursor"])


def test_a_snapshot_then_changes(gateway: Gateway, sid: str) -> None:
    put(gateway, "A", 3)
    with gateway.live() as live:
        snapshot = live.ask(type="watch", subscription=sid)
        answer = Answer()
        answer.begin(snapshot["changes"])
        assert answer.keys == ["A"]
        cursor = put(gateway, "B", 1)
        change = live.next()
        assert change["cursor"] == cursor
        answer.apply(change["changes"])
        assert answer.keys == ["B", "A"]
        assert live.ask(type="unwatch", subscription=sid)["type"] == "unwatched"
        put(gateway, "C", 0)
        assert live.ask(type="ping") == {"type": "pong"}


def test_a_client_comes_back_without_gap_or_repeat(gateway: Gateway, sid: str) -> None:
    with gateway.live() as live:
        live.ask(type="watch", subscription=sid)
        put(gateway, "A", 3)
        cursor = live.next()["cursor"]
    missed = [put(gateway, symbol, per) for symbol, per in (("B", 2), ("C", 1))]
    with gateway.live() as live:
        first = live.ask(type="watch", subscription=sid, cursor=cursor)
        assert [first["cursor"], live.next()["cursor"]] == missed
        assert live.next()["type"] == "resumed"
        assert put(gateway, "D", 0) == live.next()["cursor"]


@pytest.mark.parametrize("cursor", ["0000.1", "ffffffff.99999999"])
def test_a_cursor_of_long_ago_or_elsewhere_is_too_old(gateway: Gateway, sid: str, cursor: str) -> None:
    with gateway.live() as live:
        assert live.ask(type="watch", subscription=sid, cursor=cursor)["type"] == "too-old"
        assert live.ask(type="watch", subscription=sid)["type"] == "snapshot"
    path = f"/v1/subscriptions/{sid}/changes"
    answer = gateway.call("GET", path, params={"cursor": cursor})
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "too-old")


def test_more_than_is_retained_is_too_old(gateway: Gateway, sid: str) -> None:
    cursor = put(gateway, "A", 0)
    for number in range(17):
        put(gateway, "A", number + 1)
    with gateway.live() as live:
        assert live.ask(type="watch", subscription=sid, cursor=cursor)["type"] == "too-old"


def test_events_over_plain_http(gateway: Gateway, sid: str) -> None:
    address = f"{gateway.url}/v1/subscriptions/{sid}/changes"
    with httpx.stream("GET", address, headers=gateway.headers(), timeout=60) as response:
        lines = response.iter_lines()
        first = event(lines)
        assert first["event"] == "snapshot"
        cursor = put(gateway, "A", 3)
        assert event(lines)["id"] == cursor
    missed = put(gateway, "B", 2)
    headers = {**gateway.headers(), "Last-Event-ID": cursor}
    with httpx.stream("GET", address, headers=headers, timeout=60) as response:
        assert event(response.iter_lines())["id"] == missed


def event(lines: Iterator[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        if not line and found:
            break
        name, _, value = line.partition(": ")
        found[name] = value
    return found


def test_a_throttled_watch_gets_one_net_change(gateway: Gateway, sid: str) -> None:
    with gateway.live() as live:
        live.ask(type="watch", subscription=sid, throttle=1.0)
        for symbol, per in (("A", 3), ("B", 2), ("C", 1), ("D", 0)):
            put(gateway, symbol, per)
        message = live.next()
        assert message["type"] == "changes"
        answer = Answer()
        answer.begin(message["changes"])
        assert answer.keys == ["D", "C", "B"]


def test_a_threshold_tells_its_progress_and_matures(gateway: Gateway) -> None:
    sql = "SELECT SUM(shares) FROM trades HAVING SUM(shares) >= :tau"
    gateway.ok("POST", "/v1/subscriptions", {"sql": sql, "params": {"tau": 10}, "id": "alarm"})
    gateway.ok("POST", "/v1/streams/trades/rows", [{"price": 1, "shares": 4}])
    with gateway.live() as live:
        assert live.ask(type="watch", subscription="alarm")["progress"] == {"SUM(shares)": 4, "missing": 6}
        gateway.ok("POST", "/v1/streams/trades/rows", [{"price": 1, "shares": 7}])
        assert [change["op"] for change in live.next()["changes"]] == ["mature"]
    assert gateway.ok("GET", "/v1/subscriptions/alarm")["state"] == "matured"
    again = {"sql": sql, "params": {"tau": 10}, "id": "alarm"}
    assert gateway.ok("POST", "/v1/subscriptions", again)["state"] == "live"
    gateway.ok("DELETE", "/v1/subscriptions/alarm")


def test_those_who_watch_hear_of_the_end(gateway: Gateway, sid: str) -> None:
    with gateway.live() as live:
        live.ask(type="watch", subscription=sid)
        gateway.ok("DELETE", f"/v1/subscriptions/{sid}")
        assert live.next()["type"] == "ended"


def test_a_temporary_subscription_ends_when_its_client_vanishes(gateway: Gateway) -> None:
    with gateway.live() as live:
        made = live.ask(type="subscribe", sql=TOP, params={"lo": 0, "hi": 1}, temporary=True)
        assert made["type"] == "subscribed"
        assert live.next()["type"] == "snapshot"
        time.sleep(0.6)
        gateway.ok("GET", f"/v1/subscriptions/{made['id']}")
    until = time.monotonic() + 30
    while gateway.call("GET", f"/v1/subscriptions/{made['id']}").status_code == 200:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_frames_that_make_no_sense_are_answered(gateway: Gateway) -> None:
    with gateway.live() as live:
        for frame in (
            "",
            "[]",
            "{",
            "7",
            '{"type": "fly"}',
            '{"type": "watch"}',
            '{"type": ["watch"]}',
            "\x00",
        ):
            live.socket.send(frame)
            assert live.next()["type"] == "error"
        live.socket.send(b"\x00\x01")
        assert live.next()["message"] == "a frame must be text, got binary data"
        assert live.ask(type="watch", subscription="nobody", request=7)["request"] == 7


def test_a_browser_says_who_it_is_in_its_first_frame(gateway: Gateway) -> None:
    address = "ws" + gateway.url.removeprefix("http") + "/v1/live"
    with connect(address) as socket:
        socket.send(json.dumps({"type": "hello", "key": gateway.key}))
        assert Live(socket).next()["type"] == "welcome"
    for frame in ('{"type": "hello", "key": "tocsin_no"}', "hello", '{"type": "watch", "subscription": "x"}'):
        with connect(address) as socket:
            socket.send(frame)
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(30)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4001


def test_pages_of_other_origins_may_not_connect(gateway: Gateway) -> None:
    address = "ws" + gateway.url.removeprefix("http") + "/v1/live"
    for origin in ("http://elsewhere.example", "http://[", "null"):
        with pytest.raises(InvalidStatus) as refused, connect(address, origin=Origin(origin)):
            pass
        assert refused.value.response.status_code == 403
    with connect(address, origin=Origin(gateway.url)), connect(address):
        pass


def test_a_revoked_key_loses_its_connections(gateway: Gateway) -> None:
    made = gateway.ok("POST", "/v1/keys", {"scopes": ["subscribe"]})
    with gateway.live(made["key"]) as live:
        gateway.ok("DELETE", f"/v1/keys/{made['id']}")
        with pytest.raises(ConnectionClosed):
            live.next()
    assert gateway.call("GET", "/v1/subscriptions", key=made["key"]).status_code == 401
