"""Joins of very many pairs: what they may cost others, and what is left of them after a restart."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.gateway.servers import Gateway, running
from tocsin.arrow_streams import write_arrow
from tocsin.engine.engine import Engine
from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.answer_limits import TOGETHER, overgrown_joins
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import WatchRequest
from tocsin.gateway.failures import LimitTooLarge, NotFound

JOIN = "SELECT a.k, b.k AS other FROM a JOIN b ON a.x = b.x"
TOP = "SELECT k, x FROM a ORDER BY x LIMIT 3"
COLUMNS = {"k": "string", "x": "double", "y": "double"}
ALL = {"*": ""}
HEADERS = {"Content-Type": "application/vnd.apache.arrow.stream"}

#: Rows a side whose pairs would fit no memory that a test may have.
MANY = 10_000


def arrow(count: int, x: float = 1.0, first: int = 0) -> bytes:
    keys = [f"{n}" for n in range(first, first + count)]
    return bytes(write_arrow(pa.table({"k": keys, "x": [x] * count, "y": [0.0] * count})))


def opened(folder: Path, max_limit: int = 100) -> Hub:
    return Hub(folder, max_limit=max_limit)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    made = opened(tmp_path)
    for name in ("a", "b"):
        made.declare(Declaration("table", name, COLUMNS, "k"))
    yield made
    made.close()


def reopened(hub: Hub, folder: Path, max_limit: int = 100) -> Hub:
    """The hub as a process finds it after the one before it was killed."""
    hub.sync()
    hub.close()
    return opened(folder, max_limit)


@pytest.mark.parametrize("max_limit", [100, 10, 100_000])
def test_an_old_verdict_ends_no_subscription_of_the_same_name(
    hub: Hub, tmp_path: Path, max_limit: int
) -> None:
    hub.publish("b", "arrow", arrow(200), tenant="t")
    hub.subscribe("t", JOIN, {}, grants=ALL, id="j")
    hub.publish("a", "arrow", arrow(1), tenant="t")
    assert "200 pairs" in hub.drain_ended()["t/j"]
    assert hub.drain_ended() == {}
    with pytest.raises(NotFound):
        hub.subscription("t", "j")
    hub.subscribe("t", TOP, {}, grants=ALL, id="j")
    hub.publish("a", "arrow", arrow(2), tenant="t")
    kept, number = hub.result("t", "j"), hub.number
    # What was ended is on the record: another limit makes no difference to it.
    again = reopened(hub, tmp_path, max_limit)
    assert again.drain_ended() == {}
    assert again.number == number
    assert again.result("t", "j") == kept
    [missed] = again.open([WatchRequest("t", "j", number - 1)])
    assert not isinstance(missed, Exception)
    assert missed.kind == "resumed"
    assert [batch.number for batch in missed.batches] == [number]
    again.close()


def test_deleting_rows_ends_a_join_too(hub: Hub, tmp_path: Path) -> None:
    for first in range(0, 200, 50):
        hub.publish("b", "arrow", arrow(50, first=first), tenant="t")
    hub.publish("a", "arrow", arrow(1), tenant="t")
    hub.subscribe("t", JOIN, {}, grants=ALL, id="j")
    ack = hub.delete("a", ["0"], tenant="t")
    assert (ack.changes, ack.caused) == (0, 0)
    assert list(hub.drain_ended()) == ["t/j"]
    again = reopened(hub, tmp_path)
    assert again.live("t") == 0
    again.close()


def peak_of(work: Callable[[], Any]) -> tuple[Any, int]:
    """What a call answers or raises, and the bytes that it held at most."""
    tracemalloc.start()
    try:
        try:
            found = work()
        except LimitTooLarge as failure:
            found = failure
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_hundred_million_pairs_are_never_built(hub: Hub) -> None:
    hub.publish("a", "arrow", arrow(MANY), tenant="t")
    hub.subscribe("t", JOIN, {}, grants=ALL, id="early")
    _, usual = peak_of(lambda: hub.publish("a", "arrow", arrow(MANY), tenant="t"))
    ack, peak = peak_of(lambda: hub.publish("b", "arrow", arrow(MANY), tenant="t"))
    assert (ack.rows, ack.changes) == (MANY, 0)
    assert peak < 10 * usual
    assert str(MANY * MANY) in hub.drain_ended()["t/early"]
    hub.subscribe("t", JOIN, {}, grants=ALL, id="late")
    for ask in (
        lambda: hub.result("t", "late"),
        lambda: hub.open([WatchRequest("t", "late", None)])[0],
        lambda: hub.answer("t/late"),
    ):
        refused, peak = peak_of(ask)
        assert isinstance(refused, LimitTooLarge)
        assert str(MANY * MANY) in str(refused)
        assert peak < 10 * usual


def test_one_who_publishes_does_not_pay_for_a_join_of_others(tmp_path: Path) -> None:
    with running(tmp_path) as gateway:
        for name in ("a", "b"):
            gateway.ok("POST", "/v1/tables", {"name": name, "key": "k", "columns": COLUMNS})
        gateway.ok("POST", "/v1/tenants", {"name": "heavy", "grants": ALL})
        heavy = gateway.make_key("heavy", "subscribe")
        path = "/v1/subscriptions/j"
        gateway.ok("POST", "/v1/subscriptions", {"sql": JOIN, "id": "j"}, key=heavy)
        # What counts and lists pairs is compiled on the way.
        publish(gateway, "a", arrow(100, x=9.0))
        publish(gateway, "b", arrow(100, x=9.0))
        publish(gateway, "a", arrow(MANY))
        publish(gateway, "b", arrow(MANY, x=2.0))
        alone = publish(gateway, "b", arrow(MANY, x=3.0))
        with gateway.live(heavy) as live:
            live.ask(type="watch", subscription="j")
            beside = publish(gateway, "b", arrow(MANY))
            ended = live.next()
        assert (ended["type"], f"{MANY * MANY} pairs" in ended["message"]) == ("ended", True)
        assert beside < 20 * alone
        assert gateway.call("GET", path, key=heavy).status_code == 404
        gateway.ok("POST", "/v1/subscriptions", {"sql": JOIN, "id": "j"}, key=heavy)
        refused = gateway.call("GET", path + "/result", key=heavy)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "limit-too-large")
        # Each row beside so many partners is too much, however few rows there are.
        gateway.ok("POST", "/v1/tables/b/rows", [{"k": "more", "x": 2.0}])
        assert gateway.ok("GET", path, key=heavy)["id"] == "j"
        gateway.ok("POST", "/v1/tables/a/rows", [{"k": "0", "x": 1.0, "y": 1.0}, {"k": "1", "x": 5.0}])
        assert gateway.call("GET", path, key=heavy).status_code == 200
        gateway.ok("POST", "/v1/tables/b/rows", [{"k": "one", "x": 1.0}, {"k": "two", "x": 1.0}])
        assert gateway.call("GET", path, key=heavy).status_code == 404


def publish(gateway: Gateway, table: str, body: bytes) -> float:
    """Seconds to publish rows."""
    start = time.perf_counter()
    answer = gateway.call("POST", f"/v1/tables/{table}/rows", headers=HEADERS, content=body)
    assert answer.status_code == 200, answer.text
    return time.perf_counter() - start


def test_a_join_is_ended_before_any_other_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much its own tenant has in the queue."""
    with running(tmp_path, max_limit=100) as gateway:
        for name in ("a", "b"):
            gateway.ok("POST", "/v1/tables", {"name": name, "key": "k", "columns": COLUMNS})
        publish(gateway, "b", arrow(200))
        gateway.ok("POST", "/v1/subscriptions", {"sql": JOIN, "id": "j"})
        was_there: list[bool] = []
        real = Engine.publish

        def noted(engine: Engine, *given: Any, **more: Any) -> Any:
            was_there.append("main/j" in engine)
            time.sleep(0.05)
            return real(engine, *given, **more)

        monkeypatch.setattr(Engine, "publish", noted)
        with ThreadPoolExecutor(20) as threads:
            rows = [[{"k": f"new{n}", "x": 1.0}] for n in range(20)]
            list(threads.map(lambda each: gateway.ok("POST", "/v1/tables/a/rows", each), rows))
        assert was_there == [True] + [False] * 19


