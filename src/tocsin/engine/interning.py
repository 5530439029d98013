"""Values as small integers, for shapes that compare values rather than order them: DISTINCT and joins."""

from __future__ import annotations

from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.engine.arrow import one_array
from tocsin.engine.floats import numbers_of
from tocsin.engine.text import few_names, names_of
from tocsin.indexes.contract import Arrays, Bools, Floats, Ints, Longs
from tocsin.indexes.shared.columns import grown
from tocsin.indexes.shared.names import Names
from tocsin.indexes.shared.texts import AnyStrings

#: Values of a column: as Python's values only if none is a time.
Values: TypeAlias = "pa.Array[Any] | list[Any]"


class Interner:
    """Gives equal values one code while any row holds them."""

    def __init__(self) -> None:
        self._names = Names()
        #: int64 by code: how many rows hold the value
        self._uses: Longs = np.zeros(16, np.int64)
        self._released: list[Ints] = []

    def acquire(self, column: Values) -> Floats:
        """A code for each value, NaN for NULL and NaN; each counts as one use."""
        return self._codes(column, 1)

    def release(self, column: Values) -> Floats:
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

    def _codes(self, column: Values, change: int) -> Floats:
        codes = np.full(len(column), np.nan)
        names, present = _few_names(column) if isinstance(column, list) else _names(column)
        if len(names):
            slots, _ = self._names.add(names)
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


def _few_names(values: list[Any]) -> tuple[AnyStrings, Bools]:
    """The texts of values that are neither NULL nor NaN, and which these are."""
    present = [value is not None and value == value for value in values]
    return few_names(list(compress(values, present))), np.array(present, np.bool_)


def _names(column: pa.Array) -> tuple[AnyStrings, Bools]:
    """As `_few_names`, of a column."""
    if pa.types.is_floating(column.type):
        present = ~np.isnan(numbers_of(column))
    else:
        present = np.asarray(column.is_valid(), np.bool_)
    return names_of(column if present.all() else column.filter(pa.array(present))), present
