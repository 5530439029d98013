"""Statements as queries on a job's spaces: what a gateway fed over NATS can subscribe to, and its answers.

Such a gateway has no tables. A statement is resolved against a schema made of the columns that it names, and
the name of the resulting space decides: the job publishes that space, or it does not.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Floats
from tocsin.engine.spaces.space_keys import SpaceKey, space_key_of
from tocsin.errors import Error, ParameterError
from tocsin.gateway.core.changes import Change
from tocsin.gateway.core.statements import Checked, visible
from tocsin.gateway.registry import EVERY, Grants
from tocsin.language import (
    Aggregate,
    Column,
    Distinct,
    Plan,
    SourceSchema,
    Statement,
    TopK,
    bind,
    parse,
    plan,
)
from tocsin.subscriber import Entry
from tocsin.types import ColumnType

_NAME = r'(?:[^\W\d]\w*|"(?:[^"\\]|\\.)*")'
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_RANKED = re.compile(rf" ORDER BY ({_NAME})")
_SOURCE = re.compile(rf"(?:[A-Z]+\({_NAME}\) )?FROM ({_NAME})")

_NUMBER = ColumnType.parse("double", column="")
_TEXT = ColumnType.parse("string", column="")


class SpaceQuery(NamedTuple):
    """A statement as a query on a space."""

    plan: Plan
    form: SpaceKey
    #: by name in the answer: the column shown under it
    shown: dict[str, str]

    def bounds(self, columns: Mapping[str, Any], count: int) -> tuple[Floats, Floats]:
        """The ranges of `count` subscriptions: (count, 0 or 1) each. Raises ParameterError."""
        arrow = {name: _arrow(name, column) for name, column in columns.items()}
        bound = bind(self.plan, arrow, count)
        assert isinstance(self.plan, TopK | Aggregate | Distinct)
        places = [at for at, dimension in enumerate(self.plan.box) if dimension.column == self.form.column]
        return np.asarray(bound["lo"][:, places]), np.asarray(bound["hi"][:, places])

    def row(self, entry: Entry) -> dict[str, Any]:
        """An entry as the statement selects it. Keys are text, as in the job's messages."""
        value = entry.key if entry.y is None else entry.y
        return {
            name: value if column == self.form.order else entry.key for name, column in self.shown.items()
        }

    def enters(self, entries: Sequence[Entry], seq: int) -> list[Change]:
        """An answer as enters, for a new watcher."""
        if self.form.kind in ("min", "max"):
            return [_value(entries, seq)]
        return [self._change("enter", entry, rank, seq) for rank, entry in enumerate(entries, 1)]

    def difference(self, before: Sequence[Entry], after: Sequence[Entry], seq: int) -> list[Change]:
        """The changes from one answer to another: leaves, then updates, then enters. Cost: linear."""
        if self.form.kind in ("min", "max"):
            is_same = [each[:2] for each in before] == [each[:2] for each in after]
            return [] if is_same else [_value(after, seq)]
        old = {entry.key: entry for entry in before}
        new = {entry.key for entry in after}
        empty = {"score": None, "rank": None}
        leaves = [{"op": "leave", "seq": seq, "key": key, **empty} for key in old if key not in new]
        updates, enters = [], []
        for rank, entry in enumerate(after, 1):
            if entry.key not in old:
                enters.append(self._change("enter", entry, rank, seq))
            elif old[entry.key] != entry:
                # An entry that left and returned in between may have another rank among equals.
                updates.append(self._change("update", entry, rank, seq))
        return [*leaves, *updates, *enters]

    def _change(self, op: str, entry: Entry, rank: int, seq: int) -> Change:
        place = None if self.form.kind == "distinct" else rank
        change = {"op": op, "seq": seq, "key": entry.key, "score": _number(entry.y), "rank": place}
        return {**change, "row": {name: _number(value) for name, value in self.row(entry).items()}}


def read_statement(sql: str) -> SpaceQuery:
    """Parse a statement as a query on a space. Raises SQLError, or ParameterError if none can serve it."""
    statement = parse(sql)
    if statement.join is not None:
        raise ParameterError("a job's spaces are over one table each, without a JOIN")
    source = statement.source.name.name
    logical = plan(
        statement, {source: SourceSchema(source, "table", _columns(statement), None, windowed=False)}
    )
    return SpaceQuery(logical, form := space_key_of(logical, {}), _shown(logical, form))


