"""The access index: each conjunction is found by one predicate, and confirmed by rows of bits.

A conjunction's *access predicate* is the one that the fewest other predicates overlap. Those of the same
attribute lie in blocks by where their access predicates are, and an event looks only into blocks that it
meets. What is registered collects in a tail, which is scanned, until it is worth a part of its own;
a part is never changed but for what is terminated, and merged into the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tocsin.indexes.contract import Arrays, ChangeSet, Ints
from tocsin.indexes.matching.access_kernels import DONE, FULL, MISSING, match_events
from tocsin.indexes.matching.access_parts import Part, build_parts
from tocsin.indexes.matching.access_report_kernels import Desk, offer_matches, report_heaps
from tocsin.indexes.matching.common_kernels import EVENT, N_ROWS, N_RUNS, SCORES, IdOrder, Matches
from tocsin.indexes.matching.conjunctions import Conjunctions, conjunctions_of, joined, parameters_of
from tocsin.indexes.matching.events import Events, settled
from tocsin.indexes.matching.lone import LoneRanges
from tocsin.indexes.matching.orders import empty_desk, told, told_in_order
from tocsin.indexes.matching.predicates import PredicateColumns
from tocsin.indexes.matching.reports import changes_of, empty_best, empty_report, grown_report
from tocsin.indexes.matching.scan import MatchScan
from tocsin.indexes.matching.store import restored_arrays, saved_arrays
from tocsin.indexes.shared.columns import Slots, grown
from tocsin.indexes.shared.direct import compiled, unwarned

#: Conjunctions that are scanned rather than indexed, at most.
TAIL = 1 << 9
#: Lone ranges that are worth a part of their own.
LONE = 1 << 9
#: A part is merged with new conjunctions if it has at most this many times as many.
GROWTH = 2
#: Heap places, for the best matches of events that are looked at together.
HEAP_PLACES = 1 << 20
#: Visits that are listed together: the more, the less often a block is read from memory.
VISITS = 1 << 16

#: Where a subscription is: nowhere, in the tail, or in the part of this number less one.
NOWHERE = -1
IN_TAIL = 0


class AccessIndex:
    """Keeps conjunctions of weighted predicates and finds, for each event, those that it satisfies."""

    def __init__(self, capacity: int = 16, tail: int = TAIL, score: str = "sum", lone: int = LONE) -> None:
        """`score` is `sum`, `max`, `min` or `product`: what the weights of predicates come to."""
        self._capacity = capacity
        self._score = score
        self._kind = SCORES[score]
        self._tail_limit = tail
        self._lone = lone
        #: parts, the largest first of those built at once, which came to less than 1 / GROWTH of each before
        self._parts: list[Part | LoneRanges] = []
        self._tail = MatchScan(capacity, score)
        self._tail_slots = Slots()
        #: int32 by slot of the tail: the subscription
        self._tail_owner: Ints = np.zeros(capacity, np.int32)
        #: int16 and int32 by slot: the part, and the record or the tail's slot there
        self._home = np.full(capacity, NOWHERE, np.int16)
        self._place: Ints = np.zeros(capacity, np.int32)
        self._top = 0
        #: matches of an event, by what the last batches had
        self._each = 0.0
        self._desk = empty_desk(capacity, 1)

    def __len__(self) -> int:
        return len(self._tail_slots) + sum(part.n_alive for part in self._parts)

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions, each with one predicate a column set; none is satisfied by every event.

        Cost: amortised n log n times the logarithm of all.
        """
        if len(slots) == 0:
            return
        self._top = max(self._top, int(slots.max()) + 1)
        self._home = grown(self._home, self._top, NOWHERE)
        self._place = grown(self._place, self._top)
        self._add(np.array(slots, np.int32), conjunctions_of(predicates, len(slots)))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: amortised as to register them."""
        home, place = self._home[slots], self._place[slots]
        self._home[slots] = NOWHERE
        self._leave_tail(place[home == IN_TAIL])
        for number in np.unique(home[home > IN_TAIL]).tolist():
            self._parts[number - 1].remove(place[home == number])
        thin = [number for number, part in enumerate(self._parts) if 2 * part.n_alive < part.n_records]
        if thin:
            # The parts after it are smaller: to build them anew costs no more than what has gone.
            self._add(*self._taken(thin[0]))

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank.

        Cost of an event: the blocks of access keys that it has, the columns of those whose hull it meets, and
        the candidates that these leave; where the best are asked for, only candidates that may be among them.
        """
        if len(self) == 0 or events.n_events == 0:
            return ChangeSet.empty()
        events = settled(events)
        # Without the compiler, a word that overflows and a division by zero would warn.
        with unwarned(match_events):
            if top is None:
                return self._all(events, ids)
            return self._best(events, min(top, len(self)), ids)

    def result(self, slots: Ints) -> ChangeSet:
        """Nothing: a stream without a window holds no rows."""
        return ChangeSet.empty()

    def arrays(self) -> Arrays:
        """What each slot holds, as the scan saves it. Cost: linear."""
        slots, held = self._everything()
        order = np.argsort(slots, kind="stable")
        counts = np.full(self._top, -1, np.int32)
        counts[slots] = held.counts
        return saved_arrays(counts, held.take(order))

    def restore(self, arrays: Arrays) -> None:
        """Become what `arrays` was taken from. Cost: as to register all at once."""
        counts, held = restored_arrays(arrays)
        self._top = len(counts)
        self._home = np.full(self._top, NOWHERE, np.int16)
        self._place = np.zeros(self._top, np.int32)
        self._add(np.flatnonzero(counts >= 0).astype(np.int32), held)

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """What subscriptions were registered with. Cost: linear in it, and in the tail."""
        if len(slots) == 0:
            return Conjunctions.empty()
        home, place = self._home[slots], self._place[slots]
        numbers = np.unique(home).tolist()
        found = [self._held(number, place[home == number]) for number in numbers]
        where = np.concatenate([np.flatnonzero(home == number) for number in numbers])
        return joined(found).take(np.argsort(where))

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._tail.check_invariants()
        slots, _ = self._everything()
        assert len(np.unique(slots)) == len(slots) == len(self)
        assert sorted(slots.tolist()) == np.flatnonzero(self._home[: self._top] >= 0).tolist()
        assert len(self._tail_slots) <= self._tail_limit
        for number, part in enumerate(self._parts, start=1):
            part.check_invariants()
            mine = np.flatnonzero(self._home == number)
            assert (part.slots[self._place[mine]] == mine).all()
            assert len(mine) == part.n_alive
            assert 2 * part.n_alive >= part.n_records > 0
        tail = np.flatnonzero(self._home == IN_TAIL)
        assert (self._tail_owner[self._place[tail]] == tail).all()

    def parameters(self, slot: int) -> dict[str, object]:
        """The predicates that a subscription was registered with, in words. Cost: linear in them."""
        return parameters_of(self.conjunctions(np.array([slot], np.int32)))

    def explain(self) -> str:
        """One line: which index this is and how it works."""
        parts = ", ".join(f"{part.n_alive:,}" for part in self._parts) or "none"
        return (
            f"matching: access predicates of {len(self):,} conjunctions, in parts of {parts}, and "
            f"{len(self._tail_slots):,} scanned; each is found by its rarest predicate, then sifted by bits"
        )

    def _add(self, slots: Ints, given: Conjunctions) -> None:
        """Keep conjunctions: in the tail while there is room, else in a part with it and with small parts."""
        if len(self._tail_slots) + len(slots) <= self._tail_limit:
            local = self._tail_slots.take(len(slots))
            self._tail_owner = grown(self._tail_owner, self._tail_slots.top)
            self._tail_owner[local] = slots
            self._tail.register(local, given)
            self._home[slots], self._place[slots] = IN_TAIL, local
            return
        merged = [(slots, given), self._taken_tail()]
        total = len(slots) + len(merged[1][0])
        while self._parts and self._parts[-1].n_alive <= GROWTH * total:
            merged.append(self._taken(len(self._parts) - 1))
            total += len(merged[-1][0])
        merged = [(one, held) for one, held in merged if len(one)]
        self._build(np.concatenate([one for one, _ in merged]), joined([held for _, held in merged]))

    def _build(self, slots: Ints, given: Conjunctions) -> None:
        for part in build_parts(slots, given, self._kind, self._lone):
            self._parts.append(part)
            mine = part.slots
            self._home[mine] = len(self._parts)
            self._place[mine] = np.arange(len(mine))

    def _leave_tail(self, local: Ints) -> None:
        self._tail.terminate(local)
        self._tail_slots.give_back(local)
        # Any that is there: those who were may have no name any more.
        self._tail_owner[local] = 0
        if len(self._tail_slots) == 0:
            # Slots that nobody has any more cost a scan as much as others.
            self._tail, self._tail_slots = MatchScan(self._capacity, self._score), Slots()

    def _taken_tail(self) -> tuple[Ints, Conjunctions]:
        """What the tail held, which is empty then."""
        slots = np.flatnonzero(self._home[: self._top] == IN_TAIL).astype(np.int32)
        local = self._place[slots]
        held = self._tail.conjunctions(local)
        self._leave_tail(local)
        return slots, held

    def _taken(self, number: int) -> tuple[Ints, Conjunctions]:
        """What the parts from `number` on held, which are gone then."""
        parts, self._parts = self._parts[number:], self._parts[:number]
        records = [part.records() for part in parts]
        slots = [part.slots[mine] for part, mine in zip(parts, records, strict=True)]
        held = [part.conjunctions(mine) for part, mine in zip(parts, records, strict=True)]
        return np.concatenate(slots), joined(held)

    def _held(self, number: int, place: Ints) -> Conjunctions:
        return (
            self._tail.conjunctions(place)
            if number == IN_TAIL
            else self._parts[number - 1].conjunctions(place)
        )

    def _everything(self) -> tuple[Ints, Conjunctions]:
        """All subscriptions and what they hold."""
        slots = np.flatnonzero(self._home[: self._top] >= 0).astype(np.int32)
        if len(slots) == 0:
            return slots, Conjunctions.empty()
        home, place = self._home[slots], self._place[slots]
        numbers = np.unique(home).tolist()
        held = [self._held(number, place[home == number]) for number in numbers]
        return np.concatenate([slots[home == number] for number in numbers]), joined(held)

    def _all(self, events: Events, ids: IdOrder) -> ChangeSet:
        n_events, is_one_part = events.n_events, len(self._parts) == 1 and len(self._tail_slots) == 0
        found = self._found_in_tail(events, ids)
        nothing, desk = empty_best(0, 0), self._fitting_desk()
        for part in self._parts:
            found.progress[EVENT] = 0
            asked: Any = part.ask(events, VISITS)
            while True:
                status = part.match(asked, 0, n_events, self._kind, nothing, ids, desk, found)
                if status == DONE:
                    break
                missing = int(found.progress[MISSING])
                if status == FULL:
                    found = grown_report(found, missing - int(found.progress[N_ROWS]))
                else:
                    self._desk = desk = empty_desk(2 * missing, self._top)
        # It falls slowly: a report that was too small has cost a second look.
        self._each = max(float(found.progress[N_ROWS]) / n_events, 0.9 * self._each)
        return told_in_order(found) if is_one_part else told(found, n_events, self._top)

    def _empty_report(self, n_events: int, at_least: int) -> Matches:
        """Room for about as many matches as the last batches had."""
        return empty_report(max(self._capacity + int(1.25 * self._each * n_events), at_least))

    def _fitting_desk(self) -> Desk:
        """The desk, for as many slots as there are now."""
        if self._top >> 2 * self._desk.bits:
            self._desk = empty_desk(len(self._desk.slot), self._top)
        return self._desk

    def _found_in_tail(self, events: Events, ids: IdOrder) -> Matches:
        """A report that begins with the tail's matches, a run for each event."""
        if len(self._tail_slots) == 0:
            return self._empty_report(events.n_events, 0)
        tail = self._scan_tail(events, None, ids)
        n_rows = len(tail.step)
        found = self._empty_report(events.n_events, n_rows)
        begins = np.flatnonzero(np.diff(tail.step, prepend=-1))
        found.subscription[:n_rows], found.score[:n_rows] = tail.subscription, tail.score
        found.step[: len(begins)], found.rank[: len(begins)] = tail.step[begins], begins
        found.progress[N_ROWS], found.progress[N_RUNS] = n_rows, len(begins)
        return found

    def _best(self, events: Events, top: int, ids: IdOrder) -> ChangeSet:
        tail = self._scan_tail(events, top, ids)
        parts: list[tuple[Any, Any]] = [(part, part.ask(events, VISITS)) for part in self._parts]
        step = max(1, HEAP_PLACES // top)
        best = empty_best(min(step, events.n_events), top)
        out = empty_report(0)
        for begin in range(0, events.n_events, step):
            end = min(begin + step, events.n_events)
            if len(tail.step):
                first, last = np.searchsorted(tail.step, [begin, end])
                cut = slice(first, last)
                offer_matches(tail.step[cut], tail.subscription[cut], tail.score[cut], begin, best, ids)
            for part, asked in parts:
                out.progress[EVENT] = begin
                part.match(asked, begin, end, self._kind, best, ids, self._desk, out)
            out = grown_report(out, int(best.size[: end - begin].sum()))
            compiled(report_heaps)(best, begin, end, ids, out)
        n_rows = int(out.progress[N_ROWS])
        return changes_of(out.step[:n_rows], out.subscription[:n_rows], out.score[:n_rows], out.rank[:n_rows])

    def _scan_tail(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """What the scan finds in the tail, with the slots that subscriptions have here."""
        if len(self._tail_slots) == 0:
            return ChangeSet.empty()
        owner = self._tail_owner[: self._tail_slots.top]
        found = self._tail.apply(events, top, ids._replace(owner=ids.owner[owner]))
        return found._replace(subscription=owner[found.subscription])
