"""The state of a shard in a state store: a snapshot in chunks, and a log of all input since.

Pure logic over a small `StateStore`, so that tests drive it without Spark.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import StateError
from tocsin.pipeline.blobs import pack, started_statements, unpack
from tocsin.pipeline.shard import REJECTED, Output, Shard, ShardJob
from tocsin.pipeline.state.warm_cache import WarmCache

#: Increased when state of the previous version can no longer be read.
FORMAT = 3
#: Bytes per chunk of a snapshot.
CHUNK = 4 << 20
#: A log of fewer bytes never triggers a snapshot.
SMALL_LOG = 8 << 20
#: The log may grow to this multiple of the snapshot. All of it is replayed when a shard is lost.
LOG_TO_SNAPSHOT = 4


@dataclass
class ShardMeta:
    """What the state store records about a shard."""

    format: int = FORMAT
    token: str = ""
    #: number of chunks of the snapshot, and their bytes
    chunks: int = 0
    snapshot_bytes: int = 0
    #: number of parts of the log, and their bytes; a part is one blob, and a batch may have several
    parts: int = 0
    log_bytes: int = 0
    #: micro-batches applied
    batches: int = 0


class StateStore(Protocol):
    """The state of one shard in a transactional key-value store."""

    def get_meta(self) -> ShardMeta | None: ...
    def put_meta(self, meta: ShardMeta) -> None: ...
    def get_part(self, kind: str, number: int) -> bytes: ...
    def put_part(self, kind: str, number: int, data: bytes) -> None: ...
    def drop_part(self, kind: str, number: int) -> None: ...


class ShardStateManager:
    """Restores a shard, applies one micro-batch, and writes the new state to the store."""

    def __init__(self, job: ShardJob, number: int, store: StateStore, warm_cache: WarmCache) -> None:
        self._job = job
        self._number = number
        self._store = store
        self._warm_cache = warm_cache
        #: after `run`: counts and timings of the batch
        self.figures: dict[str, Any] = {}

    def run(self, inputs: list[bytes]) -> Iterator[Output]:
        """Apply one micro-batch. The state is written once the last output has been consumed."""
        stored = self._store.get_meta()
        meta = stored or ShardMeta()
        if meta.format != FORMAT:
            raise StateError(f"shard state has format {meta.format}; this version reads format {FORMAT}")
        began = time.perf_counter()
        shard, origin = self._find(meta)
        pending = shard.pending()
        if pending:
            # Logged as input, so that a replay registers them with this batch and not before.
            inputs = [pack(started_statements(pending)), *inputs]
        started = time.perf_counter()
        counts = dict.fromkeys(("change", "message", "snapshot", "reject"), 0)
        rejected: list[pa.Table] = []
        for output in shard.apply([unpack(data) for data in inputs]):
            counts[output.kind] += output.table.num_rows
            if output.kind == REJECTED:
                rejected.append(output.table)
            yield output
        seconds = time.perf_counter() - started
        before, meta.token = meta.token, uuid.uuid4().hex
        meta.batches += 1
        self._append(meta, inputs)
        if meta.log_bytes > max(SMALL_LOG, LOG_TO_SNAPSHOT * meta.snapshot_bytes):
            self._snapshot(meta, shard)
        self._store.put_meta(meta)
        self._warm_cache.put(meta.token, before, shard, inputs, seconds)
        self.figures = {
            "shard": self._number,
            "subscriptions": len(shard.engine),
            "rows": sum(shard.engine.counts(name)["rows"] for name in shard.engine.sources),
            "changes": counts["change"] + counts["message"],
            "snapshots": counts["snapshot"],
            "rejects": counts["reject"],
            "sources": _sources(shard.accepted, rejected),
            "found": origin,
            "find_seconds": started - began,
            "apply_seconds": seconds,
            "keep_seconds": time.perf_counter() - started - seconds,
            "snapshot_bytes": meta.snapshot_bytes,
            "log_bytes": meta.log_bytes,
        }

    def _find(self, meta: ShardMeta) -> tuple[Shard, str]:
        """The shard, and where it was found: new, in the warm cache of this machine, or in the store."""
        if not meta.token:
            return Shard(self._job, self._number), "new"
        warm = self._warm_cache.find(meta.token, _replay)
        return (warm, "warm") if warm is not None else (self._rebuild(meta), "store")

    def _rebuild(self, meta: ShardMeta) -> Shard:
        """Load the snapshot, then replay the log batch by batch."""
        shard = Shard(self._job, self._number)
        if meta.chunks:
            data = b"".join(self._store.get_part("snapshot", number) for number in range(meta.chunks))
            shard = Shard.load(self._job, self._number, data)
        batch: list[bytes] = []
        current = -1
        for number in range(meta.parts):
            data = self._store.get_part("log", number)
            of_batch = int.from_bytes(data[:8], "little")
            if not current <= of_batch <= meta.batches:
                raise StateError(f"the log of shard {self._number} is damaged at part {number}")
            if of_batch != current and batch:
                _replay(shard, batch)
                batch = []
            current = of_batch
            batch.append(data[8:])
        if batch:
            _replay(shard, batch)
        return shard

    def _append(self, meta: ShardMeta, inputs: list[bytes]) -> None:
        for data in inputs:
            self._store.put_part("log", meta.parts, meta.batches.to_bytes(8, "little") + data)
            meta.parts += 1
            meta.log_bytes += len(data)

    def _snapshot(self, meta: ShardMeta, shard: Shard) -> None:
        data = shard.save()
        chunks = [data[begin : begin + CHUNK] for begin in range(0, len(data), CHUNK)]
        for number, chunk in enumerate(chunks):
            self._store.put_part("snapshot", number, chunk)
        for number in range(len(chunks), meta.chunks):
            self._store.drop_part("snapshot", number)
        for number in range(meta.parts):
            self._store.drop_part("log", number)
        meta.chunks, meta.snapshot_bytes = len(chunks), len(data)
        meta.parts = meta.log_bytes = 0


def _sources(accepted: Mapping[str, int], rejected: list[pa.Table]) -> dict[str, dict[str, Any]]:
    """By source: accepted and rejected rows, and the reason of the first reject."""
    sources = {name: {"taken": count, "rejected": 0, "why": ""} for name, count in accepted.items()}
    for table in rejected:
        if table.num_rows:
            first = table.slice(0, 1).to_pylist()[0]
            rows = sources.setdefault(first["source"], {"taken": 0, "rejected": 0, "why": ""})
            # A file that could not be read counts as one row.
            rows["rejected"] += pc.sum(pc.fill_null(table.column("rows"), 1)).as_py()
            rows["why"] = rows["why"] or f"{first['path']}: {first['reason']}"
    return sources


def _replay(shard: Shard, inputs: list[bytes]) -> None:
    for _ in shard.apply([unpack(data) for data in inputs]):
        pass
