"""One state machine an index of the ranges room: rows come, change and go, subscriptions too, and after
every step the reported changes, the replayed answers and the index's own answers equal the oracle's."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.oracles import ranges as oracle
from tests.oracles.ranges import Bounds, IndexChange, Item, RangeRow, Rows
from tests.planning.indexes import aggregate_index
from tocsin.arrays.changes import OP_NAMES, ChangeSet
from tocsin.indexes.contract import ABSENT, RowDelta, RowIndex
from tocsin.indexes.ranges import RangeDistinct, RangeJoin, TopKBoxTree
from tocsin.indexes.ranges.joins.joins_kernels import JoinSide
from tocsin.indexes.ranges.steps.step_kernels import RowImages

NAN = math.nan
INF = math.inf
#: Row slots that single actions choose from, and subscription slots: one beyond the first block of boxes.
SLOTS = 6
BOXES = (0, 1, 2, 3, 700)

# Few values, so that ties and hits are common.
COORDINATES = (-INF, -1.0, -0.0, 0.0, 1.0, 2.0, INF, NAN)
SCORES = (-INF, -1.5, -0.0, 0.0, 1e-300, 0.1, 0.2, 3.0, 1e300, INF, NAN)
CODES = (0.0, 1.0, 2.0, NAN)
#: What two rows join by: any double.
TERMS = (-0.0, 0.0, 0.5, INF, NAN)
limits = st.sampled_from([-INF, -1.0, 0.0, 0.5, 1.0, 2.0, INF])
#: How many rows a list may have: few, as many as there may be, more than there are.
sizes = st.sampled_from([1, 2, 3, 4, 80, 200])
#: What a step does to one slot: put a row or change it, remove it, remove it and insert it again.
actions = st.sampled_from(["put", "put", "put", "delete", "again"])

Tables: TypeAlias = tuple[Rows, ...]
#: A slot, what to do, the new values, whether the old ones stay instead, whether the row is touched.
Action: TypeAlias = tuple[int, str, tuple[float, ...], bool, bool]
Answer: TypeAlias = list[Item] | tuple[int, float]


class Subscription(NamedTuple):
    bounds: Bounds
    k: int
    #: the a, b, c of a disk or a half-plane, where the index has these
    region: tuple[float, ...] = ()


class Entry(NamedTuple):
    step: int
    slot: int
    before: RangeRow | None
    after: RangeRow | None
    touched: bool


def build_delta(entries: list[Entry], n_steps: int, width: int) -> RowDelta:
    def borns(rows: list[RangeRow | None]) -> Any:
        return np.array([ABSENT if row is None else row.born for row in rows], np.int64)

    def values(rows: list[RangeRow | None]) -> Any:
        absent = (NAN,) * width
        return np.array([absent if row is None else row.values for row in rows]).reshape(-1, width)

    before = [entry.before for entry in entries]
    after = [entry.after for entry in entries]
    return RowDelta(
        seq=np.arange(100, 100 + n_steps),
        step=np.array([entry.step for entry in entries], np.int32),
        row=np.array([entry.slot for entry in entries], np.int32),
        born_before=borns(before),
        born_after=borns(after),
        before=values(before),
        after=values(after),
        touched=np.array([entry.touched for entry in entries], np.bool_),
    )


def read_changes(changes: ChangeSet) -> list[tuple[int, int, IndexChange]]:
    """The changes as tuples (step, subscription, change)."""
    columns = [column.tolist() for column in changes]
    return [
        (step, subscription, IndexChange(OP_NAMES[op], row, other, score, rank))
        for step, subscription, op, row, other, score, rank in zip(*columns, strict=True)
    ]


def shown(thing: object) -> str:
    """Text to compare by: NaN equals NaN, and 0.0 does not equal -0.0."""
    return repr(thing)


def in_order(answer: Answer) -> Answer:
    """Ranked answers as they are; unranked ones are sets, so that any order of arrival will do."""
    if isinstance(answer, list) and answer and not answer[0].rank:
        return sorted(answer, key=lambda item: (item.row, item.other))
    return answer


class RangesMachine(RuleBasedStateMachine):
    """What all machines share; a subclass says what its index is, and what its rows and answers are."""

    dimensions: tuple[int, ...]
    #: the values of the columns that come after the dimensions
    extras: tuple[Sequence[float], ...]
    #: how many rows one step may flood the table with
    flood_size = 80
    index: Any
    is_value = False
    regions: st.SearchStrategy[tuple[float, ...]] = st.just(())
    region_width = 0

    def __init__(self) -> None:
        super().__init__()
        self.tables: Tables = ({}, {})
        self.subscriptions: dict[int, Subscription] = {}
        self.held: dict[int, Answer] = {}
        self.next_born = 0

    def new_index(self) -> Any:
        raise NotImplementedError

    def answer(self, tables: Tables, subscription: Subscription) -> Any:
        raise NotImplementedError

    def touched_items(self, entries: list[Entry], side: int) -> set[tuple[int, int]]:
        return {(entry.slot, -1) for entry in entries if entry.touched}

    def apply(self, delta: RowDelta, side: int) -> ChangeSet:
        changes: ChangeSet = self.index.apply(delta)
        return changes

    def expected_step(self, before: Tables, entries: list[Entry], side: int) -> list[tuple[int, IndexChange]]:
        """Changes by subscription of the step that led from `before` to now."""
        touched = self.touched_items(entries, side)
        expected = []
        for slot, subscription in sorted(self.subscriptions.items()):
            was, now = self.answer(before, subscription), self.answer(self.tables, subscription)
            if self.is_value:
                changes = oracle.value_changes(was, now)
            else:
                changes = oracle.listing_changes(was, now, touched)
            expected += [(slot, change) for change in changes]
        return expected

    @rule(data=st.data(), side=st.integers(0, 1), n_steps=st.integers(0, 4))
    def publish(self, data: st.DataObject, side: int, n_steps: int) -> None:
        """A few steps, each about a few rows."""
        if side < len(self.dimensions):
            columns = st.tuples(*(st.sampled_from(choices) for choices in self.choices(side)))
            plan = st.lists(
                st.tuples(st.integers(0, SLOTS - 1), actions, columns, st.booleans(), st.booleans()),
                max_size=SLOTS,
                unique_by=lambda action: action[0],
            )
            self.apply_plans([data.draw(plan) for _ in range(n_steps)], side)

    @rule(seed=st.integers(0, 99), side=st.integers(0, 1))
    def flood(self, seed: int, side: int) -> None:
        """One step about many rows: more than are tested one by one."""
        if side < len(self.dimensions):
            source = random.Random(seed)
            plan = [
                (
                    slot,
                    source.choice(["put", "put", "put", "delete", "again"]),
                    tuple(source.choice(choices) for choices in self.choices(side)),
                    source.random() < 0.5,
                    source.random() < 0.5,
                )
                for slot in range(self.flood_size)
            ]
            source.shuffle(plan)
            self.apply_plans([plan], side)

    def choices(self, side: int) -> list[Sequence[float]]:
        """The values that each column may have."""
        return [*(COORDINATES for _ in range(self.dimensions[side])), *self.extras]

    def apply_plans(self, plans: list[list[Action]], side: int) -> None:
        """Take a plan as a step, and compare what is reported, and what it leads to, with the oracle."""
        everything: list[Entry] = []
        expected: list[tuple[int, int, IndexChange]] = []
        snapshots: list[list[Any]] = []
        for step, plan in enumerate(plans):
            before = tuple(dict(table) for table in self.tables)
            entries = self.change_rows(plan, step, side)
            everything += entries
            expected += [(step, *change) for change in self.expected_step(before, entries, side)]
            snapshots.append([self.answer(self.tables, s) for s in self.subscriptions.values()])
        width = self.dimensions[side] + len(self.extras)
        delta = build_delta(everything, len(plans), width)
        for column in delta:
            column.flags.writeable = False
        reported = read_changes(self.apply(delta, side))
        assert shown(reported) == shown(expected)
        for step, snapshot in enumerate(snapshots):
            for slot, answer in zip(self.subscriptions, snapshot, strict=True):
                self.replay(slot, [c for t, s, c in reported if (t, s) == (step, slot)])
                assert shown(in_order(self.held[slot])) == shown(in_order(answer))

    def replay(self, slot: int, changes: list[IndexChange]) -> None:
        held = self.held[slot]
        if isinstance(held, list):
            self.held[slot] = oracle.replay(held, changes)
        elif changes:
            self.held[slot] = (changes[-1].row, changes[-1].score)

    def change_rows(self, plan: list[Action], step: int, side: int) -> list[Entry]:
        """Change the rows as planned, and tell how."""
        table = self.tables[side]
        entries = []
        for slot, action, values, stays, touched in plan:
            before = table.get(slot)
            after: RangeRow | None
            if action == "delete":
                after = None
            elif before is None or action == "again":
                after = RangeRow(self.next_born, self.completed(values))
                self.next_born += 1
            else:
                after = before if stays else before._replace(values=self.completed(values))
            if after is not None:
                table[slot] = after
            elif before is not None:
                del table[slot]
            if before is not None or after is not None:
                both = before is not None and after is not None
                is_touched = both and (touched or action == "again")
                entries.append(Entry(step, slot, before, after, is_touched))
        return entries

    def completed(self, values: tuple[float, ...]) -> tuple[float, ...]:
        return values

    @rule(data=st.data())
    def register(self, data: st.DataObject) -> None:
        free = [slot for slot in BOXES if slot not in self.subscriptions]
        n_dimensions = sum(self.dimensions)
        boxes = st.tuples(*(st.tuples(limits, limits) for _ in range(n_dimensions)))
        areas = st.tuples(boxes, sizes, self.regions)
        drawn = data.draw(st.dictionaries(st.sampled_from(free), areas)) if free else {}
        slots = list(drawn)
        for slot, (bounds, k, region) in drawn.items():
            self.subscriptions[slot] = Subscription(bounds, k, region)
            self.held[slot] = self.answer(self.tables, self.subscriptions[slot])
        every = [self.subscriptions[slot].bounds for slot in slots]
        areas_given = np.array([self.subscriptions[slot].region for slot in slots])
        self.index.register(
            np.array(slots, np.int32),
            {
                "lo": np.array([[lo for lo, _ in bounds] for bounds in every]).reshape(
                    len(slots), n_dimensions
                ),
                "hi": np.array([[hi for _, hi in bounds] for bounds in every]).reshape(
                    len(slots), n_dimensions
                ),
                "k": np.array([self.subscriptions[slot].k for slot in slots], np.int32),
                "region": areas_given.reshape(len(slots), self.region_width),
            },
        )

    @precondition(lambda self: self.subscriptions)
    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        slots = data.draw(st.lists(st.sampled_from(sorted(self.subscriptions)), unique=True))
        for slot in slots:
            del self.subscriptions[slot], self.held[slot]
        self.index.terminate(np.array(slots, np.int32))

    @rule()
    def save_and_load(self) -> None:
        saved = self.index.arrays()
        fresh = self.new_index()
        fresh.restore({name: array.copy() for name, array in saved.items()})
        again = fresh.arrays()
        assert sorted(again) == sorted(saved)
        for name, array in saved.items():
            np.testing.assert_array_equal(again[name], array)
        self.index = fresh

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "index"):
            return
        self.index.check_invariants()
        slots = sorted(self.subscriptions, reverse=True)
        expected: list[tuple[int, int, IndexChange]] = []
        for slot in slots:
            answer = self.answer(self.tables, self.subscriptions[slot])
            if isinstance(answer, tuple):
                expected.append((0, slot, IndexChange("value", answer[0], -1, answer[1], 0)))
            else:
                expected += [(0, slot, IndexChange("enter", *item)) for item in answer]
        assert shown(read_changes(self.index.result(np.array(slots, np.int32)))) == shown(expected)


class TopKMachine(RangesMachine):
    extras = (SCORES,)

    @initialize(dimensions=st.integers(0, 2), descending=st.booleans())
    def begin(self, dimensions: int, descending: bool) -> None:
        self.dimensions = (dimensions,)
        self.descending = descending
        self.index = self.new_index()

    def new_index(self) -> TopKBoxTree:
        return TopKBoxTree(self.dimensions[0], descending=self.descending, capacity=2)

    def answer(self, tables: Tables, subscription: Subscription) -> list[Item]:
        return oracle.top_k(tables[0], subscription.bounds, subscription.k, self.descending)


class AggregateMachine(RangesMachine):
    extras = (SCORES,)
    is_value = True

    @initialize(
        dimensions=st.integers(0, 2), function=st.sampled_from(["min", "max", "count", "sum", "sum", "avg"])
    )
    def begin(self, dimensions: int, function: str) -> None:
        self.dimensions = (dimensions,)
        self.function = function
        self.index = self.new_index()

    def new_index(self) -> RowIndex:
        return aggregate_index(self.dimensions[0], function=self.function, capacity=2)

    def answer(self, tables: Tables, subscription: Subscription) -> tuple[int, float]:
        return oracle.aggregate(tables[0], subscription.bounds, self.function)


class DistinctMachine(RangesMachine):
    extras = (CODES, (0.0,))

    @initialize(dimensions=st.integers(0, 2), is_text=st.booleans())
    def begin(self, dimensions: int, is_text: bool) -> None:
        self.dimensions = (dimensions,)
        self.extras = (CODES, (NAN if is_text else 0.0,))
        self.index = self.new_index()

    def new_index(self) -> RangeDistinct:
        return RangeDistinct(self.dimensions[0], capacity=2)

    def completed(self, values: tuple[float, ...]) -> tuple[float, ...]:
        """A value goes with its code; the value of code 0 is -0.0."""
        *x, code, y = values
        return (*x, code, y if math.isnan(y) or math.isnan(code) else -10.0 * code)

    def touched_items(self, entries: list[Entry], side: int) -> set[tuple[int, int]]:
        return set()

    def answer(self, tables: Tables, subscription: Subscription) -> list[Item]:
        return oracle.distinct(tables[0], subscription.bounds)


class JoinInOneWay(RangeJoin):
    """A join that takes one of its two ways, whichever is less work."""

    is_by_box: bool | None = None

    def _is_less_by_box(self, images: RowImages, theirs: JoinSide) -> bool:
        found = super()._is_less_by_box(images, theirs)
        return found if self.is_by_box is None else self.is_by_box


class JoinMachine(RangesMachine):
    extras = (TERMS,)
    flood_size = 16
    is_by_box: bool | None = None

    @initialize(
        left=st.integers(0, 2), right=st.integers(0, 1), is_by_box=st.sampled_from([None, False, True])
    )
    def begin(self, left: int, right: int, is_by_box: bool | None) -> None:
        self.dimensions = (left, right)
        self.is_by_box = is_by_box
        self.index = self.new_index()

    def new_index(self) -> RangeJoin:
        left, right = self.dimensions
        made = JoinInOneWay(left, right, capacity=2)
        made.is_by_box = self.is_by_box
        return made

    def apply(self, delta: RowDelta, side: int) -> ChangeSet:
        counts = self.index.count(delta, side)
        most = self.index.most(delta, side)
        changes: ChangeSet = self.index.apply(delta, side)
        assert counts.tolist() == np.bincount(changes.subscription, minlength=len(counts)).tolist()
        assert len(changes.step) <= most
        return changes

    @invariant()
    def answers_are_counted(self) -> None:
        if self.subscriptions:
            slots = np.array(list(self.subscriptions), np.int32)
            sizes = [len(self.answer(self.tables, each)) for each in self.subscriptions.values()]
            assert self.index.sizes(slots).tolist() == sizes

    def touched_items(self, entries: list[Entry], side: int) -> set[tuple[int, int]]:
        touched = {entry.slot for entry in entries if entry.touched}
        return {
            (a, b) for a in range(self.flood_size) for b in range(self.flood_size) if (a, b)[side] in touched
        }

    def answer(self, tables: Tables, subscription: Subscription) -> list[Item]:
        cut = self.dimensions[0]
        left, right = tables
        return oracle.join(left, right, subscription.bounds[:cut], subscription.bounds[cut:])


_settings = settings(stateful_step_count=12)

TestTopK = TopKMachine.TestCase
TestTopK.settings = _settings
TestAggregate = AggregateMachine.TestCase
TestAggregate.settings = _settings
TestDistinct = DistinctMachine.TestCase
TestDistinct.settings = _settings
TestJoin = JoinMachine.TestCase
TestJoin.settings = _settings
