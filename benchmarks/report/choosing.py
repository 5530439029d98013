"""What a user would take instead: who wins where, and when to take it."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.instrument.records import Record
from benchmarks.instrument.words import number, spread, table
from benchmarks.report.plots import contests
from benchmarks.report.style import save

OWN = "Tocsin, the index"
PUBLISH = "Tocsin, publish"

#: When to take something else.
ADVICE = {
    "NumPy scan": "a few hundred subscriptions, or one question over many; nothing to install or maintain",
    "NumPy, sorted batch": "sums over ranges of one column, in batches as large as the set of subscriptions, "
    "where the row that crossed a threshold does not matter",
    "Polars join_where": "both events and subscriptions exist as tables, and are joined once. It "
    "sorts both again for every batch, on all cores; a row alone costs as much",
    "DuckDB range join": "the same, with SQL around it, or more data than memory",
    "PostgreSQL, GiST": "subscriptions must be durable, change in transactions, or live beside other tables, "
    "and events come by the hundred a second",
    "rtree": "boxes alone, in two or three dimensions; also finds the nearest",
    "intervaltree": "a few thousand ranges in pure Python, with objects attached",
    "Spark SQL": "a job that evaluates a query once over existing data, without state between batches",
}


def choices_section(records: Iterable[Record]) -> str:
    """Tables, a picture, and the cases that a rival wins."""
    cases: dict[str, list[Record]] = {}
    for record in records:
        cases.setdefault(record.case, []).append(record)
    if not cases:
        return "Not measured yet: `python -m benchmarks choices`.\n"
    ordered = sorted(cases, key=lambda case: (case.split(",")[0], _size(cases[case][0]), case))
    path = save(contests({_short(case): cases[case] for case in ordered}), "choices")
    parts = [f"![Microseconds an event, a row of dots for each task]({path})\n"]
    lost = [line for case in ordered for line in _lost(case, cases[case])]
    parts.append(
        "**Where something else wins.** " + (" ".join(lost) if lost else "Nowhere in these tasks.") + "\n"
    )
    seen = {record.subject for known in cases.values() for record in known}
    advice = [(name, when) for name, when in ADVICE.items() if name in seen or name.startswith("Spark")]
    parts.append(table(("take", "when"), advice, left=2) + "\n")
    parts += [_case_table(case, cases[case]) for case in ordered]
    return "\n".join(parts)


def _case_table(case: str, known: list[Record]) -> str:
    own = next((record for record in known if record.subject == OWN), known[0])
    rows = [
        (
            record.subject,
            spread(record),
            "" if record is own else number(own.times(record)),
            number(record.build_s),
            number(record.peak_mb),
        )
        for record in sorted(known, key=lambda record: record.median)
    ]
    headings = ("", "µs an event (least to most)", "times our index", "build, s", "peak MB added")
    return f"**{case[0].upper()}{case[1:]}**\n\n{table(headings, rows)}\n"


def _lost(case: str, known: list[Record]) -> list[str]:
    """Sentences about rivals that are faster than `publish`, or than the index."""
    told = []
    own = {record.subject: record for record in known if record.subject in (OWN, PUBLISH)}
    for record in known:
        if record.subject in own:
            continue
        beaten = [name for name, ours in own.items() if ours.times(record) < 1]
        if beaten:
            times = max(1 / own[name].times(record) for name in beaten)
            told.append(
                f"{record.subject} is {number(times)} times as fast as {' and '.join(beaten)}: {case}."
            )
    return told


def _short(case: str) -> str:
    """For the side of a picture."""
    name, _, sizes = case.partition(", ")
    return f"{name}\n{sizes.replace(' subscriptions', '')}"


def _size(record: Record) -> tuple[int, int]:
    return int(record.sizes["subscriptions"]), int(record.sizes["batch"])
