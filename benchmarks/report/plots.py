"""The pictures of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.instrument.fits import fit
from benchmarks.instrument.records import Record
from benchmarks.report.style import INK, OTHER_OWN, OWN, PLAIN, RIVALS, grid_of, styled

#: The engine is one of the other two, and drawn over it.
LINES = {"index": OWN, "scan": PLAIN, "engine": RIVALS[0]}
#: Letters of a title that is written smaller, so that it stays inside the picture.
LONG = 30


class Line(NamedTuple):
    """Sizes, medians, and between which figures they lie."""

    sizes: list[float]
    medians: list[float]
    least: list[float]
    most: list[float]


def line_of(records: Sequence[Record], scale: float = 1.0) -> Line:
    """Records of one curve, in the order of what was varied."""
    known = sorted(records, key=lambda record: float(record.sizes["value"]))
    return Line(
        [float(record.sizes["value"]) for record in known],
        [scale * record.median for record in known],
        [scale * record.spread[0] for record in known],
        [scale * record.spread[1] for record in known],
    )


@styled
def curves(
    groups: Mapping[str, Mapping[str, Sequence[Record]]],
    label: str,
    unit: str,
    marks: Mapping[str, float] | None = None,
) -> Figure:
    """One small picture a group, both sides logarithmic: the index with its fitted exponent, and the scan."""
    figure, axes = grid_of(len(groups))
    for axis, (name, subjects) in zip(axes, groups.items(), strict=True):
        told = []
        for subject, records in subjects.items():
            line = line_of(records)
            color = LINES.get(subject, INK)
            axis.fill_between(line.sizes, line.least, line.most, color=color, alpha=0.18, linewidth=0)
            dashes = ":" if subject == "engine" else "-"
            axis.plot(line.sizes, line.medians, marker="o", color=color, linestyle=dashes)
            told.append((subject, color, fit(line.sizes, line.medians)))
        _logarithmic(axis)
        sizes = sorted({size for records in subjects.values() for size in line_of(records).sizes})
        if sizes[-1] < 20 * sizes[0]:
            axis.set_xticks(sizes)
        for place, (subject, color, found) in enumerate(told):
            text = subject if found is None else f"{subject}  n^{found.exponent:.2f}"
            axis.text(
                0.03, 0.96 - 0.1 * place, text, color=color, fontsize=8, va="top", transform=axis.transAxes
            )
        if marks and name in marks:
            axis.axvline(marks[name], color=INK, linestyle=":", linewidth=1)
        axis.set_title(name, fontsize=9 if len(name) <= LONG else 8)
    for axis in axes[-3:]:
        axis.set_xlabel(label)
    axes[0].set_ylabel(unit)
    return figure


@styled
def contests(cases: Mapping[str, Sequence[Record]]) -> Figure:
    """One row of dots a case: everybody's time of an event, on one scale."""
    subjects = list(dict.fromkeys(record.subject for records in cases.values() for record in records))
    colors = _colors(subjects)
    figure, (axis,) = grid_of(1, height=0.52 * len(cases) + 0.6)
    for row, records in enumerate(cases.values()):
        axis.plot(
            [record.median for record in records], [row] * len(records), color=INK, alpha=0.35, linewidth=0.8
        )
        for record in records:
            is_own = record.subject in colors and colors[record.subject] in (OWN, OTHER_OWN)
            axis.plot(
                [record.median],
                [row],
                marker="D" if is_own else "o",
                markersize=6 if is_own else 5,
                color=colors[record.subject],
                linestyle="none",
                zorder=3 + is_own,
            )
    axis.set_yticks(range(len(cases)), list(cases))
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_xscale("log")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(_plain))
    axis.set_xlabel("µs an event, less is better")
    for subject in subjects:
        axis.plot([], [], marker="o", linestyle="none", color=colors[subject], label=subject)
    figure.legend(loc="outside upper left", ncols=4, fontsize=8)
    return figure


@styled
def memory(groups: Mapping[str, Sequence[Record]]) -> Figure:
    """Bytes a subscription by the number of them, a line an index, named at its end."""
    figure, (axis,) = grid_of(1, height=3.0)
    colors = dict(zip(groups, (OWN, *RIVALS, OTHER_OWN, PLAIN, INK), strict=False))
    for name, records in groups.items():
        known = sorted(records, key=lambda record: float(record.sizes["value"]))
        sizes = [float(record.sizes["value"]) for record in known]
        held = [float(record.bytes_each or 0) for record in known]
        axis.plot(sizes, held, marker="o", color=colors.get(name, INK), label=name)
    _logarithmic(axis)
    axis.set_xlabel("subscriptions")
    axis.set_ylabel("bytes a subscription")
    figure.legend(loc="outside right upper", fontsize=8)
    return figure


def _colors(subjects: Sequence[str]) -> dict[str, str]:
    own = [subject for subject in subjects if subject.startswith("Tocsin")]
    others = [subject for subject in subjects if subject not in own and subject != "NumPy scan"]
    colors = dict(zip(own, (OWN, OTHER_OWN), strict=False))
    return {**colors, "NumPy scan": PLAIN, **dict(zip(others, RIVALS, strict=False))}


def _logarithmic(axis: Axes) -> None:
    """Both sides; at least a decade upwards, so that what is flat looks flat, and room for words."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    high = max(high, low * 10)
    axis.set_ylim(low, high * (high / low) ** 0.35)
    for side, (least, most) in ((axis.xaxis, axis.get_xlim()), (axis.yaxis, axis.get_ylim())):
        # Less than two decades have few powers of ten.
        between = (1.0, 2.0, 5.0) if most < 100 * least else (1.0,)
        side.set_major_locator(LogLocator(subs=between, numticks=8))
        side.set_minor_locator(NullLocator())
        side.set_major_formatter(FuncFormatter(_plain))


def _plain(value: float, _: int) -> str:
    """A power of ten as one says it."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"
