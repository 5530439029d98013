"""What the engine keeps preferences by: a scan while they are few, views once they are many."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints, RowDelta
from tocsin.indexes.shared.programs import Program
from tocsin.indexes.windows.scan import PreferenceScan
from tocsin.indexes.windows.views import PreferenceViews
from tocsin.indexes.windows.views_grid import CELLS

#: Subscriptions from which on views are faster. Measured over 100,000 rows: in batches of 100 and of 5,000
#: they are, from 64 on; of rows one by one a scan is as fast up to 4,000.
MANY = 64


class AdaptivePreference:
    """The k best rows by a score program, of a window or of a table that is updated.

    Takes what `PreferenceScan` takes. Scan and views have the same arrays, so that one becomes the other by
    being restored from them.
    """

    def __init__(
        self,
        dimensions: int,
        program: Program,
        *,
        descending: bool,
        newest_first: bool,
        capacity: int = 16,
        many: int = MANY,
        cells: int = CELLS,
    ) -> None:
        self._dimensions = dimensions
        self._program = program
        self._descending = descending
        self._newest_first = newest_first
        self._capacity = capacity
        self._many = many
        self._cells = cells
        self._count = 0
        self._index: PreferenceScan | PreferenceViews = self._new(is_many=False)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions and rank what is there. Cost: see the index in use."""
        self._count += len(slots)
        if self._count >= self._many and isinstance(self._index, PreferenceScan):
            self._become(self._index.arrays(), is_many=True)
        self._index.register(slots, values)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: see the index in use."""
        self._index.terminate(slots)
        self._count -= len(slots)
        if isinstance(self._index, PreferenceViews) and 4 * self._count < self._many:
            self._become(self._index.arrays(), is_many=False)

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        return self._index.parameters(slot)

    def apply(self, delta: RowDelta) -> ChangeSet:
        """Take the delta's steps and report what they change. Cost: see the index in use."""
        return self._index.apply(delta)

    def result(self, slots: Ints) -> ChangeSet:
        """The answers, by rank. Cost: their length."""
        return self._index.result(slots)

    def arrays(self) -> Arrays:
        """Subscriptions with their lists, and rows: either index can be restored from it. Cost: linear."""
        return {**self._index.arrays(), "is_many": np.array([isinstance(self._index, PreferenceViews)])}

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: see the index in use."""
        self._count = len(arrays["slots"])
        self._become(arrays, is_many=bool(arrays["is_many"][0]))

    def check_invariants(self) -> None:
        """Assert that all columns agree, and that the index in use is one for so many subscriptions."""
        self._index.check_invariants()
        assert self._count == len(self._index.arrays()["slots"])
        if isinstance(self._index, PreferenceViews):
            assert 4 * self._count >= self._many
        else:
            assert self._count < self._many

    def explain(self) -> str:
        """One line: which index this is, how it works, and why it was chosen."""
        why = f"{self._count:,} subscriptions; views are faster from {self._many:,} on"
        return f"{self._index.explain()} ({why})"

    def _new(self, *, is_many: bool) -> PreferenceScan | PreferenceViews:
        make = partial(PreferenceViews, cells=self._cells) if is_many else PreferenceScan
        return make(
            self._dimensions,
            self._program,
            descending=self._descending,
            newest_first=self._newest_first,
            capacity=self._capacity,
        )

    def _become(self, arrays: Arrays, *, is_many: bool) -> None:
        """Go over to an index. Cost: as to restore it."""
        self._index = self._new(is_many=is_many)
        self._index.restore(arrays)
