"""The access index: finds each conjunction by one of its predicates, and confirms the rest by bit vectors.

A conjunction's *access predicate* is the one that the fewest other predicates overlap. Conjunctions of the
same access key lie in blocks ordered by their access predicates, and an event visits only blocks that it
meets. New conjunctions collect in a *tail*, which is scanned, until they are worth a segment. Segments are
immutable but for terminations, and small ones are merged, as in an LSM tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import Slots, ensure_capacity
from tocsin.arrays.jit import entry_point, suppress_fp_warnings
from tocsin.arrays.types import Arrays, Ints
from tocsin.indexes.matching.access.search_kernels import ROWS_NEEDED, match_events
from tocsin.indexes.matching.access.segments import BlockSegment, build_segments
from tocsin.indexes.matching.access.single_ranges import SingleRangeSegment
from tocsin.indexes.matching.conjunctions import (
    Conjunctions,
    PredicateColumns,
    conjunctions_of,
    joined,
    parameters_of,
    restored_arrays,
    saved_arrays,
)
from tocsin.indexes.matching.events import Events, contiguous
from tocsin.indexes.matching.layout import EVENT, N_ROWS, N_RUNS, SCORES, IdOrder, Matches
from tocsin.indexes.matching.report_kernels import MatchSortBuffer, offer_matches, report_heaps
from tocsin.indexes.matching.reports import (
    changes_of,
    empty_best,
    empty_report,
    empty_sort_buffer,
    enlarged_report,
    ordered_changes,
    sorted_changes,
)
from tocsin.indexes.matching.scan.index import MatchScan
from tocsin.kernels.status import DONE, FULL

#: Conjunctions of the tail, which are scanned, at most.
TAIL = 1 << 9
#: Single-predicate ranges that are worth a segment of their own.
MIN_SINGLE_RANGES = 1 << 9
#: A segment is merged with new conjunctions if it has at most this many times as many.
GROWTH = 2
#: Heap places, for the best matches of events that are matched together.
HEAP_PLACES = 1 << 20
#: Visits listed together: the more, the less often a block is read from memory.
VISITS = 1 << 16

NO_BEST = empty_best(0, 0)

#: Where a subscription is: nowhere, in the tail, or in the segment of this number minus one.
NOWHERE = -1
IN_TAIL = 0


class AccessIndex:
    """Holds conjunctions of weighted predicates and finds, for each event, those that it satisfies."""

    def __init__(
        self,
        capacity: int = 16,
        tail: int = TAIL,
        score_rule: str = "sum",
        min_single: int = MIN_SINGLE_RANGES,
    ) -> None:
        """`score_rule` is `sum`, `max`, `min` or `product`: how the weights of predicates combine."""
        self._capacity = capacity
        self._score_rule = score_rule
        self._kind = SCORES[score_rule]
        self._tail_limit = tail
        self._min_single = min_single
        #: segments: those built together the largest first, with less than 1 / GROWTH of each earlier one
        self._segments: list[BlockSegment | SingleRangeSegment] = []
        self._tail = MatchScan(capacity, score_rule)
        self._tail_slots = Slots()
        #: int32 by slot of the tail: the subscription
        self._tail_owner: Ints = np.zeros(capacity, np.int32)
        #: int16 and int32 by slot: the segment, and the record or the tail's slot there
        self._home = np.full(capacity, NOWHERE, np.int16)
        self._place: Ints = np.zeros(capacity, np.int32)
        self._top = 0
        #: matches of an event in recent batches
        self._matches_per_event = 0.0
        self._sort_buffer = empty_sort_buffer(capacity, 1)

    def __len__(self) -> int:
        return len(self._tail_slots) + sum(segment.n_alive for segment in self._segments)

    def register(self, slots: Ints, predicates: Sequence[PredicateColumns] | Conjunctions) -> None:
        """Add n subscriptions, each with one predicate a column set; none is satisfied by every event.

        Cost: amortised n log n times the logarithm of all.
        """
        if len(slots) == 0:
            return
        self._top = max(self._top, int(slots.max()) + 1)
        self._home = ensure_capacity(self._home, self._top, NOWHERE)
        self._place = ensure_capacity(self._place, self._top)
        self._add(np.array(slots, np.int32), conjunctions_of(predicates, len(slots)))

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: amortised as to register them."""
        home, place = self._home[slots], self._place[slots]
        self._home[slots] = NOWHERE
        self._leave_tail(place[home == IN_TAIL])
        for number in np.unique(home[home > IN_TAIL]).tolist():
            self._segments[number - 1].remove(place[home == number])
        sparse = [
            number for number, segment in enumerate(self._segments) if 2 * segment.n_alive < segment.n_records
        ]
        if sparse:
            # Later segments are smaller: rebuilding them costs no more than what was removed.
            self._add(*self._drain_segments(sparse[0]))

    def apply(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """The matches of each event, by slot; with `top`, the best of each event, by rank.

        Cost of an event: the blocks of its access keys, the columns of those whose hull it meets, and the
        candidates that these leave; for the best, only candidates that may be among them.
        """
        if len(self) == 0 or events.n_events == 0:
            return ChangeSet.empty()
        events = contiguous(events)
        # Without the compiler, a word that overflows and a division by zero would warn.
        with suppress_fp_warnings(match_events):
            if top is None:
                return self._match_all(events, ids)
            return self._match_best(events, min(top, len(self)), ids)

    def result(self, slots: Ints) -> ChangeSet:
        """Nothing: a stream without a window holds no rows."""
        return ChangeSet.empty()

    def arrays(self) -> Arrays:
        """The conjunction of each slot, in the format of the scan. Cost: linear."""
        slots, held = self._all_conjunctions()
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

    def live(self) -> Ints:
        """The slots of all subscriptions, ascending. Cost: linear."""
        return np.flatnonzero(self._home[: self._top] != NOWHERE).astype(np.int32)

    def conjunctions(self, slots: Ints) -> Conjunctions:
        """The conjunctions of subscriptions. Cost: linear in them, and in the tail."""
        if len(slots) == 0:
            return Conjunctions.empty()
        home, place = self._home[slots], self._place[slots]
        numbers = np.unique(home).tolist()
        found = [self._conjunctions_in(number, place[home == number]) for number in numbers]
        where = np.concatenate([np.flatnonzero(home == number) for number in numbers])
        return joined(found).take(np.argsort(where))

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        self._tail.check_invariants()
        slots, _ = self._all_conjunctions()
        assert len(np.unique(slots)) == len(slots) == len(self)
        assert sorted(slots.tolist()) == self.live().tolist()
        assert len(self._tail_slots) <= self._tail_limit
        for number, segment in enumerate(self._segments, start=1):
            segment.check_invariants()
            own = np.flatnonzero(self._home == number)
            assert (segment.slots[self._place[own]] == own).all()
            assert len(own) == segment.n_alive
            assert 2 * segment.n_alive >= segment.n_records > 0
        tail = np.flatnonzero(self._home == IN_TAIL)
        assert (self._tail_owner[self._place[tail]] == tail).all()

    def parameters(self, slot: int) -> dict[str, object]:
        """The predicates that a subscription was registered with, in words. Cost: linear in them."""
        return parameters_of(self.conjunctions(np.array([slot], np.int32)))

    def explain(self) -> str:
        """One line: how it works."""
        segments = ", ".join(f"{segment.n_alive:,}" for segment in self._segments) or "none"
        return (
            f"{len(self):,} conjunctions, in segments of {segments}, and "
            f"{len(self._tail_slots):,} scanned; each is found by its rarest predicate, then filtered by bits"
        )

    def _add(self, slots: Ints, given: Conjunctions) -> None:
        """Add conjunctions: to the tail up to its limit, else to a new segment with it and small segments."""
        if len(self._tail_slots) + len(slots) <= self._tail_limit:
            local = self._tail_slots.take(len(slots))
            self._tail_owner = ensure_capacity(self._tail_owner, self._tail_slots.top)
            self._tail_owner[local] = slots
            self._tail.register(local, given)
            self._home[slots], self._place[slots] = IN_TAIL, local
            return
        merged = [(slots, given), self._drain_tail()]
        total = len(slots) + len(merged[1][0])
        while self._segments and self._segments[-1].n_alive <= GROWTH * total:
            merged.append(self._drain_segments(len(self._segments) - 1))
            total += len(merged[-1][0])
        merged = [(one, held) for one, held in merged if len(one)]
        self._build(np.concatenate([one for one, _ in merged]), joined([held for _, held in merged]))

    def _build(self, slots: Ints, given: Conjunctions) -> None:
        for segment in build_segments(slots, given, self._kind, self._min_single):
            self._segments.append(segment)
            own = segment.slots
            self._home[own] = len(self._segments)
            self._place[own] = np.arange(len(own))

    def _leave_tail(self, local: Ints) -> None:
        self._tail.terminate(local)
        self._tail_slots.release(local)
        # Any valid slot: names of terminated ones may be gone.
        self._tail_owner[local] = 0
        if len(self._tail_slots) == 0:
            # Free slots cost a scan as much as used ones.
            self._tail, self._tail_slots = MatchScan(self._capacity, self._score_rule), Slots()

    def _drain_tail(self) -> tuple[Ints, Conjunctions]:
        """The conjunctions of the tail, which is emptied."""
        slots = np.flatnonzero(self._home[: self._top] == IN_TAIL).astype(np.int32)
        local = self._place[slots]
        held = self._tail.conjunctions(local)
        self._leave_tail(local)
        return slots, held

    def _drain_segments(self, number: int) -> tuple[Ints, Conjunctions]:
        """The conjunctions of the segments from `number` on, which are dropped."""
        segments, self._segments = self._segments[number:], self._segments[:number]
        records = [segment.records() for segment in segments]
        slots = [segment.slots[own] for segment, own in zip(segments, records, strict=True)]
        held = [segment.conjunctions(own) for segment, own in zip(segments, records, strict=True)]
        return np.concatenate(slots), joined(held)

    def _conjunctions_in(self, number: int, place: Ints) -> Conjunctions:
        return (
            self._tail.conjunctions(place)
            if number == IN_TAIL
            else self._segments[number - 1].conjunctions(place)
        )

    def _all_conjunctions(self) -> tuple[Ints, Conjunctions]:
        """All subscriptions and their conjunctions."""
        slots = np.flatnonzero(self._home[: self._top] >= 0).astype(np.int32)
        if len(slots) == 0:
            return slots, Conjunctions.empty()
        home, place = self._home[slots], self._place[slots]
        numbers = np.unique(home).tolist()
        held = [self._conjunctions_in(number, place[home == number]) for number in numbers]
        return np.concatenate([slots[home == number] for number in numbers]), joined(held)

    def _match_all(self, events: Events, ids: IdOrder) -> ChangeSet:
        n_events, is_single_segment = events.n_events, len(self._segments) == 1 and len(self._tail_slots) == 0
        found = self._found_in_tail(events, ids)
        sort_buffer = self._fitting_sort_buffer()
        for segment in self._segments:
            found.progress[EVENT] = 0
            prepared: Any = segment.prepare(events, VISITS)
            while True:
                status = segment.match(prepared, 0, n_events, self._kind, NO_BEST, ids, sort_buffer, found)
                if status == DONE:
                    break
                missing = int(found.progress[ROWS_NEEDED])
                if status == FULL:
                    found = enlarged_report(found, missing - int(found.progress[N_ROWS]))
                else:
                    self._sort_buffer = sort_buffer = empty_sort_buffer(2 * missing, self._top)
        # Decays slowly: a report that is too small costs a second pass.
        self._matches_per_event = max(float(found.progress[N_ROWS]) / n_events, 0.9 * self._matches_per_event)
        return ordered_changes(found) if is_single_segment else sorted_changes(found, n_events, self._top)

    def _empty_report(self, n_events: int, at_least: int) -> Matches:
        """A report with capacity for about as many matches as recent batches had."""
        return empty_report(max(self._capacity + int(1.25 * self._matches_per_event * n_events), at_least))

    def _fitting_sort_buffer(self) -> MatchSortBuffer:
        """The sort buffer, for the current number of slots."""
        if self._top >> 2 * self._sort_buffer.bits:
            self._sort_buffer = empty_sort_buffer(len(self._sort_buffer.slot), self._top)
        return self._sort_buffer

    def _found_in_tail(self, events: Events, ids: IdOrder) -> Matches:
        """A report that begins with the tail's matches, one run for each event."""
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

    def _match_best(self, events: Events, top: int, ids: IdOrder) -> ChangeSet:
        tail = self._scan_tail(events, top, ids)
        segments: list[tuple[Any, Any]] = [
            (segment, segment.prepare(events, VISITS)) for segment in self._segments
        ]
        step = max(1, HEAP_PLACES // top)
        best = empty_best(min(step, events.n_events), top)
        out = empty_report(0)
        for begin in range(0, events.n_events, step):
            end = min(begin + step, events.n_events)
            if len(tail.step):
                first, last = np.searchsorted(tail.step, [begin, end])
                cut = slice(first, last)
                offer_matches(tail.step[cut], tail.subscription[cut], tail.score[cut], begin, best, ids)
            for segment, prepared in segments:
                out.progress[EVENT] = begin
                segment.match(prepared, begin, end, self._kind, best, ids, self._sort_buffer, out)
            out = enlarged_report(out, int(best.size[: end - begin].sum()))
            entry_point(report_heaps)(best, begin, end, ids, out)
        n_rows = int(out.progress[N_ROWS])
        return changes_of(out.step[:n_rows], out.subscription[:n_rows], out.score[:n_rows], out.rank[:n_rows])

    def _scan_tail(self, events: Events, top: int | None, ids: IdOrder) -> ChangeSet:
        """The tail's matches, with the slots that subscriptions have here."""
        if len(self._tail_slots) == 0:
            return ChangeSet.empty()
        owner = self._tail_owner[: self._tail_slots.top]
        found = self._tail.apply(events, top, ids._replace(owner=ids.owner[owner]))
        return found._replace(subscription=owner[found.subscription])
