"""Events with several values of one attribute: a condition holds if one of the values satisfies it.

Such an event becomes plain ones, one for each combination of values, and matches what one of them matches.
That misses only conjunctions with several conditions on such an attribute, which different values may
satisfy: these are rechecked condition by condition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.indexes.contract import MatchIndex
from tocsin.indexes.matching.conjunctions import Conjunctions
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import IdOrder
from tocsin.indexes.matching.reports import changes_of
from tocsin.indexes.matching.scan.index import MatchScan

_REDUCE = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


class EventSets(NamedTuple):
    """Events, some of them with several values of an attribute, as plain ones."""

    plain: Events
    #: int32 (plain events,): the event that each comes from, ascending
    owner: Ints
    n_events: int
    #: attributes that have several values in some event
    several: frozenset[str]
    #: whether every combination has a plain event; each value is in one in any case
    is_whole: bool


def match_sets(
    index: MatchIndex, rechecked: Ints, sets: EventSets, top: int | None, ids: IdOrder, score_rule: str
) -> ChangeSet:
    """What `index` and the conjunctions at `rechecked`, condition by condition, match.

    Cost: that of the index for the plain events, and a scan of `rechecked`.
    """
    found = index.apply(sets.plain, None, ids)
    event, slot, scores = sets.owner[found.step], found.subscription, found.score
    if len(rechecked):
        more = _recheck(index.conjunctions(rechecked), rechecked, sets, score_rule)
        event, slot = np.concatenate([event, more[0]]), np.concatenate([slot, more[1]])
        scores = np.concatenate([scores, more[2]])
    pairs = event.astype(np.int64) * (int(slot.max(initial=0)) + 1) + slot
    once = np.unique(pairs, return_index=True)[1]
    event, slot, scores = event[once].astype(np.int32), slot[once].astype(np.int32), scores[once]
    if top is None:
        return changes_of(event, slot, scores, None)
    names = [_id_of(ids, each) for each in slot.tolist()]
    order = sorted(range(len(slot)), key=lambda at: (event[at], -scores[at], names[at]))
    ranked = np.array(order, np.int64)
    event, slot, scores = event[ranked], slot[ranked], scores[ranked]
    rank = np.arange(len(event)) - np.searchsorted(event, event) + 1
    is_best = rank <= top
    return changes_of(event[is_best], slot[is_best], scores[is_best], rank[is_best].astype(np.int32))


def _recheck(held: Conjunctions, slots: Ints, sets: EventSets, score_rule: str) -> tuple[Ints, Ints, Floats]:
    """Event, slot and score of each match, if a different value may satisfy each condition."""
    n_conditions = len(held.predicates)
    scan = MatchScan(score_rule=score_rule)
    conditions = np.arange(n_conditions, dtype=np.int32)
    scan.register(conditions, held._replace(counts=np.ones(n_conditions, np.int32)))
    no_ids = IdOrder(np.zeros(0, np.uint8), np.zeros(0, np.int64), conditions[:0], conditions)
    found = scan.apply(sets.plain, None, no_ids)
    pairs: Longs = sets.owner[found.step].astype(np.int64) * n_conditions + found.subscription
    pairs, once = np.unique(pairs, return_index=True)
    event, condition = np.divmod(pairs, max(n_conditions, 1))
    conjunction = np.repeat(np.arange(len(slots)), held.counts)[condition]
    starts = np.flatnonzero(np.diff(event * len(slots) + conjunction, prepend=-1))
    n_held = np.diff(np.append(starts, len(pairs)))
    is_match = n_held == held.counts[conjunction[starts]]
    # A condition alone scores its term of the conjunction's score.
    scores = _REDUCE[score_rule].reduceat(found.score[once], starts) if len(starts) else np.zeros(0)
    at = starts[is_match]
    return event[at].astype(np.int32), slots[conjunction[at]], scores[is_match]


def _id_of(ids: IdOrder, slot: int) -> bytes:
    owner = ids.owner[slot]
    start = int(ids.starts[owner])
    return bytes(ids.heap[start : start + int(ids.lengths[owner])].tobytes())
