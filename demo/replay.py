"""The year, replayed in the order of time, a day at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import tocsin
from demo.data import FLIGHT_COLUMNS, Year

#: Hours of a batch.
HOURS = 24
#: Batches that are not timed.
WARM_UP = 3


@dataclass
class Story:
    """What happened: counted on the way, told at the end."""

    #: changes of each subscription
    by_subscription: Counter[str] = field(default_factory=Counter)
    #: changes by operation
    by_op: Counter[str] = field(default_factory=Counter)
    #: changes by day and family
    by_day: Counter[tuple[pd.Timestamp, str]] = field(default_factory=Counter)
    #: rows and seconds of publishing, without the first batches, which wait for the compiler
    n_rows: int = 0
    seconds: float = 0.0

    def add(self, day: pd.Timestamp, changes: pa.Table) -> None:
        """Count a batch's changes."""
        grouped = changes.group_by(["subscription", "op"]).aggregate([([], "count_all")])
        for entry in grouped.to_pylist():
            subscription, op, count = entry["subscription"], entry["op"], entry["count_all"]
            self.by_subscription[subscription] += count
            self.by_day[day, family_of(subscription)] += count
            self.by_op[op] += count


def family_of(subscription: str) -> str:
    """The family that a subscription is of."""
    return subscription.partition("-")[0]


def replay(engine: tocsin.Engine, year: Year, console: Console) -> Story:
    """Publish the whole year: to the tables what is true now, to the streams what happened."""
    story = Story()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("flights"),
        TimeElapsedColumn(),
        console=console,
    )
    with progress:
        task = progress.add_task("2013", total=len(year.flights))
        for number, (start, flights, weather) in enumerate(_batches(year)):
            day = start.normalize()
            began = time.perf_counter()
            told = list(_publish(engine, flights, weather))
            if number >= WARM_UP:
                story.seconds += time.perf_counter() - began
                story.n_rows += sum(rows for rows, _ in told)
            story.add(day, pa.concat_tables([changes for _, changes in told]))
            progress.update(task, advance=len(flights), description=f"{start:%d %b}")
    return story


def _publish(
    engine: tocsin.Engine, flights: pd.DataFrame, weather: pd.DataFrame
) -> Iterator[tuple[int, pa.Table]]:
    stream = _arrow(flights, list(FLIGHT_COLUMNS))
    state = stream.drop_columns(["at"])
    known = flights["tailnum"] != "unknown"
    aircraft = state.append_column("tailnum", pa.array(flights["tailnum"])).filter(pa.array(known))
    routes = state.append_column("route", pa.array(flights["route"]))
    reports = _arrow(weather, ["origin", "temp", "wind_speed", "visib"])
    for name, rows in (
        ("weather", reports),
        ("aircraft", aircraft),
        ("routes", routes),
        ("day", stream),
        ("flights", stream),
    ):
        yield rows.num_rows, engine.publish(name, rows)


def _batches(year: Year) -> Iterator[tuple[pd.Timestamp, pd.DataFrame, pd.DataFrame]]:
    step = pd.Timedelta(hours=HOURS)
    start = year.flights["at"].iloc[0].floor("D")
    end = year.flights["at"].iloc[-1]
    while start <= end:
        yield start, _between(year.flights, start, start + step), _between(year.weather, start, start + step)
        start += step


def _between(frame: pd.DataFrame, start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
    first, last = frame["at"].searchsorted([start, end])
    return frame.iloc[int(first) : int(last)]


def _arrow(frame: pd.DataFrame, columns: list[str]) -> pa.Table:
    return pa.Table.from_pandas(frame[columns], preserve_index=False)
