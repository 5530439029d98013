"""How long it takes to start: first answers beside the imports that they need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.instrument.records import Record
from benchmarks.instrument.words import number, spread, table

INTRO = """A wheel with compiled kernels (`make wheel`) in a fresh environment: wall time of whole processes,
each with a fresh home; the cache of kernels is empty, or cannot be written. In a clone, processor time to
compile everything (`tocsin warm --portable`). On Spark, the first micro-batch of a fresh session, beside that
of a stateful job which only counts its rows.
"""


def starting_section(records: Iterable[Record]) -> str:
    """What starts, beside its rival; then every form of statement."""
    cases: dict[str, list[Record]] = {}
    forms: dict[str, dict[str, Record]] = {}
    for record in records:
        if "cache" in record.sizes:
            forms.setdefault(str(record.sizes["form"]), {})[str(record.sizes["cache"])] = record
        else:
            cases.setdefault(record.case, []).append(record)
    if not cases:
        return "Not measured yet: `python -m benchmarks startup`.\n"
    rows = [_case_row(*pair) for pair in cases.values()]
    headings = ("", "what", "median (least to most)", "unit", "beside", "takes", "times")
    parts = [INTRO, table(headings, rows, left=2) + "\n"]
    if forms:
        parts.append(_forms_table(forms))
    return "\n".join(parts)


def _case_row(own: Record, rival: Record | None = None) -> tuple[str, ...]:
    """A case's own figure comes first; only some have a rival."""
    told = own.case, own.subject, spread(own), own.unit
    if rival is None:
        return *told, "", "", ""
    return *told, rival.subject, spread(rival), number(own.median / rival.median)


def _forms_table(forms: Mapping[str, Mapping[str, Record]]) -> str:
    """Seconds by form and cache, the slowest first."""
    caches = list(dict.fromkeys(cache for known in forms.values() for cache in known))
    ordered = sorted(forms, key=lambda form: -max(record.median for record in forms[form].values()))
    rows = [
        (f"`{form}`", *(spread(forms[form][cache]) if cache in forms[form] else "" for cache in caches))
        for form in ordered
    ]
    headings = ("seconds to the first answer of", *(f"{cache} cache" for cache in caches))
    return f"**Every form of statement**\n\n{table(headings, rows)}\n"
