"""Values as small integers, for shapes that compare values rather than order them: DISTINCT and joins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.engine.arrow import one_array
from tocsin.engine.floats import numbers_of
from tocsin.engine.text import names_of
from tocsin.indexes.contract import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.names import Names


class Interner:
    """Gives equal values one code while any row holds them."""

    def __init__(self) -> None:
        self._names = Names()
        #: int64 by code: how many rows hold the value
        self._uses: Longs = np.zeros(16, np.int64)
        self._released: list[Ints] = []

    def acquire(self, column: pa.Array) -> Floats:
        """A code for each value, NaN for NULL and NaN; each counts as one use."""
        return self._codes(column, 1)

    def release(self, column: pa.Array) -> Floats:
        """The codes of values acquired before; each counts as one use less. `forget` frees unused codes."""
        return self._codes(column, -1)

    def forget(self) -> None:
        """Free the codes that no row uses any more. Cost: linear in the codes released since."""
        if self._released:
            released = np.concatenate(self._released)
            self._released = []
            unused = released[self._uses[released] == 0]
            if len(unused):
                self._names.remove(np.unique(unused))

    def text(self, codes: np.ndarray) -> pa.Array:
        """The values of codes, as text."""
        return one_array(self._names.gather(codes))

    def _codes(self, column: pa.Array, change: int) -> Floats:
        codes = np.full(len(column), np.nan)
        present = _present(column)
        if present.any():
            held = column if present.all() else column.filter(pa.array(present))
            slots, _ = self._names.add(names_of(held))
            self._uses = grown(self._uses, self._names.top)
            np.add.at(self._uses, slots, change)
            if change < 0:
                self._released.append(slots)
            codes[present] = slots
        return codes

    def arrays(self) -> Arrays:
        return {"uses": self._uses[: self._names.top].copy(), **self._names.arrays()}

    def restore(self, arrays: Arrays) -> None:
        self._uses = arrays["uses"].astype(np.int64)
        self._names.restore({name: array for name, array in arrays.items() if name != "uses"})


def _present(column: pa.Array) -> Bools:
    """Which values are neither NULL nor NaN."""
    if column.null_count in (0, len(column)) and not pa.types.is_floating(column.type):
        return np.full(len(column), column.null_count == 0)
    if pa.types.is_floating(column.type):
        return ~np.isnan(numbers_of(column))
    return np.asarray(column.is_valid(), np.bool_)
