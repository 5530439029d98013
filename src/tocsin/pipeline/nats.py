"""The `nats` sink: messages by zone, and snapshots, to edges that follow a NATS server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tocsin.errors import StateError
from tocsin.network.nats import NatsCarrier
from tocsin.network.post import Letter, pack, parts_of
from tocsin.network.publishing import Publisher
from tocsin.network.zones import Zones
from tocsin.pipeline.frames import changes_of, rejects_of, snapshots_of
from tocsin.pipeline.jobs import Job, JobError

#: Options of the sink.
OPTIONS = ("servers", "zones")


class NatsSink:
    """One subject a zone, one for snapshots, one for rejects; `path` is the root of all, and their stream.

    The option `zones` is a file with a map (`Zones.to_json`) for spaces that have none yet; a job that is
    started with a newer version goes on with that. A batch may be sent again after a failure: the server
    drops what it has had lately, and edges pass over what they have applied.
    """

    def __init__(self, job: Job, owner: str) -> None:
        self._job = job
        self._owner = owner
        options = job.sink.options
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise JobError(f"a nats sink has no option {unknown[0]!r}; it has {', '.join(OPTIONS)}")
        self._root = job.sink.path or "tocsin"
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self._root):
            raise JobError(f"sink path {self._root!r}: a stream's name has letters, digits, - and _ only")
        self._servers = str(options.get("servers", "nats://127.0.0.1:4222"))
        self._given = _read_map(str(options["zones"])) if "zones" in options else None
        self._publisher = Publisher(self._root, self._map_of)

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        """Send a batch: a connection of its own, because nobody answers the server between batches."""
        messages = changes_of(outputs, self._job).toArrow()
        snapshots = snapshots_of(outputs).toArrow() if has_snapshots else None
        rejects = rejects_of(outputs).toArrow() if has_rejects else None
        asyncio.run(self._send(messages, snapshots, rejects, f"{self._owner}/{batch}"))

    async def _send(
        self, messages: pa.Table, snapshots: pa.Table | None, rejects: pa.Table | None, batch: str
    ) -> None:
        async with NatsCarrier(self._servers, root=self._root) as carrier:
            await self._take_up(carrier, messages)
            if snapshots is not None:
                await self._take_up(carrier, snapshots)
                # First, so that whoever sees a batch of messages sees the snapshots before it.
                letters = self._publisher.snapshot(snapshots)
                await carrier.publish(letters, batch=f"{batch}/snapshots")
                for space in pc.unique(snapshots.column("space")).to_pylist():
                    # Two of each are kept: somebody may be reading the older one.
                    await carrier.forget_snapshots(space, 2 * len(letters))
            await carrier.publish(self._publisher.post(messages), batch=batch)
            if rejects is not None:
                rejected = [
                    Letter(f"{self._root}.rejects", pack("rejects", part)) for part in parts_of(rejects)
                ]
                await carrier.publish(rejected, batch=f"{batch}/rejects")

    async def _take_up(self, carrier: NatsCarrier, rows: pa.Table) -> None:
        """Go on with the maps that are published already, or with a newer one that was given."""
        for space in pc.unique(rows.column("space")).to_pylist():
            if space in self._publisher:
                continue
            newest = await carrier.newest_map(space)
            if newest is not None:
                self._publisher.adopt(space, newest)
                given = self._map_of(space, newest.dimensions)
                if given is not None and given.version > newest.version:
                    # Raises ParameterError if it is no split of the one in use.
                    self._publisher.switch(space, given)

    def _map_of(self, space: str, dimensions: int) -> Zones | None:
        given = self._given
        return given if given is not None and given.dimensions == dimensions else None


def _read_map(path: str) -> Zones:
    try:
        return Zones.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, StateError) as failure:
        raise JobError(f"sink option zones: {path}: {failure}") from None
