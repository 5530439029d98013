"""The slow, obvious answer to live rows and score thresholds, and a simulated source for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from hypothesis import strategies as st

from tocsin.arrays.changes import OP_NAMES, ChangeSet
from tocsin.indexes.contract import RowDelta

Steps: TypeAlias = Sequence[tuple[str, int | float]]
#: op, row, score (NaN for none), rank (0 for none)
Change: TypeAlias = tuple[str, int, float, int]

#: Few values, so that rows tie.
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, math.inf, -math.inf, math.nan])


class MemberRow(NamedTuple):
    """A row: its insertion number, its values, and a version of what else is selected of it."""

    born: int
    values: tuple[float, ...]
    version: int = 0


#: What a source holds: row slot to row.
State: TypeAlias = dict[int, MemberRow]


class Query(NamedTuple):
    """One subscription. Members use the score interval, top-k uses k."""

    lo: tuple[float, ...]
    hi: tuple[float, ...]
    theta: tuple[float, ...] = ()
    score_lo: float = -math.inf
    score_hi: float = math.inf
    k: int = 1


def evaluate(steps: Steps, columns: Sequence[float], theta: Sequence[float]) -> float:
    """Plain evaluation of a postfix program over Python floats."""
    stack: list[float] = []
    for name, argument in steps:
        if name == "column":
            stack.append(columns[int(argument)])
        elif name == "theta":
            stack.append(theta[int(argument)])
        elif name == "constant":
            stack.append(float(argument))
        elif name in ("add", "subtract", "multiply", "divide", "power"):
            right = stack.pop()
            left = stack.pop()
            stack.append(_binary(name, left, right))
        else:
            stack.append(_unary(name, stack.pop()))
    (result,) = stack
    return result


def _binary(name: str, left: float, right: float) -> float:
    if math.isnan(left) or math.isnan(right):
        return math.nan
    if name == "add":
        return left + right
    if name == "subtract":
        return left - right
    if name == "multiply":
        return left * right
    if name == "divide":
        return left / right if right != 0 else math.nan
    if left == 0 and right < 0:
        return math.nan
    is_odd = math.isfinite(right) and right == int(right) and int(right) % 2 == 1
    try:
        return math.pow(left, right)
    except OverflowError:
        return -math.inf if left < 0 and is_odd else math.inf
    except ValueError:
        if left != 0:
            return math.nan
        return math.copysign(math.inf, left) if is_odd else math.inf


def _unary(name: str, value: float) -> float:
    if name == "negate":
        return -value
    if name == "abs":
        return abs(value)
    if name == "sqrt":
        return math.sqrt(value) if value >= 0 else math.nan
    if name == "ln":
        if value == 0:
            return -math.inf
        return math.log(value) if value > 0 else math.nan
    assert name == "exp"
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def is_inside(row: MemberRow, query: Query) -> bool:
    """Whether a row is inside a query's box."""
    box = row.values[: len(query.lo)]
    return all(lo <= x <= hi for lo, x, hi in zip(query.lo, box, query.hi, strict=True))


def score_of(row: MemberRow, query: Query, steps: Steps | None) -> float:
    """A row's score; NaN without a program."""
    if steps is None:
        return math.nan
    return evaluate(steps, row.values[len(query.lo) :], query.theta) + 0.0


def members(state: State, query: Query, steps: Steps | None) -> dict[int, float]:
    """The rows inside, with their scores."""
    found = {}
    for slot, row in state.items():
        score = score_of(row, query, steps)
        if is_inside(row, query) and (steps is None or query.score_lo <= score <= query.score_hi):
            found[slot] = score
    return found


def member_changes(before: State, after: State, query: Query, steps: Steps | None) -> list[Change]:
    """What one step changes for one query, in reporting order."""
    old, new = members(before, query, steps), members(after, query, steps)
    leaves = sorted(set(old) - set(new), key=lambda slot: before[slot].born)
    both = sorted(set(old) & set(new), key=lambda slot: after[slot].born)
    enters = sorted(set(new) - set(old), key=lambda slot: after[slot].born)
    updates = [
        slot
        for slot in both
        if is_touched(before[slot], after[slot]) or (steps is not None and old[slot] != new[slot])
    ]
    return (
        [("leave", slot, math.nan, 0) for slot in leaves]
        + [("update", slot, new[slot], 0) for slot in updates]
        + [("enter", slot, new[slot], 0) for slot in enters]
    )


def member_result(state: State, query: Query, steps: Steps | None) -> list[Change]:
    """The answer as enters: by score and then the newest first, without scores by age."""
    found = members(state, query, steps)
    if steps is None:
        order = sorted(found, key=lambda slot: state[slot].born)
    else:
        order = sorted(found, key=lambda slot: (-found[slot], -state[slot].born))
    return [("enter", slot, found[slot], 0) for slot in order]


def is_touched(before: MemberRow, after: MemberRow) -> bool:
    """Whether an unchanged score is reported because of other columns."""
    return before.version != after.version or before.born != after.born


class Action(NamedTuple):
    """Something that happens to a source."""

    kind: str
    choice: int
    values: tuple[float, ...]
    version: int


