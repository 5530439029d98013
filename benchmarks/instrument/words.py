"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.instrument.records import Record


def number(value: float | None) -> str:
    """Three digits, thousands apart, no powers of ten: 2,730 and 0.0409."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        digits = len(str(int(abs(value)))) - 3
        return f"{round(value, -digits) if digits > 0 else value:,.0f}"
    # As many places as three digits need; none of them for nothing.
    places = 2 - _power(value)
    text = f"{value:.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def spread(record: Record) -> str:
    """The median, and the least and the most where there was more than one repeat."""
    if len(record.figures) < 2:
        return number(record.median)
    least, most = record.spread
    return f"{number(record.median)} ({number(least)} to {number(most)})"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table in Markdown; the first `left` columns are text, the others are numbers."""
    ruler = ["---" if place < left else "---:" for place in range(len(headings))]
    lines = [headings, ruler, *([_escaped(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(cell: str) -> str:
    """What Markdown would take for its own: bars, and the star of a tree's name."""
    return cell.replace("|", "\\|").replace("BE*-", "BE\\*-")


def _power(value: float) -> int:
    return int(f"{value:.2e}".partition("e")[2])
