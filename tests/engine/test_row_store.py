"""Rows read as doubles, and one row compared with another, as whole columns would have it."""

from __future__ import annotations

from decimal import Decimal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.engine.conversion.floats import floats_of
from tocsin.engine.sources import rows as rows_module
from tocsin.engine.sources.deltas import SourceDelta, _differs
from tocsin.engine.sources.rows import RowStore
from tocsin.engine.sources.text_columns import TextColumns

SCHEMA = pa.schema(
    [("x", pa.float64()), ("n", pa.int64()), ("d", pa.decimal128(9, 2)), ("t", pa.timestamp("us", tz="UTC"))]
)
ROWS = st.fixed_dictionaries(
    {
        "x": st.sampled_from([None, float("nan"), -0.0, 0.0, 1.5, float("inf")]),
        "n": st.sampled_from([None, 0, 2**53, 2**53 + 1]),
        "d": st.sampled_from([None, Decimal("1.10"), Decimal("1.20")]),
        # The last one is beyond what Python's datetime holds.
        "t": st.sampled_from([None, 0, 1, 2**58]),
    }
)


def store_of(batches: list[list[dict[str, object]]]) -> RowStore:
    store = RowStore(SCHEMA)
    for batch in batches:
        columns = {name: [row[name] for row in batch] for name in SCHEMA.names}
        arrays = [
            pa.array(columns[field.name], pa.int64()).cast(field.type)
            if pa.types.is_timestamp(field.type)
            else pa.array(columns[field.name], field.type, from_pandas=False)
            for field in SCHEMA
        ]
        store.append(pa.Table.from_arrays(arrays, schema=SCHEMA))
    return store


@pytest.mark.parametrize("n_pieces", [2, 32])
@given(data=st.data(), batches=st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=6))
def test_doubles_are_those_of_the_rows_taken(
    n_pieces: int, data: st.DataObject, batches: list[list[dict[str, object]]]
) -> None:
    with patch.object(rows_module, "MERGE_PIECES", n_pieces):
        store = store_of(batches)
    places = st.lists(st.integers(-1, store.next - 1), max_size=20)
    positions = np.array(data.draw(places), np.int64)
    for name in SCHEMA.names:
        # Twice: what was read once is kept.
        for _ in range(2):
            found = store.floats(positions, name)
            expected = floats_of(store.take(positions, [name]).column(0))
            np.testing.assert_array_equal(found, expected)
            assert not np.signbit(found[found == 0]).any()


@given(before=ROWS, after=ROWS)
def test_one_row_differs_from_another_as_columns_do(
    before: dict[str, object], after: dict[str, object]
) -> None:
    store = store_of([[before], [after]])
    one = np.zeros(1, np.int64)
    delta = SourceDelta(
        store, one, one.astype(np.int32), one.astype(np.int32), one, one, one, one + 1, TextColumns([])
    )
    for name in SCHEMA.names:
        was, now = delta.column(name)
        assert delta.touched([name]).tolist() == _differs(was, now).tolist()
