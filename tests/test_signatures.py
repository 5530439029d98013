"""Every kernel is compiled once: for one type of each argument.

A second signature costs a second compilation on every machine's first run. It comes of an array that is
read-only or strided, as Arrow's are, or of a number of another width, that a class let through to a kernel.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.cli.commands import ROOT, environment
from tests.conftest import INTERPRETED

NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)

#: Statements of every kind, in several dimensions, each with the parameters of two subscriptions.
TEMPLATES: list[tuple[str, dict[str, Any]]] = [
    ("SELECT id FROM cars ORDER BY price LIMIT :k", {"k": [1, 2]}),
    ("SELECT id, price FROM cars WHERE km < :hi ORDER BY price DESC LIMIT 2", {"hi": [5.0, 9.0]}),
    ("SELECT id FROM cars WHERE km < :hi AND price > :lo ORDER BY km LIMIT 2", {"hi": [5, 9], "lo": [0, 1]}),
    ("SELECT id FROM cars WHERE km < :hi ORDER BY price + :w * km LIMIT 2", {"hi": [5, 9], "w": [1.0, 2.5]}),
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
    ("SELECT size FROM packets ORDER BY size * :w DESC LIMIT 2", {"w": [1.0, 2.0]}),
    ("SELECT size FROM packets WHERE size BETWEEN :lo AND 3", {"lo": [0.0, 1.0]}),
    ("SELECT size FROM flows WHERE 2 * size > :t", {"t": [0.0, 1.0]}),
    ("SELECT size FROM flows WHERE size > :t ORDER BY size LIMIT 1", {"t": [0.0, 1.0]}),
    ("SELECT SUM(shares) FROM trades WHERE price < :hi HAVING SUM(shares) >= :tau",
     {"hi": [5.0, 9.0], "tau": [10, 100]}),
    ("SELECT SUM(fee) FROM trades HAVING SUM(fee) >= :tau", {"tau": [Decimal("1.5"), Decimal("9.5")]}),
    ("SELECT SUM(price) FROM trades WHERE price < 5 AND shares > 1 HAVING SUM(price) >= :tau",
     {"tau": [3.5, 99.5]}),
    ("SELECT COUNT(*) FROM trades WHERE price < :hi HAVING COUNT(*) >= 3", {"hi": [5.0, 9.0]}),
    ("SELECT name FROM offers WHERE price < :p AND WEIGHT(city = :c, 0.5)", {"p": [5, 9], "c": ["a", "b"]}),
    ("SELECT * FROM visitors WHERE age > :a AND city IN ('Oslo', :c)", {"a": [18.0, 20.0], "c": ["a", "b"]}),
    ("SELECT * FROM visitors WHERE member = :m AND WEIGHT(city <> 'Oslo', 2)", {"m": [True, False]}),
]  # fmt: skip


def run_engine(folder: Path) -> None:
    """Use the public API broadly: Arrow that is sliced and rows of Python, net and each, saved and loaded."""
    import tocsin

    engine = tocsin.Engine()
    engine.create_table(
        "cars", key="id", columns={"id": "string", "km": "double", "price": "bigint", "maker": "string"}
    )
    engine.create_table("makers", key="name", columns={"name": "string", "size": "int"})
    engine.create_stream("packets", columns={"size": "double"}, window="3 rows")
    engine.create_stream(
        "flows",
        columns={"size": "double", "at": "timestamp"},
        window="1 minute",
        time="at",
        delay="9 seconds",
    )
    engine.create_stream("trades", columns={"price": "double", "shares": "bigint", "fee": "decimal(8,2)"})
    engine.create_stream(
        "offers", columns={"name": "string", "price": "double", "city": "string"}, key="name"
    )
    engine.create_stream("visitors")
    for number, (sql, columns) in enumerate(TEMPLATES):
        if number % 2:
            publish(engine)
        # A slice begins inside its buffer, and Arrow's buffers are read-only.
        params = pa.table({name: pa.array([values[0], *values]) for name, values in columns.items()})
        ids = pa.array(["", *(f"{number}-{row}" for row in range(2))])
        engine.subscribe_many(
            sql, params.append_column("id", ids).slice(1), repeat=number % 4 == 0 and "HAVING" in sql
        )
        engine.subscribe(sql, **{name: values[0] for name, values in columns.items()})
    publish(engine)
    engine.save(folder / "engine")
    engine = tocsin.Engine.load(folder / "engine")
    publish(engine)
    engine.delete("cars", ["b", "nobody"], each=True)
    engine.advance("flows", NOON + timedelta(minutes=9), rows=True)
    for sid in [f"{number}-0" for number in range(len(TEMPLATES))]:
        if sid in engine:
            engine.result(sid)
            engine.explain(sid)
            engine.unsubscribe(sid)
    publish(engine)


def publish(engine: Any) -> None:
    """Rows for every source."""
    cars: list[dict[str, Any]] = [
        {"id": "a", "km": 1.0, "price": 3, "maker": "x"},
        {"id": "b", "km": 4.0, "price": 3, "maker": "y"},
        {"id": "a", "km": 4.5, "price": None, "maker": None},
        {"id": "c", "km": None, "price": 1, "maker": "x"},
    ]
    for each in (False, True):
        engine.publish("cars", pa.Table.from_pylist(cars).slice(1), each=each, rows=True)
        engine.publish("cars", [{**cars[0], "_op": "upsert"}, {"id": "b", "_op": "delete"}], each=each)
        for algorithm in ("dense", "sparse"):
            for rows in (cars, cars[:1], [{"id": "b", "_op": "delete"}, {**cars[1], "km": 0.5}]):
                engine.messages("cars", rows, algorithm=algorithm, others="ignore")
        engine.publish("makers", [{"name": "x", "size": 1}, {"name": "y"}], each=each, rows=True)
        engine.publish("packets", pa.table({"size": [9.0, 1.0, 2.0, 2.0]}).slice(1), each=each, rows=True)
        flows = [{"size": size, "at": NOON + timedelta(seconds=20 * size)} for size in (2.0, 1.0, 4.0)]
        engine.publish("flows", flows, each=each)
    trades = {"price": [1.0, 2.0, None], "shares": [7, 7, 7], "fee": [Decimal("0.5"), None, Decimal(1)]}
    engine.publish("trades", pa.table(trades).slice(1))
    engine.publish("trades", [{"price": 1.0, "shares": 5}])
    offers = pa.table({"name": ["n", "m"], "price": [1.0, 6.0], "city": ["a", "b"]})
    visitors = [{"age": 30, "city": "Oslo"}, {"age": (17, 19), "member": True, "_weights": {"city": 2.0}}]
    for top in (None, 1):
        engine.publish("offers", offers.slice(1), top=top, rows=True)
        engine.publish("visitors", visitors, top=top, rows=True)
        engine.publish("visitors", pa.table({"age": [30], "city": ["a"]}), top=top)
    engine.publish("visitors", [])


def signatures() -> dict[str, list[str]]:
    """The signatures of every kernel of the package that has been compiled, or loaded, so far."""
    found: dict[str, list[str]] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("tocsin."):
            for thing in vars(module).values():
                kernel: Any = getattr(thing, "py_func", None)
                if kernel is not None and thing.signatures:
                    found[f"{kernel.__module__}.{kernel.__name__}"] = _distinct(thing.signatures)
    return found


def _distinct(compiled: list[tuple[Any, ...]]) -> list[str]:
    """Signatures as text, each once. A constant, which Numba types as a literal, counts as its type."""
    plain = [tuple(getattr(argument, "literal_type", argument) for argument in one) for one in compiled]
    return sorted({str(one) for one in plain})


def main() -> None:
    """Print the signatures that the public API leads to."""
    with tempfile.TemporaryDirectory() as folder:
        run_engine(Path(folder))
    papers = [name for name in sys.modules if name.startswith("tocsin.papers")]
    print(json.dumps({"signatures": signatures(), "papers": papers}))


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled")
def test_the_public_api_compiles_each_kernel_once() -> None:
    # In a process of its own: what other tests hand to kernels is their own affair.
    finished = subprocess.run(
        [sys.executable, "-c", "from tests.test_signatures import main; main()"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    printed = json.loads(finished.stdout)
    found: dict[str, list[str]] = printed["signatures"]
    assert printed["papers"] == []
    folders = {name.split(".")[2] for name in found if name.startswith("tocsin.indexes.")}
    assert folders == {"filters", "matching", "preferences", "ranges", "thresholds"}
    assert {name.split(".")[1] for name in found} >= {"arrays", "kernels"}
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}
