"""Whole numbers beyond 2**53, decimals and times: every statement compares them as what they are."""

from __future__ import annotations

import operator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import Engine, ParameterError, RowError, SQLError

_FAR = datetime(9999, 1, 1, tzinfo=UTC)
#: by type, values that are close to one another where doubles are not
VALUES: dict[str, list[Any]] = {
    "bigint": [2**53 + near for near in range(-1, 5)] + [-(2**53) - 1, 4 * 10**18, 4 * 10**18 + 1],
    "decimal(18,2)": [Decimal(2**53 + near).scaleb(-2) for near in range(-1, 5)],
    "decimal(12,2)": [Decimal("0.34"), Decimal("0.35"), Decimal("0.36"), Decimal("9999999999.99")],
    "decimal(30,3)": [Decimal("900719925474099.300"), Decimal("900719925474099.301"), Decimal("-0.001")],
    "timestamp": [_FAR + timedelta(microseconds=near) for near in range(4)]
    + [datetime(1970, 1, 1, tzinfo=UTC)],
    "date": [date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)],
}
OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_statement_compares_exactly(kind: str, data: st.DataObject) -> None:
    some = st.sampled_from(VALUES[kind])
    columns = {"k": "int", "v": kind, "w": kind}
    engine = Engine()
    engine.create_table("t", key="k", columns=columns)
    engine.create_stream("s", columns=columns)
    engine.create_stream("w", columns=columns, window="100 rows")
    bound = data.draw(some)
    if kind.startswith("decimal"):
        bound += data.draw(st.sampled_from([Decimal(0), Decimal("1e-9"), Decimal("-1e-9")]))
    sign = data.draw(st.sampled_from(list(OPERATORS)))
    sids = {
        (source, shape): engine.subscribe(statement.format(source=source, sign=sign), b=bound)
        for source in ("t", "w")
        for shape, statement in {
            "rows": "SELECT k FROM {source} WHERE v {sign} :b",
            "top": "SELECT k FROM {source} WHERE v {sign} :b ORDER BY w DESC LIMIT 2",
        }.items()
    }
    two = engine.subscribe(f"SELECT k FROM t WHERE v {sign} :b AND w {sign} :b ORDER BY w LIMIT 3", b=bound)
    least = engine.subscribe(f"SELECT MIN(w) FROM t WHERE v {sign} :b", b=bound)
    most = engine.subscribe(f"SELECT MAX(w) FROM t WHERE v {sign} :b AND w {sign} :b", b=bound)
    count = engine.subscribe(f"SELECT COUNT(*) FROM t WHERE v {sign} :b", b=bound)
    values = engine.subscribe(f"SELECT DISTINCT w FROM t WHERE v {sign} :b", b=bound)
    match = engine.subscribe(f"SELECT k FROM s WHERE v {sign} :b AND w IN (:b, :b)", b=bound)
    differs = engine.subscribe("SELECT k FROM s WHERE v <> :b", b=bound)
    within = engine.subscribe("SELECT k FROM s WHERE v BETWEEN :b AND :b", b=bound)
    fired = engine.subscribe(
        f"SELECT COUNT(*) FROM s WHERE v {sign} :b HAVING COUNT(*) >= 1", b=bound, repeat=True
    )
    rows = [
        {"k": number, "v": v, "w": w}
        for number, (v, w) in enumerate(data.draw(st.lists(st.tuples(some, some), min_size=1, max_size=20)))
    ]
    compare = OPERATORS[sign]
    engine.publish("t", rows)
    engine.publish("w", rows)
    told = engine.publish("s", rows).to_pylist()
    inside = [row for row in rows if compare(row["v"], bound)]
    both = [row for row in inside if compare(row["w"], bound)]
    for (source, shape), sid in sids.items():
        # Equal scores: the earlier row of a table, the later one of a window.
        newest = -1 if source == "w" else 1
        best = sorted(inside, key=lambda row: (row["w"], -newest * row["k"]), reverse=True)
        want = best[:2] if shape == "top" else inside
        assert [row["k"] for row in engine.result(sid).to_pylist()] == [row["k"] for row in want], sid
    lowest = sorted(both, key=lambda row: (row["w"], row["k"]))[:3]
    assert engine.result(two).column("k").to_pylist() == [row["k"] for row in lowest]
    assert engine.result(least).column(0).to_pylist() == [min((row["w"] for row in inside), default=None)]
    assert engine.result(most).column(0).to_pylist() == [max((row["w"] for row in both), default=None)]
    assert engine.result(count).column(0).to_pylist() == [len(inside)]
    assert engine.result(values).column(0).to_pylist() == sorted({row["w"] for row in inside})
    wanted = {
        match: [row["k"] for row in inside if row["w"] == bound],
        differs: [row["k"] for row in rows if row["v"] != bound],
        within: [row["k"] for row in rows if row["v"] == bound],
        fired: [row["k"] for row in inside],
    }
    for sid, keys in wanted.items():
        assert [int(change["key"]) for change in told if change["subscription"] == sid] == keys
    restored = Engine.from_state(*engine.state())
    assert restored.result(two).equals(engine.result(two))


