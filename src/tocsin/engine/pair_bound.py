"""A bound on the pairs by which joins may change in one call, enforced before any pair is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


class PairBound(NamedTuple):
    """Up to `most` changed pairs over all joins, `choose` is not called; beyond, it names joins to end.

    A few rows can change a join by as many pairs as the product of both tables' rows. `choose` is called with
    the number of pairs by which each join would change, and returns those to end: their subscriptions are
    removed before the rows reach them, and emit nothing. The rows are applied in any case. `choose` must
    neither raise nor use the engine.
    """

    most: int
    choose: Callable[[Mapping[str, int]], Iterable[str]]
