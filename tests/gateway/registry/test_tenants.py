"""Tenants share sources and never see each other's rows or subscriptions."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.servers import Gateway
from tocsin import DeclarationError, Engine, Error
from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.statements import check, check_condition, schema_of

TOP = "SELECT symbol, per FROM stocks ORDER BY per LIMIT 100"
SECRET = "SECRET"
MINE = {"stocks": "owner = 7", "trades": "owner = 7", "visitors": "owner = 7", "flows": "owner = 7"}


@pytest.fixture(scope="module")
def keys(gateway: Gateway) -> tuple[str, str]:
    """Keys of two tenants over the same sources; the first one's rows are a secret."""
    for name, owner in (("acme", 8), ("bolt", 7)):
        grants = dict.fromkeys(MINE, f"owner = {owner}")
        gateway.ok("POST", "/v1/tenants", {"name": name, "grants": grants, "rows_per_second": 1000000})
    acme = gateway.make_key("acme", "publish", "subscribe", "admin")
    bolt = gateway.make_key("bolt", "subscribe", "admin")
    gateway.ok("POST", "/v1/subscriptions", {"sql": TOP, "id": "acmes"}, key=acme)
    rows = [{"symbol": f"{SECRET}{n}", "risk": n, "per": 1000 + n, "owner": 8} for n in range(20)]
    rows += [{"symbol": f"mine{n}", "risk": n, "per": n, "owner": 7} for n in range(3)]
    gateway.ok("POST", "/v1/tables/stocks/rows", rows, key=acme)
    assert len(gateway.ok("GET", "/v1/subscriptions/acmes/result", key=acme)["rows"]) == 20
    return acme, bolt


STATEMENTS = [
    "SELECT * FROM stocks",
    "SELECT symbol FROM stocks WHERE owner = 8",
    "SELECT symbol FROM stocks WHERE owner BETWEEN 0 AND 100",
    "SELECT symbol, per FROM stocks ORDER BY per DESC LIMIT 10",
    "SELECT symbol, per FROM stocks ORDER BY per + risk DESC LIMIT 10",
    "SELECT symbol, per FROM stocks WHERE owner >= 8 ORDER BY per LIMIT 10",
    "SELECT MAX(per) FROM stocks",
    "SELECT COUNT(*) FROM stocks WHERE owner = 8",
    "SELECT SUM(per) FROM stocks",
    "SELECT AVG(per) FROM stocks WHERE per > 999",
    "SELECT DISTINCT symbol FROM stocks",
    "SELECT s.symbol FROM stocks s WHERE s.owner = 8",
    "SELECT symbol FROM stocks -- AND owner = 7",
    "SELECT symbol FROM stocks /* ",
    "SELECT symbol FROM stocks WHERE owner = 8 OR owner = 7",
    "SELECT symbol FROM stocks WHERE (owner = 8)",
    "SELECT symbol FROM stocks WHERE NOT owner = 7",
    "SELECT symbol FROM stocks UNION SELECT symbol FROM stocks",
    "SELECT symbol FROM (SELECT * FROM stocks)",
    "WITH x AS (SELECT * FROM stocks) SELECT * FROM x",
    "SELECT symbol FROM stocks; SELECT symbol FROM stocks",
    "SELECT symbol FROM stocks WHERE 1 = 1",
    "SELECT symbol FROM stocks WHERE per > :lo",
    'SELECT "symbol" FROM "stocks" WHERE "owner" = 8',
    "SELECT symbol AS owner FROM stocks",
    "SELECT owner AS symbol FROM stocks WHERE owner <> 7",
    "SELECT * FROM stocks WHERE DISTANCE(per, risk, 1000, 0) <= 100000",
    "SELECT * FROM stocks AS owner",
    "SELECT symbol FROM main.stocks",
    "SELECT symbol FROM acme.stocks",
    "SELECT * FROM tenants",
    "SELECT * FROM keys",
]