def test_joins_of_numbers_of_two_types() -> None:
    kinds: dict[str, tuple[str, list[Any]]] = {
        "a": ("decimal(12,2)", [Decimal(cents).scaleb(-2) for cents in range(0, 100_000, 97)]),
        "b": ("decimal(12,4)", [Decimal(cents).scaleb(-2) for cents in range(0, 100_000, 97)]),
        "c": ("double", [cents / 100 for cents in range(0, 100_000, 97)]),
        "d": ("bigint", [2**53, 2**53 + 1, 0, 7]),
        "e": ("double", [2.0**53, 7.0, -0.0, 0.5]),
        "f": ("decimal(30,3)", [Decimal("9007199254740993.001"), Decimal(2**53 + 1), Decimal("7.000")]),
    }
    engine = Engine()
    for name, (kind, values) in kinds.items():
        engine.create_table(name, key="k", columns={"k": "int", "v": kind})
        engine.publish(name, {"k": list(range(len(values))), "v": values})
    for left, right in ("ab", "ac", "bc", "de", "df", "ef", "da"):
        sid = engine.subscribe(
            f"SELECT {left}.k, {right}.k AS o FROM {left} JOIN {right} ON {left}.v = {right}.v"
        )
        exact = [
            [(k, v if isinstance(v, int) else Decimal(str(v))) for k, v in enumerate(kinds[side][1])]
            for side in (left, right)
        ]
        want = {(k, o) for k, v in exact[0] for o, w in exact[1] if v == w}
        assert {(row["k"], row["o"]) for row in engine.result(sid).to_pylist()} == want, (left, right)


def test_what_an_index_cannot_keep_is_refused_and_nothing_has_changed() -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "int", "b": "bigint"})
    engine.publish("t", [{"k": 0, "b": 2**63 - 1}])
    with pytest.raises(RowError, match="too large"):
        engine.subscribe("SELECT k FROM t WHERE b > 5")
    assert len(engine) == 0
    engine.delete("t", [0])
    sid = engine.subscribe("SELECT k FROM t WHERE b > 5")
    for rows in ([{"k": 1, "b": 6}, {"k": 2, "b": -(2**63)}], pa.table({"k": [1, 2], "b": [6, 2**63 - 1]})):
        with pytest.raises(RowError, match=r"row 1: .* is too large"):
            engine.publish("t", rows)
    assert engine.result(sid).num_rows == 0
    engine.unsubscribe(sid)
    engine.publish("t", [{"k": 2, "b": 2**63 - 1}])
    engine.delete("t", [2])
    engine.subscribe("SELECT SUM(b) FROM t")
    with pytest.raises(RowError, match="row 0: 9007199254740993 is too large"):
        engine.publish("t", [{"k": 1, "b": 2**53 + 1}])
    engine.publish("t", [{"k": 1, "b": 2**53}])


