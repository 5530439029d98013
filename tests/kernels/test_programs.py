"""Programs are checked when built, and score as plain Python floats do, to the bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.members import Steps, evaluate
from tocsin.kernels.programs import NO_PROGRAM, OPERATIONS, program, tile_size
from tocsin.kernels.scoring import BLOCK, mark_tile, score_tile, tile_stride

NUMBERS = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 1e300, -1e300, 710.0, math.inf, -math.inf, math.nan]
)
VALUES = NUMBERS | st.floats(width=64)


@st.composite
def postfix(draw: st.DrawFn, depth: int = 4) -> list[tuple[str, int | float]]:
    """A random program over two columns and two thetas."""
    leaf = depth == 0 or draw(st.booleans())
    if leaf:
        name = draw(st.sampled_from(["column", "theta", "constant"]))
        return [(name, draw(VALUES) if name == "constant" else draw(st.integers(0, 1)))]
    name = draw(st.sampled_from([name for name, (_, taken) in OPERATIONS.items() if taken]))
    operands = [draw(postfix(depth - 1)) for _ in range(OPERATIONS[name][1])]
    return [*(step for operand in operands for step in operand), (name, 0)]


def scores(steps: Steps, rows: np.ndarray, thetas: np.ndarray) -> np.ndarray:
    """All rows' scores for all thetas, (rows, thetas): as one tile, or as one a theta."""
    built = program(steps)
    columns = np.ascontiguousarray(rows.T)
    theta = np.ascontiguousarray(thetas.T)
    stack = np.empty((built.depth, BLOCK))
    out = np.empty((len(rows), len(thetas)))
    is_tall = len(rows) < 32 and len(thetas) > 1
    tile = np.empty(tile_size(len(rows)))
    with np.errstate(all="ignore"):
        for first in range(0, 1 if is_tall else len(thetas)):
            width = len(thetas) if is_tall else 1
            score_tile(built, columns, 0, 0, len(rows), theta, first, width, stack, tile)
            for r in range(len(rows)):
                place = r * tile_stride(width)
                out[r, first : first + width] = tile[place : place + width]
    return out


def same_bits(left: float, right: float) -> bool:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left.hex() == right.hex()


@given(
    postfix(),
    st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3),
    st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=3),
)
def test_scores_equal_plain_floats(
    steps: Steps, rows: list[tuple[float, float]], thetas: list[tuple[float, float]]
) -> None:
    found = scores(steps, np.array(rows), np.array(thetas))
    for r, row in enumerate(rows):
        for t, theta in enumerate(thetas):
            assert same_bits(float(found[r, t]), evaluate(steps, row, theta)), (steps, row, theta)


@pytest.mark.parametrize("n_rows", [1, 31, 32, BLOCK, BLOCK + 1])
@pytest.mark.parametrize("n_thetas", [1, 2, BLOCK])
def test_every_tile_shape_scores_alike(n_rows: int, n_thetas: int) -> None:
    steps: Steps = [("column", 0), ("theta", 0), ("multiply", 0), ("column", 1), ("exp", 0), ("add", 0)]
    random = np.random.default_rng(5)
    rows, thetas = random.normal(size=(n_rows, 2)), random.normal(size=(min(n_thetas, BLOCK), 1))
    if n_rows * n_thetas > 9000:
        thetas = thetas[:3]
    found = scores(steps, rows, thetas)
    expected = [[x * t + math.exp(y) for (t,) in thetas.tolist()] for x, y in rows.tolist()]
    assert found.tolist() == expected


@pytest.mark.parametrize(("n_rows", "n_boxes"), [(1, 1), (40, 1), (3, 5), (31, BLOCK)])
def test_boxes_are_closed_and_without_nan(n_rows: int, n_boxes: int) -> None:
    random = np.random.default_rng(7)
    few = np.array([-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan])
    columns = random.choice(few, size=(2, n_rows))
    lo, hi = random.choice(few[:6], size=(2, 2, n_boxes))
    inside = np.empty(tile_size(n_rows), np.bool_)
    is_there = random.random(n_rows) < 0.8
    mark_tile(columns, is_there, 0, n_rows, lo, hi, 0, n_boxes, inside)
    for r in range(n_rows):
        for i in range(n_boxes):
            expected = is_there[r] and all(lo[d, i] <= columns[d, r] <= hi[d, i] for d in range(2))
            assert inside[r * tile_stride(n_boxes) + i] == expected


def test_a_program_knows_what_it_needs() -> None:
    built = program([("column", 2), ("theta", 0), ("constant", 4.5), ("add", 0), ("multiply", 0)])
    assert (built.depth, built.n_columns, built.n_theta) == (3, 3, 1)
    assert built.constants.tolist() == [4.5]
    assert NO_PROGRAM.depth == 1


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "leaves 0"),
        ([("column", 0), ("column", 1)], "leaves 2"),
        ([("column", 0), ("add", 0)], "takes 2 values"),
        ([("sine", 0)], "unknown operation 'sine'"),
        ([("column", -1)], "not negative"),
    ],
)
def test_bad_programs_are_refused(steps: Steps, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        program(steps)
