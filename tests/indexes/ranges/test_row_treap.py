"""Rows of equal code in order, against sorting them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import examples
from tocsin.indexes.ranges.steps.rows import OrderedRows
from tocsin.indexes.ranges.structures.row_treap_kernels import (
    first_row,
    last_row,
    put_row,
    take_row,
)

X = st.sampled_from([0.0, 1.0, 2.0, 3.5, -1.0, np.inf, -np.inf])
CODES = 3
ROWS = 40


@given(st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(0, CODES - 1), X), max_size=120))
@settings(max_examples=examples(100))
def test_rows_that_come_and_go_stay_in_order(moves: list[tuple[int, int, float]]) -> None:
    rows = OrderedRows(1, ROWS)
    rows.reserve_buckets(CODES)
    rows.top = ROWS
    value, born = rows.columns
    held: dict[int, int] = {}
    for row, code, x in moves:
        # A row that is there goes, whatever else is drawn.
        if row in held:
            take_row(rows.orders, held.pop(row), value, row)
            born[row] = -1
        else:
            value[row, 0], born[row], held[row] = x, row, code
            put_row(rows.orders, code, value, row)
    rows.check_invariants()
    for code in range(CODES):
        there = sorted((value[row, 0], row) for row, mine in held.items() if mine == code)
        assert rows.rows_of(code) == [row for _, row in there]
        for x in (-np.inf, -1.0, 0.5, 2.0, 3.5, np.inf):
            before = [row for at, row in there if at <= x]
            after = [row for at, row in there if at >= x]
            assert last_row(rows.orders, code, value, x) == (before[-1] if before else -1)
            assert first_row(rows.orders, code, value, x) == (after[0] if after else -1)


def test_trees_are_the_same_in_whatever_order_rows_came() -> None:
    random = np.random.default_rng(1)
    value = random.integers(0, 50, (500, 1)).astype(np.float64)
    orders = []
    for order in (np.arange(500), random.permutation(500)):
        rows = OrderedRows(1, 500)
        rows.top = 500
        rows.columns.value[:] = value
        rows.columns.born[:] = np.arange(500)
        rows.reserve_buckets(1)
        for row in order.tolist():
            put_row(rows.orders, 0, rows.columns.value, row)
        rows.check_invariants()
        orders.append(rows.orders)
    assert all(np.array_equal(one, other) for one, other in zip(*orders, strict=True))
    rebuilt = OrderedRows(1, 500)
    rebuilt.restore({"value": value, "born": np.arange(500)})
    rebuilt.relink(np.zeros(500, np.int64), 1)
    assert all(np.array_equal(one, other) for one, other in zip(rebuilt.orders, orders[0], strict=True))
