"""What the job told against plain pandas: five subscriptions, worked out the slow and obvious way."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from demo.data import Year
from demo.queries import FAMILIES
from demo.story import Story

PARAMS = {family.name: family.params().set_index("id") for family in FAMILIES}

#: Subscriptions whose answers are compared at the end.
FOLLOWED = ("latest-7", "average-7", "today-7")


def check_all(year: Year, story: Story) -> Iterator[tuple[str, bool]]:
    """What was compared, and whether it is equal."""
    yield "the final board latest-7", _board(year) == story.boards["latest-7"]
    yield "the final average average-7", _average_is_close(year, story)
    yield "today's worst today-7", _window(year) == story.boards["today-7"]
    yield "how often miles-7 matured", _maturities(year) == story.by_subscription["miles-7"]
    yield "every match of traveller-7", _matches(year) == story.by_subscription["traveller-7"]


def _board(year: Year) -> dict[str, float]:
    """Ties rank by when the aircraft was first seen."""
    p = PARAMS["latest"].loc["latest-7"]
    known = year.flights.dropna(subset=["tailnum"])
    first_seen = {tail: number for number, tail in enumerate(known["tailnum"].drop_duplicates())}
    now = known.drop_duplicates("tailnum", keep="last").dropna(subset=["dep_delay"])
    inside = now[now["distance"].between(p["lo"], p["hi"])]
    inside = inside.assign(born=inside["tailnum"].map(first_seen))
    best = inside.sort_values(["dep_delay", "born"], ascending=[False, True]).head(int(p["k"]))
    return dict(zip(best["tailnum"], best["dep_delay"], strict=True))


def _average_is_close(year: Year, story: Story) -> bool:
    p = PARAMS["average"].loc["average-7"]
    now = year.flights.drop_duplicates("route", keep="last")
    expected = now.loc[now["distance"].between(p["lo"], p["hi"]), "dep_delay"].mean()
    (answer,) = story.boards["average-7"].values()
    return bool(abs(expected - answer) <= 1e-12 * abs(expected))


def _window(year: Year) -> dict[str, float]:
    """Ties rank by the newer flight."""
    p = PARAMS["today"].loc["today-7"]
    newest = year.flights["at"].iloc[-1]
    day = year.flights[year.flights["at"] > newest - pd.Timedelta(days=1)]
    scored = day.assign(score=day["dep_delay"] + p["w"] * day["arr_delay"], number=day.index)
    ranked = scored.dropna(subset=["score"]).sort_values(["score", "number"], ascending=[False, False])
    best = ranked.head(int(p["k"]))
    return dict(zip(map(str, best["number"]), best["score"], strict=True))


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
