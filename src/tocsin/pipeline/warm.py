"""Shards kept warm between micro-batches.

The state store is the truth; what is here is a cache, and losing it costs time only. Spark gives a
shard to any idle Python worker, so a worker's own copy is often one or two batches old. Each
execution therefore leaves a *trail*: a local file, named by the token that the state store got, with
the token before it and the input in between. A worker that finds its own token on the trail replays
from there. Where the input was dearer to apply than the state is to write, the trail holds the state.

A token is random and written to the state store by the execution that made it, so that a trail is
followed only if it leads to exactly the state that was committed: not after a retry, a zombie, a
restored checkpoint or another job.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from tocsin.errors import StateError
from tocsin.pipeline.checksums import SealedWriter, opened
from tocsin.pipeline.shard import Shard, ShardJob

log = logging.getLogger(__name__)

#: Shards that one Python worker holds at the most.
HELD = 8
#: Steps that a trail is followed back.
LONGEST = 16
#: Steps that are kept at the least, and bytes that are not exceeded but for them: the folder may be memory.
FEWEST = 4
MOST_BYTES = 128 << 20
#: Files of a shard that are older than this many seconds are swept.
OLD = 3600.0
#: Bytes of state written and read back in a second, roughly: what a replay has to beat.
BYTES_PER_SECOND = 500e6

_held: OrderedDict[str, tuple[str, Shard]] = OrderedDict()


class Trail:
    """The warm copies of one shard of one job."""

    def __init__(self, folder: Path, name: str, job: ShardJob, number: int) -> None:
        self._folder = folder
        self._name = f"{name}-{number}"
        self._job = job
        self._number = number

    def find(self, token: str, replay: Callable[[Shard, list[bytes]], None]) -> Shard | None:
        """The shard as it was when `token` was written, or None."""
        held_token, shard = _held.pop(self._name, ("", None))
        inputs: list[list[bytes]] = []
        for _ in range(LONGEST):
            if shard is not None and token == held_token:
                break
            step = self._read(token)
            if step is None:
                return None
            kind, before, parts = step
            if kind == "state":
                shard = Shard.load(self._job, self._number, parts[0])
                break
            inputs.append(parts)
            token = before
        else:
            return None
        assert shard is not None
        shard.serve(self._job)
        for parts in reversed(inputs):
            replay(shard, parts)
        return shard

    def keep(self, token: str, before: str, shard: Shard, parts: list[bytes], seconds: float) -> None:
        """Remember the shard under its new token. `seconds` is how long `parts` took to apply."""
        _held[self._name] = token, shard
        while len(_held) > HELD:
            _held.popitem(last=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if before and seconds < 2 * shard.size() / BYTES_PER_SECOND:
                self._write(token, "input", before, parts)
            else:
                self._write(token, "state", "", [shard.save()])
            self._sweep()
        except OSError as failure:
            log.warning("no warm copy of shard %d: %s", self._number, failure)

    def _path(self, token: str) -> Path:
        return self._folder / f"{self._name}.{token}"

    def _write(self, token: str, kind: str, before: str, parts: list[bytes]) -> None:
        schema = pa.schema([("data", pa.large_binary())], metadata={"kind": kind, "before": before})
        aside = self._path(token).with_suffix(f".{os.getpid()}.writing")
        try:
            with aside.open("wb") as file:
                sink = SealedWriter(file)
                with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), schema) as writer:
                    for part in parts:
                        writer.write_batch(
                            pa.record_batch([pa.array([part], pa.large_binary())], schema=schema)
                        )
                sink.seal()
            aside.replace(self._path(token))
        except OSError:
            # The folder may be memory, of which half a copy must not take any.
            with contextlib.suppress(OSError):
                aside.unlink()
            raise

    def _read(self, token: str) -> tuple[str, str, list[bytes]] | None:
        try:
            with pa.memory_map(str(self._path(token))) as source:
                data = opened(source.read_buffer(), "a warm copy")
            with pa.ipc.open_stream(data) as reader:
                parts = [batch.column(0)[0].as_buffer() for batch in reader]
                metadata = reader.schema.metadata or {}
                return metadata[b"kind"].decode(), metadata[b"before"].decode(), parts
        except FileNotFoundError:
            return None
        except (OSError, StateError, KeyError, pa.ArrowException) as failure:
            log.warning("the warm copy of shard %d is of no use: %s", self._number, failure)
            return None

    def _sweep(self) -> None:
        """Remove what nobody will ask for again: all but the newest files of this shard."""
        files = []
        for path in self._folder.glob(f"{self._name}.*"):
            with contextlib.suppress(OSError):
                found = path.stat()
                files.append((found.st_mtime, found.st_size, path))
        files.sort(reverse=True)
        oldest = time.time() - OLD
        kept, kept_bytes = 0, 0
        for when, size, path in files:
            kept_bytes += size
            if kept >= LONGEST or (kept >= FEWEST and kept_bytes > MOST_BYTES) or when < oldest:
                with contextlib.suppress(OSError):
                    path.unlink()
            else:
                kept += 1
