"""One shape for everything that is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

#: Units of which more is better; of all others less is.
RATES = ("/s",)


@dataclass(frozen=True)
class Record:
    """All repeats of one subject on one case.

    A *case* is what is asked of everybody alike; a *subject* is the engine's own index or a rival.
    """

    program: str
    case: str
    subject: str
    unit: str
    #: one figure a repeat
    figures: tuple[float, ...]
    #: what the case is made of: subscriptions, rows, k, a batch's events
    sizes: Mapping[str, Any] = field(default_factory=dict)
    #: seconds to compile, or to load what was compiled, and to build; None where it was not taken apart
    compile_s: float | None = None
    build_s: float | None = None
    peak_mb: float | None = None
    #: bytes of all arrays, a subscription
    bytes_each: float | None = None
    seed: int | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes it the same measurement as another day's."""
        return self.program, self.case, self.subject, self.unit

    @property
    def median(self) -> float:
        return median(self.figures)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the most."""
        return min(self.figures), max(self.figures)

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit.endswith(RATES)

    @property
    def when(self) -> str:
        """The time it was measured at, as text that sorts; empty if that is not known."""
        return str(self.machine.get("when", ""))

    @property
    def is_quick(self) -> bool:
        return bool(self.machine.get("quick"))

    @property
    def rank(self) -> tuple[bool, str]:
        """What makes it better to tell of than another of the same key: a whole run, then a later one."""
        return not self.is_quick, self.when

    @property
    def commit(self) -> str:
        return str(self.machine.get("commit", ""))

    @property
    def scan_ms(self) -> float | None:
        """What a NumPy scan took in the same run: the least of those taken, as the first is often cold."""
        names = ("numpy_scan_ms", "numpy_scan_ms_before", "numpy_scan_ms_after")
        taken = [float(self.machine[name]) for name in names if name in self.machine]
        return min(taken) if taken else None

    @property
    def reference_ms(self) -> float | None:
        """What the scan that the issues give took in the same run: 100,000 subscriptions of three ranges."""
        taken = self.machine.get("three_ranges_scan_ms")
        return None if taken is None else float(taken)

    def times(self, rival: Record) -> float:
        """How many times as good as a rival, in the direction of the unit."""
        ours, theirs = self.median, rival.median
        ratio = ours / theirs if self.is_rate else theirs / ours
        return float(ratio)

    def to_json(self) -> dict[str, Any]:
        """One line of the results: everything that is known, with the median beside the figures."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return {
            **known,
            "figures": [_rounded(value) for value in self.figures],
            "median": _rounded(self.median),
        }

    @classmethod
    def of_json(cls, line: Mapping[str, Any]) -> Record:
        """What `to_json` wrote."""
        given = {name: value for name, value in line.items() if name in cls.__dataclass_fields__}
        return cls(**{**given, "figures": tuple(line["figures"])})


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
