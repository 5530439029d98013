"""The subscriptions of the demo: every kind of standing query, more than a hundred thousand in all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Family:
    """Many subscriptions of one template of `job.toml`. Their ids are the name and a number."""

    name: str
    what: str
    count: int
    draw: Callable[[np.random.Generator, int], Columns]

    def params(self) -> pd.DataFrame:
        """The parameters of all its subscriptions: the same each time."""
        random = np.random.default_rng(list(self.name.encode()))
        ids = [f"{self.name}-{number}" for number in range(self.count)]
        return pd.DataFrame({"id": ids, **self.draw(random, self.count)})


def family_of(subscription: str) -> str:
    """The family that a subscription is of."""
    return subscription.partition("-")[0]


def _distances(random: np.random.Generator, count: int) -> Columns:
    """Ranges of distance, from narrow to the whole country."""
    middle = random.uniform(100, 2600, count)
    width = random.uniform(25, 600, count)
    return {"lo": np.round(middle - width), "hi": np.round(middle + width)}


def _delays(random: np.random.Generator, count: int) -> Columns:
    low = np.round(random.uniform(0, 180, count))
    return {"late": low, "later": low + np.round(random.uniform(15, 120, count))}


def _boards(random: np.random.Generator, count: int) -> Columns:
    return {**_distances(random, count), "k": random.integers(1, 11, count)}


def _preferences(random: np.random.Generator, count: int) -> Columns:
    return {"w": np.round(random.uniform(0.1, 3, count), 2), "k": random.integers(1, 11, count)}


def _scores(random: np.random.Generator, count: int) -> Columns:
    return {"w": np.round(random.uniform(0.1, 3, count), 2), "t": np.round(random.uniform(300, 1500, count))}


def _storms(random: np.random.Generator, count: int) -> Columns:
    return {**_delays(random, count), "wind": np.round(random.uniform(15, 40, count))}


def _miles(random: np.random.Generator, count: int) -> Columns:
    return {**_distances(random, count), "tau": np.round(10 ** random.uniform(6, 9, count))}


def _counts(random: np.random.Generator, count: int) -> Columns:
    return {**_delays(random, count), "tau": random.integers(10, 20_000, count)}


def _late_rows(random: np.random.Generator, count: int) -> Columns:
    return {**_distances(random, count), "late": np.round(random.uniform(60, 300, count))}


def _travellers(random: np.random.Generator, count: int) -> Columns:
    return {
        "dest": random.choice(DESTINATIONS, count),
        "carrier": random.choice(CARRIERS, count),
        "late": np.round(random.uniform(30, 240, count)),
    }


DESTINATIONS = np.array(["ATL", "BOS", "CLT", "DCA", "DEN", "FLL", "IAH", "LAX", "MCO", "MIA", "ORD", "SFO"])
CARRIERS = np.array(["AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"])

FAMILIES = [
    Family("latest", "range top-k", 1_000, _boards),
    Family("worst", "preference top-k, table", 300, _preferences),
    Family("average", "range AVG", 1_000, _distances),
    Family("maximum", "range MAX", 1_000, _distances),
    Family("carriers", "range DISTINCT", 1_000, _delays),
    Family("overdue", "live rows", 500, _late_rows),
    Family("storm", "select-join", 300, _storms),
    Family("today", "window top-k", 300, _preferences),
    Family("alarm", "score threshold", 300, _scores),
    Family("miles", "SUM threshold", 50_000, _miles),
    Family("count", "COUNT threshold", 50_000, _counts),
    Family("traveller", "matching", 3_000, _travellers),
]
