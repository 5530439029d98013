"""How the rows of a range top-k are ranked, and what its answer is."""

from __future__ import annotations

from typing import NamedTuple


class Ranking(NamedTuple):
    """The properties of a statement that kernels depend on: top-k or MIN and MAX, ascending or descending."""

    #: whether the first row alone is the answer, reported as a VALUE
    is_minmax: bool
    #: -1.0 if larger scores rank first: keys ascend with rank, and key times sign is the score
    sign: float
