"""Statements as spaces of a job: what a gateway that is fed over NATS can hold, and what it then answers.

Such a gateway has no tables. A statement is read against columns of its own naming, and is known by the name
of the space that it makes: the job publishes that space, or it does not.
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

from tocsin.engine.forms import Form, form_of
from tocsin.errors import Error, ParameterError
from tocsin.gateway.changes import Change
from tocsin.gateway.statements import EVERY, Checked, Grants, visible
from tocsin.indexes.contract import Floats
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


class Asked(NamedTuple):
    """A statement that is of some space."""

    plan: Plan
    form: Form
    #: by name in the answer: the column that is shown there
    shown: dict[str, str]

    def bounds(self, columns: Mapping[str, Any], count: int) -> tuple[Floats, Floats]:
        """The ranges of `count` subscriptions: (count, 0 or 1) each. Raises ParameterError."""
        arrow = {name: _arrow(name, column) for name, column in columns.items()}
        bound = bind(self.plan, arrow, count)
        assert isinstance(self.plan, TopK | Aggregate | Distinct)
        places = [at for at, dimension in enumerate(self.plan.box) if dimension.column == self.form.column]
        return np.asarray(bound["lo"][:, places]), np.asarray(bound["hi"][:, places])

    def row(self, entry: Entry) -> dict[str, Any]:
        """An entry as the statement shows it. Keys are text, as they are told."""
        value = entry.key if entry.y is None else entry.y
        return {
            name: value if column == self.form.order else entry.key for name, column in self.shown.items()
        }

    def enters(self, entries: Sequence[Entry], seq: int) -> list[Change]:
        """An answer as a new subscriber hears it."""
        if self.form.kind in ("min", "max"):
            return [_value(entries, seq)]
        return [self._change("enter", entry, rank, seq) for rank, entry in enumerate(entries, 1)]

    def difference(self, before: Sequence[Entry], after: Sequence[Entry], seq: int) -> list[Change]:
        """What makes one answer of another: leaves, then updates, then enters. Cost: linear."""
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
                # One that went and came again between two looks has another place among its equals.
                updates.append(self._change("update", entry, rank, seq))
        return [*leaves, *updates, *enters]

    def _change(self, op: str, entry: Entry, rank: int, seq: int) -> Change:
        place = None if self.form.kind == "distinct" else rank
        told = {"op": op, "seq": seq, "key": entry.key, "score": _number(entry.y), "rank": place}
        return {**told, "row": {name: _number(value) for name, value in self.row(entry).items()}}


def read_statement(sql: str) -> Asked:
    """A statement and the space that it is of. Raises SQLError, or ParameterError if it can be of none."""
    statement = parse(sql)
    if statement.join is not None:
        raise ParameterError("a job's spaces are over one table each, without a JOIN")
    source = statement.source.name.name
    made = plan(statement, {source: SourceSchema(source, "table", _columns(statement), None, windowed=False)})
    return Asked(made, form := form_of(made, {}), _shown(made, form))


def check_space(sql: str, spaces: Iterable[str], grants: Grants) -> Checked:
    """A tenant's statement, if the job has a space for it that the tenant may see.

    Raises SQLError or ParameterError.
    """
    asked = read_statement(sql)
    source = asked.form.source
    seen = [name for name in spaces if visible(source_of(name), grants)]
    if str(asked.form) not in seen:
        known = "; ".join(seen) or "none that you may see yet"
        raise ParameterError(f"the job has no space {asked.form}. It has: {known}")
    _refuse_unknown(asked)
    if not is_granted(source, grants):
        raise ParameterError(
            f"the condition on your rows of {source!r} cannot be kept here: a job's spaces are of all rows"
        )
    return Checked(sql, sql, asked.plan, is_confined=False)


def is_granted(source: str, grants: Grants) -> bool:
    """Whether a tenant may see all rows of a table: messages are of all of them."""
    return visible(source, grants) and not grants.get(source, grants.get(EVERY, ""))


def source_of(space: str) -> str:
    """The table of a space, by the space's name."""
    found = _SOURCE.match(space)
    name = found.group(1) if found else ""
    return str(json.loads(name)) if name.startswith('"') else name


def template_of(space: str) -> str | None:
    """A statement of a space, with its range as :lo and :hi; None where none can be written."""
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
    """A name in quotes as SQL has it."""
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


def _shown(made: Plan, form: Form) -> dict[str, str]:
    """What an answer has, by name."""
    if isinstance(made, Aggregate):
        return {made.name: form.order}
    if isinstance(made, Distinct):
        return {made.selected.name: form.order}
    assert isinstance(made, TopK)
    return {each.name: each.column for each in made.select}


def _refuse_unknown(asked: Asked) -> None:
    """Raise ParameterError for columns that messages do not bring. They do not say what the key is called."""
    form = asked.form
    ranged = {form.column, *(column for column, _, _ in form.constants)}
    keys = {column for column in asked.shown.values() if column != form.order}
    if len(keys) > 1 or keys & ranged:
        raise ParameterError(f"select the table's key and {form.order!r}: the job tells no other columns")


def _arrow(name: str, column: Any) -> Any:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    try:
        return pa.array(column)
    except (pa.ArrowException, OverflowError, TypeError):
        raise ParameterError(f"parameter :{name} is no number") from None


def _value(entries: Sequence[Entry], seq: int) -> Change:
    key, score = (entries[0].key, _number(entries[0].y)) if entries else (None, None)
    return {"op": "value", "seq": seq, "key": key, "score": score, "rank": None}


def _number(y: Any) -> Any:
    """A score as JSON has it."""
    if isinstance(y, float) and not math.isfinite(y):
        return None if math.isnan(y) else "Infinity" if y > 0 else "-Infinity"
    return y
