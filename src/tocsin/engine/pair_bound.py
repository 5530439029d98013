"""A bound on how many pairs joins may change by in one call, held before any pair is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


class PairBound(NamedTuple):
    """Up to `most` pairs of all joins together, nobody is asked; beyond, some joins are ended.

    A few rows can change a join by as many pairs as both tables' rows multiplied. `choose` hears by how many
    pairs each join would change, and says which are to be ended instead: their subscriptions are gone before
    the rows reach them, and nothing is told of them. The rows are taken in any case. It must not raise, nor
    use the engine.
    """

    most: int
    choose: Callable[[Mapping[str, int]], Iterable[str]]
