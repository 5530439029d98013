"""What every index promises, the engine's own and those of papers: one suite, run over all of them.

`check_invariants` holds after every call, and all indexes begin with a capacity of two.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from benchmarks.instrument.memory import footprint
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import INTERPRETED, examples
from tests.indexes.workloads import BY_RANK, SLOTS, WORKLOADS, Change, RowWorkload, Source, Workload
from tests.test_signatures import signatures
from tocsin.arrays.changes import ENTER, LEAVE, UPDATE, VALUE, ChangeSet
from tocsin.arrays.types import Arrays, Ints
from tocsin.kernels.programs import program
from tocsin.planning import INDEXES, WINDOW
from tocsin.planning.questions import Question

Treat: TypeAlias = Callable[[np.ndarray], np.ndarray]

#: Types that arrays are saved as.
DTYPES = {np.dtype(name) for name in ("bool", "int8", "uint8", "int32", "int64", "float64")}
SMALL = 2
#: Rounds of coming and going; after half of them an index must have stopped to grow.
ROUNDS = 16 if INTERPRETED else 50

every_index = pytest.mark.parametrize(
    "workload",
    [pytest.param(workload, id=f"{workload.folder}: {name}") for name, workload in WORKLOADS.items()],
)
scripts = settings(max_examples=examples(8))
randoms = st.randoms(use_true_random=False)


class Registration(NamedTuple):
    slots: list[int]
    values: Any


class Termination(NamedTuple):
    slots: list[int]


class Batch(NamedTuple):
    steps: list[Any]


Action: TypeAlias = Registration | Termination | Batch


def draw_script(
    workload: Workload, random: Random, source: Source, taken: set[int], length: int = 6
) -> list[Action]:
    """Registrations, terminations and batches; `taken` are the slots in use, and is kept up to date."""
    script: list[Action] = []
    for number in range(length):
        free = sorted(set(range(SLOTS)) - taken)
        kind = random.choice(("register", "terminate", "batch", "batch"))
        if number < 2:
            kind = ("register", "batch")[number]
        if kind == "register" and free:
            slots = random.sample(free, random.randint(1, len(free)))
            script.append(Registration(slots, workload.values(random, len(slots))))
            taken.update(slots)
        elif kind == "terminate" and taken:
            slots = random.sample(sorted(taken), random.randint(1, len(taken)))
            script.append(Termination(slots))
            taken.difference_update(slots)
        else:
            script.append(Batch(source.steps(random, random.randint(0, 4))))
    return script


class Player:
    """An index, driven as the engine drives it."""

    def __init__(self, workload: Workload, index: Any) -> None:
        self.workload = workload
        self.index = index
        #: subscriptions that are there, and whether the first change ends them
        self.is_ending: dict[int, bool] = {}

    def play(
        self, script: list[Action], *, one_by_one: bool = False, net: bool = False
    ) -> list[list[Change]]:
        """Do as the script says; what each batch changed."""
        told = []
        for action in script:
            if isinstance(action, Registration):
                self.register(action)
            elif isinstance(action, Termination):
                self.terminate(action.slots)
            else:
                steps = self.workload.net(action.steps) if net else action.steps
                told.append(self.apply_one_by_one(steps) if one_by_one else self.apply(steps))
        return told

    def register(self, action: Registration, treat: Treat | None = None) -> None:
        inputs = (slots_of(action.slots), action.values)
        self.index.register(*(mapped(inputs, treat) if treat else inputs))
        endings = self.workload.is_ending(action.values, len(action.slots)).tolist()
        self.is_ending.update(zip(action.slots, endings, strict=True))
        self.index.check_invariants()

    def terminate(self, slots: list[int]) -> None:
        there = [slot for slot in slots if slot in self.is_ending]
        self.index.terminate(slots_of(there))
        for slot in there:
            del self.is_ending[slot]
        self.index.check_invariants()

    def apply(self, steps: list[Any], treat: Treat | None = None) -> list[Change]:
        inputs = self.workload.batch(steps)
        changes = rows_of(self.index.apply(*(mapped(inputs, treat) if treat else inputs)))
        self.index.check_invariants()
        self.terminate(sorted({c.subscription for c in changes if self.is_ending[c.subscription]}))
        return changes

    def apply_one_by_one(self, steps: list[Any]) -> list[Change]:
        """The changes of each step alone, numbered and named as in one batch."""
        told = []
        for number, step in enumerate(steps):
            for change in self.apply([step]):
                row = change.row if self.workload.has_rows else number
                told.append(change._replace(step=number, row=row))
        return told

    def answers(self) -> list[Change]:
        """What all subscriptions are told when they ask, the last slot first."""
        found = rows_of(self.index.result(slots_of(sorted(self.is_ending, reverse=True))))
        self.index.check_invariants()
        return found

    def restored(self, treat: Treat = np.copy) -> Player:
        """A fresh index that became this one."""
        index = self.workload.make(SMALL)
        index.restore(mapped(self.index.arrays(), treat))
        index.check_invariants()
        other = Player(self.workload, index)
        other.is_ending = dict(self.is_ending)
        return other


def slots_of(slots: list[int]) -> Ints:
    return np.array(slots, np.int32)


def rows_of(changes: ChangeSet) -> list[Change]:
    assert len({len(column) for column in changes}) == 1
    assert [column.dtype for column in changes] == [column.dtype for column in ChangeSet.empty()]
    return [Change(*row) for row in zip(*(column.tolist() for column in changes), strict=True)]


def mapped(tree: Any, change: Treat) -> Any:
    """Dicts, lists and tuples with each array in them replaced."""
    if isinstance(tree, np.ndarray):
        return change(tree)
    if isinstance(tree, dict):
        return {name: mapped(item, change) for name, item in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_make"):
        return tree._make(mapped(item, change) for item in tree)
    if isinstance(tree, list | tuple):
        return type(tree)(mapped(item, change) for item in tree)
    return tree


def contents(tree: Any) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Types, shapes and bytes of all arrays in a tree."""
    found: list[tuple[str, tuple[int, ...], bytes]] = []

    def note(array: np.ndarray) -> np.ndarray:
        found.append((array.dtype.str, array.shape, array.tobytes()))
        return array

    mapped(tree, note)
    return found