def attempts(key: str, count: int) -> list[tuple[str, str, Any]]:
    """Ways to get at what is not one's own: paths, ids, statements and their mutations."""
    random_ = random.Random(9)
    ids = ["acmes", "acme/acmes", "../acme/acmes", "..%2Facme%2Facmes", "acme%2Facmes", "%61cmes", "*"]
    tails = [("GET", ""), ("GET", "/result"), ("GET", "/explain"), ("DELETE", "")]
    ways: list[tuple[str, str, Any]] = [
        (method, f"/v1/subscriptions/{name}{tail}", None) for name in ids for method, tail in tails
    ]
    paths = ["tenants", "keys", "subscriptions", "subscriptions?after=acmes", "tables", "streams", "me"]
    ways += [("GET", f"/v1/{path}", None) for path in paths]
    ways += [("GET", path, None) for path in ("/metrics", "/v1/keys?tenant=acme", "/v1/spaces")]
    ways.append(("PUT", "/v1/tenants/bolt", {"name": "bolt", "grants": {"*": ""}}))
    ways.append(("POST", "/v1/tenants", {"name": "bolt2", "grants": {"*": ""}}))
    ways.append(("POST", "/v1/keys", {"tenant": "acme", "scopes": ["subscribe"]}))
    ways.append(("POST", "/v1/keys", {"tenant": "main", "scopes": ["admin"]}))
    ways.append(("POST", "/v1/streams/visitors/try", {"event": {"owner": 8}}))
    for number in range(count - len(ways)):
        sql = STATEMENTS[number % len(STATEMENTS)]
        if number >= len(STATEMENTS):
            sql = renumbered(sql, random_) if number % 2 else mutated(sql, random_)
        params = {"lo": 0} if ":lo" in sql else {}
        ways.append(("POST", "/v1/subscriptions", {"sql": sql, "params": params}))
    return ways


def renumbered(sql: str, random_: random.Random) -> str:
    """A statement with other numbers."""
    return re.sub(r"\d+", lambda _: str(random_.choice([0, 1, 7, 8, 9, 1005, 10**6])), sql)


def mutated(sql: str, random_: random.Random) -> str:
    """A statement with words changed, doubled, left out, or replaced by those of another."""
    words = sql.split()
    for _ in range(random_.randint(1, 3)):
        place = random_.randrange(len(words))
        other = random_.choice(random_.choice(STATEMENTS).split())
        words[place : place + random_.randint(0, 1)] = [other, "AND", words[place]][: random_.randint(1, 3)]
    return " ".join(words)


def test_a_thousand_ways_to_read_what_is_anothers(gateway: Gateway, keys: tuple[str, str]) -> None:
    acme, bolt = keys
    registered = 0
    for method, path, given_ in attempts(bolt, 1000):
        answer = gateway.call(method, path, given_, key=bolt)
        assert answer.status_code < 500, (path, given_, answer.text)
        seen = answer.text
        if (method, path, answer.status_code) == ("POST", "/v1/subscriptions", 201):
            registered += 1
            name = answer.json()["id"]
            result = gateway.call("GET", f"/v1/subscriptions/{name}/result", key=bolt)
            seen += result.text + gateway.call("GET", f"/v1/subscriptions/{name}/explain", key=bolt).text
            numbers = [value for row in result.json()["rows"] for value in row.values()]
            assert not any(isinstance(value, int | float) and value >= 100 for value in numbers), given_
            gateway.ok("DELETE", f"/v1/subscriptions/{name}", key=bolt)
        assert SECRET not in seen, (path, given_)
        # A refusal may repeat the id that was asked for; a statement is the tenant's own words.
        asked = seen.replace("the id 'acmes'", "").replace("acme.stocks", "").replace("'acme'", "")
        assert "acme" not in asked, (path, given_, seen)
    assert registered > 100
    assert len(gateway.ok("GET", "/v1/subscriptions/acmes/result", key=acme)["rows"]) == 20


def test_changes_stay_with_their_tenant(gateway: Gateway, keys: tuple[str, str]) -> None:
    acme, bolt = keys
    asked = {"sql": "SELECT * FROM visitors WHERE age > 1", "id": "v"}
    gateway.ok("POST", "/v1/subscriptions", asked, key=bolt)
    with gateway.live(bolt) as live:
        assert live.ask(type="watch", subscription="acmes")["code"] == "not-found"
        assert live.ask(type="watch", subscription="v")["type"] == "snapshot"
        for owner in (8, 7):
            event = [{"age": 9, "owner": owner}]
            gateway.ok("POST", "/v1/streams/visitors/rows", event, key=acme)
        told = live.next()["changes"]
    assert [change["row"]["owner"] for change in told] == [7]
    assert told[0]["score"] == 1.0, "the condition on rows has no weight"


