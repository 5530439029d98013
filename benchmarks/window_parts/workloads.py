"""The workloads of "Continuous Monitoring of Top-k Queries over Sliding Windows", section 8, fixed seeds.

Rows are independent (IND) or anti-correlated (ANT) in the unit cube, a window holds the last N of them, and
in every cycle r come and r go. A query is a weighted sum of all columns, with weights uniform from 0 to 1;
or, as in the paper's figure 21, a product or a sum of squares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.arrays.types import Floats
from tocsin.indexes.contract import ABSENT, RowDelta
from tocsin.kernels.programs import Program, program

IND = "IND"
ANT = "ANT"
SUM = "sum"
PRODUCT = "product"
SQUARES = "squares"


@dataclass(frozen=True)
class Workload:
    """One point of the paper's figures."""

    data: str
    queries: int
    k: int
    rows: int = 1_000_000
    rate: int = 10_000
    dimensions: int = 4
    score: str = SUM

    @property
    def name(self) -> str:
        return (
            f"{self.data} N={self.rows:,} r={self.rate:,} d={self.dimensions} "
            f"Q={self.queries:,} k={self.k} {self.score}"
        )

    def program(self) -> Program:
        """The score, with one theta a column."""
        steps: list[tuple[str, int | float]] = []
        for column in range(self.dimensions):
            steps += [("theta", column), ("column", column)]
            if self.score == SQUARES:
                steps += [("column", column), ("multiply", 0)]
            steps.append(("add" if self.score == PRODUCT else "multiply", 0))
            if column:
                steps.append(("multiply" if self.score == PRODUCT else "add", 0))
        return program(steps)

    def weights(self) -> Floats:
        """The thetas of the queries."""
        return np.random.default_rng(20060627).random((self.queries, self.dimensions))

    def cycles(self) -> Iterator[RowDelta]:
        """The window filled at once, and then a cycle after the other, without end."""
        random = np.random.default_rng(20060628)
        room = self.rows + self.rate
        values = self._values(random, self.rows)
        held = np.concatenate([values, np.empty((self.rate, self.dimensions))])
        seq = np.zeros(1, np.int64)
        born = np.arange(self.rows, dtype=np.int64)
        absent = np.full(self.rows, ABSENT, np.int64)
        nothing = np.full((self.rows, self.dimensions), np.nan)
        no = np.zeros(self.rows, np.bool_)
        yield RowDelta(
            seq, np.zeros(self.rows, np.int32), born.astype(np.int32), absent, born, nothing, values, no
        )
        first = self.rows
        while True:
            values = self._values(random, self.rate)
            born = np.arange(first, first + self.rate, dtype=np.int64)
            new, old = born % room, (born - self.rows) % room
            yield RowDelta(
                seq,
                np.zeros(2 * self.rate, np.int32),
                np.concatenate([new, old]).astype(np.int32),
                np.concatenate([absent[: self.rate], born - self.rows]),
                np.concatenate([born, absent[: self.rate]]),
                np.concatenate([nothing[: self.rate], held[old]]),
                np.concatenate([values, nothing[: self.rate]]),
                np.zeros(2 * self.rate, np.bool_),
            )
            held[new] = values
            first += self.rate

    def _values(self, random: np.random.Generator, count: int) -> Floats:
        if self.data == IND:
            return random.random((count, self.dimensions))
        parts: list[Floats] = []
        while sum(map(len, parts)) < count:
            parts.append(_anticorrelated(random, count, self.dimensions))
        return np.concatenate(parts)[:count]


def _anticorrelated(random: np.random.Generator, count: int, dimensions: int) -> Floats:
    """Points near the plane through the middle: what one column gains, the next loses. All in the cube."""
    plane = random.normal(0.5, 0.05, count)
    reach = np.minimum(plane, 1 - plane)
    values = np.repeat(plane[:, None], dimensions, axis=1)
    for column in range(dimensions):
        shift = random.uniform(-1, 1, count) * reach
        values[:, column] += shift
        values[:, (column + 1) % dimensions] -= shift
    inside: Floats = values[((values >= 0) & (values <= 1)).all(axis=1)]
    return inside
