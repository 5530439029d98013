"""The engine: declare sources, register standing queries, publish rows, be told what changed."""

from __future__ import annotations

import copy
import difflib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from os import PathLike
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import pyarrow as pa

from tocsin.engine import saving
from tocsin.engine.catalog import Declaration
from tocsin.engine.changes import changes_table
from tocsin.engine.deltas import SourceDelta
from tocsin.engine.durations import microseconds
from tocsin.engine.forms import form_of
from tocsin.engine.groups import EventGroup, Group, MatchGroup, RowGroup, Source, build_group
from tocsin.engine.intake import as_columns, read_batch, refuse_nulls
from tocsin.engine.limits import Limits, joined, refuse_beyond
from tocsin.engine.messenger import Messenger, Survey
from tocsin.engine.registry import Registry
from tocsin.engine.streams import Stream
from tocsin.engine.tables import Table
from tocsin.engine.text import is_text, text_of
from tocsin.engine.windows import Window
from tocsin.errors import DuplicateSource, ParameterError, RowError, UnknownSource
from tocsin.indexes.contract import Arrays, Ints, Longs
from tocsin.indexes.matching import conjunctions_from_triplets
from tocsin.language import Match, Plan, Threshold, parameters, parse, plan, shape

NOTHING = np.empty(0, np.int64)

#: How many statements the engine remembers the plans of.
REMEMBERED_PLANS = 4096


Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def alone(
    method: Callable[Concatenate[Engine, Given], Returned],
) -> Callable[Concatenate[Engine, Given], Returned]:
    """A method that only one thread at a time is in."""

    @wraps(method)
    def run(self: Engine, /, *args: Given.args, **kwargs: Given.kwargs) -> Returned:
        with self._lock:
            return method(self, *args, **kwargs)

    return run


