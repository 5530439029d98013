"""Dicts that are read in one piece come to the same as dicts that are read column by column."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.engine.conversion.dicts import table_of_dicts
from tocsin.engine.conversion.intake import WEIGHTS, read_batch
from tocsin.errors import RowError
from tocsin.types import ACCEPTED, ColumnType

KINDS = ["string", "boolean", "int", "bigint", "float", "double", "timestamp", "decimal(5, 2)"]
COLUMNS = {f"c{i}": ColumnType.parse(kind, column="c") for i, kind in enumerate(KINDS)}

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31, 2**53 + 1, 2**63, -(2**63), 10**30]),
    st.sampled_from([0.0, -0.0, 1.5, 2.0, 1e300, float("nan"), float("inf"), 16777217.0]),
    st.sampled_from(["", "a", "é", "\ud800", "2026-01-01T00:00:00Z", b"a"]),
    st.sampled_from([Decimal("1.50"), Decimal("1.555"), Decimal("NaN")]),
    st.sampled_from([np.float64(1.5), np.float32(1.1), np.int64(3), np.bool_(True), np.str_("a")]),
    st.sampled_from(
        [
            datetime(2026, 1, 1),
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1, 0, 0, 0, 7, tzinfo=timezone(timedelta(hours=5))),
            date(2026, 1, 1),
        ]
    ),
    st.sampled_from([[], [1.0, 2.0], {"a": 1}]),
)
#: Mostly what the column declares, so that whole batches are good.
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", None]),
    "boolean": st.sampled_from([True, False, None]),
    "int": st.sampled_from([0, -1, 2**31 - 1, None]),
    "bigint": st.sampled_from([0, 2**63 - 1, None]),
    "float": st.sampled_from([0.5, 16777217.0, 1e300, None]),
    "double": st.sampled_from([0.5, -0.0, 7, 2**53, float("nan"), None]),
    "timestamp": st.sampled_from([datetime(2026, 1, 1, tzinfo=UTC), datetime(1900, 1, 1), None]),
    "decimal(5, 2)": st.sampled_from([Decimal("1.50"), None]),
}


def read(rows: Any) -> Any:
    """The batch as it was read, or what was said of it."""
    try:
        batch = read_batch(rows, COLUMNS, source="s", key=None, extra=WEIGHTS)
    except RowError as failure:
        return str(failure)
    assert batch.rows.schema.names == list(COLUMNS)
    return [batch.rows.schema, *map(repr, batch.rows.to_pylist()), batch.weights]


@given(st.data(), st.booleans())
def test_both_ways_agree(data: st.DataObject, is_good: bool) -> None:
    fields = {
        name: FITTING[kind] if is_good else st.one_of(FITTING[kind], VALUES)
        for name, kind in zip(COLUMNS, KINDS, strict=True)
    }
    strange = {} if is_good else {"other": VALUES, WEIGHTS: st.just({"c0": 2.0})}
    rows = data.draw(st.lists(st.fixed_dictionaries({}, optional={**fields, **strange}), max_size=4))
    # A tuple of rows is always read column by column.
    assert read(rows) == read(tuple(rows))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("decimal")])
def test_declared_types_are_read_in_one_piece(kind: str) -> None:
    fitting: dict[str, Any] = {
        "string": "a",
        "boolean": True,
        "int": 1,
        "bigint": 1,
        "float": 0.5,
        "double": 1,
        "timestamp": datetime(2026, 1, 1),
    }
    columns = {"a": ColumnType.parse(kind, column="a"), "b": ColumnType.parse("double", column="b")}
    table = table_of_dicts([{"a": fitting[kind], "b": 0.5}, {"a": None}, {}], columns)
    assert table is not None
    assert table.num_rows == 3
    assert kind in ACCEPTED


@pytest.mark.parametrize("rows", [[{"b": 1}], [{"a": True}], [{"a": "1"}], [("a", 1)], [{"a": 2**70}]])
def test_what_needs_a_look_is_left(rows: list[Any]) -> None:
    assert table_of_dicts(rows, {"a": ColumnType.parse("double", column="a")}) is None
