"""Plots of messages: the rows of a table, and the rectangles of subscription space that messages apply to.

Needs matplotlib, which comes with the extras `bench` and `demo`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tocsin.errors import Error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colour of the first row of an update, mostly the updated one, and of the rows after it.
FIRST = "0.45"
COLOURS = (
    "#d95f02", "#1b9e77", "#7570b3", "#e7298a", "#66a61e", "#e6ab02",
    "#377eb8", "#a6761d", "#e41a1c", "#17becf", "#8dd3c7", "#bc80bd",
)  # fmt: skip


def plot_update(
    rows: Any, messages: Any, ranges: Iterable[tuple[float, float]] = (), *, title: str = ""
) -> Figure:
    """Event space and subscription space, side by side.

    `rows` is a snapshot of one space after the update, `messages` are those of the update (each an Arrow
    table or a list of rows), `ranges` the (lo, hi) of subscriptions.
    """
    figure = new_figure(2)
    event_space, subscription_space = figure.axes
    draw_rows(event_space, rows, messages)
    draw_rectangles(subscription_space, messages, ranges, limits=limits_of(rows))
    figure.suptitle(title)
    return figure


def new_figure(panels: int) -> Figure:
    """A figure with a row of square panels."""
    try:
        from matplotlib.figure import Figure
    except ImportError as failure:
        raise Error("pictures need matplotlib: pip install 'tocsin[demo]'") from failure
    figure = Figure(figsize=(4.6 * panels, 4.6), layout="constrained")
    figure.subplots(1, panels)
    return figure


def limits_of(rows: Any) -> tuple[float, float]:
    """Limits from before the first row to after the last one."""
    x = [row["x"][0] for row in _listed(rows)] or [0.0]
    margin = 0.05 * (max(x) - min(x)) or 1.0
    return min(x) - margin, max(x) + margin


def draw_rows(axes: Axes, rows: Any, messages: Any) -> None:
    """The rows of a table, x against y; those of messages in colour."""
    colours = _colours(messages)
    for row in _listed(rows):
        colour = colours.get(row["key"])
        axes.plot(row["x"][0], row["y"], "o", color=colour or "0.75", markersize=8 if colour else 5)
        if colour:
            axes.annotate(row["key"], (row["x"][0], row["y"]), (5, 5), textcoords="offset points")
    axes.set(title="event space: the rows", xlabel="x", ylabel="y")


def draw_rectangles(
    axes: Axes,
    messages: Any,
    ranges: Iterable[tuple[float, float]] = (),
    *,
    limits: tuple[float, float],
    title: str = "subscription space: the messages",
) -> None:
    """The messages' rectangles, coloured by row and hatched if it is gone, over the subscriptions.

    A missing bound is drawn at the limit.
    """
    from matplotlib.patches import Rectangle

    low, high = limits
    colours = _colours(messages)
    for message in _listed(messages):
        left = low if message["outer_lo"][0] is None else message["outer_lo"][0]
        top = high if message["outer_hi"][0] is None else message["outer_hi"][0]
        right, bottom = message["inner_lo"][0], message["inner_hi"][0]
        look: dict[str, Any] = {"facecolor": colours[message["key"]], "alpha": 0.45, "edgecolor": "black"}
        if message["gone"]:
            look |= {"hatch": "//"}
        axes.add_patch(Rectangle((left, bottom), right - left, top - bottom, linewidth=0.8, **look))
    points = [pair for pair in ranges if pair[0] <= pair[1]]
    if points:
        axes.plot(*zip(*points, strict=True), ".", color="black", markersize=3)
    axes.plot([low, high], [low, high], color="0.6", linewidth=0.8)
    axes.set(title=title, xlabel="lo", ylabel="hi", xlim=limits, ylim=limits, aspect="equal")


def _listed(table: Any) -> list[Mapping[str, Any]]:
    return table.to_pylist() if hasattr(table, "to_pylist") else list(table)


def _colours(messages: Any) -> dict[str, str]:
    """A colour for each row, in the order of the messages."""
    keys = dict.fromkeys(message["key"] for message in _listed(messages))
    return {key: COLOURS[(place - 1) % len(COLOURS)] if place else FIRST for place, key in enumerate(keys)}
