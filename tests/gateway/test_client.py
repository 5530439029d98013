"""The Python clients."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

import tocsin
from tests.gateway.servers import TOP, Gateway
from tocsin.client import Answer, GatewayFailure

ROWS = [{"symbol": name, "risk": 1.0, "per": per} for name, per in (("A", 3.0), ("B", 2.0), ("C", 1.0))]


def test_everything_that_a_client_can_do(gateway: Gateway) -> None:
    with tocsin.Client(gateway.url, gateway.key) as client:
        assert {source["name"] for source in client.sources()} >= {"stocks", "trades"}
        sid = client.subscribe(TOP, {"lo": 0, "hi": 5}, id="mine", throttle=0)
        updates = client.watch(sid)
        assert next(updates).kind == "snapshot"
        assert client.publish("stocks", ROWS[:1])["rows"] == 1
        assert next(updates).answer.keys == ["A"]
        client.publish("stocks", pa.Table.from_pylist(ROWS[1:]))
        update = next(updates)
        assert update.answer.keys == ["C", "B", "A"]
        updates.close()
        client.delete("stocks", ["C"])
        back = client.watch(sid, cursor=update.cursor)
        assert [change["key"] for change in next(back).changes] == ["C"]
        back.close()
        assert [row["symbol"] for row in client.result(sid)] == ["B", "A"]
        assert "parameters" in client.explain(sid)
        assert client.check(TOP)["kind"] == "top-k"
        many = {"id": ["x1", "x2"], "lo": [0.0, 1.0], "hi": [1.0, 2.0]}
        assert client.subscribe_many(TOP, many, policy="disconnect") == 2
        assert [each["id"] for each in client.subscriptions()] == ["mine", "x1", "x2"]
        for name in ("mine", "x1", "x2"):
            client.unsubscribe(name)
        client.delete("stocks", ["A", "B"])
        with pytest.raises(GatewayFailure, match="no column") as failure:
            client.check("SELECT x FROM stocks")
        assert (failure.value.status, failure.value.code) == (400, "sql-error")
        with pytest.raises(GatewayFailure, match="no subscription"):
            next(client.watch("nobody"))


def test_an_ended_subscription_ends_its_watch(gateway: Gateway) -> None:
    async def scenario() -> list[str]:
        async with tocsin.AsyncClient(gateway.url, gateway.key) as client:
            sid = await client.subscribe("SELECT COUNT(*) FROM stocks")
            kinds = []
            async for update in client.watch(sid):
                kinds.append(update.kind)
                if update.kind == "snapshot":
                    assert update.answer.value == 0
                    await client.unsubscribe(sid)
            return kinds

    assert asyncio.run(scenario()) == ["snapshot", "ended"]


def test_a_cursor_that_is_too_old_gets_a_new_snapshot(gateway: Gateway) -> None:
    with tocsin.Client(gateway.url, gateway.key) as client:
        sid = client.subscribe(TOP, {"lo": 0, "hi": 5})
        updates = client.watch(sid, cursor="00000000.1")
        assert next(updates).kind == "snapshot"
        updates.close()
        client.unsubscribe(sid)


def test_where_no_gateway_is_it_is_said() -> None:
    with (
        tocsin.Client("http://127.0.0.1:9", "tocsin_key") as client,
        pytest.raises(GatewayFailure, match=r"no gateway answers at http://127\.0\.0\.1:9") as failure,
    ):
        client.create_table("stocks", key="symbol", columns={"symbol": "string"})
    assert failure.value.code == "unreached"


def test_an_answer_is_kept_by_rank() -> None:
    answer = Answer()
    answer.begin([{"op": "enter", "key": key, "rank": rank} for rank, key in ((2, "b"), (1, "a"), (3, "c"))])
    assert answer.keys == ["a", "b", "c"]
    answer.apply([{"op": "leave", "key": "a"}, {"op": "update", "key": "c", "rank": 1}])
    assert answer.keys == ["c", "b"]
    answer.apply([{"op": "enter", "key": "d", "rank": None}])
    assert answer.keys == ["c", "b", "d"]
    answer.apply([{"op": "value", "key": None, "score": 7.0}])
    assert answer.value == 7.0


def test_a_watch_whose_key_is_revoked_does_not_come_back(gateway: Gateway) -> None:
    sid = gateway.ok("POST", "/v1/subscriptions", {"sql": TOP, "params": {"lo": 0, "hi": 5}})["id"]
    made = gateway.ok("POST", "/v1/keys", {"scopes": ["subscribe"]})
    with tocsin.Client(gateway.url, made["key"]) as client:
        updates = client.watch(sid)
        assert next(updates).kind == "snapshot"
        gateway.ok("DELETE", f"/v1/keys/{made['id']}")
        with pytest.raises(GatewayFailure, match=r"revoked|not valid") as refused:
            next(updates)
    assert (refused.value.status, refused.value.code) == (401, "unauthorized")
    gateway.ok("DELETE", f"/v1/subscriptions/{sid}")
