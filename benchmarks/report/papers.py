"""Rows beside the papers: what they show, what we measure, why they differ."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.instrument.records import Record
from benchmarks.instrument.words import number, table

ROWS = Path(__file__).resolve().parents[1] / "papers.toml"
NETWORK = Path(__file__).resolve().parents[2] / "docs" / "network.md"

TITLES = {
    "thresholds": "Range thresholds (Qiao, Gan, Tao, SIGMOD 2016)",
    "windows": "Top-k over sliding windows (Mouratidis, Bakiras, Papadias, SIGMOD 2006)",
    "matching": "BE\\*-Tree (Sadoghi, Jacobsen, ICDE 2012)",
}
#: Pages that have rows already: title, heading of the page's section.
PAGES = {
    "Range top-k (Yu, Agarwal, Yang, ICDE 2012)": "### 2012: the k best",
    "Database and network (Chandramouli, Xie, Yang, SIGMOD 2006)": "### 2006: range minima",
}
HEADINGS = ("figure", "the paper", "here", "why they differ")


def papers_section(records: Mapping[str, Sequence[Record]]) -> str:
    """A table a paper."""
    rows = tomllib.loads(ROWS.read_text())["row"]
    parts = []
    for title, heading in PAGES.items():
        found = page_rows(NETWORK.read_text(), heading)
        parts.append(f"**{title}**, as in [the network](network.md)\n\n{table(HEADINGS, found, left=4)}\n")
    for paper, title in TITLES.items():
        mine = [row for row in rows if row["paper"] == paper]
        cells = [
            (f"{row['item']}: {row['about']}", row["shows"], ours(row, records), row["differs"])
            for row in mine
        ]
        parts.append(f"**{title}**\n\n{table(HEADINGS, cells, left=4)}\n")
    return "\n".join(parts)


def ours(row: Mapping[str, Any], records: Mapping[str, Sequence[Record]]) -> str:
    """What was measured for a row: its sweeps, and the records it names; or that there is nothing."""
    points = [
        record
        for record in records.get("papers", ())
        if (record.sizes["paper"], record.sizes["item"]) == (row["paper"], row["item"])
    ]
    told = [_series(group) for group in _by_part(points).values()]
    named = [_named(records, *names) for names in row.get("also", ())]
    told += ["; ".join(text for text in named if text)] if any(named) else []
    return ". ".join(told) or "not measured"


def page_rows(text: str, heading: str) -> list[tuple[str, ...]]:
    """The rows of the first table after a heading, without its headings."""
    lines = text.partition(heading)[2].splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith("|---"))
    rows = []
    for line in lines[begin + 1 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        rows.append(tuple(cell.strip("| ") for cell in cells))
    return rows


def _by_part(points: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in points:
        key = str(record.sizes["part"]), str(record.sizes["knob"]), record.unit
        groups.setdefault(key, []).append(record)
    return groups


def _series(points: Sequence[Record]) -> str:
    """A run of numbers a subject: `1-d, queries 10,000, 30,000: engine 0.3, 0.2; DT 20, 31 µs an element`."""
    first = points[0]
    # Only one run, a whole one if there is any: a quick one has other sizes.
    newest = max(record.rank for record in points)
    known = sorted(
        (record for record in points if record.rank == newest),
        key=lambda record: float(record.sizes["value"]),
    )
    values = list(dict.fromkeys(float(record.sizes["value"]) for record in known))
    subjects = list(dict.fromkeys(record.subject for record in known))
    runs = [
        f"{subject} {', '.join(number(record.median) for record in known if record.subject == subject)}"
        for subject in subjects
    ]
    shown = ", ".join(f"{value:,.10g}" for value in values)
    return f"{first.sizes['part']}, {first.sizes['knob']} {shown}: {'; '.join(runs)} {first.unit}"


def _named(
    records: Mapping[str, Sequence[Record]], program: str, case: str, subject: str, measure: str = "median"
) -> str:
    found = [
        record for record in records.get(program, ()) if (record.case, record.subject) == (case, subject)
    ]
    if not found:
        return ""
    unit = found[0].unit if measure == "median" else "s to build"
    return f"{case}: {subject} {number(getattr(found[0], measure))} {unit}"
