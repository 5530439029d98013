"""The same rows in every container that may bring them: equal answers, and nothing of the caller's kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin import Engine, RowError

COLUMNS = {
    "key": "varchar",
    "whole": "long",
    "small": "integer",
    "double": "double",
    "money": "decimal(12,2)",
    "long": "decimal(24,4)",
    "is_on": "bool",
    "day": "date",
    "at": "timestamp",
}
ARROW = {
    "key": pa.string(),
    "whole": pa.int64(),
    "small": pa.int32(),
    "double": pa.float64(),
    "money": pa.decimal128(12, 2),
    "long": pa.decimal128(24, 4),
    "is_on": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
}
STATEMENTS = (
    "SELECT key, whole FROM t ORDER BY whole DESC LIMIT 3",
    "SELECT MIN(whole) FROM t WHERE whole >= 9007199254740993",
    "SELECT key FROM t WHERE money > 0.35",
    "SELECT key FROM t WHERE long BETWEEN -1.5 AND 2",
    "SELECT MAX(long) FROM t",
    "SELECT COUNT(*) FROM t WHERE double <= 0.3",
    "SELECT DISTINCT is_on FROM t",
    "SELECT DISTINCT money FROM t WHERE small > 0",
    "SELECT key, day FROM t WHERE day >= '1969-12-31' ORDER BY at LIMIT 2",
    "SELECT DISTINCT at FROM t WHERE at < '2000-01-01'",
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = st.sampled_from(
    [
        _EPOCH,
        _EPOCH - timedelta(microseconds=1),
        datetime(1, 1, 2, tzinfo=UTC),
        datetime(9999, 12, 30, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2013, 10, 8, 18, 11, 46, 500_000, tzinfo=UTC),
    ]
)
#: Few values, so that there are ties and updates of the same keys.
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["a", "b", "ä", ""]),
            "whole": st.sampled_from([None, 0, -5, 2**53, 2**53 + 1, 2**53 + 2, -(2**53) - 1, 4 * 10**18]),
            "small": st.sampled_from([None, 0, 1, 2**31 - 1]),
            "double": st.sampled_from([None, 0.1, 0.3, -0.0, 1e300, float("inf")]),
            "money": st.sampled_from([None, Decimal("0.35"), Decimal("0.36"), Decimal("9999999999.99")]),
            "long": st.sampled_from(
                [
                    None,
                    Decimal("2.0000"),
                    Decimal("2.0001"),
                    Decimal("-1.5000"),
                    Decimal("400000000000000.0001"),
                ]
            ),
            "is_on": st.sampled_from([None, True, False]),
            "day": st.sampled_from([None, date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]),
            "at": st.none() | _TIMES,
        }
    ),
    min_size=1,
    max_size=5,
)


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in ARROW.items()})


def _chunked(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.concat_tables([_arrow(rows[:1]), _arrow(rows[1:])])


def _sliced(rows: list[dict[str, Any]]) -> pa.Table:
    return _arrow([rows[-1], *rows, rows[0]]).slice(1, len(rows))


def _encoded(rows: list[dict[str, Any]]) -> pa.Table:
    table = _arrow(rows)
    return pa.table({name: table.column(name).dictionary_encode() for name in table.column_names})


def _runs(rows: list[dict[str, Any]]) -> pa.Table:
    table = _arrow(rows)
    columns = {}
    for name in table.column_names:
        values = table.column(name).combine_chunks()
        ends = pa.array(range(1, len(rows) + 1), pa.int32())
        columns[name] = pa.RunEndEncodedArray.from_arrays(ends, values)
    return pa.table(columns)


def _wide(rows: list[dict[str, Any]]) -> pa.Table:
    """Other types of Arrow's for the same values."""
    kinds = {
        "key": pa.large_string(),
        "small": pa.int64(),
        "money": pa.decimal256(40, 6),
        "long": pa.decimal256(60, 10),
        "day": pa.date64(),
        "at": pa.timestamp("us"),
    }
    return _arrow(rows).cast(pa.schema([(name, kinds.get(name, kind)) for name, kind in ARROW.items()]))