def check_space(sql: str, spaces: Iterable[str], grants: Grants) -> Checked:
    """Check a tenant's statement: the job must have a space for it that the tenant may see.

    Raises SQLError or ParameterError.
    """
    query = read_statement(sql)
    source = query.form.source
    visible_spaces = [name for name in spaces if visible(source_of(name), grants)]
    if str(query.form) not in visible_spaces:
        listed = "; ".join(visible_spaces) or "none that you may read yet"
        raise ParameterError(f"the job has no space {query.form}. It has: {listed}")
    _refuse_unknown(query)
    if not is_granted(source, grants):
        raise ParameterError(
            f"the condition on your rows of {source!r} cannot be applied here: a job's spaces cover all rows"
        )
    return Checked(sql, sql, query.plan, is_confined=False)


def is_granted(source: str, grants: Grants) -> bool:
    """Whether a tenant may see all rows of a table, since messages cover all of them."""
    return visible(source, grants) and not grants.get(source, grants.get(EVERY, ""))


def source_of(space: str) -> str:
    """The table of a space, by the space's name."""
    found = _SOURCE.match(space)
    name = found.group(1) if found else ""
    return str(json.loads(name)) if name.startswith('"') else name


def template_of(space: str) -> str | None:
    """A statement for a space, with its range as :lo and :hi; None if none can be written."""
    text = space.replace(" BETWEEN ? AND ?", " BETWEEN :lo AND :hi")
    text = re.sub(r" BETWEEN -inf AND (\S+)", r" <= \1", text)
    text = re.sub(r" BETWEEN (\S+) AND inf\b", r" >= \1", text)
    ranked = _RANKED.search(text)
    if ranked is not None:
        text = f"{ranked.group(1)} {text}"
    text = re.sub(rf"^DISTINCT\(({_NAME})\)", r"DISTINCT \1", text)
    sql = "SELECT " + _QUOTED.sub(_as_sql, text)
    try:
        return sql if str(read_statement(sql).form) == space else None
    except Error:
        return None


def _as_sql(quoted: re.Match[str]) -> str:
    """A quoted name in SQL syntax."""
    name = str(json.loads(quoted.group()))
    return '"' + name.replace('"', '""') + '"'


def _columns(statement: Statement) -> dict[str, ColumnType]:
    """The columns that a statement names: numbers where it ranks or compares them."""
    alone = [item.value.name for item in statement.items if isinstance(item.value, Column)]
    others = [item.value for item in statement.items if not isinstance(item.value, Column)]
    used = _named([*others, *statement.where, statement.order, statement.having])
    return dict.fromkeys(alone, _TEXT) | dict.fromkeys(used, _NUMBER)


def _named(node: Any) -> Iterator[str]:
    if isinstance(node, Column):
        yield node.name
    elif isinstance(node, list | tuple):
        for each in node:
            yield from _named(each)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _named(getattr(node, field.name))


def _shown(logical: Plan, form: SpaceKey) -> dict[str, str]:
    """The columns of an answer, by name."""
    if isinstance(logical, Aggregate):
        return {logical.name: form.order}
    if isinstance(logical, Distinct):
        return {logical.selected.name: form.order}
    assert isinstance(logical, TopK)
    return {each.name: each.column for each in logical.select}


def _refuse_unknown(query: SpaceQuery) -> None:
    """Raise ParameterError for columns that messages do not carry. They carry no name for the key."""
    form = query.form
    ranged = {form.column, *(column for column, _, _ in form.constants)}
    keys = {column for column in query.shown.values() if column != form.order}
    if len(keys) > 1 or keys & ranged:
        raise ParameterError(f"select the table's key and {form.order!r}: the job publishes no other columns")


def _arrow(name: str, column: Any) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    try:
        return pa.array(column)
    except (pa.ArrowException, OverflowError, TypeError):
        raise ParameterError(f"parameter :{name} is not a number") from None


def _value(entries: Sequence[Entry], seq: int) -> Change:
    key, score = (entries[0].key, _number(entries[0].y)) if entries else (None, None)
    return {"op": "value", "seq": seq, "key": key, "score": score, "rank": None}


def _number(y: Any) -> Any:
    """A score as a JSON value."""
    if isinstance(y, float) and not math.isfinite(y):
        return None if math.isnan(y) else "Infinity" if y > 0 else "-Infinity"
    return y
