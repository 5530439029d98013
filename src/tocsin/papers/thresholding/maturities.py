"""The output and the cursor of the counting kernels."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.types import Ints

Counts: TypeAlias = NDArray[np.uint64]

#: Places of the cursor: the current event, the nodes or queries that it made due, how many of these are done,
#: and rows written.
EVENT, N_DUE, N_DONE, N_ROWS = 0, 1, 2, 3


class MaturityRows(NamedTuple):
    """One row each time that a query matures."""

    #: int32: position of the event that crossed.
    event: Ints
    #: int32: the query.
    query: Ints
    #: uint64: the weight reached; the sum of two int64 always fits.
    reached: Counts
