"""Room for changes that is kept between calls: the system takes its time to hand out memory."""

from __future__ import annotations

from tocsin.indexes.contract import ChangeSet
from tocsin.indexes.ranges.changes import empty_buffer
from tocsin.indexes.shared.columns import grown

#: Changes that a buffer keeps room for: 30 MB.
KEPT = 1 << 20

_NOTHING = ChangeSet.empty()


class Buffer:
    """Columns of changes that a kernel writes; all of one length."""

    def __init__(self, capacity: int) -> None:
        self.columns = empty_buffer(capacity)

    def grow(self) -> None:
        """Twice the room, with what was written. Cost: linear, amortised constant a change."""
        self.columns = ChangeSet._make(grown(column, 2 * len(column)) for column in self.columns)

    def take(self, count: int) -> ChangeSet:
        """The first `count` changes, copied; a large buffer is given away instead."""
        if not count:
            return _NOTHING
        changes = ChangeSet._make(column[:count] for column in self.columns)
        if count > KEPT:
            self.columns = empty_buffer(len(self.columns.step))
            return changes
        return ChangeSet._make(column.copy() for column in changes)