class Engine:
    """Standing queries over tables and streams, in this process.

    One thread at a time uses it: a second one waits. A method that raises has changed nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._declarations: dict[str, Declaration] = {}
        self._sources: dict[str, Source] = {}
        self._registry = Registry()
        self._groups: dict[int, Group] = {}
        self._group_of_shape: dict[str, int] = {}
        self._statement_of_group: dict[int, str] = {}
        self._next_group = 0
        self._plans: dict[str, tuple[Plan, str]] = {}
        self._messenger = Messenger()
        #: by source, what `_limits_of` found
        self._limits: dict[str, Limits] = {}

    @alone
    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._registry)

    @alone
    def __contains__(self, sid: object) -> bool:
        """Whether a subscription has this id."""
        return isinstance(sid, str) and self._registry.ids.find_one(sid) >= 0

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of tables and streams, in the order of their declaration."""
        return tuple(self._sources)

    @alone
    def create_table(self, name: str, *, key: str, columns: Mapping[str, str]) -> None:
        """Declare a table: its rows are upserted by `key`."""
        self.declare(Declaration("table", name, _copied(columns), key))

    @alone
    def create_stream(
        self,
        name: str,
        *,
        columns: Mapping[str, str] | None = None,
        key: str | None = None,
        window: str | None = None,
        time: str | None = None,
        delay: str | None = None,
        score: str | None = None,
    ) -> None:
        """Declare a stream. Without `columns`, rows are sparse and have any attribute.

        `window` is `"1000 rows"`, or `"5 minutes"` with `time` naming a timestamp column; `delay`
        holds rows back for so long and applies them in time order. `score` is what the weights of a match
        come to: their `"sum"`, if nothing is said, `"max"`, `"min"` or `"product"`.
        """
        self.declare(Declaration("stream", name, _copied(columns), key, window, time, delay, score))

    @alone
    def subscribe(self, sql: str, /, *, id: str | None = None, repeat: bool = False, **params: Any) -> str:
        """Register one standing query; its id. `repeat` starts a threshold anew each time it matures."""
        if id is not None and not is_text(id):
            raise ParameterError(f"a subscription's id is a text, not {id!r}")
        columns = {name: _scalar_column(name, value) for name, value in params.items()}
        ids = None if id is None else pa.array([id], pa.string())
        return cast(str, self._subscribe(sql, ids, columns, 1, repeat)[0].as_py())

    @alone
    def subscribe_many(self, sql: str, params: Any, *, repeat: bool = False) -> int:
        """Register one subscription for each row of `params`; how many. Cost: linear.

        `params` is an Arrow table, a pandas frame or a dict of arrays. A column `id` holds the ids;
        without it they are made up.
        """
        try:
            columns = as_columns(params, source="params")
        except RowError as failure:
            raise ParameterError(str(failure)) from None
        ids = columns.pop("id", None)
        lengths = {len(column) for column in columns.values()} | ({len(ids)} if ids is not None else set())
        if len(lengths) > 1:
            raise ParameterError(f"the parameters' columns have different lengths: {sorted(lengths)}")
        count = lengths.pop() if lengths else 0
        if ids is not None:
            if ids.null_count:
                raise ParameterError(
                    f"row {int(np.argmax(ids.is_null().to_numpy(zero_copy_only=False)))}: id is null"
                )
            if pa.types.is_nested(ids.type):
                raise ParameterError(f"a subscription's id is a text or a number, not {ids.type}")
            ids = text_of(ids)
        if count == 0:
            # Empty columns have no types to bind; the statement is checked all the same.
            self._plan(sql)
            return 0
        self._subscribe(sql, ids, columns, count, repeat)
        return count

    @alone
    def subscribe_predicates(self, name: str, predicates: Any) -> int:
        """Register conjunctions that have no template in common, over a stream without columns; how many.

        `predicates` is an Arrow table, a pandas frame or a dict of arrays with a row for each predicate:
        `id`, `attribute`, `operator`, the operand in `value` (with `high` for BETWEEN), `text` (`text_high`),
        `flag`, `values` or `texts`, and `weight`. Rows of one id follow each other. Each selects everything.
        Cost: linear.
        """
        source = self._source(name)
        if not isinstance(source, Stream) or source.schema.columns is not None:
            raise ParameterError(f"predicates go with a stream without columns; {source.schema.describe()}")
        try:
            columns = as_columns(predicates, source="predicates")
        except RowError as failure:
            raise ParameterError(str(failure)) from None
        ids, held = conjunctions_from_triplets({**columns, "id": text_of(columns.get("id", pa.nulls(0)))})
        if len(ids) == 0:
            return 0
        self._registry.refuse_taken(ids)
        quoted = name.replace('"', '""')
        made, key = self._plan(f'SELECT * FROM "{quoted}"')
        assert isinstance(made, Match)
        number = self._group_of_shape.get(key)
        if number is None:
            group = build_group(made, self._sources, self._registry.ids)
            number = self._open(group, key, f'SELECT * FROM "{quoted}"')
        slots = self._registry.add(ids)
        self._registry.group[slots] = number
        self._registry.local[slots] = self._groups[number].add(slots, (made.select, held))
        return len(ids)

    @alone
    def unsubscribe(self, sid: str) -> None:
        """End a subscription. Cost: constant."""
        slot, number, local = self._registry.place(sid)
        self._end(number, np.array([slot], np.int32), np.array([local], np.int32))

    @alone
    def publish(
        self, name: str, data: Any, /, *, each: bool = False, rows: bool = False, top: int | None = None
    ) -> pa.Table:
        """Publish rows (an Arrow table, a pandas frame or a list of dicts); the changes that they cause.

        `each` reports after every row, else the net change of the batch is reported. `rows` adds
        the SELECT list as JSON. `top` keeps each event's so many best matches.
        """
        source = self._source(name)
        if isinstance(source, Stream):
            if top is not None and (not isinstance(top, int) or isinstance(top, bool) or top < 1):
                raise ParameterError(f"top is a whole number from 1 on, not {top!r}")
            return self._tell_events(source, data, top, rows)
        if top is not None:
            raise ParameterError(f"top goes with a stream without a window; {source.schema.describe()}")
        if isinstance(source, Table):
            given, deletes = source.read(data)
            refuse_beyond(given, self._limits_of(source), source=name)
            return self._tell_rows(source, source.apply(given, deletes, each=each), rows)
        assert source.schema.columns is not None
        batch = read_batch(data, source.schema.columns, source=name, key=source.schema.key, extra=None)
        if source.time is not None:
            refuse_nulls(batch.rows.column(source.time), name=source.time, source=name, role="time")
        refuse_beyond(batch.rows, self._limits_of(source), source=name)
        return self._tell_rows(source, source.apply(batch.rows, each=each), rows)

    @alone
    def delete(self, name: str, keys: Any, *, each: bool = False, rows: bool = False) -> pa.Table:
        """Delete rows of a table by key; the changes. Unknown keys do nothing."""
        source = self._source(name)
        if not isinstance(source, Table):
            raise RowError(f"{name!r} is a stream; rows are deleted from tables")
        assert source.schema.columns is not None
        assert source.schema.key is not None
        key = source.schema.key
        batch = read_batch({key: keys}, source.schema.columns, source=name, key=key, extra=None)
        delta = source.apply(batch.rows, np.ones(batch.rows.num_rows, np.bool_), each=each)
        return self._tell_rows(source, delta, rows)

    @alone
    def create_space(self, sql: str, /, **params: Any) -> str:
        """Have `messages` tell of a statement, whether or not anybody subscribes to it; the space's name.

        The statement ranks one column of a table or tells its values, and its subscribers differ in one
        range. `params` are those of its parameters that are the same for all of them. Cost: reading the
        table.
        """
        made, _ = self._plan(sql)
        form = form_of(made, {name: _scalar_column(name, value) for name, value in params.items()})
        table = self._table(form.source)
        self._refuse_held(table, form.limits(table.store.schema))
        self._messenger.create(form, table)
        self._limits.clear()
        return str(form)

    @alone
    def spaces(self, name: str) -> list[dict[str, Any]]:
        """The spaces of a table: those created, and those that subscriptions are in.

        Each is what a `Subscriber` takes, apart from its own range: `space, kind, k, descending`.
        """
        survey = self._survey(self._table(name))
        return [form.describe() for form in self._messenger.forms(name, survey)]

    @alone
    def messages(
        self,
        name: str,
        data: Any,
        /,
        *,
        algorithm: str = "dense",
        epsilon: float = 0.0,
        others: str = "refuse",
    ) -> pa.Table:
        """Publish rows to a table; instead of changes, the messages that describe whom they concern.

        `algorithm` is `dense`, which needs no subscriptions, or `sparse`, which fits the messages to those
        there are. An `epsilon` up to 1 makes fewer messages, some of them in vain. A subscription that no
        message can describe is refused; `others="ignore"` keeps it exact without telling of it.
        """
        table = self._table(name)
        survey = self._survey(table)
        forms = self._messenger.forms(name, survey)
        self._messenger.check(forms, survey, algorithm, epsilon, others)
        given, deletes = table.read(data)
        kept = self._messenger.kept(name)
        new = joined(form.limits(table.store.schema) for form in forms if form not in kept)
        self._refuse_held(table, new)
        refuse_beyond(given, joined([new, self._limits_of(table)]), source=name)
        is_sparse = algorithm == "sparse"
        self._limits.clear()
        self._messenger.adopt(table, forms, survey, is_sparse=is_sparse)
        delta = table.apply(given, deletes, each=False)
        told = self._messenger.tell(forms, delta, is_sparse=is_sparse, epsilon=float(epsilon))
        for _, group in self._groups_of(name):
            cast(RowGroup, group).follow(name, delta)
            group.finish()
        table.finish()
        return told

    @alone
    def snapshot(self, name: str, space: str) -> pa.Table:
        """What a subscriber of a space starts from: `space, key, x, y, born, seq`. Cost: linear in the table.

        Of the messages, those with a larger `seq` come after it.
        """
        table = self._table(name)
        forms = {str(form): form for form in self._messenger.forms(name, self._survey(table))}
        if space not in forms:
            known = ", ".join(map(repr, forms)) or "none"
            raise ParameterError(f"{name!r} has no space {space!r}; it has {known}")
        return self._messenger.snapshot(forms[space], table)

    @alone
    def advance(self, name: str, time: Any, *, rows: bool = False) -> pa.Table:
        """Time has moved on to `time`: rows held back are applied, old ones expire; the changes.

        `time` is a datetime (naive is UTC), an ISO-8601 text or UTC microseconds.
        """
        source = self._source(name)
        if not isinstance(source, Window) or source.time is None:
            raise RowError(f"{name!r} has no window of time to advance")
        return self._tell_rows(source, source.advance(microseconds(time)), rows)

    @alone
    def result(self, sid: str) -> pa.Table:
        """A subscription's current answer: the SELECT list's columns, in rank order."""
        _, number, local = self._registry.place(sid)
        return self._groups[number].result(local)

    @alone
    def answers(self, sids: Any, *, rows: bool = False) -> pa.Table:
        """The current answers of many subscriptions as changes: what a new subscriber has to hear first.

        Each is `enter` or `value` with the number of the last row applied. Thresholds and matching
        have none.
        """
        slots = self._registry.find(sids)
        numbers, locals_ = self._registry.group[slots], self._registry.local[slots]
        tables = []
        for number in np.unique(numbers).tolist():
            group = self._groups[number]
            if isinstance(group, RowGroup):
                found = group.index.result(locals_[numbers == number])
                seq = np.array([self._sources[group.sources[0]].next_number - 1], np.int64)
                tables.append(changes_table([(group, found)], seq, self._registry.ids, with_rows=rows))
        return (
            pa.concat_tables(tables)
            if tables
            else changes_table([], NOTHING, self._registry.ids, with_rows=rows)
        )

    @alone
    def explain(self, sid: str, event: Mapping[str, Any] | None = None) -> str:
        """Which engine and index keep a subscription, and with which parameters.

        With an event, a row of the stream that is not published: why the subscription does or does not match
        it, predicate by predicate.
        """
        _, number, local = self._registry.place(sid)
        group = self._groups[number]
        about = f"subscription: {sid}\nsource: {', '.join(group.sources)}\n"
        if event is None:
            return about + group.explain(local)
        if not isinstance(group, MatchGroup):
            raise ParameterError(f"an event goes with a match; {sid!r} is kept by {group.room}")
        batch = cast(Stream, self._sources[group.sources[0]]).read([event])
        return about + group.explain_event(local, batch)

    @alone
    def counts(self, name: str) -> dict[str, int]:
        """What a source has seen: rows numbered, late rows dropped, rows without a weight for a threshold."""
        source = self._source(name)
        return {"rows": source.next_number, "late": source.late, "weightless": source.weightless}

    @alone
    def late(self, name: str) -> Longs:
        """Numbers of the rows that the last batch of a source dropped for being late."""
        source = self._source(name)
        return source.late_numbers if isinstance(source, Window) else NOTHING

    @alone
    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole engine to one file, atomically."""
        saving.write(path, *self.state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Engine:
        """The engine that `save` wrote."""
        return cls.from_state(*saving.read(path))

    @alone
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The whole engine as a manifest, which JSON can hold, and flat arrays."""
        return self._manifest(), dict(self._arrays())

    @classmethod
    def from_state(cls, manifest: Mapping[str, Any], arrays: Arrays) -> Engine:
        """The engine that `state` described."""
        engine = cls()
        engine._restore(manifest, arrays)
        return engine

    def __reduce__(self) -> tuple[Callable[..., Engine], tuple[dict[str, Any], Arrays]]:
        """Copies and pickles, as `save` and `load` make them: indexes hold addresses of their own arrays."""
        return type(self).from_state, self.state()

    def __copy__(self) -> Engine:
        """There is no shallow copy: two engines cannot share arrays."""
        return copy.deepcopy(self)

    @alone
    def declare(self, declaration: Declaration) -> None:
        """Take in a source that is described by a value, as in a job file."""
        source = declaration.build()
        if declaration.name in self._sources:
            raise DuplicateSource(
                f"there is a {self._declarations[declaration.name].kind} {declaration.name!r} already"
            )
        self._sources[declaration.name] = source
        self._declarations[declaration.name] = declaration
        self._plans.clear()

    def _source(self, name: str) -> Source:
        if not isinstance(name, str) or name not in self._sources:
            near = difflib.get_close_matches(str(name), list(self._sources), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownSource(f"there is no table or stream {name!r}{hint}")
        return self._sources[name]

    def _table(self, name: str) -> Table:
        source = self._source(name)
        if not isinstance(source, Table):
            raise ParameterError(f"messages describe the rows of a table; {source.schema.describe()}")
        return source

    def _survey(self, table: Table) -> Survey:
        name = table.schema.name
        groups = [
            (self._statement_of_group[number], cast(RowGroup, group))
            for number, group in self._groups_of(name)
        ]
        return self._messenger.survey(name, groups, self._registry.version)

    def _plan(self, sql: str) -> tuple[Plan, str]:
        if not isinstance(sql, str):
            raise ParameterError(f"a statement is a text, not {type(sql).__name__}")
        if sql not in self._plans:
            made = plan(parse(sql), {name: source.schema for name, source in self._sources.items()})
            if len(self._plans) >= REMEMBERED_PLANS:
                self._plans.clear()
            self._plans[sql] = made, shape(made)
        return self._plans[sql]

    def _subscribe(
        self, sql: str, ids: pa.Array | None, columns: dict[str, pa.Array], count: int, repeat: bool
    ) -> pa.Array:
        made, key = self._plan(sql)
        if repeat and not isinstance(made, Threshold):
            raise ParameterError("repeat goes with a threshold (SUM or COUNT … HAVING)")
        if "id" in parameters(made):
            raise ParameterError("a parameter cannot be named :id, which names the subscription itself")
        number = self._group_of_shape.get(key)
        group = (
            self._groups[number]
            if number is not None
            else build_group(made, self._sources, self._registry.ids)
        )
        values = group.bind(made, columns, count, repeat)
        if number is None and isinstance(group, RowGroup):
            for name in group.sources:
                self._refuse_held(cast(Table | Window, self._sources[name]), group.limits(name))
        if ids is not None:
            self._registry.refuse_taken(ids)
        else:
            ids = self._registry.fresh_ids(count)
        if number is None:
            number = self._open(group, key, sql)
        slots = self._registry.add(ids)
        self._registry.group[slots] = number
        self._registry.local[slots] = group.add(slots, values)
        return ids

    def _open(self, group: Group, key: str, sql: str) -> int:
        """Take a new group in: it learns the rows that are there."""
        number, self._next_group = self._next_group, self._next_group + 1
        self._limits.clear()
        self._groups[number] = group
        self._group_of_shape[key] = number
        self._statement_of_group[number] = sql
        if isinstance(group, RowGroup):
            for name in group.sources:
                group.apply(name, cast(Table | Window, self._sources[name]).everything())
                group.finish()
        return number

    def _end(self, number: int, slots: Ints, locals_: Ints) -> None:
        """End subscriptions of one group, and the group with its last one."""
        group = self._groups[number]
        group.terminate(locals_)
        self._registry.remove(slots)
        if len(group) == 0:
            key = next(key for key, value in self._group_of_shape.items() if value == number)
            del self._groups[number], self._group_of_shape[key], self._statement_of_group[number]
            self._limits.clear()

    def _groups_of(self, name: str) -> Iterator[tuple[int, Group]]:
        return ((number, group) for number, group in self._groups.items() if name in group.sources)

    def _refuse_held(self, source: Table | Window, limits: Limits) -> None:
        """Raise RowError if a row that is there already has a value beyond its limit."""
        if limits:
            refuse_beyond(source.rows(), limits, source=source.schema.name)

    def _limits_of(self, source: Table | Window) -> Limits:
        """The values of a source that all who read it can keep exactly."""
        name = source.schema.name
        if name not in self._limits:
            limits = [cast(RowGroup, group).limits(name) for _, group in self._groups_of(name)]
            limits += [form.limits(source.store.schema) for form in self._messenger.kept(name)]
            self._limits[name] = joined(limits)
        return self._limits[name]

    def _tell_rows(self, source: Table | Window, delta: SourceDelta, with_rows: bool) -> pa.Table:
        name = source.schema.name
        groups = [cast(RowGroup, group) for _, group in self._groups_of(name)]
        told = [(group, group.apply(name, delta)) for group in groups]
        table = changes_table(told, delta.seq, self._registry.ids, with_rows=with_rows)
        for group in groups:
            group.finish()
        self._messenger.follow(name, delta)
        source.finish()
        return table

    def _tell_events(self, source: Stream, rows: Any, top: int | None, with_rows: bool) -> pa.Table:
        batch = source.read(rows)
        groups = [(number, cast(EventGroup, group)) for number, group in self._groups_of(source.schema.name)]
        given = [group.read(batch) for _, group in groups]
        source.next_number += len(batch)
        told = [
            (group, group.apply(batch, part, top)) for (_, group), part in zip(groups, given, strict=True)
        ]
        table = changes_table(told, batch.seq, self._registry.ids, with_rows=with_rows)
        for (number, group), (_, changes) in zip(groups, told, strict=True):
            group.finish()
            ended = group.ended(changes)
            if len(ended):
                self._end(number, group.owner[ended], ended)
        return table

    def _manifest(self) -> dict[str, Any]:
        return {
            "sources": [declaration.as_dict() for declaration in self._declarations.values()],
            "groups": [[number, self._statement_of_group[number]] for number in self._groups],
            "next_group": self._next_group,
            "spaces": self._messenger.manifest(),
        }

    def _arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        yield from saving.prefixed("registry", self._registry.arrays())
        for place, source in enumerate(self._sources.values()):
            yield from saving.prefixed(f"source/{place}", source.arrays())
        for number, group in self._groups.items():
            yield from saving.prefixed(f"group/{number}", group.arrays())
        yield from self._messenger.arrays()

    def _restore(self, manifest: Mapping[str, Any], arrays: Arrays) -> None:
        for place, declared in enumerate(manifest["sources"]):
            declaration = Declaration(**declared)
            self.declare(declaration)
            self._sources[declaration.name].restore(saving.below(arrays, f"source/{place}"))
        self._registry.restore(saving.below(arrays, "registry"))
        for number, sql in manifest["groups"]:
            made, key = self._plan(sql)
            group = build_group(made, self._sources, self._registry.ids)
            group.restore(saving.below(arrays, f"group/{number}"))
            self._groups[number] = group
            self._group_of_shape[key] = number
            self._statement_of_group[number] = sql
        self._next_group = manifest["next_group"]
        tables = {name: source for name, source in self._sources.items() if isinstance(source, Table)}
        self._messenger.restore(manifest["spaces"], arrays, tables)


def _copied(columns: Mapping[str, str] | None) -> dict[str, str] | None:
    return dict(columns) if isinstance(columns, Mapping) else columns


def _scalar_column(name: str, value: Any) -> pa.Array:
    if isinstance(value, (Sequence, Mapping, np.ndarray, pa.Array)) and not isinstance(value, str):
        raise ParameterError(f"parameter :{name} is one value, not {type(value).__name__}")
    try:
        return as_columns({name: [value]}, source="parameters")[name]
    except RowError:
        raise ParameterError(f"parameter :{name} cannot be {value!r}") from None
