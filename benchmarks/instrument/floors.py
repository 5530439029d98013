"""Floors: what a ratio must not fall below, and where it should be."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.instrument.records import Record

FILE = Path(__file__).resolve().parents[1] / "floors.toml"
#: A rival that takes more than so many times what a well-built one takes proves nothing.
TOO_SLOW = 1.5

MET = "met"
SHORT = "short of the goal"
BELOW = "below its floor"
MISSING = "not measured"


@dataclass(frozen=True)
class Floor:
    """One ratio: a subject over a rival, or over a limit.

    A limit is a figure of the subject's own, as it stands: a slower machine has a lower floor to it than 1.
    """

    #: heading of the report that it stands under
    part: str
    program: str
    case: str
    subject: str
    #: at least this many times the rival; the floor is at most the goal
    floor: float
    goal: float | None = None
    rival: str | None = None
    rival_case: str | None = None
    #: what a well-built rival takes on the reference machine
    rival_figure: float | None = None
    #: instead of a rival: what the subject may take at most, or must do at least if it is a rate
    limit: float | None = None
    #: what is compared: the figures' median, bytes_each or build_s
    measure: str = "median"
    unit: str | None = None

    @property
    def name(self) -> str:
        than = self.rival if self.rival_case is None else f"{self.rival} at {self.rival_case}"
        beside = f"over {than}" if self.limit is None else f"within {self.limit:,g}"
        what = "" if self.measure == "median" else f" ({self.measure.replace('_', ' ')})"
        return f"{self.case}: {self.subject} {beside}{what}"


@dataclass(frozen=True)
class Verdict:
    """What became of a floor."""

    floor: Floor
    state: str
    ratio: float | None = None
    #: the ratio if the subject had its worst repeat and the rival its best
    worst: float | None = None
    #: how many times as fast as its figure the rival is, the machine's speed allowed for
    pace: float | None = None
    own: Record | None = None
    rival: Record | None = None

    @property
    def counts(self) -> bool:
        """False if the rival is too slow to prove anything."""
        return self.pace is None or self.pace >= 1 / TOO_SLOW

    @property
    def at_figure(self) -> float | None:
        """The ratio beside a rival that takes what its figure says."""
        return None if self.pace is None or self.ratio is None else self.pace * self.ratio

    @property
    def is_reached_at_figure(self) -> bool:
        """Whether the goal is reached beside a rival that takes what its figure says."""
        goal, reached = self.floor.goal, self.at_figure
        return goal is not None and reached is not None and reached >= goal

    @property
    def is_broken(self) -> bool:
        return self.state == BELOW


def read_floors(path: Path = FILE) -> tuple[float, list[Floor]]:
    """The NumPy scan of the reference machine, in ms, and all floors."""
    given = tomllib.loads(path.read_text())
    return float(given["reference_scan_ms"]), [Floor(**entry) for entry in given["floor"]]


def judge(floors: Iterable[Floor], records: Iterable[Record], reference_scan_ms: float) -> list[Verdict]:
    """Every floor against the newest run that has both sides of it, a whole one if there is one.

    Cost: linear, sorted.
    """
    known = sorted(records, key=lambda record: record.rank)
    return [_judge(floor, known, reference_scan_ms) for floor in floors]


def pace(rival: Record, figure: float, reference_scan_ms: float) -> float:
    """How many times as fast as its figure a rival is, on a machine as fast as its NumPy scan says.

    A run without that scan is held to the figure as it stands.
    """
    slowness = (rival.reference_ms or reference_scan_ms) / reference_scan_ms
    return slowness * (rival.median / figure if rival.is_rate else figure / rival.median)


def _judge(floor: Floor, known: list[Record], reference_scan_ms: float) -> Verdict:
    own, rival = _newest_pair(floor, known)
    if own is None or (floor.limit is None and rival is None):
        return Verdict(floor, MISSING)
    if rival is None:
        ratio, worst = _against_limit(floor, own)
    else:
        ratio = own.times(rival)
        best_rival = rival.spread[1] if rival.is_rate else rival.spread[0]
        worst_own = own.spread[0] if own.is_rate else own.spread[1]
        worst = worst_own / best_rival if own.is_rate else best_rival / worst_own
    figure = floor.rival_figure
    paced = None if rival is None or figure is None else pace(rival, figure, reference_scan_ms)
    state = BELOW if ratio < floor.floor else SHORT if floor.goal and ratio < floor.goal else MET
    return Verdict(floor, state, ratio, worst, paced, own, rival)


def _newest_pair(floor: Floor, known: list[Record]) -> tuple[Record | None, Record | None]:
    """Both sides, of the same run: figures of different hours do not compare."""
    sides: dict[str, dict[str, Record]] = {}
    for record in known:
        if record.program != floor.program or floor.unit not in (None, record.unit):
            continue
        side = sides.setdefault(record.when, {})
        if (record.case, record.subject) == (floor.case, floor.subject):
            side["own"] = record
        if (record.case, record.subject) == (floor.rival_case or floor.case, floor.rival):
            side["rival"] = record
    needed = ("own",) if floor.limit is not None else ("own", "rival")
    whole: list[Mapping[str, Record]] = [
        side for side in sides.values() if all(name in side for name in needed)
    ]
    return (whole[-1]["own"], whole[-1].get("rival")) if whole else (None, None)


def _against_limit(floor: Floor, own: Record) -> tuple[float, float]:
    limit = float(floor.limit or 0)
    if floor.measure != "median":
        figure: Any = getattr(own, floor.measure)
        ratio = limit / figure if figure else 0.0
        return ratio, ratio
    if own.is_rate:
        return own.median / limit, own.spread[0] / limit
    return limit / own.median, limit / own.spread[1]
