"""Relevance Matters (BE*-Tree), ICDE 2012: figures 6 to 9, table II. Its DBLP workloads are not at hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from benchmarks.choice_parts.matchers import id_order
from benchmarks.growth_parts.worlds import part_of
from benchmarks.instrument.repeats import interleave
from benchmarks.paper_parts.sweeps import Found, Sweep
from tocsin.indexes.matching import AccessIndex, MatchScan
from tocsin.papers.be_star_tree import BEStarTree, BETree, KIndex, TreeOptions
from tocsin.papers.be_star_tree.workload import Knobs, planted

PAPER = "matching"
UNIT = "µs an event"
REPEATS = 5
#: The tree with the paper's leaf, order of attributes and bounds.
PRINTED = "BE*-Tree, as printed"
AS_PRINTED = TreeOptions(leaf=5, first="popular", is_capped=False)
RIVALS: dict[str, Callable[[], Any]] = {
    "engine": AccessIndex,
    "BE*-Tree": BEStarTree,
    PRINTED: partial(BEStarTree, options=AS_PRINTED),
    "BE-Tree": BETree,
    "k-index": KIndex,
    "SCAN": MatchScan,
}
#: Events that each is measured on.
EVENTS = {"engine": 500, "BE*-Tree": 100, PRINTED: 100, "BE-Tree": 100, "k-index": 20, "SCAN": 50}
#: How many matches are wanted, and what that is called.
Tops = tuple[tuple[str, int | None], ...]
ALL: Tops = (("", None),)
TOPS: Tops = (("", None), ("(1)", 1), ("(5)", 5))


def sweeps(quick: bool) -> list[Sweep]:
    """All figures; the paper has 100,000 subscriptions in figures 6 and 7, and up to a million in 8 and 9."""
    count = 10_000 if quick else 100_000
    made = []
    for part, is_zipf in (("uniform", False), ("Zipf", True)):
        base = Knobs(count, is_zipf=is_zipf)
        made += [
            Sweep(PAPER, "Figure 6", part, "cardinality", UNIT, [2500, 250_000, 250_000_000],
                  partial(_match, base, "cardinality")),
            Sweep(PAPER, "Figure 7", f"{part}, clusters", "number", UNIT, [2, 8, 26],
                  partial(_match, base, "clusters")),
            Sweep(PAPER, "Figure 7", f"{part}, clusters", "size", UNIT, [25, 100, 800],
                  partial(_match, base, "cluster_size")),
            Sweep(PAPER, "Figure 8", part, "subscriptions", UNIT, [count, (3 if quick else 10) * count],
                  partial(_match, base, "subscriptions", tops=TOPS)),
            Sweep(PAPER, "Figure 9", part, "matching probability, %", UNIT, [0.01, 0.1, 1, 9],
                  partial(_by_chance, base)),
            Sweep(PAPER, "Table II(b)", "construction", part, "s", [count], partial(_construction, base)),
        ]  # fmt: skip
    for chance in (0.1, 1, 9):
        base = _chance(Knobs(count), chance)
        made.append(
            Sweep(
                PAPER,
                "Table II(a)",
                f"matching {chance:g} %",
                "leaf",
                UNIT,
                [5, 20, 160],
                partial(_leaves, base),
            )
        )
    return made


def _chance(base: Knobs, percent: float) -> Knobs:
    """As many profiles as can give a probability: a subscription matches no event of another profile."""
    profiles = max(1, min(250, int(100 / percent)))
    return replace(base, match_probability=percent / 100, profiles=profiles)


def _by_chance(base: Knobs, percent: float | str) -> Found:
    return _everybody(_chance(base, float(percent)), TOPS)


def _match(base: Knobs, field: str, value: float | str, tops: Tops = ALL) -> Found:
    changed: dict[str, Any] = {field: int(value)}
    return _everybody(replace(base, **changed), tops)


@cache
def _everybody(knobs: Knobs, tops: Tops) -> Found:
    """Everybody in turn; with tops, the best one and the best five beside all.

    What several figures have in common is played once.
    """
    built = {name: make() for name, make in RIVALS.items() if _takes_part(name, knobs)}
    return _time(knobs, built, tops)


def _takes_part(name: str, knobs: Knobs) -> bool:
    """Posting lists of a million subscriptions take a minute to build."""
    return name != "k-index" or knobs.subscriptions <= 100_000


def _leaves(knobs: Knobs, leaf: float | str) -> Found:
    return _time(knobs, {PRINTED: BEStarTree(options=replace(AS_PRINTED, leaf=int(leaf)))}, ALL)


def _construction(knobs: Knobs, count: float | str) -> Found:
    """Seconds to build all at once."""
    work = planted(replace(knobs, subscriptions=int(count)))
    slots, ids, event = np.arange(int(count), dtype=np.int32), id_order(int(count)), work.events(1)
    took: dict[str, list[float]] = {}
    for name in ("engine", "BE*-Tree", PRINTED, "BE-Tree"):
        found = []
        for _ in range(REPEATS):
            index = RIVALS[name]()
            start = time.process_time()
            index.register(slots, work.subscriptions)
            # Some are built when the first event comes.
            index.apply(event, None, ids)
            found.append(time.process_time() - start)
        took[name] = found
    return took


def _time(knobs: Knobs, built: dict[str, Any], tops: Tops) -> Found:
    work = planted(knobs)
    slots, ids = np.arange(knobs.subscriptions, dtype=np.int32), id_order(knobs.subscriptions)
    events = work.events(max(EVENTS.values()))
    works = {}
    for name, index in built.items():
        index.register(slots, work.subscriptions)
        some = part_of(events, 0, EVENTS[name])
        for label, top in tops:
            works[name + label] = partial(_apply, index, some, top, ids)
    return {name: [1e6 * each for each in found] for name, found in interleave(works, REPEATS).items()}


def _apply(index: Any, events: Any, top: int | None, ids: Any) -> int:
    index.apply(events, top, ids)
    return int(events.n_events)
