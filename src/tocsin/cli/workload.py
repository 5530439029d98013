"""A use of every form of statement, over every kind of source, which leads to every kernel that they need.

`tocsin warm` runs it to compile ahead, one form at a time in several processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Floats
from tocsin.engine.engine import Engine
from tocsin.engine.pair_bound import PairBound
from tocsin.engine.sources.catalog import Declaration
from tocsin.indexes.contract import RankedRangeIndex, RowDelta
from tocsin.indexes.ranges import TopKBoxTree, TopKTiles
from tocsin.indexes.ranges.steps.bounds import TREE_SETTINGS
from tocsin.indexes.thresholds import DeferredThresholds
from tocsin.indexes.thresholds.deferred.index import MIN_LOG_CAPACITY
from tocsin.indexes.thresholds.deferred.layout import GROUP
from tocsin.language import Catalog, Join, Plan, parse, plan
from tocsin.network.areas import points_of
from tocsin.network.edges import Edge
from tocsin.network.local import LocalCarrier
from tocsin.network.publishing import Publisher
from tocsin.network.zones import Zones
from tocsin.pipeline.sharding import shard_of
from tocsin.planning.questions import AGGREGATES, MATCHING, THRESHOLDS, TOPK, question_of, source_kind

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)

SOURCES = (
    Declaration(
        "table", "cars", {"id": "string", "km": "double", "price": "bigint", "maker": "string"}, key="id"
    ),
    Declaration("table", "makers", {"name": "string", "size": "int"}, key="name"),
    Declaration("stream", "packets", {"size": "double"}, window="3 rows"),
    Declaration(
        "stream",
        "flows",
        {"size": "double", "at": "timestamp"},
        window="1 minute",
        time="at",
        delay="9 seconds",
    ),
    Declaration("stream", "trades", {"price": "double", "shares": "bigint", "fee": "decimal(8,2)"}),
    Declaration("stream", "offers", {"name": "string", "price": "double", "city": "string"}, key="name"),
    Declaration("stream", "visitors", None),
)

#: Statements of every kind, in several dimensions, each with the parameters of two subscriptions.
TEMPLATES: list[tuple[str, dict[str, Any]]] = [
    ("SELECT id FROM cars ORDER BY price LIMIT :k", {"k": [1, 2]}),
    ("SELECT id FROM cars WHERE km < :hi ORDER BY price LIMIT :k", {"hi": [5.0, 9.0], "k": [80, 1500]}),
    ("SELECT id, price FROM cars WHERE km < :hi ORDER BY price DESC LIMIT 2", {"hi": [5.0, 9.0]}),
    ("SELECT id FROM cars WHERE km < :hi AND price > :lo ORDER BY km LIMIT 2", {"hi": [5, 9], "lo": [0, 1]}),
    ("SELECT id FROM cars WHERE km < :hi ORDER BY price + :w * km LIMIT 2", {"hi": [5, 9], "w": [1.0, 2.5]}),
    ("SELECT id FROM cars ORDER BY price + :w * km LIMIT :k", {"w": [1.0, 2.5], "k": [2, 1500]}),
    *((f"SELECT {what} FROM cars WHERE km < :hi", {"hi": [5.0, 9.0]})
      for what in ("MIN(price)", "MAX(price)", "COUNT(*)", "COUNT(maker)", "SUM(price)", "AVG(price)")),
    ("SELECT SUM(price) FROM cars WHERE km < :hi AND price < :top", {"hi": [5.0, 9.0], "top": [3, 4]}),
    ("SELECT id FROM cars WHERE DISTANCE(km, price, :a, 2) <= :r ORDER BY km LIMIT 2",
     {"a": [1, 2], "r": [5.0, 9.0]}),
    ("SELECT AVG(km) FROM cars WHERE :a * km - price > 0 AND km < 9", {"a": [1, 2]}),
    ("SELECT DISTINCT maker FROM cars WHERE DISTANCE(km, price, 1, 2) < :r", {"r": [5.0, 9.0]}),
    ("SELECT DISTINCT maker FROM cars WHERE km < :hi", {"hi": [5.0, 9.0]}),
    ("SELECT DISTINCT price FROM cars WHERE km < :hi", {"hi": [5.0, 9.0]}),
    ("SELECT id FROM cars WHERE km BETWEEN :lo AND :hi", {"lo": [0.0, 1.0], "hi": [5.0, 9.0]}),
    ("SELECT id FROM cars WHERE km + price > :t", {"t": [1.0, 2.0]}),
    ("SELECT cars.id, makers.name FROM cars JOIN makers ON cars.maker = makers.name WHERE cars.km < :hi",
     {"hi": [5.0, 9.0]}),
    ("SELECT cars.id, makers.name FROM cars JOIN makers ON cars.price = makers.size WHERE cars.km < :hi",
     {"hi": [5.0, 9.0]}),
    ("SELECT size FROM packets ORDER BY size * :w DESC LIMIT 2", {"w": [1.0, 2.0]}),
    ("SELECT size FROM packets WHERE size BETWEEN :lo AND 3", {"lo": [0.0, 1.0]}),
    ("SELECT size FROM flows WHERE 2 * size > :t", {"t": [0.0, 1.0]}),
    ("SELECT size FROM flows WHERE size > :t ORDER BY size LIMIT 1", {"t": [0.0, 1.0]}),
    ("SELECT SUM(shares) FROM trades WHERE price < :hi HAVING SUM(shares) >= :tau",
     {"hi": [5.0, 9.0], "tau": [10, 100]}),
    ("SELECT SUM(fee) FROM trades HAVING SUM(fee) >= :tau", {"tau": [Decimal("1.5"), Decimal("9.5")]}),
    ("SELECT SUM(price) FROM trades WHERE price < :hi AND shares > :lo HAVING SUM(price) >= :tau",
     {"hi": [5.0, 9.0], "lo": [1, 2], "tau": [3.5, 99.5]}),
    ("SELECT COUNT(*) FROM trades WHERE price < :hi HAVING COUNT(*) >= 3", {"hi": [5.0, 9.0]}),
    ("SELECT name FROM offers WHERE price < :p AND WEIGHT(city = :c, 0.5)", {"p": [5, 9], "c": ["a", "b"]}),
    ("SELECT name FROM offers WHERE price < :p", {"p": [5, 9]}),
    ("SELECT * FROM visitors WHERE age > :a AND city IN ('Oslo', :c)", {"a": [18.0, 20.0], "c": ["a", "b"]}),
    ("SELECT * FROM visitors WHERE member = :m AND WEIGHT(city <> 'Oslo', 2)", {"m": [True, False]}),
]  # fmt: skip

#: How many kernels all of them need, about: the length of progress bars.
KERNELS = 500
#: Subscriptions of a template for which indexes for many take over.
MANY = 4200


def catalog_of(declarations: Iterable[Declaration]) -> Catalog:
    """The schemas that statements are resolved against."""
    return {declared.name: declared.build().schema for declared in declarations}


def kind_of(logical: Plan, catalog: Catalog) -> str:
    """The kind of question that a plan asks."""
    source = logical.left if isinstance(logical, Join) else logical.source
    return question_of(logical, source_kind(catalog[source])).kind


def templates_of(kinds: Iterable[str]) -> list[int]:
    """The numbers of the templates that ask questions of these kinds."""
    wanted = set(kinds)
    return [number for number in range(len(TEMPLATES)) if _kind(number) in wanted]


def _kind(number: int) -> str:
    catalog = catalog_of(SOURCES)
    return kind_of(plan(parse(TEMPLATES[number][0]), catalog), catalog)


def run(
    folder: Path,
    *,
    numbers: Sequence[int] = range(len(TEMPLATES)),
    many: int = 0,
    indexes: dict[str, str] | None = None,
) -> None:
    """Use the public API broadly: Arrow that is sliced and rows of Python, net and each, saved and loaded.

    With `many`, each template gets that many subscriptions in the end.
    """
    # On Spark, a subscription's shard is found by its id.
    shard_of("0", 2)
    engine = Engine(indexes=indexes)
    named = {source for number in numbers for source in _sources(TEMPLATES[number][0])}
    for declared in SOURCES:
        if declared.name in named:
            engine.declare(declared)
    for number in numbers:
        sql, columns = TEMPLATES[number]
        if number % 2:
            publish(engine)
        subscribe(engine, number, 2)
        engine.subscribe(sql, **{name: values[0] for name, values in columns.items()})
    publish(engine)
    engine.save(folder / "engine")
    engine = Engine.load(folder / "engine")
    publish(engine)
    if "cars" in named:
        deliver(engine)
        engine.delete("cars", ["b", "nobody"], each=True)
    if "makers" in named:
        join_all(engine)
    if "flows" in named:
        engine.advance("flows", NOON + timedelta(minutes=9), rows=True)
    if many:
        subscribe_many(engine, numbers, many)
        for kind in {_kind(number) for number in numbers} - set(indexes or {}):
            strain(kind)
    for number in numbers:
        sid = f"{number}-0"
        engine.size(sid)
        engine.result(sid)
        engine.explain(sid, {"name": "n"} if _kind(number) == MATCHING else None)
        engine.unsubscribe(sid)
    publish(engine)


def _sources(sql: str) -> list[str]:
    return [declared.name for declared in SOURCES if f" {declared.name}" in sql]


def subscribe(engine: Any, number: int, count: int, wave: str = "") -> None:
    """Subscriptions of a template, with ids of their own in each wave."""
    sql, columns = TEMPLATES[number]
    # A slice begins inside its buffer, and Arrow's buffers are read-only.
    params = {
        name: pa.array([values[row % 2] for row in range(-1, count)]) for name, values in columns.items()
    }
    ids = pa.array(["", *(f"{number}-{wave}{row}" for row in range(count))])
    table = pa.table({**params, "id": ids}).slice(1)
    engine.subscribe_many(sql, table, repeat="HAVING" in sql and not wave)


def subscribe_many(engine: Any, numbers: Iterable[int], count: int) -> None:
    """Many subscriptions of each template, then a few more, which indexes for many keep apart at first."""
    for number in numbers:
        subscribe(engine, number, count, "many")
    publish(engine)
    for number in numbers:
        subscribe(engine, number, 2, "late")


def strain(kind: str) -> None:
    """Have the planner's indexes do what very many rows or subscriptions lead to.

    Directly, as an engine would take long: with few, where an index takes its sizes as arguments.
    """
    if kind in (TOPK, AGGREGATES):
        slots, rows = np.zeros(1, np.int32), np.arange(2)
        delta = RowDelta.inserting(rows, rows, np.zeros((2, 2)))
        ranked: list[RankedRangeIndex] = [
            TopKTiles(descending=False, log_capacity=0),
            TopKBoxTree(1, descending=False, trees=TREE_SETTINGS._replace(longest=0)),
        ]
        for index in ranked:
            index.register(slots, {"lo": np.zeros((1, 1)), "hi": np.ones((1, 1)), "k": np.ones(1, np.int32)})
            index.apply(delta)
    if kind == THRESHOLDS:
        _strain_cells()
        _strain_boxes()


def _strain_cells() -> None:
    """Members of histogram cells are evaluated often; then most of them end."""
    index, count = DeferredThresholds(1, 1), 258 * GROUP
    slots, need = np.arange(count, dtype=np.int32), 10
    lo: Floats = np.floor(np.arange(count) / 4)[:, np.newaxis]
    tau, repeat = np.full(count, need), np.zeros(count, np.bool_)
    index.register(slots, {"lo": lo, "hi": lo, "tau": tau, "repeat": repeat})
    for turn in range(4):
        values: Floats = (lo[::GROUP] + need * turn + np.arange(need)).reshape(-1, 1)
        index.apply(values, np.ones(len(values), np.int64))
    index.terminate(slots[GROUP:])


def _strain_boxes() -> None:
    """More events than are logged, near many boxes."""
    index, count = DeferredThresholds(2, 1), 24 * GROUP
    lo, tau = np.random.default_rng(0).random((count, 2)), np.full(count, 1 << 20)
    slots, repeat = np.arange(count, dtype=np.int32), np.zeros(count, np.bool_)
    index.register(slots, {"lo": lo, "hi": lo + 1, "tau": tau, "repeat": repeat})
    events = np.random.default_rng(1).random((MIN_LOG_CAPACITY + 1, 2))
    index.apply(events, np.ones(len(events), np.int64))


def publish(engine: Any) -> None:
    """Rows for every source."""
    sources = set(engine.sources)
    for each in (False, True):
        if "cars" in sources:
            _publish_cars(engine, each=each)
        if "makers" in sources:
            engine.publish("makers", [{"name": "x", "size": 1}, {"name": "y"}], each=each, rows=True)
        if "packets" in sources:
            engine.publish("packets", pa.table({"size": [9.0, 1.0, 2.0, 2.0]}).slice(1), each=each, rows=True)
        if "flows" in sources:
            flows = [{"size": size, "at": NOON + timedelta(seconds=20 * size)} for size in (2.0, 1.0, 4.0)]
            engine.publish("flows", flows, each=each)
    if "trades" in sources:
        trades = {"price": [1.0, 2.0, None], "shares": [7, 7, 7], "fee": [Decimal("0.5"), None, Decimal(1)]}
        engine.publish("trades", pa.table(trades).slice(1))
        engine.publish("trades", [{"price": 1.0, "shares": 5}])
    for top in (None, 1):
        if "offers" in sources:
            offers = pa.table({"name": ["n", "m"], "price": [1.0, 6.0], "city": ["a", "b"]})
            engine.publish("offers", offers.slice(1), top=top, rows=True)
        if "visitors" in sources:
            _publish_visitors(engine, top)


def _publish_cars(engine: Any, *, each: bool) -> None:
    cars: list[dict[str, Any]] = [
        {"id": "a", "km": 1.0, "price": 3, "maker": "x"},
        {"id": "b", "km": 4.0, "price": 3, "maker": "y"},
        {"id": "a", "km": 4.5, "price": None, "maker": None},
        {"id": "c", "km": None, "price": 1, "maker": "x"},
    ]
    engine.publish("cars", pa.Table.from_pylist(cars).slice(1), each=each, rows=True)
    engine.publish("cars", [{**cars[0], "_op": "upsert"}, {"id": "b", "_op": "delete"}], each=each)
    for algorithm in ("dense", "sparse"):
        for rows in (cars, cars[:1], [{"id": "b", "_op": "delete"}, {**cars[1], "km": 0.5}]):
            engine.messages("cars", rows, algorithm=algorithm, others="ignore")


def join_all(engine: Any) -> None:
    """Cars that all join with all makers, which indexes list by subscription, not by row."""
    names = [f"n{number}" for number in range(30)]
    bound = PairBound(0, lambda pairs: [])
    engine.publish("makers", pa.table({"name": names, "size": pa.array([3] * 30, pa.int32())}), pairs=bound)
    engine.publish("cars", pa.table({"id": names, "km": [1.0] * 30, "price": [3] * 30}), pairs=bound)
    for table in "cars", "makers":
        engine.delete(table, names, pairs=bound)


def deliver(engine: Any) -> None:
    """Messages of every space of cars, to an edge, through zones that are split on the way."""
    for described in engine.spaces("cars"):
        space = described["space"]
        snapshot = engine.snapshot("cars", space)
        lo = np.zeros((4, len(snapshot.column("x")[0])))
        hi = lo + np.arange(4.0)[:, np.newaxis]
        points = points_of(lo, hi)
        zones = Zones.build(points, 2)
        publisher, carrier = Publisher(), LocalCarrier()
        carrier.publish([*publisher.open(space, zones), *publisher.snapshot(snapshot)])
        edge = Edge(described, lo, hi)
        carrier.attach(edge)
        for km in (0.5, 4.0):
            row = {"id": "b", "km": km, "price": 3, "maker": "y"}
            carrier.publish(publisher.post(engine.messages("cars", [row], others="ignore")))
            carrier.bring()
            if publisher.zones(space) is zones:
                publisher.switch(space, zones.split(points, 3))
        edge.result(0)
        edge.answers()


def _publish_visitors(engine: Any, top: int | None) -> None:
    visitors = [{"age": 30, "city": "Oslo"}, {"age": (17, 19), "member": True, "_weights": {"city": 2.0}}]
    engine.publish("visitors", visitors, top=top, rows=True)
    engine.publish("visitors", pa.table({"age": [30], "city": ["a"]}), top=top)
    engine.publish("visitors", [])
