"""Events with several values of one attribute: a condition holds if one of the values satisfies it.

Such an event becomes plain ones, one for each combination of values, and matches what one of them matches.
That misses only conjunctions with several conditions on such an attribute, which different values may
satisfy: these are rechecked condition by condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product, zip_longest
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.types import Floats, Ints, Longs
from tocsin.errors import RowError
from tocsin.indexes.matching.conjunctions import Conjunctions
from tocsin.indexes.matching.events import Events, as_range, events_from_rows, is_several
from tocsin.indexes.matching.layout import IdOrder
from tocsin.indexes.matching.reports import changes_of
from tocsin.indexes.matching.scan.index import MatchScan

#: Plain events of one event, at most. Beyond, every condition of every conjunction is evaluated instead.
MAX_PLAIN_EVENTS = 1 << 12

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


class Matcher(Protocol):
    """An index of conjunctions of plain events."""

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet: ...

    def conjunctions(self, slots: Ints) -> Conjunctions: ...


def sets_from_rows(rows: Sequence[Mapping[str, Any]]) -> EventSets:
    """Read sparse rows as `events_from_rows` does; a list, a set or an array is several values.

    Cost: linear in the plain events, in Python.
    """
    plain: list[Mapping[str, Any]] = []
    owner: list[int] = []
    several: set[str] = set()
    is_whole = True
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RowError(
                f"row {number}: a sparse row must be a dict of attribute to value, got {type(row).__name__}"
            )
        values = {name: _values_of(number, name, value) for name, value in row.items() if is_several(value)}
        found, every = _choices(values)
        is_whole &= every
        several |= {name for name, some in values.items() if len(some) > 1}
        rest = {name: value for name, value in row.items() if name not in values}
        plain += [{**rest, **choice} for choice in found]
        owner += [number] * len(found)
    events = events_from_rows(plain, owner)
    return EventSets(events, np.array(owner, np.int32), len(rows), frozenset(several), is_whole)


def _values_of(row: int, name: str, value: Any) -> list[Any]:
    """The values of an attribute, each once."""
    given = [as_range(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    for item in given:
        if is_several(item) or isinstance(item, Mapping):
            raise RowError(
                f"row {row}, attribute {name!r}: a list must hold single values, got a {type(item).__name__}"
            )
    try:
        # True and 1 are two values.
        return list({(type(item), item): item for item in given if item is not None}.values())
    except TypeError:
        raise RowError(f"row {row}, attribute {name!r}: {value!r} is not a list of values") from None


def _choices(values: Mapping[str, list[Any]]) -> tuple[list[dict[str, Any]], bool]:
    """All combinations of values; if too many, some that contain each value. And whether these are all."""
    names = [name for name, some in values.items() if some]
    columns = [values[name] for name in names]
    if prod(map(len, columns)) <= MAX_PLAIN_EVENTS:
        return [dict(zip(names, chosen, strict=True)) for chosen in product(*columns)], True
    return [dict(zip(names, chosen, strict=True)) for chosen in zip_longest(*columns)], False


def match_sets(
    index: Matcher, rechecked: Ints, sets: EventSets, top: int | None, ids: IdOrder, score_rule: str
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
