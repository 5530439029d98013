"""A figure or a table of a paper, as something that can be measured again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

#: By subject the figures of all repeats.
Found: TypeAlias = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Sweep:
    """What is varied, from where to where, and how one point is measured."""

    paper: str
    item: str
    #: which of its pictures: 1-d or 2-d, IND or ANT, uniform or Zipf
    part: str
    knob: str
    unit: str
    values: Sequence[float | str]
    measure: Callable[[float | str], Found]

    def case(self, value: float | str) -> str:
        """As records have it."""
        shown = value if isinstance(value, str) else f"{value:,.10g}"
        return f"{self.paper}, {self.item}, {self.part}: {self.knob} {shown}"
