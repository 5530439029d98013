"""Range thresholds, the slow and obvious way: exact fractions, one event after the other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

#: position of the event, slot of the subscription, weight reached
Maturity = tuple[int, int, float]


@dataclass
class ThresholdOracle:
    """One subscription."""

    ranges: list[tuple[float, float]]
    tau: int
    repeat: bool
    reached: int = 0
    is_silent: bool = False


class Thresholds:
    """All subscriptions by slot."""

    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.by_slot: dict[int, ThresholdOracle] = {}

    def register(self, slot: int, ranges: list[tuple[float, float]], tau: int, repeat: bool) -> None:
        self.by_slot[slot] = ThresholdOracle(ranges, tau, repeat)

    def terminate(self, slot: int) -> None:
        del self.by_slot[slot]

    def apply(self, events: list[tuple[list[float], int]]) -> list[Maturity]:
        """Who matures at which event."""
        matured = []
        for position, (values, weight) in enumerate(events):
            for slot in sorted(self.by_slot):
                one = self.by_slot[slot]
                inside = all(
                    low <= value <= high for value, (low, high) in zip(values, one.ranges, strict=True)
                )
                if one.is_silent or weight <= 0 or any(value != value for value in values) or not inside:
                    continue
                one.reached += weight
                if one.reached >= one.tau:
                    matured.append((position, slot, float(Fraction(one.reached, self.scale))))
                    one.is_silent = not one.repeat
                    if one.repeat:
                        one.reached = 0
        return matured
