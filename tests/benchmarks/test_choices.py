"""Rivals answer alike, on tasks small enough for a plain loop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from benchmarks.choice_parts.counters import COUNTERS, PostgresJoin
from benchmarks.choice_parts.matchers import MATCHERS, Matcher, numbers_of
from benchmarks.choice_parts.postgres import PostgresMatcher, server
from benchmarks.choice_parts.tasks import Task, attributes_task, boxes_task, ranges_task
from benchmarks.threshold_parts.workloads import static

TASKS = [ranges_task(300), boxes_task(300), attributes_task(300, 0.5)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server() as found:
        if found is None:
            pytest.skip("PostgreSQL's programs are not on this machine")
        yield found


def expected(task: Task, table: np.ndarray) -> list[tuple[int, int]]:
    """All pairs, by looking at each."""
    pairs = []
    for event, row in enumerate(table.tolist()):
        for slot in range(task.count):
            asked = zip(task.attribute[slot], task.low[slot], task.high[slot], strict=True)
            if all(low <= row[attribute] <= high for attribute, low, high in asked):
                pairs.append((event, slot))
    return pairs


def found(task: Task, matcher: Matcher) -> list[tuple[int, int]]:
    events, table = task.events(40)
    place, slots = matcher.match(events, table)
    return sorted(zip(place.tolist(), numbers_of(slots).tolist(), strict=True))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("rival", MATCHERS)
def test_a_matcher_finds_what_a_loop_finds(task: Task, rival: str) -> None:
    if rival == "intervaltree" and task.dimensions > 1:
        pytest.skip("it has one dimension")
    pairs = expected(task, task.events(40)[1])
    assert len(pairs) > 20
    assert found(task, MATCHERS[rival](task)) == pairs


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_postgres_finds_the_same(task: Task, address: str) -> None:
    matcher = PostgresMatcher(task, address)
    assert found(task, matcher) == expected(task, task.events(40)[1])
    matcher.close()


@pytest.mark.parametrize("rival", COUNTERS)
def test_a_counter_counts_what_a_loop_counts(rival: str) -> None:
    work = static(200, 200_000)
    counter = COUNTERS[rival](work)
    for begin in (0, 20):
        counter.count(work.values[begin : begin + 20], work.weights[begin : begin + 20])
    assert counter.reached().tolist() == sums(40)


@pytest.mark.slow
def test_postgres_counts_the_same(address: str) -> None:
    work = static(200, 200_000)
    counter = PostgresJoin(work, address)
    counter.count(work.values[:40], work.weights[:40])
    assert counter.reached().tolist() == sums(40)
    counter.close()


def sums(elements: int) -> list[int]:
    work = static(200, 200_000)
    rows = list(zip(work.values[:elements, 0], work.weights[:elements], strict=True))
    return [
        int(sum(weight for value, weight in rows if low <= value <= high))
        for low, high in zip(work.low[:, 0], work.high[:, 0], strict=True)
    ]
