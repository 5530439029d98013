"""Boolean expressions over events with several values, by an index of events with one value an attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.types import Arrays, Bools, Ints
from tocsin.indexes.contract import MatchIndex
from tocsin.indexes.matching.conjunctions import Conjunctions, PredicateColumns, conjunctions_of
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.layout import KINDS, IdOrder
from tocsin.indexes.matching.sets import EventSets, match_sets


class EventMatcher:
    """Conjunctions of weighted predicates: finds, for each event, those that it satisfies.

    `index` finds them for events with one value an attribute. With several, a predicate holds if one of the
    values satisfies it.
    """

    def __init__(self, index: MatchIndex, score_rule: str = "sum") -> None:
        """`score_rule` is `sum`, `max`, `min` or `product`: how the weights of predicates combine."""
        self._index = index
        self._score_rule = score_rule
        #: attributes of all conjunctions, also of terminated ones
        self._attributes: set[str] = set()
        #: whether some of them may have been terminated
        self._has_terminated = False
        #: bool by slot: the slot has a subscription
        self._is_live: Bools = np.zeros(16, np.bool_)
        #: by attribute, bool by slot: the conjunction has several conditions on it
        self._repeated: dict[str, Bools] = {}

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions. Cost: that of the index."""
        held = conjunctions_of(predicates, len(slots))
        self._record_attributes(slots, held)
        self._index.register(slots, held)

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: that of the index."""
        self._index.terminate(slots)
        self._has_terminated = True
        self._is_live[slots] = False
        for flags in self._repeated.values():
            flags[slots[slots < len(flags)]] = False

    def asks(self, attribute: str) -> bool:
        """Whether some conjunction, perhaps a terminated one, has a predicate on an attribute."""
        return attribute in self._attributes

    def forget_terminated(self) -> bool:
        """From now on `asks` does not count conjunctions terminated so far; whether there were any.

        Cost: linear in all conjunctions, if there were.
        """
        had_terminated, self._has_terminated = self._has_terminated, False
        if had_terminated:
            held = self._index.conjunctions(np.flatnonzero(self._is_live).astype(np.int32))
            self._attributes = {held.names[number] for number in np.unique(_attribute(held)).tolist()}
        return had_terminated

    def slots_asking(self, refused: Callable[[str], bool]) -> Ints:
        """The subscriptions with a predicate on an attribute that is refused. Cost: linear in all of them."""
        slots = np.flatnonzero(self._is_live).astype(np.int32)
        held = self._index.conjunctions(slots)
        is_refused = np.array([refused(name) for name in held.names], np.bool_)
        owner = np.repeat(np.arange(len(slots)), held.counts)
        return slots[np.unique(owner[is_refused[_attribute(held)]])]

    def apply(self, events: Events | EventSets, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank.

        Cost: that of the index; of events with several values, also a scan of conjunctions that repeat an
        attribute.
        """
        if isinstance(events, EventSets):
            return match_sets(self._index, self._rechecked(events), events, top, ids, self._score_rule)
        return self._index.apply(events, top, ids)

    def result(self, slots: Ints) -> ChangeSet:
        """Nothing: a stream without a window holds no rows."""
        return self._index.result(slots)

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """The conjunctions of subscriptions. Cost: that of the index."""
        return self._index.conjunctions(slots)

    def arrays(self) -> Arrays:
        return self._index.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` was taken from. Cost: that of the index."""
        self._index.restore(arrays)
        self._attributes, self._repeated = set(), {}
        self._is_live = np.zeros(16, np.bool_)
        slots = self._index.live()
        self._record_attributes(slots, self._index.conjunctions(slots))

    def check_invariants(self) -> None:
        self._index.check_invariants()
        for flags in self._repeated.values():
            assert not (flags & ~self._is_live[: len(flags)]).any()

    def parameters(self, slot: int) -> dict[str, object]:
        """The predicates that a subscription was registered with, in words. Cost: linear in them."""
        return self._index.parameters(slot)

    def explain(self) -> str:
        return f"{self._index.explain()}; a score is the {self._score_rule} of weights"

    def _record_attributes(self, slots: Ints, held: Conjunctions) -> None:
        """Record which attributes have predicates, and which have several in one conjunction."""
        top = int(slots.max(initial=-1)) + 1
        self._is_live = ensure_capacity(self._is_live, top, False)
        self._is_live[slots] = True
        self._attributes.update(held.names)
        attribute = _attribute(held)
        pairs = np.sort(np.repeat(np.arange(len(slots)), held.counts) * len(held.names) + attribute)
        place, number = np.divmod(np.unique(pairs[1:][pairs[1:] == pairs[:-1]]), max(len(held.names), 1))
        for each in np.unique(number).tolist():
            name = held.names[each]
            flags = ensure_capacity(
                self._repeated.get(name, np.zeros(0, np.bool_)), len(self._is_live), False
            )
            flags[slots[place[number == each]]] = True
            self._repeated[name] = flags

    def _rechecked(self, sets: EventSets) -> Ints:
        """The slots that different values of one attribute may satisfy together."""
        if not sets.is_whole:
            return np.flatnonzero(self._is_live).astype(np.int32)
        found = [np.flatnonzero(self._repeated[name]) for name in sets.several if name in self._repeated]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *found])).astype(np.int32)


def _attribute(held: Conjunctions) -> Ints:
    """The attribute of each predicate: its number in `held.names`."""
    numbers: Ints = (held.predicates["key"] - 1) // KINDS
    return numbers
