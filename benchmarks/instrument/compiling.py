"""Kernels are compiled before anything is measured: on all cores, while the programs have one each.

`python -m benchmarks.instrument.compiling`. What is compiled is kept on disk; where it is there already, this
takes seconds.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

from rich.console import Console

from benchmarks import engine
from benchmarks.growth_parts.curves import FAMILIES, Family

#: Few subscriptions, which are scanned, and so many that every index is chosen.
COUNTS = (100, 20_000)
#: Subscriptions of a growth curve: its indexes are not chosen.
SOME = 2000

#: What takes longest to compile comes first, so that no core is left with it at the end.
FIRST = ("messages, Paint-Sparse", "top-k", "preference, table", "matching", "messages, Paint-Dense")


def scenes() -> list[str]:
    """The engine's kinds of statements and the families of growth, by name."""
    names = [kind.name for kind in engine.KINDS] + [family.name for family in FAMILIES]
    return [*FIRST, *dict.fromkeys(name for name in names if name not in FIRST)]


def compile_scene(name: str) -> float:
    """Play whatever has this name, at small sizes: how many seconds that took."""
    start = time.perf_counter()
    for kind in engine.KINDS:
        if kind.name == name:
            for count in COUNTS:
                engine.measure_kind(kind, count, (1, 100), 0.0)
    for family in FAMILIES:
        if family.name == name:
            _play(family)
    return time.perf_counter() - start


def _play(family: Family) -> None:
    """The middle, the first dimensions of its curves, and the first k: one row has kernels of its own."""
    middle = replace(family.middle, subscriptions=SOME, rows=SOME, batch=100)
    chosen = [middle]
    chosen += [replace(middle, dimensions=value) for value in family.knobs.get("dimensions", ())[:2]]
    chosen += [replace(middle, k=value) for value in family.knobs.get("k", ())[:1]]
    for settings in chosen:
        for make in (family.index, family.scan):
            if make is not None:
                make(settings).step()


def main() -> None:
    """Compile everything, as many scenes at a time as there are cores."""
    console = Console(width=120)
    names = scenes()
    # Not forked: the compiler has threads and locks.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for name, seconds in zip(names, pool.map(compile_scene, names), strict=True):
            console.print(f"compiled: {name} ({seconds:.1f} s)")


if __name__ == "__main__":
    main()
