"""One shard: an engine with a share of the subscriptions, fed with every row. Knows nothing of Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.engine import Engine, saving
from tocsin.engine.catalog import Declaration
from tocsin.engine.floats import weights_of
from tocsin.errors import Error, WeightOverflow
from tocsin.indexes.contract import Longs
from tocsin.pipeline.blobs import BEGIN, PARAMETERS, POSITION, REJECTS, ROWS, Blob, rejects
from tocsin.pipeline.checking import failing
from tocsin.pipeline.checksums import opened, sealed
from tocsin.pipeline.sharding import shard_of

CHANGES = "change"
REJECTED = "reject"
MESSAGES = "message"
SNAPSHOTS = "snapshot"

#: The column of a parameters file that says what a row does.
OP = "_op"
REGISTER, TERMINATE = "register", "terminate"


class Section(NamedTuple):
    """A subscription section of the job: a template, or one statement with its own id."""

    sql: str
    id: str | None
    repeat: bool
    #: columns that the statement takes as a threshold's weight, by stream
    weight: tuple[str, str] | None
    #: the shard that keeps all its subscriptions; without one they are split by hash
    shard: int | None = None


class Telling(NamedTuple):
    """How a job tells by messages: see `Engine.messages`."""

    algorithm: str
    epsilon: float
    #: a table's snapshot is due after so many messages since the last one, and as many as it had rows
    snapshot_after: int


@dataclass(frozen=True)
class ShardJob:
    """What a shard has to know of its job."""

    declarations: tuple[Declaration, ...]
    sections: tuple[Section, ...]
    shards: int
    order_by: Mapping[str, str] = field(default_factory=dict)
    top: Mapping[str, int] = field(default_factory=dict)
    rows: bool = False
    #: None if it tells changes
    messages: Telling | None = None


class Output(NamedTuple):
    """What leaves a shard: changes, messages or a snapshot of one source, or rejected rows."""

    kind: str
    source: str
    table: pa.Table


class Shard:
    """Takes the blobs of one micro-batch after the other."""

    def __init__(self, job: ShardJob, number: int) -> None:
        self.job = job
        self.number = number
        self.engine = Engine()
        #: ids of the sections that have been registered, so that each is registered once
        self._begun: set[str] = set()
        #: by table: messages until the next snapshot; a table that is not here has had none
        self._until_snapshot: dict[str, int] = {}
        self._size = 0
        #: rows and parameters that the last batch brought and that could be used, by source
        self.taken: Counter[str] = Counter()
        self.serve(job)

    def apply(self, blobs: list[Blob]) -> Iterator[Output]:
        """Apply one micro-batch: registrations and terminations, then rows, source by source."""
        self.taken.clear()
        for blob in blobs:
            if blob.kind == BEGIN:
                yield from self._begin(blob.table.column("id").to_pylist())
        yield from (Output(REJECTED, blob.source, blob.table) for blob in blobs if blob.kind == REJECTS)
        parameters = sorted(
            (b for b in blobs if b.kind == PARAMETERS), key=lambda b: (int(b.source), b.order)
        )
        for blob in parameters:
            yield from self._apply_parameters(blob)
        for declaration in self.job.declarations:
            mine = [b for b in blobs if b.kind == ROWS and b.source == declaration.name]
            if mine:
                yield from self._apply_rows(declaration.name, sorted(mine, key=lambda b: b.order))

    def save(self) -> bytes:
        """The shard's whole state, sealed."""
        sink = pa.BufferOutputStream()
        manifest, arrays = self.engine.state()
        state = {"engine": manifest, "begun": sorted(self._begun), "snapshots": self._until_snapshot}
        saving.dump(sink, state, arrays)
        data = sealed(sink.getvalue())
        self._size = len(data)
        return data

    def size(self) -> int:
        """About how many bytes `save` writes: as the last time, or guessed from the subscriptions."""
        return max(self._size, 100 * len(self.engine))

    @classmethod
    def load(cls, job: ShardJob, number: int, data: Any) -> Shard:
        """The shard that `save` wrote, under a job that may have more sources and sections by now."""
        manifest, arrays = saving.load(pa.BufferReader(opened(data, "shard state")), name="shard state")
        shard = cls(ShardJob((), (), job.shards), number)
        shard.engine = Engine.from_state(manifest["engine"], arrays)
        shard._begun = set(manifest["begun"])
        shard._until_snapshot = manifest.get("snapshots", {})
        shard._size = len(data)
        shard.serve(job)
        return shard

    def serve(self, job: ShardJob) -> None:
        """Go on under a job that may have more sources and sections than before."""
        self.job = job
        for declaration in job.declarations:
            if declaration.name not in self.engine.sources:
                self.engine.declare(declaration)
        if job.messages is not None:
            for section in job.sections:
                if section.shard == self.number:
                    self.engine.create_space(section.sql)

    def pending(self) -> list[str]:
        """Ids of the job's own statements that this shard keeps and that have not begun."""
        return [
            section.id
            for section in self.job.sections
            if section.id is not None and section.id not in self._begun and self._keeps(section, section.id)
        ]

    def _keeps(self, section: Section, sid: str) -> bool:
        shard = shard_of(sid, self.job.shards) if section.shard is None else section.shard
        return shard == self.number

    def _begin(self, ids: list[str]) -> Iterator[Output]:
        sections = {section.id: section for section in self.job.sections}
        for sid in ids:
            self._begun.add(sid)
            self.engine.subscribe(sections[sid].sql, id=sid, repeat=sections[sid].repeat)
        yield from self._answers(ids)

    def _answers(self, ids: Any) -> Iterator[Output]:
        if self.job.messages is not None:
            # Who follows messages starts from a snapshot.
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
            known = len(bad)
            if ops[begin] in (REGISTER, None):
                yield from self._register(section, run, bad)
            elif ops[begin] == TERMINATE:
                self._terminate(run)
            else:
                reason = f"{OP} is {ops[begin]!r}; it must be {REGISTER!r} or {TERMINATE!r}"
                bad.update(dict.fromkeys(run.column(POSITION).to_pylist(), reason))
            self.taken[f"subscriptions {blob.source}"] += run.num_rows - (len(bad) - known)
            begin = end
        if bad:
            yield Output(REJECTED, section.sql, rejects(f"subscriptions {blob.source}", blob.path, bad).table)

    def _register(self, section: Section, run: pa.Table, bad: dict[int, str]) -> Iterator[Output]:
        given = run.drop_columns([name for name in (POSITION, OP) if name in run.column_names])
        good = np.ones(run.num_rows, np.bool_)

        def refuses(begin: int, end: int) -> bool:
            try:
                self.engine.subscribe_many(
                    section.sql, given.slice(begin, end - begin), repeat=section.repeat
                )
            except Error as failure:
                if end - begin == 1:
                    good[begin] = False
                    bad[run.column(POSITION)[begin].as_py()] = str(failure)
                return True
            return False

        failing(run.num_rows, refuses)
        if good.any():
            yield from self._answers(pc.cast(given.column("id"), pa.string()).filter(pa.array(good)))

    def _terminate(self, run: pa.Table) -> None:
        for sid in pc.cast(run.column("id"), pa.string()).to_pylist():
            if sid in self.engine:
                self.engine.unsubscribe(sid)

    def _apply_rows(self, name: str, blobs: list[Blob]) -> Iterator[Output]:
        # Files with and without `_op` may come together.
        table = pa.concat_tables([blob.table for blob in blobs], promote_options="default").combine_chunks()
        paths = np.repeat(np.arange(len(blobs)), [blob.table.num_rows for blob in blobs])
        if name in self.job.order_by:
            order = _sorted_by(table.column(self.job.order_by[name]))
            table, paths = table.take(pa.array(order)), paths[order]
        overflow = self._overflowing(name, table)
        if overflow:
            yield from self._reject(name, blobs, table, paths, overflow)
            good = np.ones(table.num_rows, np.bool_)
            good[list(overflow)] = False
            table, paths = table.filter(pa.array(good)), paths[good]
        first = self.engine.counts(name)["rows"]
        rows = table.drop_columns([POSITION])
        self.taken[name] += rows.num_rows
        if self.job.messages is not None:
            yield from self._messages(name, rows, self.job.messages)
            return
        changes = self.engine.publish(name, rows, rows=self.job.rows, top=self.job.top.get(name))
        if changes.num_rows:
            yield Output(CHANGES, name, changes)
        late = self.engine.late(name) - first
        if len(late):
            self.taken[name] -= len(late)
            reason = "late: older than what was already applied"
            yield from self._reject(name, blobs, table, paths, dict.fromkeys(late.tolist(), reason))

    def _messages(self, name: str, rows: pa.Table, telling: Telling) -> Iterator[Output]:
        """Messages; and a snapshot with the first batch, and whenever it costs less than they have since."""
        messages = self.engine.messages(name, rows, algorithm=telling.algorithm, epsilon=telling.epsilon)
        if messages.num_rows:
            yield Output(MESSAGES, name, messages)
        self._until_snapshot[name] = self._until_snapshot.get(name, 0) - messages.num_rows
        if self._until_snapshot[name] > 0:
            return
        spaces = [each["space"] for each in self.engine.spaces(name)]
        snapshots = [self.engine.snapshot(name, space) for space in spaces]
        if any(snapshot.num_rows for snapshot in snapshots):
            snapshot = pa.concat_tables(snapshots)
            self._until_snapshot[name] = max(snapshot.num_rows, telling.snapshot_after)
            yield Output(SNAPSHOTS, name, snapshot)

    def _overflowing(self, name: str, table: pa.Table) -> dict[int, str]:
        """Rows whose weight no threshold can take. All shards know all templates, so all agree."""
        found: dict[int, str] = {}
        for column in {s.weight[1] for s in self.job.sections if s.weight and s.weight[0] == name}:
            values = table.column(column)

            def refuses(begin: int, end: int, values: pa.ChunkedArray = values, column: str = column) -> bool:
                try:
                    weights_of(values.slice(begin, end - begin), name=column)
                except WeightOverflow:
                    return True
                return False

            for row in failing(table.num_rows, refuses):
                found[row] = (
                    f"column {column!r}: {values[row].as_py()!r} is too large a weight for a threshold"
                )
        return found

    def _reject(
        self, name: str, blobs: list[Blob], table: pa.Table, paths: Longs, reasons: Mapping[int, str]
    ) -> Iterator[Output]:
        # Every shard sees every row, and one of them speaks; messages have one shard a table.
        if self.number and self.job.messages is None:
            return
        positions = table.column(POSITION)
        for path in sorted({int(paths[row]) for row in reasons}):
            bad = {positions[row].as_py(): reason for row, reason in reasons.items() if paths[row] == path}
            yield Output(REJECTED, name, rejects(name, blobs[path].path, bad).table)


def _sorted_by(column: pa.ChunkedArray) -> Longs:
    """A stable order by value; nulls last."""
    keys = pa.table({"value": column, "place": np.arange(len(column))})
    order = pc.sort_indices(keys, sort_keys=[("value", "ascending"), ("place", "ascending")])
    places: Longs = order.to_numpy()
    return places
