"""How costs grow: exponents, pictures, memory, and where the engine switches to an index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from benchmarks.growth_parts.curves import SWITCHES
from benchmarks.instrument.fits import crossing, fit
from benchmarks.instrument.records import Record
from benchmarks.instrument.words import number, table
from benchmarks.report.plots import curves, line_of, memory
from benchmarks.report.style import save

#: By family, then by index or scan.
Groups: TypeAlias = dict[str, dict[str, list[Record]]]

KNOBS = {
    "subscriptions": "subscriptions",
    "rows": "rows of the table or window",
    "k": "k",
    "dimensions": "dimensions",
    "batch": "events a batch",
}
#: What a curve that is neither flat nor straight means.
BATCH_NOTE = "The cost of a batch is a fixed part, mostly of handing columns to kernels, and a part an event."
FEW = ", few, "


def growth_section(records: Iterable[Record]) -> str:
    """A picture a knob, one table of exponents, memory, and the switch."""
    known = list(records)
    if not known:
        return "Not measured yet: `python -m benchmarks growth`.\n"
    many = [record for record in known if FEW not in record.case]
    parts = [_exponents(many)]
    for knob, label in KNOBS.items():
        groups = _groups(record for record in many if record.sizes["knob"] == knob)
        if groups:
            path = save(curves(groups, label, "µs an event"), f"growth-{knob}")
            note = f"\n{BATCH_NOTE}\n" if knob == "batch" else ""
            parts.append(f"**By {label}**\n{note}\n![Time of an event by {label}]({path})\n")
    by_family = {
        family: subjects["index"]
        for family, subjects in _groups(r for r in many if r.sizes["knob"] == "subscriptions").items()
        if "index" in subjects
    }
    if by_family:
        path = save(memory(by_family), "growth-memory")
        parts.append("**Memory**\n\nBytes of all arrays of an index, its rows included, a subscription.\n")
        parts.append(f"![Bytes a subscription by their number]({path})\n\n{_memory_table(by_family)}\n")
    parts.append(_switch([record for record in known if FEW in record.case]))
    return "\n".join(parts)


def _groups(records: Iterable[Record]) -> Groups:
    found: Groups = {}
    for record in records:
        found.setdefault(str(record.sizes["family"]), {}).setdefault(record.subject, []).append(record)
    return found


def _exponents(records: Sequence[Record]) -> str:
    rows = []
    families = list(dict.fromkeys(str(record.sizes["family"]) for record in records))
    for family in families:
        cells = [family]
        for knob in KNOBS:
            mine = [
                record
                for record in records
                if record.sizes["family"] == family and record.sizes["knob"] == knob
            ]
            line = line_of([record for record in mine if record.subject == "index"])
            found = fit(line.sizes, line.medians)
            cells.append("" if found is None else f"{found.exponent:.2f}")
        rows.append(cells)
    return (
        "The exponent *e* of cost ≈ c · n^*e*, fitted by least squares of the logarithms: 0 is flat, 1 is "
        "linear. An event concerns as many subscriptions at every size (ten; of the matching paper's, a "
        "hundred), except that messages of Paint-Sparse are for the paper's ranges, and that a cycle of a "
        "window changes the lists of most subscriptions, however many there are.\n\n"
        + table(("time of an event by", *KNOBS), rows)
        + "\n"
    )


def _memory_table(groups: dict[str, list[Record]]) -> str:
    rows = []
    for family, records in groups.items():
        last = max(records, key=lambda record: float(record.sizes["value"]))
        rows.append((family, f"{int(last.sizes['value']):,}", number(last.bytes_each), number(last.build_s)))
    return table(("", "subscriptions", "bytes each", "world and index built, s"), rows)


def _switch(records: Sequence[Record]) -> str:
    """Where the index passes the scan, where the engine switches, and what its choice costs."""
    groups = {name.replace(FEW, ", "): subjects for name, subjects in _groups(records).items()}
    if not groups:
        return ""
    marks = {
        name: float(switch.taken_from(int(name.rpartition(" ")[2].replace(",", ""))))
        for name in groups
        for family, switch in SWITCHES.items()
        if name.startswith(f"{family}, batches")
    }
    path = save(curves(groups, "subscriptions", "µs an event", marks), "growth-switch")
    rows = []
    for name, subjects in groups.items():
        if not {"index", "scan", "engine"} <= set(subjects):
            continue
        index, scan, engine = (line_of(subjects[each]) for each in ("index", "scan", "engine"))
        at = crossing(index.sizes, index.medians, scan.medians)
        better = [min(pair) for pair in zip(index.medians, scan.medians, strict=True)]
        costs = [ours / best for ours, best in zip(engine.medians, better, strict=True)]
        worst = max(costs)
        passed = "not up to here" if at is None else "the first" if at <= index.sizes[0] else number(at)
        where = f"{number(worst)} at {int(engine.sizes[costs.index(worst)]):,}"
        rows.append((name, passed, f"{int(marks[name]):,}", where))
    headings = ("", "the index is faster from", "the engine takes it from", "most that the choice costs")
    return (
        "**Where the engine switches from the scan to the index**\n\nThe dotted line is where it does; "
        "for thresholds it depends on the size of batches, for the others it is one number for all, so it is "
        "not the best for each. The last column is the time of the "
        "engine if that of the better one of the two is 1, at worst among the sizes measured.\n\n"
        f"![Scan, index and engine, few subscriptions]({path})\n\n{table(headings, rows)}\n"
    )