def test_scopes(gateway: Gateway, keys: tuple[str, str]) -> None:
    only = {scope: gateway.make_key("acme", scope) for scope in ("publish", "subscribe", "admin")}
    row = [{"symbol": "x", "owner": 8}]
    tries: list[tuple[str, str, str, Any]] = [
        ("publish", "POST", "/v1/tables/stocks/rows", row),
        ("subscribe", "GET", "/v1/subscriptions", None),
        ("admin", "GET", "/v1/keys", None),
    ]
    for scope, method, path, given_ in tries:
        for held, key in only.items():
            allowed = gateway.call(method, path, given_, key=key).status_code != 403
            assert allowed == (held == scope)
    gateway.ok("POST", "/v1/tables/stocks/delete", {"keys": ["x"]})


def test_what_was_granted_can_be_taken_back(gateway: Gateway) -> None:
    gateway.ok("POST", "/v1/tenants", {"name": "guest", "grants": {"stocks": ""}})
    key = gateway.make_key("guest", "subscribe")
    gateway.ok("POST", "/v1/subscriptions", {"sql": "SELECT COUNT(*) FROM stocks", "id": "n"}, key=key)
    with gateway.live(key) as live:
        live.ask(type="watch", subscription="n")
        gateway.ok("PUT", "/v1/tenants/guest", {"name": "guest", "grants": {"stocks": "owner = 1"}})
        assert live.next()["type"] == "ended"
    assert gateway.call("GET", "/v1/subscriptions/n", key=key).status_code == 404
    assert gateway.call("GET", "/v1/tables/trades", key=key).status_code == 404
    error = gateway.call("POST", "/v1/check", {"sql": "SELECT * FROM trades"}, key=key).json()["error"]
    assert "trades" in error["message"]
    assert "visitors" not in json.dumps(error)


def test_quotas(gateway: Gateway) -> None:
    limits = {"subscriptions": 1, "connections": 1, "rows_per_second": 2}
    gateway.ok("POST", "/v1/tenants", {"name": "small", "grants": {"*": ""}, **limits})
    key = gateway.make_key("small", "publish", "subscribe")
    gateway.ok("POST", "/v1/subscriptions", {"sql": "SELECT COUNT(*) FROM stocks"}, key=key)
    refused = gateway.call("POST", "/v1/subscriptions", {"sql": "SELECT COUNT(*) FROM stocks"}, key=key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota-exceeded")
    rows = [{"shares": 1, "price": 1}] * 40
    gateway.ok("POST", "/v1/streams/trades/rows", rows, key=key)
    refused = gateway.call("POST", "/v1/streams/trades/rows", rows, key=key)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 10
    with gateway.live(key), pytest.raises(Exception, match="connection quota exceeded"), gateway.live(key):
        pass


BAD_CONDITIONS = [
    "owner = :x",
    "owner = 7 OR owner = 8",
    "owner = 7) OR (owner = 8",
    "owner = 7 ORDER BY per LIMIT 3",
    "owner = 7; DROP TABLE x",
    "1 = 1",
    "",
    "owner + 1 = 7",
    "WEIGHT(owner = 7, 2)",
    "x.owner = 7",
]


@pytest.mark.parametrize("condition", BAD_CONDITIONS)
def test_a_condition_on_rows_is_a_plain_conjunction(condition: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        check_condition(condition, None)
    assert condition in str(refused.value)


NUMBERS = st.integers(0, 3)


@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=12), lo=NUMBERS, hi=NUMBERS, mine=NUMBERS)
@settings(max_examples=15)
def test_a_condition_on_rows_is_as_if_others_rows_were_not_there(
    rows: list[tuple[int, int, int]], lo: int, hi: int, mine: int
) -> None:
    declaration = Declaration("table", "t", {"k": "int", "x": "double", "y": "double", "owner": "int"}, "k")
    everything = [{"k": k, "x": x, "y": y, "owner": o} for k, (x, y, o) in enumerate(rows)]
    engines = Engine(), Engine()
    for engine in engines:
        engine.declare(declaration)
    engines[0].publish("t", everything)
    engines[1].publish("t", [row for row in everything if row["owner"] == mine])
    for sql in (
        f"SELECT k, y FROM t WHERE x BETWEEN {lo} AND {hi} ORDER BY y LIMIT 2",
        f"SELECT SUM(y) FROM t WHERE x >= {lo}",
        "SELECT DISTINCT y FROM t",
        "SELECT k FROM t ORDER BY x + y DESC LIMIT 3",
        f"SELECT k FROM t WHERE x + y > {hi}",
    ):
        checked = check(sql, {"t": schema_of(declaration)}, {"t": f"owner = {mine}"}, {})
        confined = engines[0].result(engines[0].subscribe(checked.maintained_sql))
        alone = engines[1].result(engines[1].subscribe(sql))
        assert confined.to_pylist() == alone.to_pylist(), sql


