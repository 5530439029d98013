"""What kernels of this room report into, and the changes that come of it."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import MATCH, ChangeSet, Floats, Ints
from tocsin.indexes.matching.common_kernels import N_ROWS, Best, Matches
from tocsin.indexes.shared.columns import grown

#: From so many rows on, to write a column takes longer than to have one number stand for it.
MANY = 1 << 12
NOBODY = np.int32(-1)


def empty_report(rows: int) -> Matches:
    """Room for `rows` matches, none of them written yet."""
    # Together: the system gives larger pages to larger arrays, and new pages are a good part of the cost.
    step, subscription, rank = np.empty((3, rows), np.int32)
    return Matches(
        step=step,
        subscription=subscription,
        score=np.empty(rows, np.float64),
        rank=rank,
        progress=np.zeros(4, np.int64),
    )


def grown_report(out: Matches, more: int) -> Matches:
    """The report with room for `more` rows. Cost: amortised constant a row."""
    rows = int(out.progress[N_ROWS]) + more
    return Matches(
        step=grown(out.step, rows),
        subscription=grown(out.subscription, rows),
        score=grown(out.score, rows),
        rank=grown(out.rank, rows),
        progress=out.progress,
    )


def empty_best(events: int, top: int) -> Best:
    """No matches yet of that many events."""
    return Best(
        score=np.empty((events, top)),
        slot=np.empty((events, top), np.int32),
        size=np.zeros(events, np.int64),
    )


def changes_of(step: Ints, subscription: Ints, score: Floats, rank: Ints | None) -> ChangeSet:
    """Matches as changes; without ranks, all matches were asked for."""
    return ChangeSet(
        step=step,
        subscription=subscription,
        op=np.full(len(step), MATCH, np.int8),
        row=step,
        # Nobody reads it here: of many, one number stands for all.
        other=np.full(len(step), -1, np.int32) if len(step) < MANY else np.broadcast_to(NOBODY, len(step)),
        score=score,
        rank=np.zeros(len(step), np.int32) if rank is None else rank,
    )
