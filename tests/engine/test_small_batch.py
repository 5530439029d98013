"""A small batch of dicts, kept as Python values, means the same as one that is read as a table."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.engine.conversion.intake import OP, arrow_schema, read_batch
from tocsin.engine.conversion.small_batch import SMALL_BATCH_ROWS, SmallBatchReader
from tocsin.engine.sources import rows as rows_module
from tocsin.engine.sources.rows import RowStore
from tocsin.errors import RowError
from tocsin.types import ColumnType

KINDS = ["string", "boolean", "int", "bigint", "double"]
COLUMNS = {kind: ColumnType.parse(kind, column=kind) for kind in KINDS}
SCHEMA = arrow_schema(COLUMNS)

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**63, -(2**63), 10**30]),
    st.sampled_from([0.0, -0.0, 1.5, 2.0, float("nan"), float("inf")]),
    st.sampled_from(["", "a", "é", "\ud800", b"a", np.str_("a"), np.float64(1.5), np.int64(3)]),
)
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "é", None]),
    "boolean": st.sampled_from([True, False, None]),
    "int": st.sampled_from([0, -1, 2**31 - 1, None]),
    "bigint": st.sampled_from([0, 2**53 + 1, 2**63 - 1, None]),
    "double": st.sampled_from([0.5, -0.0, 7, 2**53, float("nan"), None]),
}
GOOD_ROWS = st.lists(st.fixed_dictionaries({}, optional=FITTING), min_size=1, max_size=4)


@given(st.data(), st.sampled_from(KINDS), st.booleans())
def test_both_ways_agree(data: st.DataObject, key: str, is_good: bool) -> None:
    fields = {kind: FITTING[kind] if is_good else st.one_of(FITTING[kind], VALUES) for kind in KINDS}
    strange = {} if is_good else {"other": VALUES, OP: st.just("delete")}
    rows = data.draw(st.lists(st.fixed_dictionaries({}, optional={**fields, **strange}), max_size=4))
    small = SmallBatchReader(COLUMNS, key, SCHEMA).read(rows)
    try:
        # A tuple of rows is always read column by column.
        batch = read_batch(tuple(rows), COLUMNS, source="s", key=key, extra=OP)
    except RowError:
        assert small is None
        return
    if small is not None:
        assert not batch.deletes.any()
        assert small.num_rows == len(rows)
        assert small.table().schema == batch.rows.schema
        assert repr(small.table().to_pylist()) == repr(batch.rows.to_pylist())


def test_declared_types_are_kept_as_they_came() -> None:
    reader = SmallBatchReader(COLUMNS, "int", SCHEMA)
    row = {"string": "é", "boolean": True, "int": 1, "bigint": 2**62, "double": 7}
    small = reader.read([row, {"int": 2}])
    assert small is not None
    assert small.rows == [("é", True, 1, 2**62, 7.0), (None, None, 2, None, None)]


@pytest.mark.parametrize(
    "rows", [[], [{"int": 1}] * (SMALL_BATCH_ROWS + 1), ({"int": 1},), [{"int": None}], [("int", 1)]]
)
def test_what_is_not_few_or_needs_a_look_is_left(rows: Any) -> None:
    assert SmallBatchReader(COLUMNS, "int", SCHEMA).read(rows) is None


def test_a_type_that_is_left_to_arrow_leaves_all_rows_to_it() -> None:
    columns = {"a": ColumnType.parse("int", column="a"), "b": ColumnType.parse("float", column="b")}
    assert SmallBatchReader(columns, "a", arrow_schema(columns)).read([{"a": 1}]) is None


@pytest.mark.parametrize("n_pieces", [2, 32])
@given(data=st.data(), batches=st.lists(st.tuples(st.booleans(), GOOD_ROWS), min_size=1, max_size=8))
def test_a_store_does_not_tell_how_its_rows_came(
    n_pieces: int, data: st.DataObject, batches: list[tuple[bool, list[dict[str, Any]]]]
) -> None:
    store, plain = RowStore(SCHEMA), RowStore(SCHEMA)
    # Every row has a key.
    reader = SmallBatchReader({"key": COLUMNS["int"], **COLUMNS}, "key", SCHEMA)
    with patch.object(rows_module, "MERGE_PIECES", n_pieces):
        for is_small, rows in batches:
            small = reader.read([{"key": 0, **row} for row in rows])
            assert small is not None
            small.rows = [row[1:] for row in small.rows]
            store.append(small if is_small else small.table())
            plain.append(small.table())
    draw = st.lists(st.integers(-1, store.next - 1), max_size=20)
    positions = np.array(data.draw(draw), np.int64)
    for name in ("int", "bigint", "double"):
        np.testing.assert_array_equal(store.floats(positions, name), plain.floats(positions, name))
    for name in KINDS:
        assert repr(store.column(positions, name).to_pylist()) == repr(
            plain.take(positions, [name]).column(0).to_pylist()
        )
    for position in positions[positions >= 0].tolist():
        found = zip(
            store.row(position, KINDS), plain.take(np.array([position])).to_pylist()[0].values(), strict=True
        )
        for one, other in found:
            is_nothing = other is None or other != other
            assert (one is None or one != one) if is_nothing else one == other
    assert repr(store.take(positions).to_pylist()) == repr(plain.take(positions).to_pylist())
