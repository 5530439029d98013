"""The engine's answers against plain pandas: five subscriptions, worked out the slow and obvious way."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

import tocsin
from demo.data import Year
from demo.queries import FAMILIES
from demo.replay import Story

PARAMS = {family.name: family.params().set_index("id") for family in FAMILIES}


def check_all(engine: tocsin.Engine, year: Year, story: Story) -> Iterator[tuple[str, bool]]:
    """What was compared, and whether it is equal."""
    yield "the final board latest-7", _board(year) == engine.result("latest-7").to_pylist()
    yield "the final average average-7", _average_is_close(engine, year)
    yield "today's worst today-7", _window(year) == engine.result("today-7").to_pylist()
    yield "how often miles-7 matured", _maturities(year) == story.by_subscription["miles-7"]
    yield "every match of traveller-7", _matches(year) == story.by_subscription["traveller-7"]


def _board(year: Year) -> list[dict[str, object]]:
    """Ties rank by when the aircraft was first seen."""
    p = PARAMS["latest"].loc["latest-7"]
    known = year.flights[year.flights["tailnum"] != "unknown"]
    first_seen = {tail: number for number, tail in enumerate(known["tailnum"].drop_duplicates())}
    now = known.drop_duplicates("tailnum", keep="last").dropna(subset=["dep_delay"])
    inside = now[now["distance"].between(p["lo"], p["hi"])]
    inside = inside.assign(born=inside["tailnum"].map(first_seen))
    best = inside.sort_values(["dep_delay", "born"], ascending=[False, True]).head(int(p["k"]))
    return _rows(best, ["tailnum", "dest", "dep_delay"])


def _average_is_close(engine: tocsin.Engine, year: Year) -> bool:
    p = PARAMS["average"].loc["average-7"]
    now = year.flights.drop_duplicates("route", keep="last")
    expected = now.loc[now["distance"].between(p["lo"], p["hi"]), "dep_delay"].mean()
    answer = engine.result("average-7").column(0)[0].as_py()
    return bool(abs(expected - answer) <= 1e-12 * abs(expected))


def _window(year: Year) -> list[dict[str, object]]:
    """Ties rank by the newer flight."""
    p = PARAMS["today"].loc["today-7"]
    newest = year.flights["at"].iloc[-1]
    day = year.flights[year.flights["at"] > newest - pd.Timedelta(days=1)]
    scored = day.assign(score=day["dep_delay"] + p["w"] * day["arr_delay"], number=day.index)
    ranked = scored.dropna(subset=["score"]).sort_values(["score", "number"], ascending=[False, False])
    return _rows(ranked.head(int(p["k"])), ["carrier", "flight", "dep_delay"])


def _maturities(year: Year) -> int:
    """A repeating threshold starts from nothing after the row that crossed it."""
    p = PARAMS["miles"].loc["miles-7"]
    inside = year.flights.loc[year.flights["distance"].between(p["lo"], p["hi"]), "distance"]
    total, count = 0.0, 0
    for miles in inside:
        total += miles
        if total >= p["tau"]:
            total, count = 0.0, count + 1
    return count


def _matches(year: Year) -> int:
    p = PARAMS["traveller"].loc["traveller-7"]
    flights = year.flights
    match = (
        (flights["dest"] == p["dest"])
        & (flights["carrier"] == p["carrier"])
        & (flights["dep_delay"] >= p["late"])
    )
    return int(match.sum())


def _rows(frame: pd.DataFrame, columns: list[str]) -> list[dict[str, object]]:
    return [dict(zip(columns, row, strict=True)) for row in frame[columns].itertuples(index=False)]
