"""Shapes: equal exactly for plans that differ in numbers and parameters only."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.language.catalog import plan_of
from tocsin.language import parameters, plan_key

#: Statements in one line share a key; statements in different lines do not.
FAMILIES = [
    [
        "SELECT symbol FROM stocks WHERE risk BETWEEN 1 AND 2 ORDER BY per LIMIT 3",
        "SELECT symbol FROM stocks WHERE risk BETWEEN :lo AND 9.5 ORDER BY per LIMIT :k",
        "SELECT s.symbol FROM stocks AS s WHERE s.risk <= 2 AND 1 <= s.risk ORDER BY s.per ASC LIMIT 7",
    ],
    ["SELECT symbol FROM stocks WHERE risk BETWEEN 1 AND 2 ORDER BY per DESC LIMIT 3"],
    ["SELECT symbol FROM stocks WHERE risk BETWEEN 1 AND 2 ORDER BY risk LIMIT 3"],
    ["SELECT symbol FROM stocks WHERE risk > 1 AND risk <= 2 ORDER BY per LIMIT 3"],
    ["SELECT symbol FROM stocks WHERE risk >= 1 ORDER BY per LIMIT 3"],
    ["SELECT symbol FROM stocks WHERE per BETWEEN 1 AND 2 ORDER BY per LIMIT 3"],
    ["SELECT symbol AS s FROM stocks WHERE risk BETWEEN 1 AND 2 ORDER BY per LIMIT 3"],
    ["SELECT symbol, per FROM stocks WHERE risk BETWEEN 1 AND 2 ORDER BY per LIMIT 3"],
    [
        "SELECT symbol FROM stocks ORDER BY 2 * per + risk LIMIT 3",
        "SELECT symbol FROM stocks ORDER BY :a * per + risk LIMIT 3",
    ],
    ["SELECT symbol FROM stocks ORDER BY 2 * (per + risk) LIMIT 3"],
    [
        "SELECT symbol FROM stocks ORDER BY POWER(per, 3) LIMIT 3",
        "SELECT symbol FROM stocks ORDER BY POWER(per, 3.0) LIMIT 1",
    ],
    ["SELECT symbol FROM stocks ORDER BY POWER(per, 5) LIMIT 3"],
    ["SELECT MIN(per) FROM stocks"],
    ["SELECT MAX(per) FROM stocks"],
    ["SELECT MIN(per) AS m FROM stocks"],
    ["SELECT COUNT(*) FROM stocks"],
    ["SELECT COUNT(per) FROM stocks"],
    ["SELECT DISTINCT per FROM stocks"],
    [
        "SELECT MIN(per) FROM stocks WHERE DISTANCE(risk, per, 1, 2) <= 3",
        "SELECT MIN(per) FROM stocks WHERE DISTANCE(risk, per, :a, 2) < :r",
    ],
    ["SELECT MIN(per) FROM stocks WHERE DISTANCE(per, risk, 1, 2) <= 3"],
    [
        "SELECT MIN(per) FROM stocks WHERE risk + per <= 3",
        "SELECT MIN(per) FROM stocks WHERE 2 * risk - :b * per > :c",
    ],
    ["SELECT MIN(per) FROM stocks WHERE risk + per <= 3 AND risk < 2"],
    ["SELECT per FROM stocks"],
    ["SELECT per FROM stocks WHERE per + risk > 3", "SELECT per FROM stocks WHERE per + risk > :t"],
    ["SELECT per FROM stocks WHERE per + risk >= 3"],
    ["SELECT owner FROM stocks JOIN owners ON stocks.symbol = owners.symbol"],
    ["SELECT owner FROM stocks JOIN owners ON stocks.symbol = owners.owner"],
    ["SELECT owner FROM owners JOIN stocks ON stocks.symbol = owners.symbol"],
    [
        "SELECT SUM(fee) FROM trades HAVING SUM(fee) >= 3",
        "SELECT SUM(fee) FROM trades HAVING SUM(trades.fee) >= :tau",
    ],
    ["SELECT COUNT(*) FROM trades HAVING COUNT(*) >= 3"],
    [
        "SELECT price FROM trades WHERE venue = 'a'",
        "SELECT price FROM trades WHERE WEIGHT(shares > 3, :w) AND open = TRUE",
        "SELECT price FROM trades",
        "SELECT price AS p FROM trades",
    ],
    ["SELECT * FROM visitors WHERE a = 1", "SELECT * FROM visitors", "SELECT a FROM visitors"],
]


def test_families_share_shapes_and_no_others() -> None:
    keys = [{plan_key(plan_of(sql)) for sql in family} for family in FAMILIES]
    assert all(len(family) == 1 for family in keys)
    for one, other in combinations(keys, 2):
        assert not one & other


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT symbol FROM stocks ORDER BY :a * per + :b * risk LIMIT :k", ("a", "b", "k")),
        (
            "SELECT symbol FROM stocks WHERE risk < :z AND per > :y AND :x < risk ORDER BY per LIMIT :z",
            ("z", "y", "x"),
        ),
        ("SELECT * FROM visitors WHERE WEIGHT(a IN (:p, 1, :q), :w) AND b = :p", ("p", "q", "w")),
        ("SELECT SUM(fee) FROM trades WHERE price < :lo HAVING :tau <= SUM(fee)", ("lo", "tau")),
        ("SELECT per FROM stocks WHERE per + risk > :t AND per < :u AND per + risk < :s", ("t", "u", "s")),
        ("SELECT per FROM stocks", ()),
    ],
)
def test_parameters_come_once_in_the_order_of_the_text(sql: str, names: tuple[str, ...]) -> None:
    assert parameters(plan_of(sql)) == names