def test_many_joins_of_a_tenant_are_counted_together(hub: Hub) -> None:
    hub.publish("b", "arrow", arrow(99), tenant="t")
    for tenant, count in (("heavy", 20), ("light", 4)):
        for number in range(count):
            hub.subscribe(tenant, JOIN, {}, grants=ALL, id=f"j{number}")
    hub.subscribe("heavy", JOIN, {}, grants=ALL, id="last")
    hub.publish("a", "arrow", arrow(1), tenant="t")
    ended = hub.drain_ended()
    assert set(ended) == {"heavy/last", *(f"heavy/j{number}" for number in range(5, 20))}
    assert "2079 pairs at once, and at most 500 are allowed for all of them" in ended["heavy/last"]
    assert hub.live("heavy") == 5
    assert hub.live("light") == 4
    hub.delete("a", ["0"], tenant="t")
    assert hub.drain_ended() == {}


def test_the_largest_joins_are_ended_first() -> None:
    counts = {"t/a": 90, "t/b": 100, "t/c": 100, "t/d": 80, "t/e": 95, "t/f": 60, "u/a": 100, "u/b": 101}
    numbers = {"t/b": 7, "t/c": 6}
    ended = overgrown_joins(counts, 1, 100, lambda full: numbers.get(full, 0))
    assert list(ended) == ["u/b", "t/b"]


def test_many_narrow_joins_stay() -> None:
    counts = {f"t/{number}": 10 for number in range(1000)}
    assert TOGETHER * 100 < 10_000
    assert overgrown_joins(counts, 1, 100, lambda _: 0) == {}


def test_many_joins_of_a_large_batch_are_bounded_by_its_rows() -> None:
    rows = 10_000
    counts = {f"t/{number}": 10 * rows for number in range(1000)}
    ended = overgrown_joins(counts, rows, 100, lambda _: 0)
    assert len(counts) - len(ended) == TOGETHER
