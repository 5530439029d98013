"""Columns of long top-k lists, of the images of a step, and of the changes emitted."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.layout import Column
from tocsin.arrays.types import Bools, Floats, Ints, Longs
from tocsin.kernels.scoring import Program
from tocsin.kernels.status import OWN

#: Size of the cursor: STEP, AT is the current list, N_OUT.
CURSOR_SIZE = OWN
#: The tie of an open floor: larger than any insertion number.
OPEN = (1 << 63) - 1


class LongListRanking(NamedTuple):
    """How the lists rank rows: ascending keys, then ascending ties."""

    program: Program
    #: where the columns of the score begin, after those of the box and of the region
    first_column: int
    #: NO_REGION, or its kind
    region: int
    #: -1.0 where large scores come first, else 1.0
    key_sign: float
    #: -1 where newer rows win ties, else 1
    tie_sign: int


class LongListColumns(NamedTuple):
    """Subscriptions and their lists, in any order without gaps."""

    #: subscription slot, and rows in the answer, at most
    slot: Annotated[Ints, Column("lists")]
    k: Annotated[Longs, Column("lists")]
    #: closed bounds of the boxes
    lo: Annotated[Floats, Column("dimensions", "lists")]
    hi: Annotated[Floats, Column("dimensions", "lists")]
    #: parameters of the score
    theta: Annotated[Floats, Column("thetas", "lists")]
    #: parameters of the region, zeros if there is none
    region: Annotated[Floats, Column(3, "lists")]
    #: the last row that the list may hold; infinite and OPEN if any
    floor: Annotated[Floats, Column("lists")]
    floor_tie: Annotated[Longs, Column("lists")]
    #: root node, -1 for an empty list
    top: Annotated[Ints, Column("lists", fill=-1)]


class ListImages(NamedTuple):
    """Pre-images or post-images of a step's rows. A row that is in no image is skipped."""

    #: float64 (columns, entries)
    values: Floats
    #: int64 (entries,)
    born: Longs
    #: bool (entries,)
    is_there: Bools
    #: float64 (entries,): scratch, the key in the current list
    key: Floats
    #: bool (entries,): scratch, whether the current list holds it
    is_inside: Bools
    #: int64 (entries,): scratch, its place in that list
    place: Longs


class EmittedChanges(NamedTuple):
    """Changes, and the keys and ties that order those of one step, list and op."""

    changes: ChangeSet
    #: float64 (capacity,), int64 (capacity,)
    key: Floats
    tie: Longs
