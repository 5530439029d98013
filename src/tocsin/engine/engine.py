"""The engine: declare sources, register standing queries, publish rows, get the changes of answers."""

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

from tocsin.arrays.types import Arrays, Longs
from tocsin.engine import saving
from tocsin.engine.conversion.durations import microseconds
from tocsin.engine.conversion.exactness import check_limits, least_limits, rows_beyond
from tocsin.engine.conversion.intake import read_batch, refuse_nulls
from tocsin.engine.conversion.predicates import conjunctions_from_triplets
from tocsin.engine.conversion.text import is_text, text_of
from tocsin.engine.groups import MatchGroup, Source
from tocsin.engine.pair_bound import PairBound
from tocsin.engine.parameters import ParameterBatch, named_columns, read_parameters, scalar_columns
from tocsin.engine.sources.catalog import Declaration
from tocsin.engine.sources.streams import Stream
from tocsin.engine.sources.tables import Table
from tocsin.engine.sources.windows import Window
from tocsin.engine.spaces.space_keys import space_key_of
from tocsin.engine.spaces.space_registry import SpaceRegistry
from tocsin.engine.statements import StatementPlanner
from tocsin.engine.subscriptions import Subscriptions, check_live_rows
from tocsin.errors import DuplicateSource, ParameterError, RowError, UnknownSource
from tocsin.planning import check_indexes

NO_ROWS = np.empty(0, np.int64)

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


def locked(
    method: Callable[Concatenate[Engine, Given], Returned],
) -> Callable[Concatenate[Engine, Given], Returned]:
    """Run a method under the engine's lock."""

    @wraps(method)
    def run(self: Engine, /, *args: Given.args, **kwargs: Given.kwargs) -> Returned:
        with self._lock:
            return method(self, *args, **kwargs)

    return run


