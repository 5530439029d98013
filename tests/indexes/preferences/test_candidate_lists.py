"""Candidate lists against the oracle, and where they differ from a scan."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import settings

from tests.indexes.preferences.machine import PROGRAMS, WEIGHED, PreferenceMachine, register
from tests.oracles.members import MemberRow, Query, SimulatedSource, Steps, delta_of, grouped, shown
from tests.oracles.windows import top_k, top_k_changes
from tocsin.arrays.changes import ENTER
from tocsin.arrays.types import Ints
from tocsin.indexes.contract import RowIndex
from tocsin.indexes.preferences.candidate_lists import layout
from tocsin.indexes.preferences.candidate_lists import state as list_state
from tocsin.indexes.preferences.candidate_lists.grid import cells_of, new_grid
from tocsin.indexes.preferences.candidate_lists.index import CandidateLists
from tocsin.indexes.preferences.candidate_lists.step_kernels import apply_steps
from tocsin.kernels.programs import Program, program
from tocsin.papers.sliding_windows.scan import PreferenceScan


class CandidateListsMachine(PreferenceMachine):
    """Candidate lists, over windows and tables."""

    def make(
        self, dimensions: int, scorer: Program, *, descending: bool, newest_first: bool, capacity: int
    ) -> RowIndex:
        return CandidateLists(
            dimensions,
            scorer,
            descending=descending,
            newest_first=newest_first,
            capacity=capacity,
            cells=4 * capacity,
        )


CandidateListsMachine.TestCase.settings = settings(stateful_step_count=15)
TestCandidateLists = CandidateListsMachine.TestCase

#: Sums, products, quadratics and more, rising in some columns and falling in others.
SCORERS: dict[str, Steps] = {
    "sum": PROGRAMS[0],
    "sum with other weights": WEIGHED,
    "product": PROGRAMS[1],
    "square": [("column", 0), ("constant", 2.0), ("power", 0), ("theta", 0), ("multiply", 0),
               ("column", 1), ("theta", 1), ("multiply", 0), ("subtract", 0)],
    "ratio": [("theta", 0), ("column", 0), ("add", 0), ("column", 1), ("abs", 0), ("theta", 1), ("add", 0),
              ("divide", 0)],
    "root and logarithm": [("column", 0), ("abs", 0), ("sqrt", 0), ("theta", 0), ("multiply", 0),
                           ("column", 1), ("abs", 0), ("ln", 0), ("theta", 1), ("multiply", 0), ("add", 0)],
}  # fmt: skip


def played(index: RowIndex, steps: Steps, dimensions: int, *, descending: bool, is_table: bool) -> None:
    """Many subscriptions over drifting rows, some of them odd, against the oracle."""
    random, draw = np.random.default_rng(3), Random(3)
    source = SimulatedSource(dimensions + 2)
    queries: dict[int, Query] = {}
    answers: dict[int, list[tuple[int, float]]] = {}

    def add(slots: range) -> None:
        added = {
            slot: Query(
                tuple((random.random(dimensions) - 0.3).tolist()),
                tuple((random.random(dimensions) + 0.6).tolist()),
                tuple((random.random(2) - 0.2).tolist()),
                k=draw.choice((1, 2, 5, 9)),
            )
            for slot in slots
        }
        register(index, added)
        queries.update(added)
        for slot, query in added.items():
            answers[slot] = top_k(
                source.state, query, steps, descending=descending, newest_first=not is_table
            )

    for cycle in range(12):
        if cycle in (0, 2, 5):
            add(range(len(queries), len(queries) + (90, 40, 7)[(0, 2, 5).index(cycle)]))
        if cycle == 7:
            gone = np.array(sorted(queries)[::5], np.int32)
            index.terminate(gone)
            for slot in gone.tolist():
                del queries[slot], answers[slot]
        source.begin()
        for values in (random.random((25, dimensions + 2)) + 0.1 * cycle).tolist():
            if draw.random() < 0.05:
                values[draw.randrange(len(values))] = draw.choice((math.inf, -math.inf, math.nan, 1e300))
            source.insert([round(value, 2) for value in values])
        if is_table:
            for choice in range(10):
                source.delete(7 * choice)
                source.update(
                    5 * choice, [round(value, 2) for value in random.random(dimensions + 2).tolist()], 0
                )
        else:
            source.expire(120)
        source.end()
        delta, [(before, after)] = source.take()
        groups = grouped(index.apply(delta))
        index.check_invariants()
        for slot, query in queries.items():
            new = top_k(after, query, steps, descending=descending, newest_first=not is_table)
            expected = top_k_changes(before, after, answers[slot], new)
            assert shown(groups.pop((0, slot), [])) == shown(expected)
            answers[slot] = new
        assert not groups


@pytest.mark.parametrize("name", SCORERS)
@pytest.mark.parametrize(("dimensions", "descending", "is_table"), [(0, True, False), (1, False, True)])
def test_many_subscriptions_over_drifting_rows(
    name: str, dimensions: int, descending: bool, is_table: bool
) -> None:
    index = CandidateLists(
        dimensions,
        program(SCORERS[name]),
        descending=descending,
        newest_first=not is_table,
        capacity=2,
        cells=100,
    )
    played(index, SCORERS[name], dimensions, descending=descending, is_table=is_table)


def test_scan_and_candidate_lists_have_the_same_arrays() -> None:
    scorer = program(PROGRAMS[0])
    lists = CandidateLists(0, scorer, descending=True, newest_first=True, capacity=2, cells=64)
    scan = PreferenceScan(0, scorer, descending=True, newest_first=True, capacity=2)
    random = np.random.default_rng(1)
    state = {
        slot: MemberRow(slot, tuple(values)) for slot, values in enumerate(random.random((50, 2)).tolist())
    }
    lists.apply(delta_of([({}, state)], 2))
    register(lists, {slot: Query((), (), (1.0, slot / 9), k=3) for slot in range(9)})
    scan.restore(lists.arrays())
    scan.check_invariants()
    again = CandidateLists(0, scorer, descending=True, newest_first=True, cells=64)
    again.restore(scan.arrays())
    again.check_invariants()
    slots = np.arange(9, dtype=np.int32)
    assert repr(scan.result(slots)) == repr(lists.result(slots)) == repr(again.result(slots))


def test_a_list_that_ran_short_is_refilled_and_then_ranked_again() -> None:
    index = CandidateLists(0, program([("column", 0)]), descending=True, newest_first=True)
    state = {slot: MemberRow(slot, (float(slot),)) for slot in range(200)}
    index.apply(delta_of([({}, state)], 1))
    register(index, {0: Query((), (), k=2)})
    for top in (195, 180, 60):
        remaining = {slot: row for slot, row in state.items() if slot < top}
        changes = index.apply(delta_of([(state, remaining)], 1))
        assert changes.row.tolist() == [len(state) - 1, len(state) - 2, top - 1, top - 2]
        assert changes.rank.tolist() == [0, 0, 1, 2]
        index.check_invariants()
        state = remaining


def test_lists_that_run_short_together_have_their_refill_floors_lowered_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lowered = []
    rank = list_state.CandidateListState._rank

    def noted(state: list_state.CandidateListState, lanes: Ints, *, is_listing: bool) -> np.ndarray:
        lowered.append(len(lanes))
        return rank(state, lanes, is_listing=is_listing)

    index = CandidateLists(0, program(PROGRAMS[0]), descending=True, newest_first=True, capacity=2, cells=64)
    scan = PreferenceScan(0, program(PROGRAMS[0]), descending=True, newest_first=True)
    random = np.random.default_rng(6)
    rows = sorted(random.random((300, 2)).round(2).tolist(), key=sum)
    state = {slot: MemberRow(slot, tuple(values)) for slot, values in enumerate(rows)}
    queries = {slot: Query((), (), tuple((1 + random.random(2)).tolist()), k=2) for slot in range(700)}
    for each in (index, scan):
        each.apply(delta_of([({}, state)], 2))
        register(each, queries)
    monkeypatch.setattr(list_state.CandidateListState, "_rank", noted)
    for top in (200, 199, 60):
        remaining = {slot: row for slot, row in state.items() if slot < top}
        delta = delta_of([(state, remaining)], 2)
        assert repr(index.apply(delta)) == repr(scan.apply(delta))
        index.check_invariants()
        state = remaining
    assert 2 <= len(lowered) < 40
    assert max(lowered) > 64


def test_a_row_that_falls_among_equals_leaves_by_its_old_score() -> None:
    index = CandidateLists(0, program([("column", 0)]), descending=True, newest_first=False)
    state = {slot: MemberRow(born, (5.0,)) for slot, born in ((2, 1), (0, 2), (1, 4))}
    index.apply(delta_of([({}, state)], 1))
    register(index, {0: Query((), (), k=1)})
    fallen = {slot: row._replace(version=1) for slot, row in state.items()} | {1: MemberRow(4, (1.0,))}
    index.apply(delta_of([(state, fallen)], 1))
    index.check_invariants()
    changes = index.apply(delta_of([(fallen, {1: fallen[1]})], 1))
    assert changes.score[changes.op == ENTER].tolist() == [1.0]


def test_a_grid_over_numbers_farther_apart_than_the_largest_double() -> None:
    values = np.array([[-1e308, 1e308] * 20])
    grid = new_grid(values, np.ones(40, np.bool_), 1, cells=64)
    # Were one of them no number, every row would be outside of the grid.
    assert np.isfinite(grid.edge).all()
    assert cells_of(grid, values, np.arange(2, dtype=np.int32)).all()


def test_templates_and_their_parameters_are_data_and_compile_nothing() -> None:
    kinds = set()
    for name, steps in SCORERS.items():
        index = CandidateLists(0, program(steps), descending=True, newest_first=True, cells=64)
        register(index, {slot: Query((), (), (slot / 7, 1.0), k=1 + slot % 3) for slot in range(100)})
        rows = {slot: MemberRow(slot, (float(slot), 1.0)) for slot in range(len(name))}
        index.apply(delta_of([({}, rows)], 2))
        # Without the compiler there are none.
        kinds.add(tuple(getattr(apply_steps, "signatures", ())))
    assert len(kinds) == 1
    assert len(kinds.pop()) <= 1


def test_a_stale_grid_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_state, "MIN_TESTS", 100)
    monkeypatch.setattr(list_state, "SUBSCRIPTION_COST", 1)
    index = CandidateLists(0, program(PROGRAMS[0]), descending=True, newest_first=True, cells=64)
    scan = PreferenceScan(0, program(PROGRAMS[0]), descending=True, newest_first=True)
    random = np.random.default_rng(2)
    queries = {slot: Query((), (), tuple(random.random(2).tolist()), k=2) for slot in range(70)}
    register(index, queries)
    register(scan, queries)
    source = SimulatedSource(2)
    grids = set()
    for cycle in range(25):
        for values in (random.random((40, 2)) + cycle).tolist():
            source.begin()
            source.insert(values)
            source.expire(30 + 10 * cycle)
            source.end()
        delta, _ = source.take()
        assert repr(index.apply(delta)) == repr(scan.apply(delta))
        grids.add(index._state.grid.edge.tobytes())
    index.check_invariants()
    assert len(grids) > 2


def test_the_first_subscription_gets_a_grid_of_its_own() -> None:
    index = CandidateLists(0, program(PROGRAMS[0]), descending=True, newest_first=True)
    values = np.random.default_rng(6).random((40_000, 2)).tolist()
    rows = {slot: MemberRow(slot, tuple(pair)) for slot, pair in enumerate(values)}
    index.apply(delta_of([({}, rows)], 2))
    register(index, {0: Query((), (), (1.0, 1.0), k=5)})
    assert index._state.n_cells > 1000
    assert index._state.cursor[layout.N_CANDIDATES] < len(rows) / 10
    index.check_invariants()


def test_more_tiles_than_are_processed_together() -> None:
    index = CandidateLists(0, program(PROGRAMS[0]), descending=True, newest_first=True, capacity=2, cells=64)
    scan = PreferenceScan(0, program(PROGRAMS[0]), descending=True, newest_first=True)
    random = np.random.default_rng(5)
    queries = {slot: Query((), (), tuple(random.random(2).tolist()), k=1 + slot % 3) for slot in range(1100)}
    source = SimulatedSource(2)
    for count in (40, 0, 12, 12, 12):
        if count == 0:
            register(index, queries)
            register(scan, queries)
            continue
        source.begin()
        for values in random.random((count, 2)).round(1).tolist():
            source.insert(values)
        source.expire(40)
        source.end()
        delta, _ = source.take()
        assert repr(index.apply(delta)) == repr(scan.apply(delta))
        index._state.check_columns()
    assert index._state.grid.tile_bits.shape[1] > 2


def test_memory_for_a_large_delta_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_state, "MAX_DOUBLED", 64)
    index = CandidateLists(0, program(PROGRAMS[0]), descending=True, newest_first=True, cells=64)
    scan = PreferenceScan(0, program(PROGRAMS[0]), descending=True, newest_first=True)
    random = np.random.default_rng(4)
    queries = {slot: Query((), (), tuple(random.random(2).tolist()), k=2) for slot in range(70)}
    register(index, queries)
    register(scan, queries)
    source = SimulatedSource(2)
    capacities = []
    for count in (300, 5, 5, 200, 3):
        source.begin()
        for values in random.random((count, 2)).tolist():
            source.insert(values)
        source.expire(300)
        source.end()
        delta, _ = source.take()
        assert repr(index.apply(delta)) == repr(scan.apply(delta))
        index.check_invariants()
        capacities.append(len(index._state.scratch.pending))
    assert capacities[1] == capacities[2] < capacities[0]
    assert capacities[4] < capacities[3]
    assert len(index._state.rows.born) < 600


@pytest.mark.parametrize(("descending", "first"), [(True, "largest"), (False, "smallest")])
def test_explain_is_one_line(descending: bool, first: str) -> None:
    index = CandidateLists(0, program([("theta", 0)]), descending=descending, newest_first=descending)
    register(index, {0: Query((), (), (1.0,)), 1: Query((), (), (2.0,))})
    assert index.explain().startswith("preference top-k")
    assert first in index.explain()
    assert "\n" not in index.explain()


def test_parameters_are_what_was_registered() -> None:
    index = CandidateLists(1, program([("theta", 0)]), descending=True, newest_first=True)
    register(index, {3: Query((1.0,), (2.0,), (0.5,), k=7)})
    assert index.parameters(3) == {"lo": [1.0], "hi": [2.0], "theta": [0.5], "k": 7}
