"""The `nats` sink: publishes messages by zone, and snapshots, to edges that subscribe to a NATS server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tocsin.errors import StateError
from tocsin.network.nats import NatsCarrier
from tocsin.network.publishing import Publisher
from tocsin.network.wire import OutboundMessage, pack, split_table
from tocsin.network.zones import Zones
from tocsin.pipeline.frames import changes_of, rejects_of, snapshots_of
from tocsin.pipeline.job.errors import JobError
from tocsin.pipeline.job.jobs import Job

#: Options of the sink.
OPTIONS = ("servers", "zones")


class NatsSink:
    """Publishes to a subject per zone, one for snapshots and one for rejects.

    `path` is the root of all subjects, and the name of their stream. The option `zones` is a file with a map
    (`Zones.to_json`) for spaces without one; a job that is started with a newer version switches to it. A
    batch may be sent again after a failure: the server drops recent duplicates, and edges skip messages that
    they have applied.
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
        self._initial_map = _read_map(str(options["zones"])) if "zones" in options else None
        self._publisher = Publisher(self._root, self._map_of)

    def write(self, outputs: DataFrame, batch: int, *, has_rejects: bool, has_snapshots: bool) -> None:
        """Send a batch over its own connection: between batches nothing would answer the server's pings."""
        messages = changes_of(outputs, self._job).toArrow()
        snapshots = snapshots_of(outputs).toArrow() if has_snapshots else None
        rejects = rejects_of(outputs).toArrow() if has_rejects else None
        asyncio.run(self._send(messages, snapshots, rejects, f"{self._owner}/{batch}"))

    async def _send(
        self, messages: pa.Table, snapshots: pa.Table | None, rejects: pa.Table | None, batch: str
    ) -> None:
        async with NatsCarrier(self._servers, root=self._root) as carrier:
            await self._adopt_maps(carrier, messages)
            if snapshots is not None:
                await self._adopt_maps(carrier, snapshots)
                # First, so that an edge that sees a batch of messages sees the snapshots before it.
                outbound = self._publisher.snapshot(snapshots)
                await carrier.publish(outbound, batch=f"{batch}/snapshots")
                for space in pc.unique(snapshots.column("space")).to_pylist():
                    # Two of each stay, because an edge may be reading the older one.
                    await carrier.delete_snapshots(space, 2 * len(outbound))
            await carrier.publish(self._publisher.post(messages), batch=batch)
            if rejects is not None:
                rejected = [
                    OutboundMessage(f"{self._root}.rejects", pack("rejects", part))
                    for part in split_table(rejects)
                ]
                await carrier.publish(rejected, batch=f"{batch}/rejects")

    async def _adopt_maps(self, carrier: NatsCarrier, rows: pa.Table) -> None:
        """Adopt maps that are published already, or switch to a newer one from the options."""
        for space in pc.unique(rows.column("space")).to_pylist():
            if space in self._publisher:
                continue
            newest = await carrier.newest_map(space)
            if newest is not None:
                self._publisher.adopt(space, newest)
                map_in_use = self._map_of(space, newest.dimensions)
                if map_in_use is not None and map_in_use.version > newest.version:
                    # Raises ParameterError if it is no split of the one in use.
                    self._publisher.switch(space, map_in_use)

    def _map_of(self, space: str, dimensions: int) -> Zones | None:
        given = self._initial_map
        return given if given is not None and given.dimensions == dimensions else None


def _read_map(path: str) -> Zones:
    try:
        return Zones.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, StateError) as failure:
        raise JobError(f"sink option zones: {path}: {failure}") from None
