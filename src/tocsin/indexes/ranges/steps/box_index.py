"""What the indexes of boxes over the rows of one table have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Arrays, Ints
from tocsin.indexes.contract import RowDelta
from tocsin.indexes.ranges.steps.bounds import RangeBounds
from tocsin.indexes.ranges.steps.regions import Layout
from tocsin.indexes.ranges.steps.rows import Rows


class BoxIndex(ABC):
    """Subscriptions that are boxes, and the rows; how rows change answers is the subclass's."""

    def __init__(self, layout: Layout, bounds: RangeBounds, rows: Rows) -> None:
        self._layout = layout
        self._bounds = bounds
        self._rows = rows

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions: `lo`, `hi` (n, dimensions), `region` (n, 3). Cost: see `RangeBounds.put`."""
        self._bounds.put(slots, *self._layout.bounds(values))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: constant each, amortised."""
        self._bounds.clear(slots)

    @abstractmethod
    def apply(self, delta: RowDelta) -> ChangeSet:
        """Apply a delta; returns what it changes."""

    def follow(self, delta: RowDelta) -> None:
        """Apply a delta without reporting changes. Cost: as `apply`."""
        self.apply(delta)

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with. Cost: constant."""
        return self._layout.parameters(self._bounds.boxes, slot)

    def arrays(self) -> Arrays:
        return {**self._bounds.arrays(self._layout.given), **self._rows.arrays()}

    def restore(self, arrays: Arrays) -> None:
        self._bounds.restore(arrays)
        self._rows.restore(arrays)

    def check_invariants(self) -> None:
        self._bounds.check_invariants()
        self._rows.check_invariants()
