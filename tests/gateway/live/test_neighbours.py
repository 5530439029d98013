"""Tenants beside each other: what one asks for is bounded, and long work does not stop the others' frames."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.gateway.servers import Gateway, running
from tocsin.arrow_streams import write_arrow
from tocsin.engine.engine import Engine
from tocsin.gateway.core.changes import ChangeCoalescer

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
    decimals = write_arrow(pa.table({"n": pa.array([5, 1001]).cast(pa.decimal128(21, 2))}))
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    headers |= {"Tocsin-Subscription": f'{{"sql": "{TOP}:n"}}'}
    refused = [
        gateway.call("POST", "/v1/subscriptions", {"sql": TOP + "1000000"}),
        gateway.call("POST", "/v1/subscriptions", by_name),
        gateway.call("POST", "/v1/subscriptions/bulk", columns),
        gateway.call("POST", "/v1/subscriptions/bulk", headers=headers, content=arrow),
        gateway.call("POST", "/v1/subscriptions/bulk", headers=headers, content=decimals),
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
    return min(taken)  # Each of them changes all lists: noise of the machine only adds.


PARTNERS = "SELECT t.k AS a, u.k AS b FROM t JOIN u ON t.x = u.x"


def test_the_heaviest_join_beside_the_lightest(gateway: Gateway) -> None:
    """A join in which one row has very many partners is ended before it has held up anybody."""
    heavy = with_partners(gateway, 20_000)
    gateway.ok("POST", "/v1/subscriptions", ONE)
    alone = lightest(gateway)
    gateway.ok("POST", "/v1/subscriptions", {"sql": PARTNERS, "id": "join"}, key=heavy)
    with gateway.live(heavy, max_size=None) as live:
        assert live.ask(type="watch", subscription="join")["type"] == "snapshot"
        gateway.ok("POST", "/v1/tables/t/rows", [{"k": "0", "x": 7}])
        ended = live.next()
        assert ended["type"] == "ended"
        assert "20000 pairs" in ended["message"]
    gateway.ok("POST", "/v1/tables/t/rows", [{"k": "0", "x": 8}])
    assert gateway.call("GET", "/v1/subscriptions/join", key=heavy).status_code == 404
    assert lightest(gateway) < RATIO * alone


def test_a_join_of_a_few_partners_a_row_stays(gateway: Gateway) -> None:
    heavy = with_partners(gateway, 9)
    gateway.ok("POST", "/v1/subscriptions", {"sql": PARTNERS, "id": "join"}, key=heavy)
    gateway.ok("POST", "/v1/tables/t/rows", [{"k": str(n), "x": 7} for n in range(500)])
    gateway.ok("POST", "/v1/tables/t/rows", [{"k": "0", "x": 8}])
    assert gateway.ok("GET", "/v1/subscriptions/join", key=heavy)["id"] == "join"


def test_an_answer_is_no_longer_than_a_list_may_be(gateway: Gateway) -> None:
    gateway.ok("POST", "/v1/subscriptions", {"sql": "SELECT k FROM t WHERE x > 0", "id": "all"})
    gateway.ok("POST", "/v1/tables/t/rows", [{"k": str(n), "x": 7} for n in range(1000)])
    assert len(gateway.ok("GET", "/v1/subscriptions/all/result")["rows"]) == 1000
    with gateway.live() as throttled:
        assert throttled.ask(type="watch", subscription="all", throttle=0.2)["type"] == "snapshot"
        for extra in ("more", "and more"):
            gateway.ok("POST", "/v1/tables/t/rows", [{"k": extra, "x": 7}])
        refused = gateway.call("GET", "/v1/subscriptions/all/result")
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "limit-too-large"
        assert "1002 rows, and at most 1000 are allowed" in refused.json()["error"]["message"]
        # Two changes as one would need the answer.
        ended = throttled.next()
        assert (ended["type"], "1002 rows" in ended["message"]) == ("ended", True)
    with gateway.live() as live:
        assert live.ask(type="watch", subscription="all")["code"] == "limit-too-large"


def with_partners(gateway: Gateway, count: int) -> str:
    """A second table that many rows of the first may join with; a key of a tenant beside the operator's."""
    gateway.ok("POST", "/v1/tables", {"name": "u", "key": "k", "columns": COLUMNS})
    rows = write_arrow(pa.table({"k": [str(n) for n in range(count)], "x": [7.0] * count}))
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    assert gateway.call("POST", "/v1/tables/u/rows", headers=headers, content=rows).is_success
    gateway.ok("POST", "/v1/tenants", {"name": "heavy", "grants": {"*": ""}})
    return gateway.make_key("heavy", "subscribe")


def test_many_requests_of_one_do_not_go_before_another(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of forty requests that wait, a neighbour's that comes last is not answered last."""
    gateway.ok("POST", "/v1/tenants", {"name": "heavy", "grants": {"*": ""}})
    heavy = gateway.make_key("heavy", "subscribe")
    gateway.ok("POST", "/v1/subscriptions", ONE)
    gateway.ok("POST", "/v1/subscriptions", ONE, key=heavy)
    explained, begun = [], threading.Event()
    real = Engine.explain

    def slow(engine: Engine, name: str, event: Any = None) -> str:
        explained.append(name)
        if len(explained) == 1:
            begun.set()
            time.sleep(2)
        time.sleep(0.03)
        return real(engine, name, event)

    monkeypatch.setattr(Engine, "explain", slow)
    with ThreadPoolExecutor(40) as threads:
        path = "/v1/subscriptions/one/explain"
        asked = [threads.submit(gateway.ok, "GET", path, key=heavy) for _ in range(40)]
        assert begun.wait(60)
        gateway.ok("GET", path)
        assert sum(each.done() for each in asked) < 30
        for each in asked:
            each.result(60)
    assert explained.index("main/one") < 10


def test_batches_are_made_one_beside_the_loop(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    real = ChangeCoalescer.fold

    def noted(pending: ChangeCoalescer, batches: Any) -> ChangeCoalescer:
        threads.append(threading.current_thread().name)
        return real(pending, batches)

    monkeypatch.setattr(ChangeCoalescer, "fold", noted)
    gateway.ok("POST", "/v1/subscriptions", {"sql": TOP + "5", "id": "five"})
    with gateway.live() as live:
        assert live.ask(type="watch", subscription="five", throttle=0.3)["type"] == "snapshot"
        for number in range(3):
            gateway.ok("POST", "/v1/tables/t/rows", [{"k": str(number), "x": number}])
        assert [each["key"] for each in live.next()["changes"]] == ["0", "1", "2"]
    assert [name.split("_")[0] for name in threads] == ["aside"]
