"""A warm cache of shards between micro-batches.

The state store is authoritative; losing the cache costs time only. Spark runs a shard in any idle Python
worker, so a worker's own copy is often one or two batches old. Each execution therefore appends a step to
a *replay log*: a local file, named by the token that was committed to the state store, with the previous
token and the input between the two. A worker that reaches the token of its own copy replays from there.
If applying the input took longer than writing the state would, the step holds the state instead.

A token is random, and the execution that draws it writes it to the state store. The log is therefore
followed only if it leads to exactly the state that was committed: not after a retry, a zombie task, a
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
from tocsin.pipeline.shard import Shard, ShardJob
from tocsin.pipeline.state.checksums import SealedWriter, unseal

log = logging.getLogger(__name__)

#: Shards that one Python worker holds in memory.
MAX_RESIDENT = 8
#: Steps that are followed back.
MAX_STEPS = 16
#: Steps of a shard that always stay, and bytes beyond which older ones go: the folder may be memory.
MIN_FILES = 4
MAX_BYTES = 128 << 20
#: Files of a shard that are older are removed.
MAX_AGE_SECONDS = 3600.0
#: Bytes of state that are written and read back in a second, roughly: what a replay has to beat.
BYTES_PER_SECOND = 500e6

_resident: OrderedDict[str, tuple[str, Shard]] = OrderedDict()


class WarmCache:
    """The warm copies of one shard of one job."""

    def __init__(self, folder: Path, name: str, job: ShardJob, number: int) -> None:
        self._folder = folder
        self._name = f"{name}-{number}"
        self._job = job
        self._number = number

    def find(self, token: str, replay: Callable[[Shard, list[bytes]], None]) -> Shard | None:
        """The shard in the state that was committed with `token`, or None."""
        resident_token, shard = _resident.pop(self._name, ("", None))
        inputs: list[list[bytes]] = []
        for _ in range(MAX_STEPS):
            if shard is not None and token == resident_token:
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
        shard.update_job(self._job)
        for parts in reversed(inputs):
            replay(shard, parts)
        return shard

    def put(self, token: str, before: str, shard: Shard, parts: list[bytes], seconds: float) -> None:
        """Cache the shard under its new token. `seconds` is how long `parts` took to apply."""
        _resident[self._name] = token, shard
        while len(_resident) > MAX_RESIDENT:
            _resident.popitem(last=False)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if before and seconds < 2 * shard.size() / BYTES_PER_SECOND:
                self._write(token, "input", before, parts)
            else:
                self._write(token, "state", "", [shard.save()])
            self._sweep()
        except OSError as failure:
            log.warning("cannot write a warm copy of shard %d: %s", self._number, failure)

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
            # The folder may be memory: a partial copy must not occupy any.
            with contextlib.suppress(OSError):
                aside.unlink()
            raise

    def _read(self, token: str) -> tuple[str, str, list[bytes]] | None:
        try:
            with pa.memory_map(str(self._path(token))) as source:
                data = unseal(source.read_buffer(), "a warm copy")
            with pa.ipc.open_stream(data) as reader:
                parts = [batch.column(0)[0].as_buffer() for batch in reader]
                metadata = reader.schema.metadata or {}
                return metadata[b"kind"].decode(), metadata[b"before"].decode(), parts
        except FileNotFoundError:
            return None
        except (OSError, StateError, KeyError, pa.ArrowException) as failure:
            log.warning("ignoring the warm copy of shard %d: %s", self._number, failure)
            return None

    def _sweep(self) -> None:
        """Remove all but the newest files of this shard."""
        files = []
        for path in self._folder.glob(f"{self._name}.*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        files.sort(reverse=True)
        oldest = time.time() - MAX_AGE_SECONDS
        n_files, n_bytes = 0, 0
        for when, size, path in files:
            n_bytes += size
            if n_files >= MAX_STEPS or (n_files >= MIN_FILES and n_bytes > MAX_BYTES) or when < oldest:
                with contextlib.suppress(OSError):
                    path.unlink()
            else:
                n_files += 1