@given(text=st.text(max_size=60))
def test_no_text_breaks_the_reading_of_statements(text: str) -> None:
    catalog = {"t": schema_of(Declaration("table", "t", {"k": "int"}, "k"))}
    with suppress(Error):
        assert check(text, catalog, {"*": ""}, {}).source == "t"


def test_a_receipt_counts_the_changes_of_its_own_tenant(gateway: Gateway, keys: tuple[str, str]) -> None:
    """How many changes a row causes elsewhere would tell where others' alerts lie."""
    acme, _ = keys
    asked = {"sql": "SELECT * FROM visitors WHERE age > 50", "id": "counted"}
    gateway.ok("POST", "/v1/subscriptions", asked, key=acme)
    event = [{"age": 60, "owner": 8}]
    publishing = gateway.make_key("bolt", "publish")
    assert gateway.ok("POST", "/v1/streams/visitors/rows", event, key=publishing)["changes"] == 0
    assert gateway.ok("POST", "/v1/streams/visitors/rows", event, key=acme)["changes"] == 1
    gateway.ok("DELETE", "/v1/subscriptions/counted", key=acme)


def test_an_explanation_counts_what_is_ones_own(gateway: Gateway, keys: tuple[str, str]) -> None:
    acme, bolt = keys
    sqls = [
        "SELECT * FROM visitors WHERE age > :a",
        "SELECT COUNT(*) FROM stocks WHERE risk BETWEEN :a AND 9",
    ]
    for sql in sqls:
        texts = []
        for count in (1, 7):
            for number in range(count):
                asked = {"sql": sql, "params": {"a": number}}
                gateway.ok("POST", "/v1/subscriptions", asked, key=acme)
            mine = gateway.ok("POST", "/v1/subscriptions", {"sql": sql, "params": {"a": 5}}, key=bolt)["id"]
            texts.append(gateway.ok("GET", f"/v1/subscriptions/{mine}/explain", key=bolt)["text"])
            gateway.ok("DELETE", f"/v1/subscriptions/{mine}", key=bolt)
            assert "index: shared, with 1 of yours for this statement" in texts[-1]
        first, second = (text.split("\n", 1)[1] for text in texts)
        assert first == second


def test_only_the_operator_names_an_index(gateway: Gateway, keys: tuple[str, str]) -> None:
    """A slow index would be everybody's cost."""
    acme, _ = keys
    hinted = "SELECT /*+ INDEX('long-lists') */ symbol, per FROM stocks ORDER BY per LIMIT 3"
    answer = gateway.call("POST", "/v1/subscriptions", {"sql": hinted}, key=acme)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    sid = gateway.ok("POST", "/v1/subscriptions", {"sql": hinted})["id"]
    assert "index: long-lists:" in gateway.ok("GET", f"/v1/subscriptions/{sid}/explain")["text"]
    gateway.ok("DELETE", f"/v1/subscriptions/{sid}")
    refused = "SELECT /*+ INDEX('tiles') */ per FROM stocks WHERE per > 1 AND risk > 1 ORDER BY per LIMIT 3"
    answer = gateway.call("POST", "/v1/subscriptions", {"sql": refused})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "index-refused")
