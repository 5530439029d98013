"""What all threshold indexes report: maturities, as kernels write them."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.arrays.layout import Column
from tocsin.arrays.types import Ints, Longs

#: The largest int64.
LARGEST = 0x7FFFFFFFFFFFFFFF


class Maturities(NamedTuple):
    """Output: one row each time that a subscription matures."""

    #: position of the event that crossed.
    step: Annotated[Ints, Column("rows", fill=None)]
    #: slot of the subscription.
    subscription: Annotated[Ints, Column("rows", fill=None)]
    #: the scaled weight reached; the sum of two int64 always fits.
    reached: Annotated[NDArray[np.uint64], Column("rows", fill=None)]
    #: rows written.
    n_rows: Annotated[Longs, Column(1)]
