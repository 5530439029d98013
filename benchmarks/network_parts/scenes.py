"""What is played over NATS: a table, its changes as messages, and ranges; and what everybody should hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import tocsin
from tocsin.arrays.types import Floats, Ints
from tocsin.network.areas import points_of
from tocsin.network.edges import Edge
from tocsin.network.local import LocalCarrier
from tocsin.network.publishing import Publisher
from tocsin.network.zones import Zones
from tocsin.papers.network.workloads import Rows, jumping, ranges

K = 10
SQL = f"SELECT id, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT {K}"
ROWS = 10_000
#: Rows of the table that change between two looks: one `engine.messages` each.
BATCH = 200


class Scene(NamedTuple):
    """Everything that is sent, and the table as it is in the end."""

    space: dict[str, Any]
    #: before the first batch, and after the one that `middle` says
    snapshots: list[pa.Table]
    middle: int
    messages: list[pa.Table]
    last: Rows


def ranges_of(subscriptions: int) -> tuple[Floats, Floats]:
    """The subscriptions, the same in every process."""
    return ranges(3, subscriptions, "uniform")


def draw_scene(least: int) -> Scene:
    """At least so many messages, of a table whose rows jump."""
    events = BATCH * (10 + least // 500)
    work = jumping(5, ROWS, events)
    engine = tocsin.Engine()
    engine.create_table("t", key="id", columns={"id": "bigint", "x": "double", "y": "double"})
    space = engine.create_space(SQL)
    engine.publish("t", _rows(work.table))
    snapshots, messages, count, middle = [engine.snapshot("t", space)], [], 0, 0
    y = work.table.y.copy()
    for begin in range(0, events, BATCH):
        batch = work.events.part(begin, begin + BATCH)
        y[batch.slot] = batch.y
        messages.append(engine.messages("t", _rows(batch)))
        count += messages[-1].num_rows
        if count >= least // 2 and len(snapshots) == 1:
            snapshots.append(engine.snapshot("t", space))
            middle = len(messages) - 1
        if count >= least:
            break
    return Scene(engine.spaces("t")[0], snapshots, middle, messages, work.table._replace(y=y))


def best_of(table: Rows, lo: Floats, hi: Floats) -> tuple[Ints, Ints]:
    """The oracle: rows in order of rank, each given to all ranges that hold it and have room.

    Answers the rows of each range, -1 where there are none, and how many it has.
    """
    found = np.full((len(lo), K), -1, np.int32)
    size = np.zeros(len(lo), np.int32)
    waiting = np.arange(len(lo))
    for slot in np.lexsort((table.born, table.y)).tolist():
        holds = waiting[(lo[waiting] <= table.x[slot]) & (table.x[slot] <= hi[waiting])]
        found[holds, size[holds]] = slot
        size[holds] += 1
        waiting = waiting[size[waiting] < K]
    return found, size


def warm_up() -> None:
    """Have the kernels of publishers and edges compiled, or loaded."""
    scene = draw_scene(100)
    lo, hi = ranges_of(100)
    publisher, carrier = Publisher(), LocalCarrier()
    carrier.publish(publisher.open(scene.space["space"], Zones.build(points_of(lo, hi), 2)))
    carrier.publish(publisher.snapshot(scene.snapshots[0]))
    carrier.attach(Edge(scene.space, lo, hi))
    for messages in scene.messages:
        carrier.publish(publisher.post(messages))
    carrier.bring()


def _rows(rows: Rows) -> pa.Table:
    return pa.table({"id": rows.slot.astype(np.int64), "x": rows.x, "y": rows.y})