def read_only(array: np.ndarray) -> np.ndarray:
    frozen = array.copy()
    frozen.flags.writeable = False
    return frozen


def strided(array: np.ndarray) -> np.ndarray:
    """Equal, and every second row of another array."""
    return np.repeat(array, 2, axis=0)[::2]


def saved(index: Any) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    arrays: Arrays = index.arrays()
    return dict(zip(arrays, contents(arrays), strict=True))


def shown(thing: object) -> str:
    """Text to compare by: NaN equals NaN, and 0.0 does not equal -0.0."""
    return repr(thing)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, named in INDEXES.items() for name in named]
)
def test_every_index_with_a_name_has_a_workload(kind: str, name: str) -> None:
    named = INDEXES[kind][name]
    score = program([("column", 0), ("theta", 0), ("multiply", 0)])
    questions: list[Any] = [
        Question(kind, WINDOW, dimensions, dimensions, function=function, program=score)
        for dimensions in (1, 2)
        for function in ("min", "sum")
    ]
    made = named.make(next(question for question in questions if named.can_hold(question)))
    assert type(made) in {type(workload.make(SMALL)) for workload in WORKLOADS.values()}


@every_index
@given(random=randoms)
@scripts
def test_a_batch_is_its_steps_one_by_one(workload: Workload, random: Random) -> None:
    script = draw_script(workload, random, workload.source(), set())
    together, alone, net = (Player(workload, workload.make(SMALL)) for _ in range(3))
    for action in script:
        told = together.play([action])
        assert shown(alone.play([action], one_by_one=True)) == shown(told)
        net.play([action], net=True)
        assert shown(alone.answers()) == shown(together.answers())
        assert shown(net.answers()) == shown(together.answers())
    assert saved(alone.index) == saved(together.index)


