"""The sources of the demo and its standing queries: every kind, a few hundred subscriptions each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

import tocsin
from demo.data import FLIGHT_COLUMNS

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Family:
    """Many subscriptions of one template. Their ids are the name and a number."""

    name: str
    what: str
    sql: str
    count: int
    draw: Callable[[np.random.Generator, int], Columns]
    repeat: bool = False

    def params(self) -> pd.DataFrame:
        """The parameters of all its subscriptions: the same each time."""
        random = np.random.default_rng(list(self.name.encode()))
        ids = [f"{self.name}-{number}" for number in range(self.count)]
        return pd.DataFrame({"id": ids, **self.draw(random, self.count)})


def create_sources(engine: tocsin.Engine) -> None:
    """Three tables of what is true now, a window of a day, and the bare stream."""
    flight = {name: kind for name, kind in FLIGHT_COLUMNS.items() if name != "at"}
    engine.create_table("aircraft", key="tailnum", columns={"tailnum": "string", **flight})
    engine.create_table("routes", key="route", columns={"route": "string", **flight})
    engine.create_table(
        "weather",
        key="origin",
        columns={"origin": "string", "temp": "double", "wind_speed": "double", "visib": "double"},
    )
    engine.create_stream("day", columns=FLIGHT_COLUMNS, window="1 day", time="at")
    engine.create_stream("flights", columns=FLIGHT_COLUMNS)


def subscribe_all(engine: tocsin.Engine) -> int:
    """Register every family; the number of subscriptions."""
    return sum(
        engine.subscribe_many(family.sql, family.params(), repeat=family.repeat) for family in FAMILIES
    )


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
    return {**_distances(random, count), "tau": np.round(10 ** random.uniform(5, 7.5, count))}


def _counts(random: np.random.Generator, count: int) -> Columns:
    return {**_delays(random, count), "tau": random.integers(10, 2000, count)}


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
    Family(
        "latest",
        "range top-k",
        "SELECT tailnum, dest, dep_delay FROM aircraft WHERE distance BETWEEN :lo AND :hi "
        "ORDER BY dep_delay DESC LIMIT :k",
        600,
        _boards,
    ),
    Family(
        "worst",
        "preference top-k, table",
        "SELECT tailnum, dep_delay FROM aircraft ORDER BY dep_delay + :w * arr_delay DESC LIMIT :k",
        200,
        _preferences,
    ),
    Family(
        "average",
        "range AVG",
        "SELECT AVG(dep_delay) FROM routes WHERE distance BETWEEN :lo AND :hi",
        400,
        _distances,
    ),
    Family(
        "maximum",
        "range MAX",
        "SELECT MAX(arr_delay) FROM routes WHERE distance BETWEEN :lo AND :hi",
        400,
        _distances,
    ),
    Family(
        "carriers",
        "range DISTINCT",
        "SELECT DISTINCT carrier FROM routes WHERE dep_delay BETWEEN :late AND :later",
        400,
        _delays,
    ),
    Family(
        "overdue",
        "live rows",
        "SELECT route, dep_delay FROM routes WHERE distance BETWEEN :lo AND :hi AND dep_delay >= :late",
        400,
        _late_rows,
    ),
    Family(
        "storm",
        "select-join",
        "SELECT routes.route, routes.dep_delay, weather.wind_speed FROM routes JOIN weather "
        "ON routes.origin = weather.origin "
        "WHERE routes.dep_delay BETWEEN :late AND :later AND weather.wind_speed >= :wind",
        300,
        _storms,
    ),
    Family(
        "today",
        "window top-k",
        "SELECT carrier, flight, dep_delay FROM day ORDER BY dep_delay + :w * arr_delay DESC LIMIT :k",
        300,
        _preferences,
    ),
    Family(
        "alarm",
        "score threshold",
        "SELECT carrier, flight, dep_delay FROM day WHERE dep_delay + :w * arr_delay > :t",
        300,
        _scores,
    ),
    Family(
        "miles",
        "SUM threshold",
        "SELECT SUM(distance) FROM flights WHERE distance BETWEEN :lo AND :hi HAVING SUM(distance) >= :tau",
        600,
        _miles,
        repeat=True,
    ),
    Family(
        "count",
        "COUNT threshold",
        "SELECT COUNT(*) FROM flights WHERE dep_delay BETWEEN :late AND :later HAVING COUNT(*) >= :tau",
        600,
        _counts,
    ),
    Family(
        "traveller",
        "matching",
        "SELECT carrier, flight, dest, dep_delay FROM flights WHERE WEIGHT(dest = :dest, 0.6) "
        "AND WEIGHT(carrier = :carrier, 0.1) AND WEIGHT(dep_delay >= :late, 0.3)",
        600,
        _travellers,
    ),
]
