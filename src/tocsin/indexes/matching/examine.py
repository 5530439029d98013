"""Why a conjunction does or does not match an event, predicate by predicate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.indexes.matching.conjunctions import Conjunctions
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import BOOLEAN, PRODUCT, SCORES, TEXT, IdOrder
from tocsin.indexes.matching.scan.index import MatchScan
from tocsin.indexes.matching.score_kernels import add_term
from tocsin.indexes.matching.sets import EventSets


class ExaminedPredicate(NamedTuple):
    """One predicate, evaluated on one event."""

    attribute: str
    #: what the predicate requires, in words
    condition: str
    #: the event's value, in words; None if it has none
    value: str | None
    holds: bool
    #: of the predicate, and of the event's attribute
    weight: float
    event_weight: float


def examine(one: Conjunctions, events: Events | EventSets) -> list[ExaminedPredicate]:
    """Each predicate of one conjunction against the first of `events`. Cost: linear in both."""
    if isinstance(events, EventSets):
        return _examine_plain(one, events.plain, int(np.count_nonzero(events.owner == 0)))
    return _examine_plain(one, events, 1)


def _examine_plain(one: Conjunctions, events: Events, count: int) -> list[ExaminedPredicate]:
    """The first `count` plain events are one event, each with some of its values."""
    described = one.describe(0)
    # Each predicate as a conjunction of its own: those that hold are those that the scan matches.
    scan = MatchScan()
    slots = np.arange(len(described), dtype=np.int32)
    scan.register(slots, one._replace(counts=np.ones(len(described), np.int32)))
    no_ids = IdOrder(np.zeros(0, np.uint8), np.zeros(0, np.int64), slots[:0], slots)
    found = scan.apply(events, None, no_ids)
    holds = set(found.subscription[found.step < count].tolist())
    entries: dict[str, list[int]] = {}
    for entry in range(int(events.offsets[count])):
        entries.setdefault(events.names[events.attribute[entry]], []).append(entry)
    examined = []
    for number, (attribute, condition, weight) in enumerate(described):
        mine = entries.get(attribute, [])
        value = ", ".join(dict.fromkeys(_value(events, entry) for entry in mine)) or None
        event_weight = float(events.weight[mine[0]]) if mine else 1.0
        examined.append(ExaminedPredicate(attribute, condition, value, number in holds, weight, event_weight))
    return examined


def score_of(examined: list[ExaminedPredicate], score_rule: str) -> float | None:
    """The score of the match, a `sum` … `product`; None if some predicate does not hold."""
    kind = SCORES[score_rule]
    total = 1.0 if kind == PRODUCT else 0.0
    for number, one in enumerate(examined):
        total = float(add_term(total, one.weight * one.event_weight, np.int64(number), kind))
    return total if all(one.holds for one in examined) else None


def verdict(examined: list[ExaminedPredicate], score_rule: str = "sum") -> str:
    """The result in words: one line for the outcome, and one for each predicate."""
    total, n_held = score_of(examined, score_rule), sum(one.holds for one in examined)
    if total is None:
        lines = [f"event: no match, {n_held} of {len(examined)} predicates hold"]
    else:
        how = "" if score_rule == "sum" else f", the {score_rule} of weights"
        lines = [f"event: match, score {total}{how}"]
    for number, one in enumerate(examined, start=1):
        value = "the event has none" if one.value is None else f"the event has {one.value}"
        outcome = "holds" if one.holds else "fails"
        weights = f"weight {one.weight}"
        if one.event_weight != 1.0:
            weights += f" × {one.event_weight} of the event"
        lines.append(f"  {number}: {one.attribute} {one.condition}: {outcome}, {value}; {weights}")
    return "\n".join(lines)


def _value(events: Events, entry: int) -> str:
    kind, low, high = int(events.kind[entry]), float(events.low[entry]), float(events.high[entry])
    if kind == TEXT:
        start = int(events.text_start[entry])
        return repr(events.heap[start : start + int(events.text_length[entry])].tobytes().decode())
    if kind == BOOLEAN:
        return str(bool(low))
    return str(low) if low == high else f"from {low} to {high}"
