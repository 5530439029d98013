"""The workloads of "Range Thresholding on Streams", section 8, and one more, with fixed seeds.

Elements are uniform over [0, 100,000] in each dimension, with weights around 100. Queries are cubes of a
tenth of the volume around the middle. With terminations on, a query lives to its expected maturity with
a probability of one in ten. Registrations and terminations happen at *borders*, every so many
elements, so that a workload is the same whatever the size of the batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tocsin.arrays.types import Floats, Ints, Longs

SPACE = 100_000
VOLUME = 0.1
MEAN_WEIGHT = 100
#: A query that is never terminated.
FOREVER = 2**62


@dataclass(frozen=True)
class Workload:
    """Queries in the order of their registration, and the elements of the stream."""

    name: str
    #: float64 (queries, dimensions)
    low: Floats
    high: Floats
    #: int64 (queries,)
    tau: Longs
    #: int64 (queries,): registered at the first border at or after this element.
    start: Longs
    #: int64 (queries,): terminated this many elements after its registration.
    life: Longs
    #: float64 (elements, dimensions)
    values: Floats
    #: int64 (elements,)
    weights: Longs
    border: int
    #: instead of `start`: at each border, as many are registered as have gone since the last
    is_fixed_load: bool = False
    n_first: int = 0

    @property
    def dimensions(self) -> int:
        return int(self.low.shape[1])


def static(queries: int, tau: int, dimensions: int = 1, border: int = 10_000, name: str = "") -> Workload:
    """All queries at the beginning, and elements until nearly all have matured or been terminated."""
    random = np.random.default_rng(20160626)
    elements = full_length(tau)
    low, high = _boxes(random, queries, dimensions)
    return Workload(
        name or f"static {dimensions}-d",
        low,
        high,
        np.full(queries, tau),
        np.zeros(queries, np.int64),
        _lives(random, queries, tau),
        *_elements(random, elements, dimensions),
        border,
    )


def uniform(queries: int, tau: int, dimensions: int = 1, border: int = 10_000) -> Workload:
    """Thresholds uniform up to `tau`, no terminations: queries mature all the time."""
    random = np.random.default_rng(20160627)
    elements = full_length(tau)
    low, high = _boxes(random, queries, dimensions)
    return Workload(
        f"uniform {dimensions}-d",
        low,
        high,
        random.integers(1, tau + 1, queries),
        np.zeros(queries, np.int64),
        np.full(queries, FOREVER),
        *_elements(random, elements, dimensions),
        border,
    )


def stochastic(
    queries: int, tau: int, dimensions: int = 1, border: int = 10_000, chance: float = 0.3
) -> Workload:
    """As static, and a new query with probability `chance` at each element of the first two thirds."""
    random = np.random.default_rng(20160628)
    elements = round(1.5 * expected_life(tau))
    arrivals = np.flatnonzero(random.random(2 * elements // 3) < chance)
    total = queries + len(arrivals)
    low, high = _boxes(random, total, dimensions)
    return Workload(
        f"stochastic {dimensions}-d",
        low,
        high,
        np.full(total, tau),
        np.concatenate([np.zeros(queries, np.int64), arrivals]),
        _lives(random, total, tau),
        *_elements(random, elements, dimensions),
        border,
    )


def fixed_load(queries: int, tau: int, dimensions: int = 1, border: int = 10_000) -> Workload:
    """As static, and a new query for each one that goes."""
    random = np.random.default_rng(20160629)
    elements = round(1.5 * expected_life(tau))
    # Nine in ten are gone within an expected life, so each place is filled about 2.6 times a life.
    total = 6 * queries
    low, high = _boxes(random, total, dimensions)
    return Workload(
        f"fixed-load {dimensions}-d",
        low,
        high,
        np.full(total, tau),
        np.zeros(total, np.int64),
        _lives(random, total, tau),
        *_elements(random, elements, dimensions),
        border,
        is_fixed_load=True,
        n_first=queries,
    )


def stretch(workload: Workload, queries: Ints, missing: Longs, begin: int, length: int) -> Workload:
    """A piece of a workload from element `begin` on, for the queries that live there and what they miss."""
    return Workload(
        f"{workload.name} at {begin}",
        workload.low[queries],
        workload.high[queries],
        missing,
        np.zeros(len(queries), np.int64),
        np.full(len(queries), FOREVER),
        workload.values[begin : begin + length],
        workload.weights[begin : begin + length],
        length,
    )


def expected_life(tau: int) -> int:
    """Elements until a query is expected to mature."""
    return round(tau / (VOLUME * MEAN_WEIGHT))


def full_length(tau: int) -> int:
    """Elements until all but a few stragglers have matured."""
    life = expected_life(tau)
    return round(1.02 * life + 12 * math.sqrt(life))


def _elements(random: np.random.Generator, count: int, dimensions: int) -> tuple[Floats, Longs]:
    values = random.integers(0, SPACE + 1, (count, dimensions)).astype(np.float64)
    weights = np.maximum(np.rint(random.normal(MEAN_WEIGHT, 15, count)).astype(np.int64), 1)
    return values, weights


def _boxes(random: np.random.Generator, count: int, dimensions: int) -> tuple[Floats, Floats]:
    side = round(SPACE * VOLUME ** (1 / dimensions))
    low = np.rint(random.normal(SPACE / 2, 0.15 * SPACE / 2, (count, dimensions)) - side / 2)
    while (bad := (low < 0) | (low + side > SPACE)).any():
        low[bad] = np.rint(random.normal(SPACE / 2, 0.15 * SPACE / 2, int(bad.sum())) - side / 2)
    return low, low + side


def _lives(random: np.random.Generator, count: int, tau: int) -> Longs:
    return random.geometric(1 - 0.1 ** (1 / expected_life(tau)), count)
