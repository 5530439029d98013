"""Range top-k by Coalesce: of a batch, only the last event of each row is reformulated."""

from __future__ import annotations

from tocsin.indexes.ranges.messages.messages import Messages, RowEvents
from tocsin.indexes.ranges.messages.painters.batch import last_events
from tocsin.indexes.ranges.messages.painters.dense import PaintDense


class PaintCoalesce(PaintDense):
    """The baseline of Paint-Batch: the last event of each row in a batch, one at a time."""

    def _run(self, events: RowEvents) -> Messages:
        return super()._run(last_events(events))
