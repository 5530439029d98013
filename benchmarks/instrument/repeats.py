"""Repeats in turn: what disturbs the machine for a while disturbs everybody alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

#: Does the work once and answers how many units of it were done.
Work: TypeAlias = Callable[[], int]


def interleave(
    works: Mapping[str, Work],
    repeats: int = 5,
    clock: Callable[[], float] = time.process_time,
    least_s: float = 0.0,
) -> dict[str, list[float]]:
    """Seconds a unit of each, `repeats` times, one after the other in turn; a first round does not count.

    Work that takes less than `least_s` is done several times a repeat, as often as its warm-up says.
    """
    times = dict.fromkeys(works, 1)
    for name, work in works.items():
        start = clock()
        work()
        took = clock() - start
        if took < least_s:
            # The first time may have compiled: once more, to see what it takes.
            start = clock()
            work()
            took = max(clock() - start, 1e-6)
            times[name] = max(1, min(10_000, round(least_s / took)))
    found: dict[str, list[float]] = {name: [] for name in works}
    with little_garbage():
        for _ in range(repeats):
            for name, work in works.items():
                gc.collect()
                start = clock()
                units = sum(work() for _ in range(times[name]))
                found[name].append((clock() - start) / units)
    return found


@contextmanager
def little_garbage() -> Iterator[None]:
    """What is there already is not looked through at every `gc.collect`: that takes longer than most work."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