@every_index
@given(random=randoms)
@scripts
def test_inputs_stay_untouched(workload: Workload, random: Random) -> None:
    script = draw_script(workload, random, workload.source(), set())
    index = workload.make(SMALL)
    for action in script:
        inputs: tuple[Any, ...] = ()
        if isinstance(action, Registration):
            inputs = slots_of(action.slots), action.values
            before = contents(inputs)
            index.register(*inputs)
        elif isinstance(action, Termination):
            inputs = (slots_of(action.slots),)
            before = contents(inputs)
            index.terminate(*inputs)
        else:
            inputs = workload.batch(action.steps)
            before = contents(inputs)
            index.apply(*inputs)
        assert contents(inputs) == before


@every_index
@given(random=randoms)
@settings(max_examples=examples(4))
def test_inputs_may_be_read_only_and_strided(workload: Workload, random: Random) -> None:
    script = draw_script(workload, random, workload.source(), set())
    plain, frozen = Player(workload, workload.make(SMALL)), Player(workload, workload.make(SMALL))
    told = [plain.play([action]) for action in script]
    # What is restored may take other kernels: they are compiled before any input is frozen.
    again = Player(workload, workload.make(SMALL))
    for action in script if not INTERPRETED else ():
        again.play([action])
        again = again.restored()
        again.answers()
    compiled = signatures()
    for action, expected in zip(script, told, strict=True):
        if isinstance(action, Registration):
            frozen.register(action, random.choice((read_only, strided)))
        elif isinstance(action, Batch) and workload.takes_read_only:
            assert shown([frozen.apply(action.steps, read_only)]) == shown(expected)
        else:
            assert shown(frozen.play([action])) == shown(expected)
        frozen = frozen.restored(read_only)
    assert shown(frozen.answers()) == shown(plain.restored().answers())
    assert signatures() == compiled, "an input that cannot be written to was compiled for"


@every_index
@given(random=randoms)
@scripts
def test_restored_from_its_arrays_it_goes_on_as_before(workload: Workload, random: Random) -> None:
    source, taken = workload.source(), set[int]()
    player = Player(workload, workload.make(SMALL))
    player.play(draw_script(workload, random, source, taken))
    before = saved(player.index)
    other = player.restored()
    assert saved(other.index) == before
    assert saved(player.index) == before, "arrays() changed what they are taken from"
    assert shown(other.answers()) == shown(player.answers())
    future = draw_script(workload, random, source, taken)
    assert shown(other.play(future)) == shown(player.play(future))
    assert shown(other.answers()) == shown(player.answers())
    assert saved(other.index) == saved(player.index)


@every_index
@given(random=randoms)
@scripts
def test_arrays_are_plain_and_nobody_else_writes_to_them(workload: Workload, random: Random) -> None:
    source, taken = workload.source(), set[int]()
    player = Player(workload, workload.make(SMALL))
    empty: Arrays = player.index.arrays()
    player.play(draw_script(workload, random, source, taken))
    arrays: Arrays = player.index.arrays()
    assert {name: array.dtype for name, array in arrays.items()} == {
        name: array.dtype for name, array in empty.items()
    }
    for array in arrays.values():
        assert type(array) is np.ndarray
        assert array.flags.c_contiguous
        assert array.dtype in DTYPES
    before = contents(arrays)
    restored = workload.make(SMALL)
    restored.restore(arrays)
    other = Player(workload, restored)
    other.is_ending = dict(player.is_ending)
    future = draw_script(workload, random, source, taken)
    player.play(future)
    other.play(future)
    assert contents(arrays) == before


@every_index
@given(random=randoms)
@scripts
def test_capacity_changes_nothing(workload: Workload, random: Random) -> None:
    script = draw_script(workload, random, workload.source(), set())
    small, large = Player(workload, workload.make(SMALL)), Player(workload, workload.make(1000))
    assert shown(small.play(script)) == shown(large.play(script))
    assert shown(small.answers()) == shown(large.answers())
    assert saved(small.index) == saved(large.index)


@every_index
@given(random=randoms)
@scripts
def test_a_slot_that_is_used_again_starts_afresh(workload: Workload, random: Random) -> None:
    source, taken = workload.source(), set[int]()
    script = draw_script(workload, random, source, taken)
    used, fresh = Player(workload, workload.make(SMALL)), Player(workload, workload.make(SMALL))
    used.play(script)
    used.terminate(sorted(used.is_ending))
    assert used.answers() == []
    if workload.has_rows:
        fresh.play([action for action in script if isinstance(action, Batch)])
    future = draw_script(workload, random, source, set())
    for action in future:
        assert shown(used.play([action])) == shown(fresh.play([action]))
        assert shown(used.answers()) == shown(fresh.answers())


