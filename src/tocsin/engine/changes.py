"""The Arrow schema of changes, for every kind of statement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays.changes import OP_NAMES, ChangeSet
from tocsin.arrays.strings import StringInterner
from tocsin.arrays.types import Longs, Ops
from tocsin.engine.conversion.arrow import array_of
from tocsin.engine.groups.base import Group

SCHEMA = pa.schema(
    [
        ("subscription", pa.string()),
        ("seq", pa.int64()),
        ("op", pa.string()),
        ("key", pa.string()),
        ("score", pa.float64()),
        ("rank", pa.int32()),
    ]
)
SCHEMA_WITH_ROWS = SCHEMA.append(pa.field("row", pa.string()))

#: Created once: creating one takes Arrow longer than an index takes to find that nothing changes.
_NONE = SCHEMA.empty_table()
_NONE_WITH_ROWS = SCHEMA_WITH_ROWS.empty_table()

_LONG, _DOUBLE, _INT = pa.int64(), pa.float64(), pa.int32()

#: The operations by number, as names and one by one.


@cache
def _ops() -> StringInterner:
    """The names of operations, created on first use: importing compiles nothing."""
    names = StringInterner()
    names.add(list(OP_NAMES))
    return names


_OP_TEXTS = [pa.scalar(name) for name in OP_NAMES]

#: Changes converted at a time: bounds the memory of intermediate texts.
CHUNK = 1 << 20


def changes_table(
    reported: Sequence[tuple[Group, ChangeSet]], seq: Longs, ids: StringInterner, *, with_rows: bool
) -> pa.Table:
    """The changes that groups reported for one batch, as an Arrow table ordered by step."""
    schema = SCHEMA_WITH_ROWS if with_rows else SCHEMA
    tables = []
    for group, changes in reported:
        count = len(changes.step)
        for begin in range(0, count, CHUNK):
            part = changes if count <= CHUNK else changes.part(begin, begin + CHUNK)
            tables.append(_part_table(group, part, seq, ids, schema))
    if not tables:
        return _NONE_WITH_ROWS if with_rows else _NONE
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    if len(seq) > 1:
        steps = np.concatenate([changes.step for _, changes in reported])
        table = table.take(pa.array(np.argsort(steps, kind="stable")))
    return table


def _op_column(op: Ops) -> Any:
    """The names of operations: often all are the same."""
    return pa.repeat(_OP_TEXTS[op[0]], len(op)) if (op == op[0]).all() else _ops().gather(op)


def _part_table(
    group: Group, changes: ChangeSet, seq: Longs, ids: StringInterner, schema: pa.Schema
) -> pa.Table:
    scores = group.scores(changes)
    columns: list[Any] = [
        ids.gather(group.owner[changes.subscription]),
        array_of(seq[changes.step], _LONG),
        _op_column(changes.op),
        group.keys(changes),
        array_of(scores, _DOUBLE, ~np.isnan(scores)),
        array_of(changes.rank, _INT, changes.rank != 0),
    ]
    if schema is SCHEMA_WITH_ROWS:
        columns.append(group.rows(changes))
    return pa.Table.from_arrays(columns, schema=schema)