def test_messages_tell_doubles_and_refuse_what_is_none() -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "int", "b": "bigint", "y": "double"})
    engine.create_space("SELECT k FROM t WHERE b BETWEEN :lo AND :hi ORDER BY y LIMIT 2")
    with pytest.raises(RowError, match="too large"):
        engine.messages("t", [{"k": 1, "b": 2**53 + 1, "y": 1.0}])
    with pytest.raises(RowError, match="too large"):
        engine.publish("t", [{"k": 1, "b": 2**53 + 1, "y": 1.0}])
    assert engine.messages("t", [{"k": 1, "b": 2**53, "y": 1.0}]).num_rows


def test_attributes_without_types_are_doubles_and_say_so() -> None:
    engine = Engine()
    engine.create_stream("s")
    with pytest.raises(ParameterError, match="must be exact as a double, got 9007199254740993"):
        engine.subscribe("SELECT * FROM s WHERE b = :b", b=2**53 + 1)
    with pytest.raises(ParameterError, match="must be exact as a double, got 9007199254740993"):
        engine.subscribe("SELECT * FROM s WHERE b = 9007199254740993")
    engine.subscribe("SELECT * FROM s WHERE b = 9007199254740992")
    rows = [{"b": 1}, {"b": 2**53 + 1}]
    for several in (rows, pa.Table.from_pylist(rows), pa.Table.from_pylist(rows * 10)):
        with pytest.raises(RowError, match="row 1: 9007199254740993 is not a double"):
            engine.publish("s", several)
    # Nobody asks about this one.
    assert engine.publish("s", [{"b": 2**53, "id": 2**63 - 1}]).num_rows == 1


def test_parameters_of_any_width_and_unit() -> None:
    engine = Engine()
    engine.create_table(
        "t", key="k", columns={"k": "int", "d": "decimal(12,2)", "x": "double", "at": "timestamp"}
    )
    early = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    engine.publish("t", [{"k": 1, "d": Decimal("0.35"), "x": Decimal("0.35"), "at": early}])
    wide = pa.array([Decimal("0.35")], pa.decimal256(50, 10))
    fine = pa.array([-1], pa.timestamp("ns"))
    for statement, value in (
        ("SELECT k FROM t WHERE d = :v", wide),
        ("SELECT k FROM t WHERE x = :v", wide),
        ("SELECT k FROM t WHERE at = :v", fine),
        ("SELECT k FROM t WHERE at = :v", pa.array(["1969-12-31T23:59:59.9999999"])),
        ("SELECT k FROM t WHERE d < :v", pa.array([10**30], pa.decimal256(40, 0))),
    ):
        engine.subscribe_many(statement, {"id": [f"{statement}{value}"], "v": value})
        assert engine.result(f"{statement}{value}").num_rows == 1, (statement, value)
    assert engine.result(engine.subscribe("SELECT k FROM t WHERE x < :v", v=10**30)).num_rows == 1
    with pytest.raises(SQLError, match="digits"):
        engine.subscribe("SELECT k FROM t WHERE d > 0.35000000000000000001")


