"""The columns of TSL: queries, their views, the rows, and working memory.

| paper | here |
|---|---|
| query q, its weights and k | a slot, `weight`, `k` |
| q.view, k_max | the first `size` of `row` and `key`; `max_view_size` |
"""

from __future__ import annotations

from typing import NamedTuple

from tocsin.arrays.types import Bools, Floats, Ints, Longs


class SumQueries(NamedTuple):
    """Queries by subscription slot."""

    #: int64 (slots,): 0 where there is none
    k: Longs
    #: float64 (terms, slots): so that the sum is the key
    weight: Floats
    #: float64 (slots, dimensions): closed bounds of the boxes
    lo: Floats
    hi: Floats


class SumViews(NamedTuple):
    """For each query, its best rows in order."""

    #: int32, float64 (slots, capacity): row slots and keys, best first
    row: Ints
    key: Floats
    #: int32 (slots,): length of the view
    size: Ints
    #: bool (slots,): whether the view holds every row inside the box
    is_whole: Bools


class SumRows(NamedTuple):
    """Rows by slot."""

    #: float64 (slots, columns)
    values: Floats
    #: int64 (slots,): ABSENT where there is none
    born: Longs
    #: int32 (terms,): the columns that are weighted
    scored: Ints
    #: 1 where newer rows win ties, -1 where older ones do
    tie_sign: int


class SumScratch(NamedTuple):
    """Working memory to score a row for many queries."""

    #: float64 (slots,): the key that a row must have to concern the query
    last: Floats
    #: float64 (together,): keys of one row for the queries scored together
    key: Floats
    #: float64 (terms,): one row's values
    x: Floats
