"""Columns of the filter index: subscriptions in tiles, the tree over them, a delta's entries, scratch."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Bytes, Floats, Ints, Longs
from tocsin.kernels.scoring import BLOCK


class FilterSubscriptions(NamedTuple):
    """Subscriptions by place; the places of a tile are contiguous."""

    #: closed bounds of the boxes
    lo: Annotated[Floats, Column("dimensions", "places", fill=None)]
    hi: Annotated[Floats, Column("dimensions", "places", fill=None)]
    #: parameters of the score
    theta: Annotated[Floats, Column("thetas", "places", fill=None)]
    #: closed bounds of the score
    score_lo: Annotated[Floats, Column("places", fill=None)]
    score_hi: Annotated[Floats, Column("places", fill=None)]
    #: subscription slot, -1 at a free place
    slot: Annotated[Ints, Column("places", fill=-1)]


class TileTree(NamedTuple):
    """Bounds of the nodes, level by level from the tiles up; the top level has at most `width` nodes."""

    #: int64 (levels + 1,): where each level begins
    first: Longs
    #: float64 (dimensions, nodes): bounds of all boxes under the node
    lo: Floats
    hi: Floats
    #: float64 (n_theta, nodes): bounds of all parameters under the node
    theta_lo: Floats
    theta_hi: Floats
    #: float64 (nodes,): bounds of all score intervals under the node
    score_lo: Floats
    score_hi: Floats
    #: places per tile, and children per node
    width: int


class FilterEntries(NamedTuple):
    """A delta's entries, ordered by `born_after` within a step."""

    #: int64 (steps + 1,): where each step's entries begin
    bounds: Longs
    #: int32 (entries,)
    row: Ints
    #: bool (entries,)
    was_there: Bools
    is_there: Bools
    touched: Bools
    #: int32 (entries,): the entry's position if a step's entries are ordered by `born_before` instead
    leave_rank: Ints
    #: float64 (columns, entries)
    before: Floats
    after: Floats


class FilterScratch(NamedTuple):
    """Working memory."""

    #: stacks of a program, and of its bounds
    stack: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    stack_low: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    stack_high: Annotated[Floats, Column("depth", BLOCK, fill=None)]
    #: scores of one row in a tile, and whether it is inside
    score_before: Annotated[Floats, Column(BLOCK, fill=None)]
    score_after: Annotated[Floats, Column(BLOCK, fill=None)]
    inside_before: Annotated[Bools, Column(BLOCK, fill=None)]
    inside_after: Annotated[Bools, Column(BLOCK, fill=None)]
    #: which images of the row each child of a node may hold, as a mask
    image_mask: Annotated[Bytes, Column(BLOCK, fill=None)]
    #: nodes to visit, each with N_IMAGE_MASKS × level + mask
    node_stack: Annotated[Longs, Column("nodes", fill=None)]
