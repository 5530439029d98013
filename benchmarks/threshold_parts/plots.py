"""How the cost of an element grows with the number of queries: a picture."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.threshold_parts.measuring import Measure


def plot_growth(measures: list[Measure], path: Path) -> None:
    """One line a rival, both axes logarithmic."""
    figure = Figure(figsize=(7, 4.5))
    axes = figure.add_subplot()
    for rival in dict.fromkeys(result.entry.rival for result in measures):
        points = [(result.queries, result.median_us) for result in measures if result.entry.rival == rival]
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=rival)
    axes.set(xscale="log", yscale="log", xlabel="standing queries", ylabel="µs an element")
    axes.set_title("Range thresholds in one dimension")
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
