"""Pieces of work whose peak of memory is taken, each in a process of its own."""

from __future__ import annotations

from benchmarks.choice_parts.counters import COUNTERS
from benchmarks.choice_parts.matchers import MATCHERS
from benchmarks.choice_parts.tasks import Task, attributes_task, boxes_task, ranges_task
from benchmarks.threshold_parts.workloads import static


def match(name: str, count: int, rival: str) -> None:
    """Build a rival for a task, and ask it once."""
    task = _task(name, count)
    MATCHERS[rival](task).match(*task.events(100))


def count(queries: int, rival: str) -> None:
    """Build a rival for thresholds, and let it count a few elements."""
    work = static(queries, 200_000)
    COUNTERS[rival](work).count(work.values[:20], work.weights[:20])


def _task(name: str, count: int) -> Task:
    tasks = (ranges_task, boxes_task, lambda n: attributes_task(n, 0.02), lambda n: attributes_task(n, 0.2))
    small = {make(10).name: make for make in tasks}
    return small[name](count)
