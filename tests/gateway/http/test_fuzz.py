"""Nonsense in statements, parameters, rows and frames is answered, and the gateway goes on."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.gateway.servers import Gateway

QUIET = settings(max_examples=60, suppress_health_check=list(HealthCheck))

WORDS = st.sampled_from(
    [
        "SELECT",
        "*",
        "FROM",
        "stocks",
        "trades",
        "visitors",
        "flows",
        "WHERE",
        "BETWEEN",
        "AND",
        "ORDER",
        "BY",
        "LIMIT",
        "HAVING",
        "SUM",
        "COUNT",
        "MIN",
        "(",
        ")",
        ",",
        ";",
        ":lo",
        "per",
        "risk",
        "symbol",
        "owner",
        "shares",
        "price",
        "=",
        "<",
        ">",
        "<=",
        ">=",
        "<>",
        "IN",
        "NOT",
        "WEIGHT",
        "DISTANCE",
        "JOIN",
        "ON",
        "DISTINCT",
        "-1",
        "0",
        "1e308",
        "'x'",
        "NULL",
        "TRUE",
        "TIMESTAMP",
        "'2026-01-01'",
        "GROUP",
        "UNION",
        ".",
        '"',
        "`",
        "--",
        "/*",
        "é",
        "\x00",
    ]
)
STATEMENTS = st.lists(WORDS, max_size=14).map(" ".join) | st.text(max_size=40)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSONS = st.recursive(
    SCALARS, lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=6), part)
)
COLUMNS = st.sampled_from(["symbol", "per", "risk", "owner", "_op", "x", ""])
SOURCES = st.sampled_from(["tables/stocks", "streams/trades", "streams/visitors", "streams/flows"])


@QUIET
@given(sql=STATEMENTS, params=st.dictionaries(st.sampled_from(["lo", "id", "repeat", ""]), JSONS))
def test_statements(gateway: Gateway, sql: str, params: dict[str, Any]) -> None:
    body = json.dumps({"sql": sql, "params": params}).encode()
    headers = {"Content-Type": "application/json"}
    answer = gateway.call("POST", "/v1/subscriptions", content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.status_code == 201:
        name = answer.json()["id"]
        assert gateway.call("GET", f"/v1/subscriptions/{name}/result").status_code == 200
        gateway.ok("DELETE", f"/v1/subscriptions/{name}")


@QUIET
@given(source=SOURCES, rows=st.lists(st.dictionaries(COLUMNS, JSONS, max_size=4), max_size=3) | JSONS)
def test_rows(gateway: Gateway, source: str, rows: Any) -> None:
    headers = {"Content-Type": "application/json"}
    body = json.dumps(rows).encode()
    answer = gateway.call("POST", f"/v1/{source}/rows", content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if source == "streams/visitors" and isinstance(rows, list) and rows and isinstance(rows[0], dict):
        tried = gateway.call(
            "POST", f"/v1/{source}/try", content=json.dumps({"event": rows[0]}), headers=headers
        )
        assert tried.status_code < 500, tried.text


@QUIET
@given(source=SOURCES, body=st.binary(max_size=200))
def test_bodies(gateway: Gateway, source: str, body: bytes) -> None:
    for form in ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"):
        answer = gateway.call("POST", f"/v1/{source}/rows", content=body, headers={"Content-Type": form})
        assert answer.status_code < 500, answer.text


KINDS = st.sampled_from(["watch", "unwatch", "subscribe", "unsubscribe", "ping", "hello", "fly", 7, None])
FIELDS = st.sampled_from(["subscription", "cursor", "policy", "throttle", "sql", "params", "request", "id"])
FRAMES = (
    st.text(max_size=30)
    | st.binary(max_size=30)
    | st.tuples(KINDS, st.dictionaries(FIELDS, JSONS, max_size=4)).map(
        lambda pair: json.dumps({"type": pair[0], **pair[1]})
    )
)


@QUIET
@given(frames=st.lists(FRAMES, min_size=1, max_size=8))
def test_frames(gateway: Gateway, frames: list[str | bytes]) -> None:
    with gateway.live() as live:
        for frame in frames:
            live.socket.send(frame)
        live.say(type="ping")
        answers = [live.next()["type"]]
        while answers[-1] != "pong":
            answers.append(live.next()["type"])
        assert set(answers) <= {"error", "pong", "unwatched", "subscribed", "snapshot", "too-old"}


@settings(QUIET, max_examples=25)
@given(raw=st.binary(min_size=1, max_size=64))
def test_bytes_that_are_no_frames(gateway: Gateway, raw: bytes) -> None:
    address = "ws" + gateway.url.removeprefix("http") + "/v1/live"
    with connect(address, additional_headers=gateway.headers(), close_timeout=0.05) as socket:
        socket.recv(30)
        socket.socket.sendall(raw)
        with suppress(ConnectionClosed):
            socket.close()
    assert gateway.bare("GET", "/ready").status_code == 200
