"""Disks and half-planes in WHERE, through the engine: against the oracle, DuckDB, and plain NumPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import tocsin
from tests.conftest import INTERPRETED
from tests.oracles.conditions import Condition, Region, column_score
from tests.oracles.pair import saved
from tests.oracles.queries import Aggregate, Distinct, Query, TopK
from tests.oracles.strategies import PairMachine, bigints, boxes, doubles, effort, limits, names, operands
from tests.oracles.values import Row
from tocsin.indexes.ranges.steps.bounds import TREE_MIN_BOXES

SHOPS = {"name": "string", "x": "double", "z": "bigint", "y": "double", "kind": "string"}
kinds = st.sampled_from(["tea", "books", None])
#: So many that the disks that are not empty have a tree.
COUNT = TREE_MIN_BOXES // 40 if INTERPRETED else 3 * TREE_MIN_BOXES // 2


@st.composite
def shops(draw: st.DrawFn) -> Row:
    return {
        "name": draw(names),
        "x": draw(doubles),
        "z": draw(bigints),
        "y": draw(doubles),
        "kind": draw(kinds),
        "_op": "delete" if draw(st.integers(0, 6)) == 6 else "upsert",
    }


@st.composite
def regions(draw: st.DrawFn) -> Region:
    is_disk = draw(st.booleans())
    operator = draw(st.sampled_from(["<=", "<=", "<"] if is_disk else ["<=", "<", ">=", ">"]))
    columns = draw(st.sampled_from([("x", "z"), ("z", "x"), ("x", "y")]))
    a, b, c = (draw(operands(name)) for name in "abc")
    return Region(is_disk, columns, operator, (a, b, c))


@st.composite
def queries(draw: st.DrawFn) -> Query:
    region = draw(regions())
    box = draw(boxes(["x", "y"]))
    # Anywhere among the other conditions.
    place = draw(st.integers(0, len(box)))
    where: tuple[Condition | Region, ...] = (*box[:place], region, *box[place:])
    kind = draw(st.sampled_from(["top", "aggregate", "distinct"]))
    if kind == "top":
        score = column_score(draw(st.sampled_from(["x", "y", "z"])))
        return TopK("shops", ("name", "y"), where, score, draw(st.booleans()), draw(limits))
    if kind == "aggregate":
        function = draw(st.sampled_from(["min", "max", "count", "sum", "avg"]))
        return Aggregate("shops", function, None if function == "count" else "y", where)
    return Distinct("shops", draw(st.sampled_from(["y", "kind"])), where)


class Regions(PairMachine):
    @initialize(
        rows=st.lists(shops(), min_size=3, max_size=8), queries=st.lists(queries(), min_size=3, max_size=6)
    )
    def declare(self, rows: list[Row], queries: list[Query]) -> None:
        self.pair.create_table("shops", key="name", columns=SHOPS)
        self.pair.publish("shops", rows)
        for query in queries:
            self.pair.subscribe(query)

    @rule(query=queries())
    def subscribe(self, query: Query) -> None:
        self.pair.subscribe(query)

    @rule(rows=st.lists(shops(), min_size=1, max_size=6), each=st.booleans())
    def publish(self, rows: list[Row], each: bool) -> None:
        self.pair.publish("shops", rows, each=each)


TestRegions = Regions.TestCase
TestRegions.settings = effort(0.4)


def has_infinities(query: Query) -> bool:
    """DuckDB has another order for what has no value, such as infinity minus infinity."""
    return any(isinstance(value, float) and math.isinf(value) for value in query.params().values())


coordinates = st.sampled_from([-1.0, 0.0, 0.1, 0.7, 1.0, 2.0, None])


@effort(0.3)
@given(
    query=queries().filter(lambda query: isinstance(query, Aggregate) and not has_infinities(query)),
    rows=st.lists(st.tuples(coordinates, coordinates, st.sampled_from([-1.0, 0.5, 2.0, None])), max_size=8),
)
def test_duckdb_agrees(query: Query, rows: list[tuple[float | None, ...]]) -> None:
    columns = {name: [row[place] for row in rows] for place, name in enumerate("xzy")}
    table = pa.table({name: pa.array(values, pa.float64()) for name, values in columns.items()})
    engine = tocsin.Engine()
    types = {"key": "int"} | dict.fromkeys("xzy", "double")
    engine.create_table("shops", key="key", columns=types)
    engine.publish("shops", table.append_column("key", pa.array(np.arange(len(rows)))))
    params: dict[str, Any] = dict(query.params())
    engine.subscribe(query.sql(), id="q", **params)
    with duckdb.connect() as connection:
        connection.register("shops", table)
        distance = "sqrt((x - a) * (x - a) + (z - b) * (z - b))"
        connection.execute(f"CREATE MACRO DISTANCE(x, z, a, b) AS {distance}")
        (answer,) = connection.execute(query.sql().replace(":", "$"), params).fetchone() or (None,)
    assert engine.result("q").column(0)[0].as_py() == answer


@pytest.mark.parametrize(
    ("where", "sql"),
    [
        (lambda x, z, a, b, c: np.sqrt((x - a) ** 2 + (z - b) ** 2) <= c, "DISTANCE(x, z, :a, :b) <= :c"),
        (lambda x, z, a, b, c: a * x + b * z <= c, ":a * x + :b * z <= :c"),
        (lambda x, z, a, b, c: a * x - b * z > c, ":a * x - :b * z > :c"),
    ],
)
@pytest.mark.parametrize("answer", ["COUNT(*)", "SUM(y)", "MIN(y)"])
def test_a_growing_template_finds_its_regions_in_a_tree(
    tmp_path: Path, where: Any, sql: str, answer: str
) -> None:
    random = np.random.default_rng(2)
    engine = tocsin.Engine()
    engine.create_table("t", key="k", columns={"k": "int"} | dict.fromkeys("xzy", "double"))
    statement = f"SELECT {answer} AS a FROM t WHERE {sql}"
    numbers = {name: random.integers(-5, 20, COUNT).astype(np.float64) for name in "abc"}
    ids = [f"q{number}" for number in range(COUNT)]
    engine.subscribe_many(statement, pa.table({"id": ids, **numbers}))
    assert ("finds boxes in a tree" in engine.explain("q0")) == (COUNT >= TREE_MIN_BOXES)
    held: dict[str, float | None] = dict.fromkeys(ids, 0.0 if answer == "COUNT(*)" else None)
    rows: dict[str, Any] = {"k": np.arange(60)}
    for _ in range(3):
        rows |= {name: random.integers(-10, 20, 60).astype(np.float64) for name in "xzy"}
        told = engine.publish("t", pa.table(rows)).to_pydict()
        held.update(zip(told["subscription"], told["score"], strict=True))
        engine.save(tmp_path / "engine")
        engine = tocsin.Engine.load(tmp_path / "engine")
    for number in range(0, COUNT, 7):
        a, b, c = (numbers[name][number] for name in "abc")
        inside = rows["y"][where(rows["x"], rows["z"], a, b, c)]
        expected = {"COUNT(*)": len(inside), "SUM(y)": inside.sum(), "MIN(y)": inside.min(initial=math.inf)}
        value = expected[answer] if len(inside) or answer == "COUNT(*)" else None
        assert held[f"q{number}"] == value
        assert engine.result(f"q{number}").to_pydict() == {"a": [value]}


@pytest.fixture
def engine() -> tocsin.Engine:
    engine = tocsin.Engine()
    engine.create_table("shops", key="name", columns=SHOPS)
    engine.publish("shops", [{"name": "a", "x": 3.0, "z": 4, "y": 1.0}, {"name": "b", "x": 0.0, "z": 0}])
    return engine


DISK = "SELECT COUNT(*) FROM shops WHERE DISTANCE(x, z, :a, :b) <= :r"


@pytest.mark.parametrize(
    ("r", "count"),
    [(5, 2), (math.nextafter(5.0, 0.0), 1), (0, 1), (-0.0, 1), (-1, 0), (-math.inf, 0), (math.inf, 2)],
)
def test_what_is_on_the_edge_is_inside(engine: tocsin.Engine, r: float, count: int) -> None:
    sid = engine.subscribe(DISK, a=0, b=0, r=r)
    assert engine.result(sid).column(0).to_pylist() == [count]


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"a": 0, "b": 0}, "r"),
        ({"a": math.nan, "b": 0, "r": 1}, "a"),
        ({"a": 0, "b": None, "r": 1}, "b"),
        ({"a": 0, "b": 0, "r": math.nan}, "r"),
        ({"a": 0, "b": "east", "r": 1}, "b"),
    ],
)
def test_bad_parameters(engine: tocsin.Engine, tmp_path: Path, params: dict[str, Any], word: str) -> None:
    before = saved(engine, tmp_path)
    with pytest.raises(tocsin.ParameterError, match=f":{word} "):
        engine.subscribe(DISK, **params)
    assert saved(engine, tmp_path) == before


def test_messages_do_not_describe_regions(engine: tocsin.Engine) -> None:
    sql = "SELECT MIN(y) FROM shops WHERE DISTANCE(x, z, :a, :b) <= 5"
    with pytest.raises(tocsin.ParameterError, match="messages describe"):
        engine.create_space(sql, a=0, b=0)
    sid = engine.subscribe(sql, a=0, b=0)
    row = {"name": "c", "x": 1.0, "z": 1, "y": 0.5}
    with pytest.raises(tocsin.ParameterError, match="messages cannot describe"):
        engine.messages("shops", [row])
    engine.messages("shops", [row], others="ignore")
    assert engine.result(sid).column(0).to_pylist() == [0.5]


def test_explains_a_disk(engine: tocsin.Engine) -> None:
    sid = engine.subscribe(DISK, a=1, b=2, r=3)
    text = engine.explain(sid)
    assert "family: ranges" in text
    assert "a disk" in text
    assert "center: [1.0, 2.0]" in text
    assert "radius: 3.0" in text
