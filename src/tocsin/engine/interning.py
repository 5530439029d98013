"""Values as small integers, for shapes that compare values rather than order them: DISTINCT and joins."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine.arrow import one_array
from tocsin.engine.text import text_of
from tocsin.indexes.contract import Arrays, Floats, Ints, Longs
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
            released = np.unique(np.concatenate(self._released))
            self._released = []
            self._names.remove(released[self._uses[released] == 0])

    def text(self, codes: np.ndarray) -> pa.Array:
        """The values of codes, as text."""
        return one_array(self._names.gather(codes))

    def _codes(self, column: pa.Array, change: int) -> Floats:
        present = np.asarray(pc.invert(pc.is_null(column, nan_is_null=True)), np.bool_)
        codes = np.full(len(column), np.nan)
        if present.any():
            slots, _ = self._names.add(text_of(column.filter(pa.array(present))))
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
