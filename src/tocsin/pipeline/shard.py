"""One shard: an engine that holds part of the subscriptions and receives every row. Independent of Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.types import Longs
from tocsin.engine import saving
from tocsin.engine.conversion.floats import weights_of
from tocsin.engine.engine import Engine
from tocsin.engine.sources.catalog import Declaration
from tocsin.errors import Error, WeightOverflow
from tocsin.pipeline.blobs import BEGIN, PARAMETERS, POSITION, REJECTS, ROWS, Blob, rejects
from tocsin.pipeline.sharding import shard_of
from tocsin.pipeline.sources.row_checks import find_failing
from tocsin.pipeline.state.checksums import seal, unseal

CHANGES = "change"
REJECTED = "reject"
MESSAGES = "message"
SNAPSHOTS = "snapshot"

#: The column of a parameters file that registers or terminates a subscription.
OP = "_op"
REGISTER, TERMINATE = "register", "terminate"


class Section(NamedTuple):
    """A subscription section of the job: a template, or a single statement with its own id."""

    sql: str
    id: str | None
    repeat: bool
    #: the stream, and its column that the statement sums as a threshold's weight
    weight: tuple[str, str] | None
    #: the shard that owns all its subscriptions; None if they are split by hash
    shard: int | None = None


class MessageOptions(NamedTuple):
    """How a job emits messages: see `Engine.messages`."""

    algorithm: str
    epsilon: float
    #: a table's next snapshot is due after this many messages, but not before as many as the last had rows
    snapshot_after: int


@dataclass(frozen=True)
class ShardJob:
    """The part of a job that its shards need."""

    declarations: tuple[Declaration, ...]
    sections: tuple[Section, ...]
    shards: int
    order_by: Mapping[str, str] = field(default_factory=dict)
    top: Mapping[str, int] = field(default_factory=dict)
    rows: bool = False
    #: None if the job emits changes
    messages: MessageOptions | None = None
    #: by kind of question, the index to use instead of the planner's choice
    indexes: Mapping[str, str] = field(default_factory=dict)


class Output(NamedTuple):
    """What leaves a shard: changes, messages or a snapshot of one source, or rejected rows."""

    kind: str
    source: str
    table: pa.Table


class Shard:
    """Applies micro-batches of blobs, one at a time."""

    def __init__(self, job: ShardJob, number: int) -> None:
        self.job = job
        self.number = number
        self.engine = Engine(indexes=job.indexes)
        #: ids of sections that have been registered, so that each is registered once
        self._started: set[str] = set()
        #: by table: messages until the next snapshot; a table without an entry has had none
        self._until_snapshot: dict[str, int] = {}
        self._size = 0
        #: rows and parameters of the last batch that were accepted, by source
        self.accepted: Counter[str] = Counter()
        self.update_job(job)

    def apply(self, blobs: list[Blob]) -> Iterator[Output]:
        """Apply one micro-batch: registrations and terminations, then rows, source by source."""
        self.accepted.clear()
        for blob in blobs:
            if blob.kind == BEGIN:
                yield from self._start_statements(blob.table.column("id").to_pylist())
        yield from (Output(REJECTED, blob.source, blob.table) for blob in blobs if blob.kind == REJECTS)
        parameters = sorted(
            (b for b in blobs if b.kind == PARAMETERS), key=lambda b: (int(b.source), b.order)
        )
        for blob in parameters:
            yield from self._apply_parameters(blob)
        for declaration in self.job.declarations:
            own_blobs = [b for b in blobs if b.kind == ROWS and b.source == declaration.name]
            if own_blobs:
                yield from self._apply_rows(declaration.name, sorted(own_blobs, key=lambda b: b.order))

    def save(self) -> bytes:
        """The complete state of the shard, with a checksum."""
        sink = pa.BufferOutputStream()
        manifest, arrays = self.engine.state()
        state = {"engine": manifest, "begun": sorted(self._started), "snapshots": self._until_snapshot}
        saving.dump(sink, state, arrays)
        data = seal(sink.getvalue())
        self._size = len(data)
        return data

    def size(self) -> int:
        """Approximate size of what `save` writes: its last size, or an estimate from the subscriptions."""
        return max(self._size, 100 * len(self.engine))

    @classmethod
    def load(cls, job: ShardJob, number: int, data: Any) -> Shard:
        """Restore the shard that `save` wrote; `job` may have gained sources and sections since."""
        manifest, arrays = saving.load(pa.BufferReader(unseal(data, "shard state")), name="shard state")
        shard = cls(ShardJob((), (), job.shards), number)
        shard.engine = Engine.from_state(manifest["engine"], arrays)
        shard._started = set(manifest["begun"])
        shard._until_snapshot = manifest.get("snapshots", {})
        shard._size = len(data)
        shard.update_job(job)
        return shard

    def update_job(self, job: ShardJob) -> None:
        """Continue with a job that may have more sources and sections than before."""
        self.job = job
        for declaration in job.declarations:
            if declaration.name not in self.engine.sources:
                self.engine.declare(declaration)
        if job.messages is not None:
            for section in job.sections:
                if section.shard == self.number:
                    self.engine.create_space(section.sql)

    def pending(self) -> list[str]:
        """Ids of the job's single statements that this shard owns and has not registered yet."""
        return [
            section.id
            for section in self.job.sections
            if section.id is not None and section.id not in self._started and self._owns(section, section.id)
        ]

    def _owns(self, section: Section, sid: str) -> bool:
        shard = shard_of(sid, self.job.shards) if section.shard is None else section.shard
        return shard == self.number

    def _start_statements(self, ids: list[str]) -> Iterator[Output]:
        sections = {section.id: section for section in self.job.sections}
        for sid in ids:
            self._started.add(sid)
            self.engine.subscribe(sections[sid].sql, id=sid, repeat=sections[sid].repeat)
        yield from self._initial_answers(ids)

    def _initial_answers(self, ids: Any) -> Iterator[Output]:
        if self.job.messages is not None:
            # Consumers of messages start from a snapshot.
            return
        answers = self.engine.answers(ids, rows=self.job.rows)
        if answers.num_rows:
            yield Output(CHANGES, "", answers)

    def _apply_parameters(self, blob: Blob) -> Iterator[Output]:
        section = self.job.sections[int(blob.source)]
        table = blob.table
        ops = table.column(OP).to_pylist() if OP in table.column_names else [REGISTER] * table.num_rows
        bad: dict[int, str] = {}
        begin = 0
        while begin < len(ops):
            end = begin + 1
            while end < len(ops) and ops[end] == ops[begin]:
                end += 1
            run = table.slice(begin, end - begin)
            n_before = len(bad)
            if ops[begin] in (REGISTER, None):
                yield from self._register(section, run, bad)
            elif ops[begin] == TERMINATE:
                self._terminate(run)
            else:
                reason = f"{OP} is {ops[begin]!r}; it must be {REGISTER!r} or {TERMINATE!r}"
                bad.update(dict.fromkeys(run.column(POSITION).to_pylist(), reason))
            self.accepted[f"subscriptions {blob.source}"] += run.num_rows - (len(bad) - n_before)
            begin = end
        if bad:
            yield Output(REJECTED, section.sql, rejects(f"subscriptions {blob.source}", blob.path, bad).table)

    def _register(self, section: Section, run: pa.Table, bad: dict[int, str]) -> Iterator[Output]:
        columns = run.drop_columns([name for name in (POSITION, OP) if name in run.column_names])
        good = np.ones(run.num_rows, np.bool_)

        def refuses(begin: int, end: int) -> bool:
            try:
                self.engine.subscribe_many(
                    section.sql, columns.slice(begin, end - begin), repeat=section.repeat
                )
            except Error as failure:
                if end - begin == 1:
                    good[begin] = False
                    bad[run.column(POSITION)[begin].as_py()] = str(failure)
                return True
            return False

        find_failing(run.num_rows, refuses)
        if good.any():
            yield from self._initial_answers(
                pc.cast(columns.column("id"), pa.string()).filter(pa.array(good))
            )

    def _terminate(self, run: pa.Table) -> None:
        for sid in pc.cast(run.column("id"), pa.string()).to_pylist():
            if sid in self.engine:
                self.engine.unsubscribe(sid)

    def _apply_rows(self, name: str, blobs: list[Blob]) -> Iterator[Output]:
        # A batch may mix files with and without `_op`.
        table = pa.concat_tables([blob.table for blob in blobs], promote_options="default").combine_chunks()
        paths = np.repeat(np.arange(len(blobs)), [blob.table.num_rows for blob in blobs])
        if name in self.job.order_by:
            order = _sorted_by(table.column(self.job.order_by[name]))
            table, paths = table.take(pa.array(order)), paths[order]
        refused = self._find_overflows(name, table)
        # All templates count, with or without subscriptions here, so that all shards refuse the same rows.
        statements = [section.sql for section in self.job.sections]
        refused |= self.engine.rows_beyond(name, table, statements)
        if refused:
            yield from self._reject(name, blobs, table, paths, refused)
            good = np.ones(table.num_rows, np.bool_)
            good[list(refused)] = False
            table, paths = table.filter(pa.array(good)), paths[good]
        first = self.engine.counts(name)["rows"]
        rows = table.drop_columns([POSITION])
        self.accepted[name] += rows.num_rows
        if self.job.messages is not None:
            yield from self._messages(name, rows, self.job.messages)
            return
        changes = self.engine.publish(name, rows, rows=self.job.rows, top=self.job.top.get(name))
        if changes.num_rows:
            yield Output(CHANGES, name, changes)
        late = self.engine.late(name) - first
        if len(late):
            self.accepted[name] -= len(late)
            reason = "late: older than what was already applied"
            yield from self._reject(name, blobs, table, paths, dict.fromkeys(late.tolist(), reason))

    def _messages(self, name: str, rows: pa.Table, options: MessageOptions) -> Iterator[Output]:
        """Emit messages, and a snapshot with the first batch and then whenever one is due."""
        messages = self.engine.messages(name, rows, algorithm=options.algorithm, epsilon=options.epsilon)
        if messages.num_rows:
            yield Output(MESSAGES, name, messages)
        self._until_snapshot[name] = self._until_snapshot.get(name, 0) - messages.num_rows
        if self._until_snapshot[name] > 0:
            return
        spaces = [each["space"] for each in self.engine.spaces(name)]
        snapshots = [self.engine.snapshot(name, space) for space in spaces]
        if any(snapshot.num_rows for snapshot in snapshots):
            snapshot = pa.concat_tables(snapshots)
            self._until_snapshot[name] = max(snapshot.num_rows, options.snapshot_after)
            yield Output(SNAPSHOTS, name, snapshot)

    def _find_overflows(self, name: str, table: pa.Table) -> dict[int, str]:
        """Find rows whose weight overflows. All shards know all templates, so all find the same rows."""
        overflows: dict[int, str] = {}
        for column in {s.weight[1] for s in self.job.sections if s.weight and s.weight[0] == name}:
            values = table.column(column)

            def refuses(begin: int, end: int, values: pa.ChunkedArray = values, column: str = column) -> bool:
                try:
                    weights_of(values.slice(begin, end - begin), name=column)
                except WeightOverflow:
                    return True
                return False

            for row in find_failing(table.num_rows, refuses):
                overflows[row] = (
                    f"column {column!r}: {values[row].as_py()!r} is too large a weight for a threshold"
                )
        return overflows

    def _reject(
        self, name: str, blobs: list[Blob], table: pa.Table, paths: Longs, reasons: Mapping[int, str]
    ) -> Iterator[Output]:
        # Every shard sees every row, so only shard 0 reports it. With messages each table has one shard.
        if self.number and self.job.messages is None:
            return
        positions = table.column(POSITION)
        for path in sorted({int(paths[row]) for row in reasons}):
            bad = {positions[row].as_py(): reason for row, reason in reasons.items() if paths[row] == path}
            yield Output(REJECTED, name, rejects(name, blobs[path].path, bad).table)


def _sorted_by(column: pa.ChunkedArray) -> Longs:
    """A stable ascending order, nulls last."""
    keys = pa.table({"value": column, "place": np.arange(len(column))})
    order = pc.sort_indices(keys, sort_keys=[("value", "ascending"), ("place", "ascending")])
    places: Longs = order.to_numpy()
    return places
