"""What a grove's kernel reports into, and how it is called again when that is full."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.indexes.contract import Ints

Counts: TypeAlias = NDArray[np.uint64]

#: What a counting kernel answers.
DONE = 0
FULL = 1

#: Places of a cursor: the event under way, what it made due, how much of that is done, rows written.
EVENT, N_DUE, N_DONE, N_ROWS = 0, 1, 2, 3


class Crossings(NamedTuple):
    """One row each time that a query matures."""

    #: int32: position of the event that crossed.
    event: Ints
    #: int32: the query.
    query: Ints
    #: uint64: the weight reached; the sum of two int64 always fits.
    reached: Counts
