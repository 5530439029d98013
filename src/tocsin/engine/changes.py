"""Changes as the user sees them: one Arrow schema for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.engine.groups.base import Group
from tocsin.indexes.contract import OP_NAMES, ChangeSet, Longs, Ops
from tocsin.indexes.shared.names import Names

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

#: Made once: Arrow takes longer to make one than an index takes to find that nothing changes.
_NONE = SCHEMA.empty_table()
_NONE_WITH_ROWS = SCHEMA_WITH_ROWS.empty_table()

_TEXT = pa.string()
_OPS = pa.array(OP_NAMES, _TEXT)

#: How many changes are written at a time: bounds the memory of the texts in the making.
CHUNK = 1 << 20
#: Up to so many operations are named one by one: cheaper than to have Arrow take them.
FEW = 32


def changes_table(
    told: Sequence[tuple[Group, ChangeSet]], seq: Longs, ids: Names, *, with_rows: bool
) -> pa.Table:
    """What the groups' indexes reported of one batch, as an Arrow table ordered by step."""
    schema = SCHEMA_WITH_ROWS if with_rows else SCHEMA
    tables = []
    for group, changes in told:
        for begin in range(0, len(changes.step), CHUNK):
            part = changes.part(begin, begin + CHUNK)
            tables.append(_part_table(group, part, seq, ids, schema))
    if not tables:
        return _NONE_WITH_ROWS if with_rows else _NONE
    if len(tables) == 1:
        return tables[0]
    table = pa.concat_tables(tables)
    if len(seq) > 1:
        steps = np.concatenate([changes.step for _, changes in told])
        table = table.take(pa.array(np.argsort(steps, kind="stable")))
    return table


def _part_table(group: Group, changes: ChangeSet, seq: Longs, ids: Names, schema: pa.Schema) -> pa.Table:
    columns: list[Any] = [
        ids.gather(group.owner[changes.subscription]),
        pa.array(seq[changes.step]),
        _names_of(changes.op),
        group.keys(changes),
        pa.array(changes.score, mask=np.isnan(changes.score)),
        pa.array(changes.rank, mask=changes.rank == 0),
    ]
    if schema is SCHEMA_WITH_ROWS:
        columns.append(group.rows(changes))
    return pa.Table.from_arrays(columns, schema=schema)


def _names_of(ops: Ops) -> pa.Array:
    if len(ops) <= FEW:
        return pa.array([OP_NAMES[op] for op in ops.tolist()], _TEXT)
    return _OPS.take(pa.array(ops))
