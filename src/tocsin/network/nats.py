"""A carrier over NATS: one JetStream stream stores every subject, and edges read from it.

The stream retains payloads by its own limits; an edge that starts needs all from the newest snapshot on.
Requires the extra `network`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Self

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as FetchTimeout
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from tocsin.errors import StateError
from tocsin.network.edges import Deliver, Edge, Instruction, Origin, Subscribe, origin_of
from tocsin.network.wire import MAP, SNAPSHOT, OutboundMessage, space_subject, unpack
from tocsin.network.zones import Zones

logger = logging.getLogger(__name__)

#: Payloads per fetch.
FETCH_SIZE = 256
#: Seconds that a fetch waits for payloads.
FETCH_SECONDS = 1.0
#: Seconds after which the server removes the consumer of a reader that has gone.
INACTIVE_SECONDS = 60.0
#: Failures after which a reader retries: nothing arrived, or the server is unavailable.
TRANSIENT = (FetchTimeout, NoRespondersError, APIError)


class NatsCarrier:
    """A connection to NATS with JetStream. Use as `async with NatsCarrier(…) as carrier`.

    `servers` are those of one cluster, separated by commas.
    """

    def __init__(self, servers: str = "nats://127.0.0.1:4222", *, root: str = "tocsin") -> None:
        self.root = root
        #: the last failure of the connection
        self.failure: Exception | None = None
        self._servers = servers

    async def __aenter__(self) -> Self:
        self._client: Client = await nats.connect(self._servers.split(","), error_cb=self._log_failure)
        self._stream: JetStreamContext = self._client.jetstream()
        try:
            await self._stream.stream_info(self.root)
        except NotFoundError:
            await self._stream.add_stream(StreamConfig(name=self.root, subjects=[f"{self.root}.>"]))
        except ServiceUnavailableError:
            await self._client.close()
            raise StateError("the NATS server has no JetStream: start it with -js") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()

    @property
    def is_connected(self) -> bool:
        """Whether a server is connected now; the client tries to reconnect for about two minutes."""
        return self._client.is_connected

    async def publish(self, messages: Iterable[OutboundMessage], *, batch: str | None = None) -> None:
        """Send payloads in order, and return when the server has stored all of them.

        `batch` identifies the payloads, so that the server drops recent duplicates.
        """
        acknowledgements = []
        for number, (subject, payload) in enumerate(messages):
            headers = None
            if batch is not None:
                content = hashlib.sha256(payload).hexdigest()[:16]
                headers = {"Nats-Msg-Id": f"{batch}/{number}/{content}"}
            acknowledgements.append(await self._stream.publish_async(subject, payload, headers=headers))
        for stored in acknowledgements:
            await stored

    async def spaces(self) -> list[str]:
        """The names of the published spaces. Cost: one request per space."""
        known = await self._stream.stream_info(self.root, subjects_filter=f"{self.root}.*.{MAP}")
        lasts = [await self._stream.get_last_msg(self.root, each) for each in known.state.subjects or ()]
        return sorted(str(unpack(last.data or b"").header["space"]) for last in lasts)

    async def newest_map(self, space: str) -> Zones | None:
        """The map that was published last; None if there is none."""
        try:
            last = await self._stream.get_last_msg(self.root, space_subject(self.root, space, MAP))
        except NotFoundError:
            return None
        return Zones.from_json(unpack(last.data or b"").header["zones"])

    async def delete_snapshots(self, space: str, keep: int) -> None:
        """Delete all but the last `keep` payloads of snapshots."""
        subject = space_subject(self.root, space, SNAPSHOT)
        await self._stream.purge_stream(self.root, subject=subject, keep=keep)

    async def origin(self, edge: Edge) -> tuple[Origin, int]:
        """What an edge starts from, and the position of the stream from which it must read.

        Raises StateError while there is no snapshot.
        """
        maps = await self._all(space_subject(self.root, edge.space, MAP))
        snapshots = await self._all(space_subject(self.root, edge.space, SNAPSHOT))
        origin = origin_of([each.data for each in maps], [each.data for each in snapshots])
        # Messages that a snapshot does not include are published after it.
        parts = (each for each in snapshots if unpack(each.data).header["seq"] == origin.seq)
        return origin, min(each.metadata.sequence.stream for each in parts)

    async def run(
        self,
        edge: Edge,
        deliver: Callable[[Deliver], None],
        *,
        until: Callable[[], bool] | None = None,
        caught_up: Callable[[], None] | None = None,
    ) -> None:
        """Start an edge and deliver payloads to it until cancelled.

        `until` is polled for whether to end once all stored payloads are read. `caught_up` is called once,
        when the edge has read all that was stored at its start. Raises StateError if the server lost the
        stream and a new one was created: its positions mean something else, and the edge must start over.
        """
        created = (await self._stream.stream_info(self.root)).created
        origin, place = await self.origin(edge)
        readers: list[_Reader] = []
        tasks: set[asyncio.Task[None]] = set()
        ending = until if caught_up is None else _at_once

        def execute(instructions: list[Instruction]) -> None:
            for instruction in instructions:
                if isinstance(instruction, Deliver):
                    deliver(instruction)
            subjects = [each.subject for each in instructions if isinstance(each, Subscribe)]
            if subjects:
                readers.append(_Reader(self._stream, self.root, subjects, place, created))
                tasks.add(asyncio.create_task(readers[-1].read(edge, execute, ending)))

        execute(edge.start(origin))
        try:
            await _finish(tasks)
            if caught_up is not None:
                caught_up()
                ending = until
                tasks.update(asyncio.create_task(reader.read(edge, execute, until)) for reader in readers)
                await _finish(tasks)
        finally:
            for task in tasks:
                task.cancel()
            # The tasks must end before the connection does: if it closes under them, they fail.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _log_failure(self, failure: Exception) -> None:
        """Log a failure. The client reports every attempt, so repeated ones go to the debug log."""
        level = logging.DEBUG if str(failure) == str(self.failure) else logging.WARNING
        logger.log(level, "NATS: %s", failure or type(failure).__name__)
        self.failure = failure

    async def _all(self, subject: str) -> list[Msg]:
        """Every stored payload of a subject."""
        reader = _Reader(self._stream, self.root, [subject], 1)
        found: list[Msg] = []
        while not await reader.is_drained():
            found += await reader.fetch()
        return found


class _Reader:
    """Reads some subjects from a position of the stream on, in order and without gaps."""

    def __init__(
        self,
        stream: JetStreamContext,
        name: str,
        subjects: list[str],
        place: int,
        created: datetime | None = None,
    ) -> None:
        self._stream = stream
        self._name = name
        self._subjects = subjects
        self._place = place
        #: creation time of the stream that `place` refers to; None for any
        self._made = created
        self._source: JetStreamContext.PullSubscription | None = None
        self._seen = 0

    async def read(
        self,
        edge: Edge,
        execute: Callable[[list[Instruction]], None],
        until: Callable[[], bool] | None,
    ) -> None:
        """Pass all payloads to an edge, until cancelled or `until` is true."""
        while until is None or not until() or not await self.is_drained():
            for message in await self.fetch():
                execute(edge.handle(message.subject, message.data))

    async def is_drained(self) -> bool:
        """Whether nothing is left to read, and all that the server sent has arrived."""
        try:
            info = await (self._source or await self._open()).consumer_info()
        except NotFoundError:
            # The server was unavailable for long, or is another one: continue from here.
            self._source = None
            return False
        except TRANSIENT:
            return False
        if info.delivered is not None and info.delivered.consumer_seq != self._seen:
            self._source = None
            return False
        return not info.num_pending

    async def fetch(self) -> list[Msg]:
        """The next payloads; none if none arrived in time."""
        try:
            source = self._source or await self._open()
            messages = await source.fetch(FETCH_SIZE, timeout=FETCH_SECONDS)
        except TRANSIENT as failure:
            if not isinstance(failure, FetchTimeout):
                await asyncio.sleep(FETCH_SECONDS)
            await self.is_drained()
            return []
        in_order = []
        for message in messages:
            metadata = message.metadata
            if metadata.sequence.consumer != self._seen + 1:
                # Some payload was sent and did not arrive: read again from after the last that did.
                self._source = None
                break
            self._seen = metadata.sequence.consumer
            self._place = metadata.sequence.stream + 1
            in_order.append(message)
        return in_order

    async def _open(self) -> JetStreamContext.PullSubscription:
        if self._made is not None:
            info = await self._stream.stream_info(self._name)
            if info.created != self._made:
                raise StateError(f"the stream {self._name!r} was lost and created again")
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._place,
            filter_subjects=self._subjects,
            inactive_threshold=INACTIVE_SECONDS,
            mem_storage=True,
        )
        consumer = await self._stream.add_consumer(self._name, config)
        self._source = await self._stream.pull_subscribe_bind(consumer.name, self._name)
        self._seen = 0
        return self._source


async def _finish(tasks: set[asyncio.Task[None]]) -> None:
    """Wait for all tasks, including those that are added meanwhile."""
    while tasks:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        tasks -= done
        for task in done:
            task.result()


def _at_once() -> bool:
    return True
