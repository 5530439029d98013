"""Columns of the boxes: subscriptions in groups, the grid that bounds what reached them, room for looks."""

from __future__ import annotations

from typing import NamedTuple

from tocsin.indexes.contract import Bools, Bytes, Floats, Ints, Longs


class BoxColumns(NamedTuple):
    """Members lie group by group; the member at place p is in group p // GROUP.

    A box is kept as one bound a side: 2 * axis is the low side of an axis, and 2 * axis + 1 the high
    side, seen in a mirror. A value is inside if on every side it is not below the bound, where on a
    high side both are negative of what they are.
    """

    #: float64 (sides, places): bound of the box; +inf at a free place.
    bound: Floats
    #: int64 (places,): scaled weight missing when the group was last looked at; positive.
    need: Longs
    #: int64 (places,): weight inside of the log's events that the group was held against, if `is_whole`.
    held: Longs
    #: int32 (places,): slot of the subscription; -1 at a free place.
    slot: Ints
    #: float64 (groups, sides * GROUP): on each side the members' bounds, ascending, as last fitted,
    sorted_bounds: Floats
    #: uint8 (groups, sides * GROUP): and where among them each member's own is.
    bound_ranks: Bytes
    #: float64 (sides, groups): the cover, smallest of the bounds.
    cover: Floats
    #: float64 (sides, groups): the core, largest of the bounds; the core may be empty.
    core: Floats
    #: int64 (groups,): smallest need of the members, or less.
    slack: Longs
    #: int64 (groups,): the clock before which no member can mature.
    due: Longs
    #: int64 (groups,): halfway there. From here on it is checked along with others that are due.
    ripe: Longs
    #: int64 (groups,): events of the log that the members have been held against.
    since: Longs
    #: bool (groups,): no member came after the log began.
    is_whole: Bools
    #: int64 (groups,): what `grid_weight` gave for the cover when the group was last looked at.
    base: Longs
    #: int32 (4, groups): first and last grid cell of the cover, on the first and on the second axis.
    cover_cells: Ints
    #: float64 (2, GRID - 1): where grid cells begin, ascending; a cell holds its begin.
    grid_edges: Floats
    #: int64 (GRID, GRID): weight by cell of the first GRIDDED events of the log.
    grid_weights: Longs
    #: int64 (GRID + 1, GRID + 1): its sums from the origin.
    grid_sums: Longs


class LookRoom(NamedTuple):
    """Room that looks work in."""

    #: int32 (events,): events that matter, and those outside of some members on one side only, with the side.
    events: Ints
    singles: Ints
    single_sides: Ints
    #: float64 (axes, events): where the events of the batch are that matter, and their weights.
    near_values: Floats
    near_weights: Longs
    #: float64 (sides,): of a group, its core; of a member, its bound.
    core: Floats
    bound: Floats
    #: bool (GROUP,): which members hold an event.
    is_inside: Bools
    #: int64 (sides, GROUP + 1): weight that the first so many hold in the order of a bound, 0 between looks.
    gains: Longs
    #: int64 (GROUP,): weight that each member holds.
    sums: Longs
