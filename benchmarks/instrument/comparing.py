"""What was measured now beside what the last commit holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.instrument.records import Record
from benchmarks.instrument.results import newest


@dataclass(frozen=True)
class Change:
    """One measurement, then and now."""

    before: Record
    now: Record

    @property
    def times(self) -> float:
        """How many times as good as before."""
        return self.now.times(self.before)

    @property
    def machine_times(self) -> float | None:
        """How many times as fast the machine itself was, by its NumPy scan."""
        before, now = self.before.scan_ms, self.now.scan_ms
        return before / now if before and now else None

    @property
    def is_beyond(self) -> bool:
        """Whether the spreads do not even meet."""
        least, most = self.now.spread
        return most < self.before.spread[0] or least > self.before.spread[1]


def changes(now: Iterable[Record], before: Iterable[Record]) -> list[Change]:
    """What was measured both times, quickly or not, the greatest fall first. Cost: linear, sorted."""
    held = list(before)
    known = {is_quick: newest(one for one in held if one.is_quick == is_quick) for is_quick in (False, True)}
    pairs = [(known[record.is_quick].get(record.key), record) for record in newest(now).values()]
    found = [Change(was, record) for was, record in pairs if was is not None and was.when != record.when]
    return sorted((change for change in found if change.now.median and change.before.median), key=_times)


def _times(change: Change) -> float:
    return change.times
