"""A limit on the pairs that one call may change in joins, enforced before any pair is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


class PairBound(NamedTuple):
    """Limits how many pairs one call may change in the answers of joins.

    A few rows can change a join by as many pairs as the product of both tables' sizes. If all joins together
    would change by more than `most` pairs, `choose` is called with the number of pairs of each join, by id of
    its subscription, and returns the ids to end. These subscriptions are removed before the rows are applied
    and emit nothing; the rows are applied in any case. `choose` must neither raise nor use the engine.
    """

    most: int
    choose: Callable[[Mapping[str, int]], Iterable[str]]
