"""The types of the flat arrays that indexes, kernels and the engine exchange."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
Ops: TypeAlias = NDArray[np.int8]

#: State of an index or a source, by column name.
Arrays: TypeAlias = dict[str, np.ndarray]
