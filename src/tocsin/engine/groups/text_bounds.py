"""What a group's subscriptions are bound to in text columns, as the codes that its index compares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.types import Arrays, Ints
from tocsin.engine.sources.text_columns import TextColumns
from tocsin.language import Plan
from tocsin.language.plan_keys import box_of

#: In place of a code: equal to two texts, and so to none.
_NEVER = -1


class BoundValues(NamedTuple):
    """Bound parameters of several subscriptions."""

    arrays: Arrays
    #: by text column, what each subscription is bound to, null for nothing
    texts: list[pa.Array]


class TextBounds:
    """Holds the codes that a group's subscriptions are bound to, and sets the bounds that its index gets."""

    def __init__(self, plan: Plan, texts: Mapping[str, TextColumns]) -> None:
        #: by dimension over a text column: its place, the source's text columns, and the column
        self._columns = [
            (place, texts[dimension.source], dimension.column)
            for place, dimension in enumerate(box_of(plan))
            if dimension.type.is_string
        ]
        #: int32 (local slots, text columns)
        self._codes: Ints = np.full((16 if self._columns else 0, len(self._columns)), _NEVER, np.int32)

    def open(self) -> None:
        """The group begins to read its sources."""
        for _, texts, name in self._columns:
            texts.open(name)

    def close(self) -> None:
        """The group has ended."""
        for _, texts, name in self._columns:
            texts.close(name)

    def register(self, slots: Ints, values: BoundValues) -> None:
        """Bind subscriptions to texts: set their `lo` and `hi`."""
        bounds = values.arrays
        if self._columns:
            self._codes = ensure_capacity(self._codes, int(slots.max(initial=-1)) + 1, _NEVER)
        for number, ((place, texts, name), wanted) in enumerate(
            zip(self._columns, values.texts, strict=True)
        ):
            codes = texts[name].acquire(wanted)
            is_never = np.isnan(codes)
            bounds["lo"][:, place] = np.where(is_never, np.inf, codes)
            bounds["hi"][:, place] = np.where(is_never, -np.inf, codes)
            self._codes[slots, number] = np.where(is_never, _NEVER, codes)

    def release(self, slots: Ints) -> None:
        """The subscriptions have ended."""
        for number, (_, texts, name) in enumerate(self._columns):
            codes = self._codes[slots, number]
            texts[name].release_codes(codes[codes != _NEVER])
            texts[name].free_unused()

    def shown(self, slot: int) -> dict[int, str]:
        """By dimension over a text column, what a subscription is bound to."""
        bound = {}
        for number, (place, texts, name) in enumerate(self._columns):
            code = int(self._codes[slot, number])
            bound[place] = "nothing" if code == _NEVER else repr(texts[name].text_of(code))
        return bound

    def arrays(self, top: int) -> Arrays:
        return {"texts": self._codes[:top].copy()} if self._columns else {}

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays`, the group's, was taken from."""
        if self._columns:
            self._codes = arrays["texts"].astype(np.int32)