def _views(rows: list[dict[str, Any]]) -> pa.Table:
    table = _arrow(rows)
    return table.set_column(0, "key", table.column("key").cast(pa.string_view()))


def _numpy(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Columns, those without nulls as arrays of their own types."""
    columns: dict[str, Any] = {}
    for name in ARROW:
        values = [row[name] for row in rows]
        kinds = {"whole": np.int64, "small": np.int32, "double": np.float64, "is_on": np.bool_}
        if name in kinds and None not in values:
            columns[name] = np.array(values, kinds[name])
        elif name == "at":
            plain = [None if value is None else value.replace(tzinfo=None) for value in values]
            columns[name] = np.array(plain, "datetime64[us]")
        else:
            columns[name] = np.array(values, object)
    return columns


def _scalars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Values of other libraries', and texts for times."""

    def turned(name: str, value: Any) -> Any:
        if value is None:
            return pd.NA if name == "whole" else None
        turn: dict[str, Callable[[Any], Any]] = {
            "whole": np.int64,
            "small": np.int16 if value == 1 else np.int64,
            "double": np.float64,
            "is_on": np.bool_,
            "day": str,
            "at": datetime.isoformat,
        }
        return turn.get(name, lambda same: same)(value)

    return [{name: turned(name, value) for name, value in row.items()} for row in rows]


def _mixed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each other row as another of Python's types."""

    def turned(name: str, value: Any) -> Any:
        if value is None:
            return float("nan") if name in ("double", "money") else None
        if name == "money" and value < 1:
            return float(value)
        if name == "at":
            return value.isoformat().replace("+00:00", "Z")
        if name == "long" and value == int(value):
            return int(value)
        return datetime(value.year, value.month, value.day) if name == "day" else value

    return [row if place % 2 else {n: turned(n, v) for n, v in row.items()} for place, row in enumerate(rows)]


def _pandas(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Columns as pandas would hold them; objects where it has no type that does."""
    columns = {name: [row[name] for row in rows] for name in ARROW}
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    frame["whole"] = frame["whole"].astype("Int64")
    frame["small"] = frame["small"].astype("Int32")
    frame["double"] = frame["double"].astype("float64")
    frame["key"] = frame["key"].astype("category")
    return frame


def _polars(rows: list[dict[str, Any]]) -> pl.DataFrame:
    frame = pl.from_arrow(_arrow(rows))
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(pl.col("key").cast(pl.Categorical))


FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "arrow": _arrow,
    "batch": lambda rows: _arrow(rows).combine_chunks().to_batches()[0],
    "chunked": _chunked,
    "sliced": _sliced,
    "dictionary": _encoded,
    "runs": _runs,
    "wide": _wide,
    "views": _views,
    "columns": lambda rows: {name: [row[name] for row in rows] for name in ARROW},
    "numpy": _numpy,
    "scalars": _scalars,
    "mixed": _mixed,
    "pandas": _pandas,
    "pandas of arrow": lambda rows: _arrow(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": _polars,
}


def _engine() -> Engine:
    engine = Engine()
    engine.create_table("t", key="key", columns=COLUMNS)
    for number, statement in enumerate(STATEMENTS):
        engine.subscribe(statement, id=f"q{number}")
    return engine


def _told(changes: pa.Table) -> list[str]:
    return [repr(change) for change in changes.to_pylist()]


def _answers(engine: Engine) -> list[Any]:
    return [engine.result(f"q{number}").to_pydict() for number in range(len(STATEMENTS))]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None)
@given(batches=st.lists(ROWS, min_size=1, max_size=3))
def test_no_container_changes_an_answer(form: str, batches: list[list[dict[str, Any]]]) -> None:
    plain, other = _engine(), _engine()
    for rows in batches:
        assert _told(plain.publish("t", rows, rows=True)) == _told(
            other.publish("t", FORMS[form](rows), rows=True)
        )
        assert _answers(plain) == _answers(other)


def test_rows_are_the_engines_own() -> None:
    """Buffers that the caller changes after every call, in every form that has any."""
    whole, double = np.arange(20), np.arange(20.0)
    codes, texts = np.zeros(20, np.int32), [f"k{number}" for number in range(20)]
    frame = pd.DataFrame({"key": texts, "whole": whole, "double": double})
    forms: list[Callable[[], Any]] = [
        lambda: frame,
        lambda: {"key": texts, "whole": whole, "double": double},
        lambda: pa.table({"key": texts, "whole": pa.array(whole), "double": pa.array(double)}),
        lambda: pa.table(
            {
                "key": texts,
                "whole": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(whole[:1])),
                "double": double,
            }
        ),
        lambda: pl.DataFrame({"key": texts, "whole": whole, "double": double}),
    ]
    for form in forms:
        engine = Engine()
        engine.create_table("t", key="key", columns={"key": "text", "whole": "bigint", "double": "double"})
        low = engine.subscribe("SELECT COUNT(*) FROM t WHERE double < 10")
        values = engine.subscribe("SELECT DISTINCT whole FROM t")
        for _ in range(4):
            rows = form()
            engine.publish("t", rows)
            truth = pa.table(rows)
            held = [value.as_py() for value in truth.column("double")]
            wanted = {value.as_py() for value in truth.column("whole")}
            del rows, truth
            for buffer in (frame["double"].to_numpy(), double, frame["whole"].to_numpy(), whole):
                buffer.flags.writeable = True
                buffer += 5
            assert engine.result(low).to_pydict() == {"COUNT(*)": [sum(value < 10 for value in held)]}
            assert set(engine.result(values).column(0).to_pylist()) == wanted
        engine.delete("t", texts)
        assert engine.result(values).num_rows == 0


def test_a_slice_does_not_pin_the_whole() -> None:
    engine = Engine()
    engine.create_table("t", key="key", columns={"key": "bigint", "text": "string"})
    engine.subscribe("SELECT key FROM t WHERE key > 5")
    gc.collect()
    before = pa.total_allocated_bytes()
    for first in range(31):
        large = pa.table({"key": np.arange(100_000), "text": pa.array(["x" * 20] * 100_000)})
        engine.publish("t", large.slice(first, 1))
        del large
    gc.collect()
    assert pa.total_allocated_bytes() - before < 100_000


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("decimal(12,2)", 5),
        ("decimal(12,2)", 0.35),
        ("double", 10**18),
        ("double", Decimal("0.35")),
        ("timestamp", "1500-01-01T00:00:00"),
        ("timestamp", "9999-01-01"),
        ("timestamp", np.datetime64("1969-12-31T23:59:59.999999999")),
        ("date", "2020-02-29"),
        ("bigint", np.int8(3)),
        ("bigint", 3.0),
    ],
)
@pytest.mark.parametrize("neighbour", ["none", "null", "own", "other"])
def test_a_row_is_valid_by_itself(kind: str, value: Any, neighbour: str) -> None:
    others = {
        "decimal(12,2)": 5.5,
        "double": 1,
        "timestamp": datetime(2020, 1, 1),
        "date": date(2020, 1, 1),
        "bigint": 7,
    }
    rows: list[Any] = {"none": [], "null": [None], "own": [value], "other": [others[kind]]}[neighbour]
    answers = []
    for values in ([value, *rows], [*rows, value]):
        engine = Engine()
        engine.create_table("t", key="key", columns={"key": "bigint", "value": kind})
        sid = engine.subscribe("SELECT value FROM t WHERE key = 0")
        keys = [0 if each is value else 1 for each in values]
        engine.publish("t", [{"key": k, "value": v} for k, v in zip(keys, values, strict=True)])
        answers.append(engine.result(sid).to_pydict())
    assert answers[0] == answers[1]
    assert answers[0]["value"][0] is not None


@pytest.mark.parametrize(
    "kind", ["string", "boolean", "int", "float", "double", "decimal(12,2)", "date", "timestamp"]
)
def test_nan_is_null_whatever_the_type(kind: str) -> None:
    nothing = [None, float("nan"), np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NA, pd.NaT]
    for values in (nothing, np.full(3, np.nan), pa.array([float("nan")] * 3), pd.Series([np.nan] * 3)):
        engine = Engine()
        engine.create_table("t", key="key", columns={"key": "bigint", "value": kind})
        sid = engine.subscribe("SELECT value FROM t WHERE key >= 0")
        engine.publish("t", {"key": range(len(values)), "value": values})
        assert engine.result(sid).column("value").null_count == len(values)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("decimal(12,2)", 0.355),
        ("decimal(12,2)", Decimal("1e10")),
        ("int", 2**31),
        ("bigint", 2**63),
        ("bigint", 0.5),
        ("float", 1e300),
        ("double", True),
        ("double", "1"),
        ("timestamp", 5),
        ("timestamp", "not a time"),
        ("date", datetime(2020, 1, 1, 1)),
        ("boolean", 1),
        ("text", 5),
        ("text", "\ud800"),
        ("double", pa.scalar(2**30, pa.date32())),
        ("date", np.datetime64("-0001-01-01")),
    ],
)
def test_what_does_not_fit_is_refused_whoever_stands_beside_it(kind: str, value: Any) -> None:
    for rows in ([value], [None, value], [value, None]):
        engine = Engine()
        engine.create_table("t", key="key", columns={"key": "bigint", "value": kind})
        with pytest.raises(RowError, match="row"):
            engine.publish("t", [{"key": place, "value": each} for place, each in enumerate(rows)])
        assert engine.counts("t")["rows"] == 0


@pytest.mark.parametrize("day", [2_932_897, -719_163, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s")])
def test_days_that_only_arrow_has_are_refused_in_a_date_column(day: int, kind: pa.DataType) -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "int", "day": "date"})
    sid = engine.subscribe("SELECT DISTINCT day FROM t")
    days = pa.array([None, day if kind == pa.date32() else day * 86_400], kind)
    for column in (days, days.dictionary_encode(), pa.chunked_array([days])):
        with pytest.raises(RowError, match=r"row 1: .* is not a date: the years are 1 to 9999"):
            engine.publish("t", pa.table({"k": [1, 2], "day": column}))
    assert engine.counts("t")["rows"] == 0
    assert engine.result(sid).num_rows == 0


@pytest.mark.parametrize("hours", [-12, 12])
def test_times_that_leave_the_years_in_utc_are_refused_alone_too(hours: int) -> None:
    year = (9999, 12, 31, 23) if hours < 0 else (1, 1, 1, 1)
    value = datetime(*year, tzinfo=timezone(timedelta(hours=hours)))
    for rows in ([{"k": 1, "at": value}], {"k": [1], "at": [value]}, [{"k": 1, "at": value}] * 100):
        engine = Engine()
        engine.create_table("t", key="k", columns={"k": "int", "at": "timestamp"})
        with pytest.raises(RowError, match="row 0"):
            engine.publish("t", rows)


def test_numpy_times_in_steps_count_the_steps() -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "int", "at": "timestamp"})
    sid = engine.subscribe("SELECT at FROM t WHERE k = 1")
    engine.publish("t", {"k": [1], "at": np.array([4], "datetime64[25s]")})
    assert engine.result(sid).to_pylist() == [{"at": datetime(1970, 1, 1, 0, 1, 40, tzinfo=UTC)}]


@pytest.mark.parametrize("weights", [5, [5], "x", [["a"]], {"a": 10**400}, {"a": True}, {"a": "x"}])
def test_weights_that_are_none_are_refused(weights: Any) -> None:
    for columns in (None, {"a": "double"}):
        engine = Engine()
        engine.create_stream("s", columns=columns)
        engine.subscribe("SELECT a FROM s WHERE a > 0")
        for rows in ([{"a": 1.0, "_weights": weights}], {"a": [1.0], "_weights": [weights]}):
            with pytest.raises(RowError, match=r"row 0|weight"):
                engine.publish("s", rows)
        assert engine.publish("s", [{"a": 1.0, "_weights": {"a": np.int64(2)}}]).num_rows == 1


#: Attributes of sparse rows that Arrow does not put into one column, or reads in another way than one by one.
ODD: list[list[Any]] = [
    [None],
    [float("nan"), 1],
    [Decimal("NaN"), Decimal("Infinity"), Decimal("1.50")],
    [(1, 2, 3)],
    [("a", "b")],
    [(2, 1), (1, 2), 3],
    [[1, "x"], [True, 1], []],
    [1, "x", True],
    [{"low": 1, "high": 2}, {"low": 3, "high": 2}],
    [{"low": 1}],
    [np.datetime64("2020-01-01T00:00:00.000000001", "ns"), np.datetime64("NaT"), datetime(2020, 1, 1)],
    [np.longdouble(1), np.float32(0.1), np.int8(1), -0.0],
    [b"x"],
    [1.5, None, 2],
]


@pytest.mark.parametrize("values", ODD, ids=repr)
def test_sparse_rows_are_the_same_as_dicts_and_as_columns(values: list[Any]) -> None:
    objects = np.empty(len(values), object)
    objects[:] = values
    dicts = [{"a": value} for value in values]
    seen = [
        seen_of(rows) for rows in (dicts, {"a": values}, {"a": objects}, {"a": np.ma.masked_array(objects)})
    ]
    assert seen[1:] == seen[:1] * 3


@pytest.mark.parametrize(
    "name",
    [
        None,
        float("nan"),
        np.datetime64("NaT"),
        -0.0,
        np.float32(0.1),
        datetime(2020, 1, 1),
        datetime(2020, 1, 1, tzinfo=UTC),
        np.datetime64("2020-01-01"),
        date(2020, 1, 1),
        True,
        Decimal("1.50"),
        np.int8(3),
        "x",
    ],
    ids=repr,
)
def test_names_of_sparse_rows_are_the_same_as_dicts_and_as_columns(name: Any) -> None:
    of_dicts = seen_of([{"a": 1, "n": name}], key="n")
    assert seen_of({"a": [1], "n": [name]}, key="n") == of_dicts
    assert (of_dicts == "the key 'n' is null") == (name is None or name != name)


def seen_of(rows: Any, key: str | None = None) -> Any:
    """What subscriptions to sparse rows see, or why the rows are refused."""
    engine = Engine()
    engine.create_stream("s", key=key)
    for condition in ("a = 1", "a > 0", "a < 0", "a = 'x'", "a = TRUE"):
        engine.subscribe(f"SELECT * FROM s WHERE {condition}", id=condition)
    try:
        told = engine.publish("s", rows, rows=True)
    except RowError as refused:
        return str(refused).rpartition(": ")[2]
    return told.select(["subscription", "key", "row"]).to_pylist()


@pytest.mark.parametrize("kind", [pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal256(40, 2)], ids=str)
@pytest.mark.parametrize("declared", ["float", "double", "decimal(12,2)", "bigint", "int"])
def test_decimals_of_every_width(kind: pa.DataType, declared: str) -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "int", "x": declared})
    engine.publish("t", pa.table({"k": [1], "x": pa.array([Decimal("3.00")], kind)}))
    engine.subscribe("SELECT k, x FROM t ORDER BY x LIMIT 1", id="s")
    assert engine.result("s").to_pylist()[0]["x"] == 3