@pytest.mark.parametrize("text", ["9007199254740993.0", "9007199254740993e0", "9007199254740993"])
def test_literals_with_a_point_or_an_exponent_are_exact(text: str) -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "int", "v": "bigint"})
    engine.create_stream("s", columns={"v": "bigint"})
    engine.publish("t", [{"k": 1, "v": 2**53}, {"k": 2, "v": 2**53 + 1}])
    assert engine.result(engine.subscribe(f"SELECT k FROM t WHERE v = {text}")).to_pylist() == [{"k": 2}]
    assert engine.result(engine.subscribe(f"SELECT k FROM t WHERE v < {text}")).to_pylist() == [{"k": 1}]
    engine.subscribe(f"SELECT SUM(v) FROM s HAVING SUM(v) >= {text}")
    assert engine.publish("s", [{"v": 2**53}]).num_rows == 0
    assert engine.publish("s", [{"v": 1}]).num_rows == 1


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT v FROM t WHERE v >= 9007199254740992.5",
        "SELECT v FROM t WHERE v >= 1.00000000000000000001",
        "SELECT SUM(v) FROM s HAVING SUM(v) >= 9007199254740993.5",
        "SELECT SUM(d) FROM s HAVING SUM(d) >= 9007199254740993.001",
        "SELECT * FROM sparse WHERE a = 9007199254740992.5",
    ],
)
def test_literals_that_no_double_holds_are_refused(statement: str) -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "int", "v": "bigint"})
    engine.create_stream("s", columns={"v": "bigint", "d": "decimal(24,3)"})
    engine.create_stream("sparse")
    with pytest.raises(SQLError, match="15 digits"):
        engine.subscribe(statement)


@pytest.mark.parametrize("value", [2**53 + 1, np.int64(2**53 + 1), np.uint64(2**53 + 1), Decimal(2**53 + 1)])
def test_sparse_values_of_any_type_are_exact_or_refused(value: Any) -> None:
    engine = Engine()
    engine.create_stream("s")
    engine.subscribe("SELECT * FROM s WHERE a = 9007199254740992")
    for rows in ([{"a": value}], [{"a": [value]}], {"a": [value]}, {"a": [value] * 100}):
        with pytest.raises(RowError, match="is not a double"):
            engine.publish("s", rows)


@pytest.mark.parametrize("where", ["", " WHERE x >= 0", " WHERE x >= 0 AND k >= 0"])
@settings(max_examples=20, deadline=None)
@given(cents=st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20))
def test_decimals_are_summed_exactly(where: str, cents: list[int]) -> None:
    """Their nearest doubles are not: 0.1 + 0.2 of them is no 0.3."""
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "bigint", "d": "decimal(14,2)", "x": "double"})
    total = engine.subscribe(f"SELECT SUM(d) FROM t{where}")
    mean = engine.subscribe(f"SELECT AVG(d) FROM t{where}")
    rows = [{"k": k, "d": Decimal(value).scaleb(-2), "x": 1.0} for k, value in enumerate(cents)]
    changes = engine.publish("t", rows).to_pylist()
    expected = {total: sum(cents) / 100, mean: sum(cents) / len(cents) / 100}
    assert {change["subscription"]: change["score"] for change in changes} == expected
    manifest, arrays = engine.state()
    older = {name: array for name, array in arrays.items() if not name.endswith("/per_unit")}
    for name in older:
        if name.endswith("/index/value"):
            older[name] = older[name].copy()
            older[name][:, -1] /= 100
    for state in (arrays, older):
        again = Engine.from_state(manifest, state)
        assert again.result(total).column(0).to_pylist() == [sum(cents) / 100]
        again.publish("t", [{"k": 0, "d": Decimal("0.01"), "x": 1.0}])
        assert again.result(total).column(0).to_pylist() == [(sum(cents) - cents[0] + 1) / 100]


def test_subscriptions_that_refuse_rows_are_named() -> None:
    engine = Engine()
    engine.create_stream("s")
    engine.subscribe("SELECT * FROM s WHERE a = 1 AND b = 2", id="both")
    engine.subscribe("SELECT * FROM s WHERE b = 2", id="b")
    rows = [{"a": 2**53 + 1, "b": 2}]
    assert engine.refusing("s", rows) == ["both"]
    assert engine.refusing("s", [{"a": 1, "b": 2}]) == []
    with pytest.raises(RowError):
        engine.publish("s", rows)
    engine.unsubscribe("both")
    assert engine.publish("s", rows).column("subscription").to_pylist() == ["b"]
