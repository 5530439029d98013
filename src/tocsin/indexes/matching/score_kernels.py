"""Scores of matches: the combination of predicates' weights, and heaps of the best matches of an event."""

from __future__ import annotations

import numpy as np

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.strings_kernels import Whole, compare_interned
from tocsin.arrays.types import Floats, Ints
from tocsin.indexes.matching.layout import (
    MAX,
    N_ROWS,
    PRODUCT,
    SUM,
    IdOrder,
    Matches,
    MatchHeaps,
)


@lean_kernel
def add_term(score: float, term: float, number: Whole, kind: Whole) -> float:
    """The score with one more predicate: `term` is its weight times the event's, `number` its position.

    Without predicates, a product is 1 and all others 0.
    """
    if kind == SUM:
        return score + term
    if kind == PRODUCT:
        return score * term
    if number == 0:
        return term
    return max(score, term) if kind == MAX else min(score, term)


@lean_kernel
def ranks_before(score: float, slot: Whole, other_score: float, other: Whole, ids: IdOrder) -> bool:
    """Whether the first match is better: a higher score, or the same and a smaller id."""
    if score != other_score:
        return score > other_score
    name, other_name = np.int64(ids.owner[slot]), np.int64(ids.owner[other])
    return compare_interned(ids.heap, ids.starts, ids.lengths, name, other_name) < 0


@lean_kernel
def sink_worst(scores: Floats, slots: Ints, size: Whole, ids: IdOrder) -> None:
    """Move the root of a heap down to where no child is worse.

    Not `kernels.heap`: ties are decided by the text of ids, which it does not know.
    """
    place = 0
    while True:
        worst = place
        for child in range(2 * place + 1, min(2 * place + 3, size)):
            if ranks_before(
                scores[worst], np.int64(slots[worst]), scores[child], np.int64(slots[child]), ids
            ):
                worst = child
        if worst == place:
            return
        scores[place], scores[worst] = scores[worst], scores[place]
        slots[place], slots[worst] = slots[worst], slots[place]
        place = worst


@lean_kernel
def offer_match(best: MatchHeaps, event: Whole, slot: Whole, score: float, ids: IdOrder) -> None:
    """Insert a match if it is among the best of its event so far."""
    scores, slots = best.score[event], best.slot[event]
    size = best.size[event]
    if size == scores.shape[0]:
        if ranks_before(score, slot, scores[0], np.int64(slots[0]), ids):
            scores[0], slots[0] = score, slot
            sink_worst(scores, slots, size, ids)
        return
    place = size
    scores[place], slots[place] = score, slot
    best.size[event] += 1
    while place > 0:
        parent = (place - 1) // 2
        if not ranks_before(scores[parent], np.int64(slots[parent]), score, slot, ids):
            return
        scores[place], slots[place] = scores[parent], slots[parent]
        scores[parent], slots[parent] = score, slot
        place = parent


@lean_kernel
def report_best(best: MatchHeaps, event: int, step: Whole, ids: IdOrder, out: Matches) -> None:
    """Empty an event's heap into the report, the worst into the last place first."""
    scores, slots = best.score[event], best.slot[event]
    size = best.size[event]
    base = out.progress[N_ROWS]
    out.progress[N_ROWS] += size
    while size > 0:
        row = base + size - 1
        out.step[row] = step
        out.subscription[row] = slots[0]
        out.score[row] = scores[0]
        out.rank[row] = size
        size -= 1
        scores[0], slots[0] = scores[size], slots[size]
        sink_worst(scores, slots, size, ids)
    best.size[event] = 0