@every_index
@given(random=randoms)
@scripts
def test_changes_come_in_order_and_lead_to_the_answers(workload: Workload, random: Random) -> None:
    player = Player(workload, workload.make(SMALL))
    for action in draw_script(workload, random, workload.source(), set()):
        held = grouped(player.answers())
        if not isinstance(action, Batch):
            player.play([action])
            check_answers(player)
            continue
        told = player.apply(action.steps)
        assert [change.step for change in told] == sorted(change.step for change in told)
        for number, step in enumerate(action.steps):
            changes = [change for change in told if change.step == number]
            places = [workload.place(step, c, held.get(c.subscription, [])) for c in changes]
            assert places == sorted(places)
            assert len({(c.subscription, c.row, c.other) for c in changes}) == len(changes)
            for slot, mine in grouped(changes).items():
                held[slot] = replayed(held.get(slot, []), mine)
        if isinstance(workload, RowWorkload):
            now = grouped(player.answers())
            for slot in player.is_ending:
                is_ranked = workload.order == BY_RANK
                assert listed(held.get(slot, []), is_ranked) == listed(now.get(slot, []), is_ranked)
        check_answers(player)


def grouped(changes: list[Change]) -> dict[int, list[Change]]:
    """By subscription."""
    groups: dict[int, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.subscription, []).append(change)
    return groups


def check_answers(player: Player) -> None:
    """Answers come subscription by subscription as asked for, all of step 0, ranked from 1 on."""
    answers = player.answers()
    assert {change.step for change in answers} <= {0}
    assert {change.op for change in answers} <= {ENTER, VALUE}
    slots = [change.subscription for change in answers]
    assert slots == sorted(slots, reverse=True)
    for mine in grouped(answers).values():
        ranks = [change.rank for change in mine]
        assert ranks in ([0] * len(mine), list(range(1, len(mine) + 1)))
        assert mine[0].op == ENTER or len(mine) == 1


def replayed(held: list[Change], changes: list[Change]) -> list[Change]:
    """What a subscriber holds after the changes of one step, which are in order."""
    if changes[0].op == VALUE:
        return changes[-1:]
    gone = {(change.row, change.other) for change in changes if change.op in (LEAVE, UPDATE)}
    kept = [change for change in held if (change.row, change.other) not in gone]
    assert len(kept) == len(held) - len(gone)
    arriving = [change for change in changes if change.op in (UPDATE, ENTER)]
    for change in sorted(arriving, key=lambda change: change.rank):
        kept.insert(change.rank - 1 if change.rank else len(kept), change)
    return kept


def listed(answer: list[Change], is_ranked: bool) -> str:
    """What a subscriber shows: the order matters where answers are ranked."""
    items = [(change.row, change.other, shown(change.score)) for change in answer]
    return shown(items if is_ranked else sorted(items))


@every_index
def test_memory_is_bounded(workload: Workload) -> None:
    random = Random(5)
    slots = list(range(SLOTS))
    values = workload.values(random, SLOTS)
    source = workload.source()
    player = Player(workload, workload.make(SMALL))
    n_bytes, footprints = [], []
    rounds = max(ROUNDS, workload.least_rounds)
    for number in range(rounds):
        # The same numbers each time, so that only what is kept of the past can make a difference.
        first, *rest = source.fill_and_empty(Random(number % 2))
        player.register(Registration(slots[number % SLOTS :] + slots[: number % SLOTS], values))
        player.apply([first])
        for step in rest:
            player.apply([step])
            n_bytes.append(sum(array.nbytes for array in player.index.arrays().values()))
        player.terminate(slots)
        footprints.append(footprint(player.index))
    half = len(n_bytes) // 2
    assert max(n_bytes[half:]) <= max(n_bytes[:half])
    assert max(footprints[rounds // 2 :]) <= max(footprints[: rounds // 2])
