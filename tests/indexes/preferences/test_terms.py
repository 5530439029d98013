"""Which scores are weighted sums, and that these are what the interpreter finds, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracles.members import Steps
from tocsin.indexes.preferences.terms import linear_terms
from tocsin.kernels.programs import program
from tocsin.kernels.scoring import BLOCK, score_tile

X, Y, Z = (("column", number) for number in range(3))
A, B = (("theta", number) for number in range(2))
TIMES, PLUS, MINUS, BY, NEGATIVE = ((name, 0) for name in ("multiply", "add", "subtract", "divide", "negate"))
TWO = ("constant", 2.0)

#: By what they say: the columns of their terms.
SUMS: dict[str, tuple[Steps, list[int]]] = {
    "x": ([X], [0]),
    "-x": ([X, NEGATIVE], [0]),
    "a * x": ([A, X, TIMES], [0]),
    "x + a * y": ([X, A, Y, TIMES, PLUS], [0, 1]),
    "x - a * y": ([X, A, Y, TIMES, MINUS], [0, 1]),
    "y * a - x": ([Y, A, TIMES, X, MINUS], [1, 0]),
    "-(a * x) - -y": ([A, X, TIMES, NEGATIVE, Y, NEGATIVE, MINUS], [0, 1]),
    "2 * x + y - z": ([TWO, X, TIMES, Y, PLUS, Z, MINUS], [0, 1, 2]),
    "(a / b - 2) * x + -b * z": (
        [A, B, BY, TWO, MINUS, X, TIMES, B, NEGATIVE, Z, TIMES, PLUS],
        [0, 2],
    ),
}
OTHERS: dict[str, Steps] = {
    "a": [A],
    "x + a": [X, A, PLUS],
    "x * y": [X, Y, TIMES],
    "x / a": [X, A, BY],
    "x + (y + z)": [X, Y, Z, PLUS, PLUS],
    "x + a * x": [X, A, X, TIMES, PLUS],
    "2 * (a * x)": [TWO, A, X, TIMES, TIMES],
    "power(a, 2) * x": [A, TWO, ("power", 0), X, TIMES],
    "abs(x) + y": [X, ("abs", 0), Y, PLUS],
}


@pytest.mark.parametrize("name", SUMS)
def test_weighted_sums_are_what_the_interpreter_finds(name: str) -> None:
    steps, columns = SUMS[name]
    scorer = program(steps)
    terms = linear_terms(scorer)
    assert terms.column.tolist() == columns
    random = np.random.default_rng(1)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, 5e-324]
    rows = np.concatenate([random.normal(size=(3, 50)), random.choice(odd, (3, 50))], axis=1)
    thetas = np.concatenate([random.normal(size=(2, 20)), random.choice(odd, (2, 20))], axis=1)
    with np.errstate(all="ignore"):
        weights = terms.weights(thetas[: scorer.n_theta])
        stack, found = np.empty((scorer.depth, BLOCK)), np.empty(BLOCK)
        for number in range(thetas.shape[1]):
            score_tile(scorer, rows, 0, 0, rows.shape[1], thetas, number, 1, stack, found)
            total = weights[0, number] * rows[columns[0]]
            for weight, column in zip(weights[1:, number], columns[1:], strict=True):
                total += weight * rows[column]
            # Every key has zero added to it, which makes all zeros equal.
            assert np.array_equal(total + 0.0, found[: rows.shape[1]] + 0.0, equal_nan=True)


@pytest.mark.parametrize("name", OTHERS)
def test_other_scores_are_interpreted(name: str) -> None:
    terms = linear_terms(program(OTHERS[name]))
    assert len(terms.column) == len(terms.weight) == 0