class Engine:
    """Standing queries over tables and streams, in this process.

    Thread-safe: methods hold a lock. A method that raises has changed nothing.
    """

    def __init__(self, *, indexes: Mapping[str, str] | None = None) -> None:
        """`indexes` names, by kind of question, indexes to use instead of the planner's choice.

        Such as `{"thresholds": "distributed-tracking"}`; `tocsin.planning.INDEXES` lists them all. A
        statement names its own by a hint, `SELECT /*+ INDEX('sma') */ …`. Plans that the index cannot
        hold are refused.
        """
        self._indexes = check_indexes(indexes)
        self._lock = threading.RLock()
        self._declarations: dict[str, Declaration] = {}
        self._sources: dict[str, Source] = {}
        self._spaces = SpaceRegistry()
        self._subscriptions = Subscriptions(self._sources, self._spaces)
        self._planner = StatementPlanner(self._sources, self._indexes)

    @locked
    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscriptions)

    @locked
    def __contains__(self, sid: object) -> bool:
        """Whether a subscription has this id."""
        return isinstance(sid, str) and self._subscriptions.registry.ids.find_one(sid) >= 0

    @property
    def indexes(self) -> dict[str, str]:
        """The indexes that are named for this engine, by kind of question."""
        return dict(self._indexes)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of tables and streams, in the order of their declaration."""
        return tuple(self._sources)

    @locked
    def create_table(self, name: str, *, key: str, columns: Mapping[str, str]) -> None:
        """Declare a table: its rows are upserted by `key`."""
        self.declare(Declaration("table", name, _copied(columns), key))

    @locked
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
        holds rows back that long and applies them in time order. `score` is how the weights of a match
        combine: their `"sum"`, which is the default, `"max"`, `"min"` or `"product"`.
        """
        self.declare(Declaration("stream", name, _copied(columns), key, window, time, delay, score))

    @locked
    def subscribe(self, sql: str, /, *, id: str | None = None, repeat: bool = False, **params: Any) -> str:
        """Register one standing query; its id. `repeat` restarts a threshold each time it matures."""
        if id is not None and not is_text(id):
            raise ParameterError(f"id must be text, got {id!r}")
        ids = None if id is None else pa.array([id], pa.string())
        batch = ParameterBatch(ids, scalar_columns(params), 1)
        return cast(str, self._subscriptions.add(self._planner.plan(sql), sql, batch, repeat)[0].as_py())

    @locked
    def subscribe_many(self, sql: str, params: Any, *, repeat: bool = False) -> int:
        """Register one subscription for each row of `params`; how many. Cost: linear.

        `params` is an Arrow table, a pandas frame or a dict of arrays. A column `id` holds the ids;
        without it they are generated.
        """
        batch = read_parameters(params)
        planned = self._planner.plan(sql)
        # Empty columns have no types to bind; the statement is checked all the same.
        if batch.n_rows:
            self._subscriptions.add(planned, sql, batch, repeat)
        return batch.n_rows

    @locked
    def subscribe_predicates(self, name: str, predicates: Any) -> int:
        """Register conjunctions without a common template over a stream without columns; how many.

        `predicates` is an Arrow table, a pandas frame or a dict of arrays with a row for each predicate:
        `id`, `attribute`, `operator`, the operand in `value` (with `high` for BETWEEN), `text` (`text_high`),
        `flag`, `values` or `texts`, and `weight`. Rows of one id follow each other. Each selects everything.
        Cost: linear.
        """
        source = self._source(name)
        if not isinstance(source, Stream) or source.schema.columns is not None:
            raise ParameterError(f"predicates require a stream without columns; {source.schema.describe()}")
        columns = named_columns(predicates, source="predicates")
        ids, conjunctions = conjunctions_from_triplets(
            {**columns, "id": text_of(columns.get("id", pa.nulls(0)))}
        )
        if len(ids) == 0:
            return 0
        self._subscriptions.registry.refuse_taken(ids)
        quoted = name.replace('"', '""')
        sql = f'SELECT * FROM "{quoted}"'
        self._subscriptions.add_conjunctions(self._planner.plan(sql), sql, ids, conjunctions)
        return len(ids)

    @locked
    def unsubscribe(self, sid: str) -> None:
        """End a subscription. Cost: constant."""
        self._subscriptions.end(sid)

    @locked
    def publish(
        self,
        name: str,
        data: Any,
        /,
        *,
        each: bool = False,
        rows: bool = False,
        top: int | None = None,
        pairs: PairBound | None = None,
    ) -> pa.Table:
        """Publish rows (an Arrow table, a frame, a dict of columns, a list of dicts); the changes they cause.

        `each` reports after every row, else the net change of the batch is reported. `rows` adds
        the SELECT list as JSON. `top` limits each event to its best matches. `pairs` ends joins that would
        exceed a bound on changed pairs; without it every join is reported, however many pairs change.
        """
        source = self._source(name)
        if isinstance(source, Stream):
            if top is not None and (not isinstance(top, int) or isinstance(top, bool) or top < 1):
                raise ParameterError(f"top must be a whole number from 1 on, got {top!r}")
            return self._subscriptions.emit_event_changes(source, data, top, with_rows=rows)
        if top is not None:
            raise ParameterError(f"top requires a stream without a window; {source.schema.describe()}")
        if isinstance(source, Table):
            upserts, deletes = source.read(data)
            check_limits(upserts, self._subscriptions.limits_of(source), source=name)
            delta = source.apply(upserts, deletes, each=each)
            return self._subscriptions.emit_row_changes(source, delta, with_rows=rows, pairs=pairs)
        arrived = self._read_window(source, data)
        check_limits(arrived, self._subscriptions.limits_of(source), source=name)
        return self._subscriptions.emit_row_changes(source, source.apply(arrived, each=each), with_rows=rows)

    @locked
    def delete(
        self,
        name: str,
        keys: Any,
        *,
        each: bool = False,
        rows: bool = False,
        pairs: PairBound | None = None,
    ) -> pa.Table:
        """Delete rows of a table by key; the changes. Unknown keys do nothing. `pairs` as in `publish`."""
        source = self._source(name)
        if not isinstance(source, Table):
            raise RowError(f"{name!r} is a stream; rows are deleted from tables")
        assert source.schema.columns is not None
        assert source.schema.key is not None
        key = source.schema.key
        batch = read_batch({key: keys}, source.schema.columns, source=name, key=key, extra=None)
        delta = source.apply(batch.rows, np.ones(batch.rows.num_rows, np.bool_), each=each)
        return self._subscriptions.emit_row_changes(source, delta, with_rows=rows, pairs=pairs)

    @locked
    def create_space(self, sql: str, /, **params: Any) -> str:
        """Emit messages for a statement even without subscriptions to it; the name of its space.

        The statement ranks one column of a table or selects its values, and its subscribers differ in one
        range. `params` are the parameters shared by all of them. Cost: linear in the table.
        """
        logical = self._planner.plan(sql).plan
        key = space_key_of(logical, scalar_columns(params))
        table = self._table(key.source)
        check_live_rows(table, key.limits(table.store.schema))
        self._spaces.create(key, table)
        self._subscriptions.clear_limits()
        return str(key)

    @locked
    def spaces(self, name: str) -> list[dict[str, Any]]:
        """The spaces of a table: those created, and those that subscriptions are in.

        Each has the arguments of a `Subscriber`, apart from its own range: `space, kind, k, descending`.
        """
        survey = self._subscriptions.survey(self._table(name))
        return [key.describe() for key in self._spaces.keys(name, survey)]

    @locked
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
        """Publish rows to a table; instead of changes, the messages that describe which subscriptions change.

        `algorithm` is `dense`, which needs no subscriptions, or `sparse`, which fits the messages to the
        existing ones. An `epsilon` up to 1 makes fewer messages, some of them redundant. Subscriptions that
        messages cannot describe are refused; `others="ignore"` keeps them exact without messages.
        """
        table = self._table(name)
        survey = self._subscriptions.survey(table)
        keys = self._spaces.keys(name, survey)
        self._spaces.check(keys, survey, algorithm, epsilon, others)
        upserts, deletes = table.read(data)
        maintained = self._spaces.maintained(name)
        new = least_limits(key.limits(table.store.schema) for key in keys if key not in maintained)
        check_live_rows(table, new)
        check_limits(upserts, least_limits([new, self._subscriptions.limits_of(table)]), source=name)
        is_sparse = algorithm == "sparse"
        self._subscriptions.clear_limits()
        self._spaces.maintain(table, keys, survey, is_sparse=is_sparse)
        delta = table.apply(upserts, deletes, each=False)
        emitted = self._spaces.emit(keys, delta, is_sparse=is_sparse, epsilon=float(epsilon))
        self._subscriptions.apply_silently(table, delta)
        return emitted

    @locked
    def snapshot(self, name: str, space: str) -> pa.Table:
        """The rows that a new subscriber of a space starts with: `space, key, x, y, born, seq`.

        Messages with a larger `seq` come after it. Cost: linear in the table.
        """
        table = self._table(name)
        keys = {str(key): key for key in self._spaces.keys(name, self._subscriptions.survey(table))}
        if space not in keys:
            names = ", ".join(map(repr, keys)) or "none"
            raise ParameterError(f"{name!r} has no space {space!r}; it has {names}")
        return self._spaces.snapshot(keys[space], table)

    @locked
    def advance(self, name: str, time: Any, *, rows: bool = False) -> pa.Table:
        """Advance event time to `time`: apply delayed rows, expire old ones; the changes.

        `time` is a datetime (naive is UTC), an ISO-8601 text or UTC microseconds.
        """
        source = self._source(name)
        if not isinstance(source, Window) or source.time is None:
            raise RowError(f"{name!r} has no window of time to advance")
        return self._subscriptions.emit_row_changes(
            source, source.advance(microseconds(time)), with_rows=rows
        )

    @locked
    def result(self, sid: str) -> pa.Table:
        """A subscription's current answer: the SELECT list's columns, in rank order."""
        group, local = self._subscriptions.locate(sid)
        return group.result(local)

    @locked
    def size(self, sid: str) -> int:
        """How many rows a subscription's current answer has. A join's pairs are counted, not built."""
        group, local = self._subscriptions.locate(sid)
        return group.size(local)

    @locked
    def answers(self, sids: Any, *, rows: bool = False) -> pa.Table:
        """The current answers of many subscriptions as changes, which a new subscriber starts with.

        Each is `enter` or `value` with the number of the last row applied. Thresholds and matching
        have none.
        """
        return self._subscriptions.answers(sids, with_rows=rows)

    @locked
    def explain(self, sid: str, event: Mapping[str, Any] | None = None) -> str:
        """Which index maintains a subscription, and with which parameters.

        With an event, which is not published: why the subscription matches it or not, predicate by
        predicate.
        """
        group, local = self._subscriptions.locate(sid)
        about = f"subscription: {sid}\nsource: {', '.join(group.sources)}\n"
        if event is None:
            return about + group.explain(local)
        if not isinstance(group, MatchGroup):
            raise ParameterError(f"an event requires a match; {sid!r} is not one")
        batch = cast(Stream, self._sources[group.sources[0]]).read([event])
        return about + group.explain_event(local, batch)

    @locked
    def rows_beyond(self, name: str, rows: pa.Table, statements: Sequence[str] = ()) -> dict[int, str]:
        """The rows that `publish` would refuse because a value cannot be kept exactly, and why.

        `statements` may have subscriptions later. `rows` are of the declared types. Changes nothing.
        """
        planned = [self._planner.plan(sql) for sql in statements]
        return rows_beyond(rows, self._subscriptions.limits_with(self._source(name), planned))

    @locked
    def refusing(self, name: str, data: Any, /) -> list[str]:
        """Ids of the subscriptions because of which `publish` refuses rows: it cannot keep them exactly.

        Raises RowError for rows that are invalid whatever is subscribed to. Changes nothing. Cost: linear in
        the rows, for each kind of statement.
        """
        source = self._source(name)
        if isinstance(source, Stream):
            return self._subscriptions.refusing(source, source.read(data))
        rows = source.read(data)[0] if isinstance(source, Table) else self._read_window(source, data)
        return self._subscriptions.refusing(source, rows)

    @locked
    def counts(self, name: str) -> dict[str, int]:
        """Counters of a source: rows numbered, late rows dropped, rows without a weight for a threshold."""
        source = self._source(name)
        return {"rows": source.next_number, "late": source.late, "weightless": source.weightless}

    @locked
    def late(self, name: str) -> Longs:
        """Numbers of the rows that the last batch of a source dropped for being late."""
        source = self._source(name)
        return source.late_numbers if isinstance(source, Window) else NO_ROWS

    @locked
    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole engine to one file, atomically."""
        saving.write(path, *self.state())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Engine:
        """The engine that `save` wrote."""
        return cls.from_state(*saving.read(path))

    @locked
    def state(self) -> tuple[dict[str, Any], Arrays]:
        """The whole engine as a manifest, which JSON can hold, and flat arrays."""
        return self._manifest(), dict(self._arrays())

    @classmethod
    def from_state(cls, manifest: Mapping[str, Any], arrays: Arrays) -> Engine:
        """The engine that `state` was taken from."""
        engine = cls(indexes=manifest.get("indexes"))
        engine._restore(manifest, arrays)
        return engine

    def __reduce__(self) -> tuple[Callable[..., Engine], tuple[dict[str, Any], Arrays]]:
        """Copy and pickle through the saved state: indexes hold addresses of their own arrays."""
        return type(self).from_state, self.state()

    def __copy__(self) -> Engine:
        """There is no shallow copy: two engines cannot share arrays."""
        return copy.deepcopy(self)

    @locked
    def declare(self, declaration: Declaration) -> None:
        """Declare a source by value, as in a job file."""
        source = declaration.build()
        if declaration.name in self._sources:
            raise DuplicateSource(
                f"{self._declarations[declaration.name].kind} {declaration.name!r} exists already"
            )
        self._sources[declaration.name] = source
        self._declarations[declaration.name] = declaration
        self._planner.clear()

    def _source(self, name: str) -> Source:
        if not isinstance(name, str) or name not in self._sources:
            near = difflib.get_close_matches(str(name), list(self._sources), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownSource(f"there is no table or stream {name!r}{hint}")
        return self._sources[name]

    def _read_window(self, source: Window, data: Any) -> pa.Table:
        """Rows of a windowed stream, checked by themselves."""
        name = source.schema.name
        assert source.schema.columns is not None
        batch = read_batch(data, source.schema.columns, source=name, key=source.schema.key, extra=None)
        if source.time is not None:
            refuse_nulls(batch.rows.column(source.time), name=source.time, source=name, role="time")
        return batch.rows

    def _table(self, name: str) -> Table:
        source = self._source(name)
        if not isinstance(source, Table):
            raise ParameterError(f"messages describe the rows of a table; {source.schema.describe()}")
        return source

    def _manifest(self) -> dict[str, Any]:
        return {
            "sources": [declaration.as_dict() for declaration in self._declarations.values()],
            **self._subscriptions.manifest(),
            "indexes": self._indexes,
            "spaces": self._spaces.manifest(),
        }

    def _arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        yield from saving.with_prefix("registry", self._subscriptions.registry.arrays())
        for number, source in enumerate(self._sources.values()):
            yield from saving.with_prefix(f"source/{number}", source.arrays())
        yield from self._subscriptions.group_arrays()
        yield from self._spaces.arrays()

    def _restore(self, manifest: Mapping[str, Any], arrays: Arrays) -> None:
        for number, declared in enumerate(manifest["sources"]):
            declaration = Declaration(**declared)
            self.declare(declaration)
            source_arrays = saving.with_prefix_stripped(arrays, f"source/{number}")
            self._sources[declaration.name].restore(source_arrays)
        self._subscriptions.restore(manifest, arrays, self._planner)
        tables = {name: source for name, source in self._sources.items() if isinstance(source, Table)}
        self._spaces.restore(manifest["spaces"], arrays, tables)


def _copied(columns: Mapping[str, str] | None) -> dict[str, str] | None:
    return dict(columns) if isinstance(columns, Mapping) else columns
