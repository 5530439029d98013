"""Records to try the instrument and the report on."""

from __future__ import annotations

from typing import Any

from benchmarks.instrument.records import Record

FIRST = "2026-01-01T10:00:00+00:00"
LATER = "2026-01-02T10:00:00+00:00"


def record(
    subject: str,
    *figures: float,
    case: str = "a case",
    unit: str = "µs an event",
    when: str = FIRST,
    scan_ms: float = 0.6,
    reference_ms: float | None = 0.25,
    **more: Any,
) -> Record:
    """A record of the program `sample`, or of another that `more` names."""
    machine = {
        "when": when,
        "numpy_scan_ms": scan_ms,
        "three_ranges_scan_ms": reference_ms,
        "processor": "a machine",
        "cores": 2,
        "load": 0.5,
    }
    given = {"program": "sample", "machine": machine, **more}
    return Record(case=case, subject=subject, unit=unit, figures=figures, **given)


def growth(family: str, knob: str, costs: dict[int, float], subject: str = "index") -> list[Record]:
    """The points of one curve."""
    return [
        record(
            subject,
            cost,
            case=f"{family}, by {knob}: {value:,}",
            program="growth",
            sizes={"family": family, "knob": knob, "value": value, "subscriptions": value},
            bytes_each=100.0,
            build_s=0.1,
        )
        for value, cost in costs.items()
    ]
