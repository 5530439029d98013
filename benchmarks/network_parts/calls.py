"""Calls to the server's indexes an event: Table IV of the 2012 paper, and Table VI where the data is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.range_parts.workloads import draw
from tocsin.arrays.types import Floats
from tocsin.indexes.ranges.messages.painters.sparse import PaintSparse
from tocsin.papers.network.workloads import DOMAIN, Rows, normal_ranges, ranges, stocks
from tocsin.papers.topk_paint.unicast import Unicast

BATCH = 1000
#: Events that literal Unicast is asked for: it is slow.
FEW = 300


def count_by_subscriptions(counts: tuple[int, ...], events: int) -> list[dict[str, object]]:
    """Table IV: k = 10, uniform ranges, more and more of them."""
    table, changes = (Rows(t.slot, t.x * DOMAIN, t.y, t.born) for t in draw(1, 10_000, events))
    records: list[dict[str, object]] = []
    for count in counts:
        found = _calls(table, changes, *ranges(1, count, "uniform"), 10)
        records.append({"what": "calls", "table": "IV", "subscriptions": count, **found})
    return records


def count_on_stocks(path: Path, events: int) -> list[dict[str, object]]:
    """Table VI: real data, 400,000 ranges, more and more k."""
    work = stocks(path, events)
    bounds = normal_ranges(1, 400_000, (2000, 1500), (1000, 1000))
    return [
        {"what": "calls", "table": "VI", "k": k, **_calls(work.table, work.events, *bounds, k)}
        for k in (1, 2, 5, 10, 15, 20)
    ]


def _calls(table: Rows, events: Rows, lo: Floats, hi: Floats, k: int) -> dict[str, float]:
    """Searches and snaps of Paint-Sparse, searches of literal Unicast, an event."""
    painter = PaintSparse(k, capacity=1 << 14)
    painter.register(np.arange(len(lo), dtype=np.int32), lo, hi)
    painter.load(*table)
    for begin in range(0, len(events.slot), BATCH):
        painter.apply(*events.part(begin, begin + BATCH))
    rival = Unicast(k, lo, hi, literal=True, capacity=1 << 14)
    rival.load(*table)
    rival.apply(*events.part(0, FEW))
    count = len(events.slot)
    return {
        "min_y": painter.n_searches / count,
        "snap": painter.n_snaps / count,
        "unicast_min_y": rival.n_searches / FEW,
    }
