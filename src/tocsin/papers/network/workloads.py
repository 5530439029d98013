"""The papers' workloads: tables, the events that change them, and the ranges of subscriptions.

All values lie between 0 and 10,000, `DOMAIN`. Everything is determined by a seed.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tocsin.arrays.types import Floats, Ints, Longs

DOMAIN = 10_000.0
#: Number of clusters of rows, and of ranges; their centers divide the domain evenly.
CLUSTERS = 10


class Rows(NamedTuple):
    """Rows by slot; also events, as updated rows."""

    slot: Ints
    x: Floats
    y: Floats
    born: Longs

    def part(self, begin: int, end: int) -> Rows:
        return Rows._make(column[begin:end] for column in self)


class NetworkWorkload(NamedTuple):
    """A table and its events. No event moves a row in x."""

    table: Rows
    events: Rows
    #: float64 (events,): the row's y before
    old_y: Floats


def walking(
    seed: int, rows: int, events: int, *, spikes: float = 0.005, ignorable: float = 0.0, step: float = 0.05
) -> NetworkWorkload:
    """Each y is a random walk with steps relative to its value; some spike to almost 0 and return.

    A share `ignorable` of the events is of rows that stay behind another at the same x.
    """
    random = np.random.default_rng(seed)
    n_hidden = rows // 2 if ignorable else 0
    n_shown = rows - n_hidden
    x = random.uniform(0, DOMAIN, n_shown)
    x = np.concatenate((x, x[:n_hidden]))
    y = random.uniform(0, DOMAIN, rows)
    chosen = random.integers(0, n_shown, events)
    hidden = n_shown + random.integers(0, max(1, n_hidden), events)
    chosen = np.where(random.random(events) < ignorable, hidden, chosen)
    noise, is_spike, depth = random.normal(0, step, events), random.random(events), random.random(events)
    now, after = y.tolist(), []
    back: tuple[int, float] | None = None
    for event, slot in enumerate(chosen.tolist()):
        if back is not None:
            chosen[event], now[back[0]] = back
            after.append(back[1])
            back = None
            continue
        value = now[slot]
        if is_spike[event] < spikes:
            back = (slot, value)
            now[slot] = DOMAIN / 1e6 * depth[event]
        else:
            walked = abs(value + noise[event] * (value + DOMAIN / 100))
            now[slot] = walked if walked <= DOMAIN else 2 * DOMAIN - walked
        after.append(now[slot])
    # Hidden rows stay above all that are shown.
    lift = np.where(np.arange(rows) < n_shown, 0.0, 2 * DOMAIN)
    return _workload(x, y + lift, chosen, np.array(after) + lift[chosen])


def jumping(
    seed: int, rows: int, events: int, *, x: str = "uniform", spread: float | None = None
) -> NetworkWorkload:
    """A row's y rises or falls with equal probability, to anywhere on that side; or nearby, with a `spread`.

    `spread` is the paper's c: the change is normal with c / 8 of the domain.
    """
    random = np.random.default_rng(seed)
    places = _even(rows) if x == "uniform" else np.sort(_clustered(random, rows, 0.0))
    y = random.uniform(0, DOMAIN, rows)
    chosen = random.integers(0, rows, events)
    is_raised, part = random.random(events) < 0.5, random.random(events)
    change = random.normal(0, (spread or 0.0) / 8 * DOMAIN, events)
    now, after = y.tolist(), []
    for event, slot in enumerate(chosen.tolist()):
        value = now[slot]
        if spread is not None:
            now[slot] = min(max(value + change[event], 0.0), DOMAIN)
        else:
            now[slot] = value + (DOMAIN - value) * part[event] if is_raised[event] else value * part[event]
        after.append(now[slot])
    return _workload(places, y, chosen, np.array(after))


def stocks(path: str | Path, events: int) -> NetworkWorkload:
    """Recorded price-earnings ratios by dividend yield: the yield of a symbol is its rounded median.

    Reads columns `op, symbol, pe, div_yield_pct`. Yields of 10 % and more are at the end of the domain.
    """
    table = pq.read_table(path, columns=["op", "symbol", "pe", "div_yield_pct"])
    table = table.filter(pc.not_equal(table.column("op"), "D")).drop_null()
    symbols, slots = np.unique(table.column("symbol").to_numpy(), return_inverse=True)
    yields, ratios = table.column("div_yield_pct").to_numpy(), table.column("pe").to_numpy()
    x = np.array([np.median(yields[slots == slot]) for slot in range(len(symbols))]).round(2)
    first = np.unique(slots, return_index=True)[1]
    later = np.setdiff1d(np.arange(len(slots)), first)[:events]
    return _workload(np.clip(x * 1000, 0, DOMAIN), ratios[first], slots[later], ratios[later])


def normal_ranges(
    seed: int, count: int, middle: tuple[float, float], length: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Ranges with normal middles and lengths, given the mean and deviation of each; lengths are absolute."""
    random = np.random.default_rng(seed)
    middles = random.normal(*middle, count)
    halves = np.abs(random.normal(*length, count)) / 2
    return middles - halves, middles + halves


def ranges(seed: int, count: int, kind: str, deviation: float = 0.5) -> tuple[Floats, Floats]:
    """Ranges of two sorted draws: `uniform`, `clustered`, `correlated` or `anti-correlated`.

    Clustered ranges are around 10 points of subscription space, with the paper's λ as `deviation`; correlated
    ones are around the clusters of rows, and anti-correlated ones midway between these.
    """
    random = np.random.default_rng(seed)
    if kind == "uniform":
        ends = random.uniform(0, DOMAIN, (2, count))
    elif kind == "clustered":
        centers = np.sort(random.uniform(0, DOMAIN, (CLUSTERS, 2)), axis=1)
        chosen = centers[random.integers(0, CLUSTERS, count)].T
        ends = np.clip(chosen + random.normal(0, DOMAIN * deviation / 4, (2, count)), 0, DOMAIN)
    else:
        shift = 0.0 if kind == "correlated" else 0.5
        cluster = random.integers(0, CLUSTERS if kind == "correlated" else CLUSTERS - 1, count)
        ends = np.stack([_clustered(random, count, shift, cluster) for _ in range(2)])
    return ends.min(axis=0), ends.max(axis=0)


def _workload(x: Floats, y: Floats, chosen: np.ndarray, after: Floats) -> NetworkWorkload:
    slots, born = np.arange(len(x), dtype=np.int32), np.arange(len(x), dtype=np.int64)
    chosen = chosen.astype(np.int32)
    table = Rows(slots, x, y, born)
    return NetworkWorkload(table, Rows(chosen, x[chosen], after, born[chosen]), _before(y, chosen, after))


def _before(y: Floats, chosen: Ints, after: Floats) -> Floats:
    """The y of each event's row before it: that of its previous event, or of the table."""
    order = np.argsort(chosen, kind="stable")
    slots, values = chosen[order], after[order]
    is_first = np.diff(slots, prepend=-1) != 0
    before = np.empty(len(chosen))
    before[order] = np.where(is_first, y[slots], np.roll(values, 1))
    return before


def _even(count: int) -> Floats:
    return (np.arange(count) + 0.5) / count * DOMAIN


def _clustered(
    random: np.random.Generator, count: int, shift: float, cluster: np.ndarray | None = None
) -> Floats:
    """Values around the centers, with a deviation of an eighth of the distance between two."""
    width = DOMAIN / (CLUSTERS + 1)
    if cluster is None:
        cluster = np.arange(count) % CLUSTERS
    drawn = (cluster + 1 + shift) * width + random.normal(0, width / 8, count)
    return np.clip(drawn, 0, DOMAIN)
