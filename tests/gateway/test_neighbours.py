"""Tenants beside each other: what one asks for is bounded, and long work does not stop the others' frames."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.gateway.servers import Gateway, running
from tocsin.engine.engine import Engine
from tocsin.gateway.bodies import write_arrow

COLUMNS = {"k": "string", "x": "double"}
TOP = "SELECT k, x FROM t ORDER BY x LIMIT "
ONE = {"sql": TOP + "1", "id": "one"}

#: How much longer a neighbour's request may take beside the longest list that is taken.
RATIO = 10


@pytest.fixture
def gateway(tmp_path: Path) -> Any:
    with running(tmp_path, max_limit=1000) as made:
        made.ok("POST", "/v1/tables", {"name": "t", "key": "k", "columns": COLUMNS})
        yield made


def test_a_limit_is_capped(gateway: Gateway) -> None:
    by_name = {"sql": TOP + ":n", "params": {"n": 1001}}
    columns = {"sql": TOP + ":n", "params": {"n": [5, 1001]}}
    arrow = write_arrow(pa.table({"n": [5, 1001]}))
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    headers |= {"Tocsin-Subscription": f'{{"sql": "{TOP}:n"}}'}
    refused = [
        gateway.call("POST", "/v1/subscriptions", {"sql": TOP + "1000000"}),
        gateway.call("POST", "/v1/subscriptions", by_name),
        gateway.call("POST", "/v1/subscriptions/bulk", columns),
        gateway.call("POST", "/v1/subscriptions/bulk", headers=headers, content=arrow),
        gateway.call("POST", "/v1/check", {"sql": TOP + "1001"}),
    ]
    for answer in refused:
        assert answer.status_code == 400, answer.text
        error = answer.json()["error"]
        assert error["code"] == "limit-too-large"
        assert "1000" in error["message"]
    gateway.ok("POST", "/v1/subscriptions", {"sql": TOP + "1000"})
    gateway.ok("POST", "/v1/subscriptions", {**by_name, "params": {"n": 1000}})


def test_longer_lists_of_before_are_still_there(tmp_path: Path) -> None:
    with running(tmp_path, max_limit=5000) as gateway:
        gateway.ok("POST", "/v1/tables", {"name": "t", "key": "k", "columns": COLUMNS})
        gateway.ok("POST", "/v1/subscriptions", {"sql": TOP + "2000", "id": "long"})
    with running(tmp_path, max_limit=1000) as gateway:
        gateway.ok("POST", "/v1/tables/t/rows", [{"k": "a", "x": 1}])
        assert len(gateway.ok("GET", "/v1/subscriptions/long/result")["rows"]) == 1


JOBS: list[tuple[str, Callable[[Gateway], Any]]] = [
    ("publish", lambda gateway: gateway.ok("POST", "/v1/tables/t/rows", [{"k": "a", "x": 1}])),
    ("subscribe_many", lambda gateway: gateway.ok("POST", "/v1/subscriptions", {"sql": TOP + "2"})),
    ("explain", lambda gateway: gateway.ok("GET", "/v1/subscriptions/one/explain")),
    ("answers", lambda gateway: gateway.ok("GET", "/v1/subscriptions/one/changes?seconds=0")),
]


@pytest.mark.parametrize(("name", "ask"), JOBS, ids=[name for name, _ in JOBS])
def test_others_are_answered_during_long_work(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, name: str, ask: Callable[[Gateway], Any]
) -> None:
    gateway.ok("POST", "/v1/subscriptions", ONE)
    begun, may_end = threading.Event(), threading.Event()
    real = getattr(Engine, name)

    def long(*given: Any, **more: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return real(*given, **more)

    monkeypatch.setattr(Engine, name, long)
    with ThreadPoolExecutor(1) as thread:
        try:
            asked = thread.submit(ask_quietly, ask, gateway)
            assert begun.wait(60)
            assert gateway.bare("GET", "/health", timeout=30).status_code == 200
            assert not asked.done()
        finally:
            may_end.set()
        asked.result(60)


def ask_quietly(ask: Callable[[Gateway], Any], gateway: Gateway) -> None:
    """Events are no JSON: what they say is of no interest here."""
    try:
        ask(gateway)
    except ValueError:
        return


def test_the_heaviest_list_beside_the_lightest(gateway: Gateway) -> None:
    """A neighbour's lightest request, alone and beside the longest lists over the same table."""
    gateway.ok("POST", "/v1/tenants", {"name": "heavy", "grants": {"*": ""}})
    heavy = gateway.make_key("heavy", "subscribe")
    gateway.ok("POST", "/v1/subscriptions", ONE)
    gateway.ok("POST", "/v1/tables/t/rows", [{"k": str(n), "x": n} for n in range(2000)])
    alone = lightest(gateway)
    for _ in range(5):
        gateway.ok("POST", "/v1/subscriptions", {"sql": TOP + "1000"}, key=heavy)
    beside = lightest(gateway)
    assert beside < RATIO * alone


def lightest(gateway: Gateway) -> float:
    """Seconds to publish a row that changes every list at its head."""
    taken = []
    for number in range(20):
        start = time.perf_counter()
        gateway.ok("POST", "/v1/tables/t/rows", [{"k": "0", "x": -number - 1}])
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
