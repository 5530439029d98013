"""What emits the messages of a subscription space."""

from __future__ import annotations

from tocsin.indexes.ranges.messages.distinct import DistinctMessages
from tocsin.indexes.ranges.messages.painters.batch import PaintBatch
from tocsin.indexes.ranges.messages.painters.dense import PaintDense
from tocsin.indexes.ranges.messages.painters.minmax import MinMaxBatch, MinMaxDense, MinMaxSparse
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.indexes.ranges.messages.reformulators import Painters, RankedMessages

#: Painters of top-k.
RANKED = Painters(
    batch=lambda k, epsilon, down, size: PaintBatch(k, descending=down, capacity=size),
    sparse=lambda k, epsilon, down, size: PaintSparse(k, epsilon=epsilon, descending=down, capacity=size),
    dense=lambda k, epsilon, down, size: PaintDense(k, epsilon=epsilon, descending=down, capacity=size),
)
#: Painters of MIN and MAX: a message states a range's whole answer.
EXTREMES = Painters(
    batch=lambda k, epsilon, down, size: MinMaxBatch(descending=down, capacity=size),
    sparse=lambda k, epsilon, down, size: MinMaxSparse(descending=down, capacity=size),
    dense=lambda k, epsilon, down, size: MinMaxDense(descending=down, capacity=size),
)


def make_ranked_messages(k: int, *, is_extreme: bool, descending: bool) -> RankedMessages:
    """Empty state of a space of top-k, or of MIN or MAX."""
    return RankedMessages(k, EXTREMES if is_extreme else RANKED, descending=descending)


def make_distinct_messages() -> DistinctMessages:
    """Empty state of a space of DISTINCT."""
    return DistinctMessages()
