"""What happened, as a picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from demo.data import BATCH, Year, weeks
from demo.queries import FAMILIES
from demo.story import Story

INK, FAINT = "#2b2b2b", "#8a8a8a"
#: One colour a family, in the order of the families; neighbours in the stack stay apart.
COLOURS = [
    "#1b4965",
    "#5fa8d3",
    "#2a9d8f",
    "#8ab17d",
    "#babb74",
    "#e9c46a",
    "#f4a261",
    "#e76f51",
    "#c8553d",
    "#9d4edd",
    "#7b2cbf",
    "#d45087",
]
PEAKS = 5


def save_picture(story: Story, year: Year, path: Path) -> Path:
    """Draw the year and save it; the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(
        {
            "font.size": 9,
            "text.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.spines.left": False,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.edgecolor": FAINT,
            "axes.grid": True,
            "axes.grid.axis": "y",
            "axes.axisbelow": True,
            "grid.color": "#e4e4e4",
            "xtick.color": FAINT,
            "ytick.color": FAINT,
            "ytick.left": False,
        }
    ):
        figure = Figure(figsize=(14, 8.6), layout="constrained")
        grid = figure.add_gridspec(3, 6, height_ratios=[2.4, 1, 1])
        changes = _weekly(story, year)
        _draw_all(figure.add_subplot(grid[0, :]), changes, _mean_delay(year))
        for number, family in enumerate(FAMILIES):
            axes = figure.add_subplot(grid[1 + number // 6, number % 6])
            _draw_family(axes, changes[family.name], family.what, COLOURS[number])
        figure.suptitle(
            f"A year of flights out of New York: {len(year.flights):,} flights, "
            f"{sum(family.count for family in FAMILIES):,} standing queries, "
            f"{story.by_subscription.total():,} changes",
            x=0.01,
            ha="left",
            fontsize=15,
            fontweight="bold",
        )
        figure.savefig(path, dpi=130)
    return path


def _weekly(story: Story, year: Year) -> pd.DataFrame:
    """Changes by week (rows) and family (columns), for the whole weeks of the year."""
    starts = weeks(year)
    frame = pd.DataFrame(0, index=pd.DatetimeIndex(starts), columns=[family.name for family in FAMILIES])
    for (batch, family), count in story.by_batch.items():
        if batch < len(starts):
            frame.loc[starts[batch], family] = count
    return frame.iloc[:-1]


def _mean_delay(year: Year) -> pd.Series[float]:
    """The mean departure delay of each week."""
    at, first = year.flights["at"], weeks(year)[0]
    return year.flights.groupby(first + (at - first) // BATCH * BATCH)["dep_delay"].mean()


def _draw_all(axes: Axes, changes: pd.DataFrame, delay: pd.Series[float]) -> None:
    """All kinds on top of each other; the highest peaks carry their date and mean delay."""
    columns = [changes[family.name].to_numpy() for family in FAMILIES]
    axes.stackplot(changes.index.to_numpy(), *columns, colors=COLOURS, linewidth=0)
    axes.set_title("Changes a week, coloured by kind as below", fontsize=11)
    # The first week fills empty tables, and so is left out.
    totals = changes.sum(axis=1).iloc[1:]
    totals = totals[(totals > totals.shift(1)) & (totals > totals.shift(-1))]
    for number in totals.argsort()[::-1].iloc[:PEAKS]:
        day = totals.index[number]
        axes.annotate(
            f"{day:%d %b}\n{delay[day]:.0f} min late",
            (day.to_datetime64(), float(totals.iloc[number])),
            xytext=(5, -8),
            textcoords="offset points",
            fontsize=8,
        )
    _finish(axes, changes.index[0], changes.index[-1], "MS", "%B")


def _draw_family(axes: Axes, changes: pd.Series[int], what: str, colour: str) -> None:
    """One kind's changes a week."""
    axes.fill_between(changes.index.to_numpy(), changes.to_numpy(), color=colour, linewidth=0, step="mid")
    axes.set_title(what, fontsize=9, color=colour)
    # The first week fills empty tables: it may leave the picture at the top.
    axes.set_ylim(top=float(changes.iloc[1:].max()) * 1.1)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    _finish(axes, changes.index[0], changes.index[-1], "QS", "%b")


def _finish(axes: Axes, first: pd.Timestamp, last: pd.Timestamp, every: str, pattern: str) -> None:
    """Ticks at the beginnings of months or quarters; short numbers."""
    months = pd.date_range(first, last, freq=every)
    axes.margins(x=0)
    axes.set_xticks(months.to_numpy(), [f"{month:{pattern}}" for month in months])
    axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylim(bottom=0)
