"""Plots of simulation results, laid out like the papers' figures. Requires matplotlib."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from tocsin.errors import Error
from tocsin.papers.network.simulation import EVENTS, RUNS
from tocsin.papers.network.specs import Figure, Settings, Spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WORDS = {
    "hops": "overlay hops an event",
    "links": "links an event",
    "bytes": "bytes an event, overlay",
    "link_bytes": "bytes an event, links",
    "stress": "messages of the busiest broker",
    "sent": "messages out of the server, an event",
    "sent_bytes": "bytes out of the server, an event",
    "received": "messages that subscribers receive, an event",
    "server_us": "server's time an event, µs",
}
MARKS = "osv^DXP*<>"


def draw_figures(spec: Spec, folder: Path) -> list[Path]:
    """Draw one picture per figure from the results in a folder."""
    try:
        from matplotlib.figure import Figure as Canvas
    except ModuleNotFoundError as failure:
        raise Error("pictures need matplotlib: pip install 'tocsin[network]'") from failure
    runs = pq.read_table(folder / RUNS).to_pylist()
    drawn = []
    for figure in spec.figures:
        canvas = Canvas(figsize=(4.6 * len(figure.measures), 3.6), layout="constrained")
        panels = canvas.subplots(1, len(figure.measures), squeeze=False)[0]
        for axes, measure in zip(panels, figure.measures, strict=True):
            if figure.plot == "cdf":
                _draw_cdf(axes, spec, figure, measure, runs, folder)
            else:
                _draw_lines(axes, spec, figure, measure, runs)
        panels[0].legend(fontsize=7)
        canvas.suptitle(figure.title or f"Figure {figure.name}", fontsize=10)
        path = folder / f"figure-{figure.name}.png"
        canvas.savefig(path, dpi=110)
        drawn.append(path)
    return drawn


def found_run(runs: list[dict[str, Any]], approach: str, settings: Settings) -> dict[str, Any]:
    """The row of a run."""
    wanted = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(settings).items()
    }
    return next(
        run
        for run in runs
        if run["approach"] == approach and all(run[name] == value for name, value in wanted.items())
    )


def _draw_lines(axes: Axes, spec: Spec, figure: Figure, measure: str, runs: list[dict[str, Any]]) -> None:
    points = spec.points(figure)
    values = [value for value, _ in points]
    is_text = any(isinstance(value, str | list) for value in values)
    places = list(range(len(values))) if is_text else values
    for number, approach in enumerate(figure.approaches):
        means = [found_run(runs, approach, settings)[f"mean_{measure}"] for _, settings in points]
        axes.plot(places, means, marker=MARKS[number % len(MARKS)], markersize=4, label=approach)
    if is_text:
        axes.set_xticks(places, [str(value) for value in values], fontsize=7)
    if figure.log:
        axes.set_yscale("log")
    axes.set_xlabel(figure.vary)
    axes.set_ylabel(WORDS[measure])
    axes.grid(alpha=0.3)


def _draw_cdf(
    axes: Axes, spec: Spec, figure: Figure, measure: str, runs: list[dict[str, Any]], folder: Path
) -> None:
    """The share of events below each value; values of 0 are drawn at the left edge."""
    settings = spec.points(figure)[0][1]
    for approach in figure.approaches:
        run = found_run(runs, approach, settings)["run"]
        rows = pq.read_table(folder / EVENTS, columns=[measure], filters=[("run", "=", run)])
        values = np.sort(rows.column(measure).to_numpy())
        axes.step(np.maximum(values, 1), np.arange(1, len(values) + 1) / len(values), label=approach)
    axes.set_xscale("log")
    axes.set_xlabel(WORDS[measure])
    axes.set_ylabel("share of events")
    axes.grid(alpha=0.3)
