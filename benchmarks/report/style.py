"""One visual language: what is ours is orange, scans are grey, nothing needs a white page.

Pictures are transparent, and every colour has contrast enough on white and on slate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

P = ParamSpec("P")

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "benchmarks"

OWN = "#f4511e"
OTHER_OWN = "#ffa07a"
PLAIN = "#8a929b"
#: Text, axes and grids: the same distance from white and from slate.
INK = "#7f8790"
RIVALS = ("#2f8fe0", "#3fa34d", "#a06cd5", "#c79a1b", "#12a3a3", "#d6457f")

SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tocsin",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.grid.which": "major",
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "legend.fontsize": 8,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A function that draws, with these settings in force while it does."""

    @wraps(draw)
    def within(*arguments: P.args, **named: P.kwargs) -> Figure:
        with mpl.rc_context(SETTINGS):
            return draw(*arguments, **named)

    return within


def grid_of(count: int, columns: int = 3, height: float = 2.1) -> tuple[Figure, list[Axes]]:
    """A figure of small pictures, as many as asked for."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(8.4, height * rows + 0.4), layout="constrained")
    made = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for unused in made[count:]:
        unused.remove()
    return figure, made[:count]


def save(figure: Figure, name: str, folder: Path = FOLDER) -> str:
    """Write a picture, the same to the byte for the same figures; answers its path from beside the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(SETTINGS):
        figure.savefig(folder / f"{name}.svg", transparent=True, metadata={"Date": None})
    return f"{folder.name}/{name}.svg"