def actions(n_columns: int) -> st.SearchStrategy[list[Action]]:
    """What may happen within a step."""
    kinds = st.sampled_from(["insert", "insert", "insert", "update", "touch", "delete", "reinsert", "expire"])
    values = st.tuples(*[NUMBERS] * n_columns)
    return st.lists(st.builds(Action, kinds, st.integers(0, 30), values, st.integers(0, 1)), max_size=5)


class SimulatedSource:
    """A simulated table or window: it turns successive states into deltas."""

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns
        self.state: State = {}
        self.born = 0
        #: the states before and after each step not yet taken as a delta
        self.pending: list[tuple[State, State]] = []

    def begin(self) -> None:
        """Begin a step."""
        self.pending.append((dict(self.state), self.state))

    def end(self) -> None:
        """End a step."""
        before, after = self.pending.pop()
        self.pending.append((before, dict(after)))

    def insert(self, values: Sequence[float]) -> None:
        """Insert a row into the smallest slot that was free before the step and is free now."""
        taken = self.state.keys() | self.pending[-1][0].keys()
        slot = next(slot for slot in range(len(taken) + 1) if slot not in taken)
        self.state[slot] = MemberRow(self._next_born(), tuple(values))

    def update(self, choice: int, values: Sequence[float] | None, version: int) -> None:
        """Change a row in place: its values, unless None, and its version."""
        slot = self._choose(choice)
        if slot is not None:
            row = self.state[slot]
            self.state[slot] = MemberRow(row.born, row.values if values is None else tuple(values), version)

    def reinsert(self, choice: int, values: Sequence[float]) -> None:
        """Delete a row and insert its key again."""
        slot = self._choose(choice)
        if slot is not None:
            self.state[slot] = MemberRow(self._next_born(), tuple(values))

    def delete(self, choice: int) -> None:
        """Delete a row."""
        slot = self._choose(choice)
        if slot is not None:
            del self.state[slot]

    def expire(self, keep: int) -> None:
        """Retain only the newest rows."""
        for slot in sorted(self.state, key=lambda slot: self.state[slot].born)[: len(self.state) - keep]:
            del self.state[slot]

    def act(self, actions: Sequence[Action]) -> None:
        """Apply actions in order."""
        for action in actions:
            values = action.values
            if action.kind == "insert":
                self.insert(values)
            elif action.kind == "update":
                self.update(action.choice, values, action.version)
            elif action.kind == "touch":
                self.update(action.choice, None, action.version)
            elif action.kind == "delete":
                self.delete(action.choice)
            elif action.kind == "reinsert":
                self.reinsert(action.choice, values)
            else:
                self.expire(action.choice % 5)

    def take(self) -> tuple[RowDelta, list[tuple[State, State]]]:
        """The steps since the last call: as a delta, and as states."""
        steps, self.pending = self.pending, []
        return delta_of(steps, self.n_columns), steps

    def _next_born(self) -> int:
        self.born += 1
        return self.born - 1

    def _choose(self, choice: int) -> int | None:
        slots = sorted(self.state)
        return slots[choice % len(slots)] if slots else None


def delta_of(steps: Sequence[tuple[State, State]], n_columns: int) -> RowDelta:
    """The delta of steps, each given as what was there before and after."""
    missing = MemberRow(-1, (math.nan,) * n_columns)
    entries: list[tuple[int, int, MemberRow, MemberRow]] = []
    for number, (before, after) in enumerate(steps):
        # In no order that an index could lean on: the engine promises none within a step.
        for slot in sorted(before.keys() | after.keys(), key=lambda slot: (slot * 7) % 5):
            old, new = before.get(slot, missing), after.get(slot, missing)
            if old != new:
                entries.append((number, slot, old, new))
    shape = (len(entries), n_columns)
    return RowDelta(
        seq=np.arange(len(steps), dtype=np.int64),
        step=np.array([entry[0] for entry in entries], np.int32),
        row=np.array([entry[1] for entry in entries], np.int32),
        born_before=np.array([entry[2].born for entry in entries], np.int64),
        born_after=np.array([entry[3].born for entry in entries], np.int64),
        before=np.array([entry[2].values for entry in entries], np.float64).reshape(shape),
        after=np.array([entry[3].values for entry in entries], np.float64).reshape(shape),
        touched=np.array(
            [old.born >= 0 and new.born >= 0 and is_touched(old, new) for _, _, old, new in entries], np.bool_
        ),
    )


def grouped(changes: ChangeSet) -> dict[tuple[int, int], list[Change]]:
    """Changes by step and subscription, which must come in order, each once."""
    groups: dict[tuple[int, int], list[Change]] = {}
    last = None
    for step, slot, op, row, other, score, rank in zip(*(c.tolist() for c in changes), strict=True):
        assert other == -1
        if (step, slot) != last:
            assert (step, slot) not in groups
            last = (step, slot)
        groups.setdefault((step, slot), []).append((OP_NAMES[op], row, score, rank))
    assert list(groups) == sorted(groups)
    return groups


def shown(changes: list[Change]) -> list[str]:
    """Changes as text, so that NaN equals NaN and 0.0 is not -0.0."""
    return [repr(change) for change in changes]
