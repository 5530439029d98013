"""What the engine matches by: the scan while conjunctions are few, access predicates once they are many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.indexes.contract import Arrays, Bools, ChangeSet, Ints
from tocsin.indexes.matching.access import TAIL, AccessIndex
from tocsin.indexes.matching.common_kernels import KINDS, IdOrder
from tocsin.indexes.matching.conjunctions import Conjunctions, conjunctions_of
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.predicates import PredicateColumns
from tocsin.indexes.matching.scan import MatchScan
from tocsin.indexes.matching.sets import EventSets, match_sets
from tocsin.indexes.shared.columns import grown

#: Slots from which on access predicates are taken. Measured: as fast as the scan from there on for an event
#: alone.
MANY = 1 << 12
#: Slots times events of a batch from which on they are taken as well, if there are some slots at all.
#: Measured: in batches of 100 and of 1,000 they are faster from a few hundred slots on.
WORK = 1 << 16
SOME = 1 << 9


class AdaptiveMatching:
    """Keeps conjunctions of weighted predicates and finds, for each event, those that it satisfies.

    The choice follows from the largest number of slots ever in use, and from that number times the events of
    a batch, because that is what a scan pays for. Once access predicates are taken they stay; a restored one
    is chosen anew, by the slots at once and by the next large batch.
    """

    def __init__(
        self,
        capacity: int = 16,
        many: int = MANY,
        tail: int = TAIL,
        score: str = "sum",
        some: int = SOME,
        work: int = WORK,
    ) -> None:
        """`score` is `sum`, `max`, `min` or `product`: what the weights of predicates come to."""
        self._capacity = capacity
        self._score = score
        self._many = many
        self._tail = tail
        self._some = some
        self._work = work
        #: one more than the largest slot ever there
        self._top = 0
        self._index: MatchScan | AccessIndex = MatchScan(capacity, score)
        #: attributes that somebody has asked about
        self._attributes: set[str] = set()
        #: by attribute, bool by slot: the conjunction has several conditions on it
        self._repeated: dict[str, Bools] = {}

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions, each with one predicate a column set; none is satisfied by every event.

        Cost: linear for a scan, else amortised n log n times the logarithm of all; and as much for all, once.
        """
        if len(slots):
            self._top = max(self._top, int(slots.max()) + 1)
        if self._top >= self._many:
            self._take_access()
        held = conjunctions_of(predicates, len(slots))
        self._note(slots, held)
        self._index.register(slots, held)

    def _note(self, slots: Ints, held: Conjunctions) -> None:
        """Note what is asked about, and several times in one conjunction."""
        self._attributes.update(held.names)
        attribute = (held.predicates["key"] - 1) // KINDS
        pairs = np.sort(np.repeat(np.arange(len(slots)), held.counts) * len(held.names) + attribute)
        place, number = np.divmod(np.unique(pairs[1:][pairs[1:] == pairs[:-1]]), max(len(held.names), 1))
        for each in np.unique(number).tolist():
            name = held.names[each]
            flags = grown(self._repeated.get(name, np.zeros(0, np.bool_)), self._top, False)
            flags[slots[place[number == each]]] = True
            self._repeated[name] = flags

    def asks(self, attribute: str) -> bool:
        """Whether some conjunction asks about an attribute, or did."""
        return attribute in self._attributes

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: amortised as to register them."""
        self._index.terminate(slots)
        for flags in self._repeated.values():
            flags[slots[slots < len(flags)]] = False

    def apply(self, events: Events | EventSets, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank.

        Cost: that of the index chosen; as to register all when it is.
        """
        if isinstance(events, EventSets):
            return match_sets(self, self._unsure(events), events, top, ids, self._score)
        if self._top >= self._some and self._top * events.n_events >= self._work:
            self._take_access()
        return self._index.apply(events, top, ids)

    def _unsure(self, sets: EventSets) -> Ints:
        """The slots that different values of one attribute may satisfy."""
        if not sets.is_whole:
            return np.flatnonzero(self.arrays()["slots_count"] > 0).astype(np.int32)
        found = [np.flatnonzero(self._repeated[name]) for name in sets.several if name in self._repeated]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *found])).astype(np.int32)

    def result(self, slots: Ints) -> ChangeSet:
        """Nothing: a stream without a window holds no rows."""
        return self._index.result(slots)

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """What subscriptions were registered with. Cost: linear in it, and at most a scan of all."""
        return self._index.conjunctions(slots)

    def arrays(self) -> Arrays:
        """What each slot holds: either index can be restored from it. Cost: linear."""
        return self._index.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: as to register all at once."""
        self._top = len(arrays["slots_count"])
        if self._top >= self._many:
            self._index = AccessIndex(self._capacity, self._tail, self._score)
        self._index.restore(arrays)
        self._attributes, self._repeated = set(), {}
        slots = np.flatnonzero(arrays["slots_count"] > 0).astype(np.int32)
        self._note(slots, self._index.conjunctions(slots))

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._index.check_invariants()
        assert isinstance(self._index, AccessIndex) or self._top < self._many

    def parameters(self, slot: int) -> dict[str, object]:
        """The predicates that a subscription was registered with, in words. Cost: linear in them."""
        return self._index.parameters(slot)

    def explain(self) -> str:
        """One line: which index this is, how it works, and why it was chosen."""
        if isinstance(self._index, AccessIndex) and self._top < self._many:
            why = f"a batch came to {self._work:,} pairs of events and subscriptions, or more"
        else:
            than = "fewer" if isinstance(self._index, MatchScan) else "not fewer"
            why = (
                f"there were up to {self._top:,} at a time, {than} than the {self._many:,} from which on "
                "access predicates are faster, for an event alone too"
            )
        return f"{self._index.explain()}; chosen because {why}; a score is the {self._score} of weights"

    def _take_access(self) -> None:
        """Go over to access predicates, unless it is done. Cost: as to register all."""
        if isinstance(self._index, MatchScan):
            access = AccessIndex(self._capacity, self._tail, self._score)
            access.restore(self._index.arrays())
            self._index = access
