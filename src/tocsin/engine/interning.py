"""Value interning, for groups that test values for equality: DISTINCT and joins."""

from __future__ import annotations

from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.texts import AnyStrings
from tocsin.arrays.types import Arrays, Bools, Floats, Ints, Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.floats import numbers_of
from tocsin.engine.conversion.text import key_texts, key_texts_of_list

#: Values of a column; Python values only if none is a time.
Values: TypeAlias = "pa.Array[Any] | list[Any]"


class ValueInterner:
    """Reference-counted dictionary encoding: equal values share a code while any row holds them."""

    def __init__(self) -> None:
        self._names = StringInterner()
        #: int64 by code: number of rows that hold the value
        self._uses: Longs = np.zeros(16, np.int64)
        self._released: list[Ints] = []

    def __len__(self) -> int:
        """The number of values that have a code."""
        return len(self._names)

    def acquire(self, column: Values) -> Floats:
        """A code for each value, NaN for NULL and NaN; each counts as one use."""
        return self._codes(column, 1)

    def release(self, column: Values) -> Floats:
        """The codes of values acquired before; each drops one use. `free_unused` frees the codes."""
        return self._codes(column, -1)

    def find(self, column: Values) -> Floats:
        """The code of each value, NaN for NULL, NaN and values without one. No uses are counted."""
        names, present = _list_texts(column) if isinstance(column, list) else _column_texts(column)
        codes = np.full(len(column), np.nan)
        slots = self._names.find(names)
        codes[present] = np.where(slots < 0, np.nan, slots)
        return codes

    def release_codes(self, codes: Ints) -> None:
        """Drop one use of each code."""
        np.add.at(self._uses, codes, -1)
        self._released.append(codes)

    def free_unused(self) -> None:
        """Free the codes without uses. Cost: linear in the codes released since the last call."""
        if self._released:
            released = np.concatenate(self._released)
            self._released = []
            unused = released[self._uses[released] == 0]
            if len(unused):
                self._names.remove(np.unique(unused))

    def text(self, codes: np.ndarray) -> pa.Array:
        """The values of codes, as text."""
        return one_array(self._names.gather(codes))

    def texts(self) -> pa.Array:
        """All values that have a code, as text. Cost: linear."""
        return self.text(np.flatnonzero(self._uses[: self._names.top] > 0))

    def text_of(self, code: int) -> str:
        """The value of one code, as text."""
        return self._names.text(code)

    def _codes(self, column: Values, change: int) -> Floats:
        codes = np.full(len(column), np.nan)
        names, present = _list_texts(column) if isinstance(column, list) else _column_texts(column)
        if len(names):
            slots, _ = self._names.add(names)
            self._uses = ensure_capacity(self._uses, self._names.top)
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


def _list_texts(values: list[Any]) -> tuple[AnyStrings, Bools]:
    """The texts of the values other than NULL and NaN, and which those are."""
    present = [value is not None and value == value for value in values]
    return key_texts_of_list(list(compress(values, present))), np.array(present, np.bool_)


def _column_texts(column: pa.Array) -> tuple[AnyStrings, Bools]:
    """As `_list_texts`, of a column."""
    if pa.types.is_floating(column.type):
        present = ~np.isnan(numbers_of(column))
    else:
        present = np.asarray(column.is_valid(), np.bool_)
    return key_texts(column if present.all() else column.filter(pa.array(present))), present
