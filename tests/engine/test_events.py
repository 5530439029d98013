"""Sparse rows and tables as events: both are read alike, and what is no value is named."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tests.indexes.matching.test_scan import NAN, NUMBERS, TEXTS, WEIGHTS
from tocsin import Engine
from tocsin.decimals import doubles_of_decimals
from tocsin.engine.conversion.events import events_from_columns, events_from_rows
from tocsin.errors import RowError
from tocsin.indexes.matching import Events


def entries(events: Events) -> list[dict[str, tuple[Any, ...]]]:
    """Events as dicts again: attribute to kind, low, high, text, weight."""
    rows = []
    for event in range(events.n_events):
        row = {}
        for entry in range(events.offsets[event], events.offsets[event + 1]):
            start = events.text_start[entry]
            text = events.heap[start : start + events.text_length[entry]].tobytes().decode()
            numbers = (events.kind[entry], events.low[entry], events.high[entry], events.weight[entry])
            row[events.names[events.attribute[entry]]] = (*(float(number) for number in numbers), text)
        rows.append(row)
    return rows


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "number": st.one_of(NUMBERS, st.sampled_from([None, NAN])),
                "whole": st.one_of(st.none(), st.integers(-3, 3)),
                "text": st.one_of(st.none(), TEXTS),
                "flag": st.one_of(st.none(), st.booleans()),
                "_weights": st.dictionaries(st.sampled_from(["number", "text"]), WEIGHTS),
            }
        ),
        max_size=12,
    ),
    st.integers(0, 6),
)
@settings(max_examples=examples(40))
def test_rows_and_columns_are_read_alike(rows: list[dict[str, Any]], cut: int) -> None:
    types = {"number": pa.float64(), "whole": pa.int32(), "text": pa.string(), "flag": pa.bool_()}
    table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()})
    weights = [row["_weights"] for row in rows]
    expected = entries(events_from_rows(rows))
    assert entries(events_from_columns(table, weights)) == expected
    chunked = pa.concat_tables([table[:cut], table[cut:]])
    assert entries(events_from_columns(chunked, weights)) == expected
    dictionary = table.set_column(2, "text", table["text"].dictionary_encode())
    assert entries(events_from_columns(dictionary, weights)) == expected
    # Few rows without weights are read one by one.
    unweighted = [{name: value for name, value in row.items() if name != "_weights"} for row in rows]
    assert entries(events_from_columns(table)) == entries(events_from_rows(unweighted))


def test_times_are_microseconds_and_decimals_are_rounded_once() -> None:
    times = pa.array([datetime(1970, 1, 1, 0, 0, 1), None], pa.timestamp("ns", "UTC"))
    cents = pa.array([Decimal("0.29"), Decimal("-1.10")], pa.decimal128(20, 2))
    read = entries(events_from_columns(pa.table({"at": times, "price": cents})))
    assert [row["price"][1] for row in read] == [0.29, -1.10]
    assert [row["at"][1] for row in read if "at" in row] == [1_000_000.0]


@given(
    st.lists(st.one_of(st.none(), st.integers(-(10**30), 10**30), st.integers(-999, 999))), st.integers(0, 25)
)
@settings(max_examples=examples(40))
def test_decimals_become_the_nearest_doubles(wholes: list[int | None], scale: int) -> None:
    texts = [None if whole is None else f"{whole}e-{scale}" for whole in wholes]
    decimals = [None if text is None else Decimal(text) for text in texts]
    column = pa.array([None, *decimals], pa.decimal128(38, scale))[1:]
    expected = np.array([NAN if text is None else float(text) for text in texts])
    assert np.array_equal(doubles_of_decimals(column), expected, equal_nan=True)
    assert np.array_equal(doubles_of_decimals(pa.chunked_array([column])), expected, equal_nan=True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": (1, 2, 3)}, r"row 1, attribute 'a': a range must be \(low, high\)"),
        ({"a": (1, None)}, "row 1, attribute 'a': NoneType is not a number"),
        ({"a": (False, True)}, "row 1, attribute 'a': bool is not a number"),
        ({"a": {"b": 1}}, "row 1, attribute 'a': dict is not a number; a value is a number"),
        ({"a": 10**400}, "row 1, attribute 'a': .* does not fit a double"),
        ({"a": "\ud800"}, "row 1, attribute 'a': .* is not valid text"),
        ({1: 2.0}, "row 1: an attribute name must be a string, got 1"),
        ({"a": 1, "_weights": 3}, "row 1: _weights must be a dict"),
        ({"a": 1, "_weights": {"a": NAN}}, "row 1, attribute 'a': a weight must be a finite number"),
        ({"a": 1, "_weights": {"a": "x"}}, "row 1, attribute 'a': str is not a number"),
        ([("a", 1)], "row 1: a sparse row must be a dict"),
    ],
)
def test_bad_rows_are_named(row: Any, message: str) -> None:
    with pytest.raises(RowError, match=message):
        events_from_rows([{"a": 1}, row])


def test_a_column_that_holds_no_values_is_named() -> None:
    with pytest.raises(RowError, match="column 'a': list"):
        events_from_columns(pa.table({"a": pa.array([[1]])}))


def test_lists_of_every_container() -> None:
    forms: list[Any] = [
        [{"tag": ["x", "y"], "n": 1}, {"n": 1}],
        [{"tag": {"x", "y"}, "n": 1}, {"n": 1}],
        [{"tag": np.array(["x", "y"]), "n": 1}, {"n": 1}],
        {"tag": [["x", "y"], None], "n": [1, 1]},
        pa.table({"tag": pa.array([["x", "y"], None]), "n": [1, 1]}),
        pa.table({"tag": pa.array([["x", "y"], None], pa.large_list(pa.large_string())), "n": [1, 1]}),
        pa.table(
            {
                "all": pa.array([{"tag": ["x", "y"]}, None], pa.map_(pa.string(), pa.list_(pa.string()))),
                "n": [1, 1],
            }
        ),
    ]
    for form in forms:
        engine = Engine()
        engine.create_stream("s")
        engine.subscribe("SELECT * FROM s WHERE tag = 'y' AND n = 1", id="q")
        changes = engine.publish("s", form, rows=True).to_pylist()
        assert [(change["seq"], change["subscription"]) for change in changes] == [(0, "q")], form
        assert '"tag": [' in changes[0]["row"]
    with pytest.raises(RowError, match="a list must hold single values"):
        engine.publish("s", [{"tag": [["x"]]}])
