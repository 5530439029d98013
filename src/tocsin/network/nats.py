"""The carrier over NATS: every subject is kept by one JetStream stream, from which edges read.

The stream keeps what it is given by its own limits; an edge that starts needs it from the newest snapshot
on. Needs the extra `network`.
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
from nats.errors import TimeoutError as NothingCame
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamConfig
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from tocsin.errors import StateError
from tocsin.network.edges import Deliver, Edge, Instruction, Origin, Subscribe, origin_of
from tocsin.network.post import MAP, SNAPSHOT, Letter, space_subject, unpack
from tocsin.network.zones import Zones

logger = logging.getLogger(__name__)

#: Payloads that a reader asks for at once.
FETCHED = 256
#: Seconds that a reader waits for more before it asks again.
PATIENCE = 1.0
#: Seconds after which the server forgets a reader that has gone.
FORGOTTEN = 60.0
#: What a reader sits out: nothing comes, or the server is away.
UNWELL = (NothingCame, NoRespondersError, APIError)


class NatsCarrier:
    """A connection to NATS with JetStream. Use as `async with NatsCarrier(…) as carrier`.

    Several servers of one cluster are given with commas between them.
    """

    def __init__(self, servers: str = "nats://127.0.0.1:4222", *, root: str = "tocsin") -> None:
        self.root = root
        #: what went wrong last on the way to the servers
        self.failure: Exception | None = None
        self._servers = servers

    async def __aenter__(self) -> Self:
        self._client: Client = await nats.connect(self._servers.split(","), error_cb=self._note)
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
        """Whether a server is there now; the connection comes back by itself for about two minutes."""
        return self._client.is_connected

    async def publish(self, letters: Iterable[Letter], *, batch: str | None = None) -> None:
        """Send payloads in order, and return when the server has stored all of them.

        `batch` names what is sent, so that the server drops it if it comes again soon.
        """
        waiting = []
        for number, (subject, payload) in enumerate(letters):
            headers = None
            if batch is not None:
                content = hashlib.sha256(payload).hexdigest()[:16]
                headers = {"Nats-Msg-Id": f"{batch}/{number}/{content}"}
            waiting.append(await self._stream.publish_async(subject, payload, headers=headers))
        for stored in waiting:
            await stored

    async def spaces(self) -> list[str]:
        """The names of the spaces that are published. Cost: a request a space."""
        known = await self._stream.stream_info(self.root, subjects_filter=f"{self.root}.*.{MAP}")
        lasts = [await self._stream.get_last_msg(self.root, each) for each in known.state.subjects or ()]
        return sorted(str(unpack(last.data or b"").said["space"]) for last in lasts)

    async def newest_map(self, space: str) -> Zones | None:
        """The map that was published last."""
        try:
            last = await self._stream.get_last_msg(self.root, space_subject(self.root, space, MAP))
        except NotFoundError:
            return None
        return Zones.from_json(unpack(last.data or b"").said["zones"])

    async def forget_snapshots(self, space: str, keep: int) -> None:
        """Drop all but the last `keep` payloads of snapshots."""
        subject = space_subject(self.root, space, SNAPSHOT)
        await self._stream.purge_stream(self.root, subject=subject, keep=keep)

    async def origin(self, edge: Edge) -> tuple[Origin, int]:
        """What an edge starts from, and from which place of the stream on it must read.

        Raises StateError while there is no snapshot.
        """
        maps = await self._all(space_subject(self.root, edge.space, MAP))
        snapshots = await self._all(space_subject(self.root, edge.space, SNAPSHOT))
        origin = origin_of([each.data for each in maps], [each.data for each in snapshots])
        # Messages that a snapshot does not know are published after it.
        mine = (each for each in snapshots if unpack(each.data).said["seq"] == origin.seq)
        return origin, min(each.metadata.sequence.stream for each in mine)

    async def run(
        self,
        edge: Edge,
        deliver: Callable[[Deliver], None],
        *,
        until: Callable[[], bool] | None = None,
        caught_up: Callable[[], None] | None = None,
    ) -> None:
        """Start an edge and bring it what comes, until cancelled.

        `until` is asked now and then whether to end when all that is there is read. `caught_up` is called
        once, when the edge has read all that was there at its start. Raises StateError if the server has lost
        the stream and another was made: its places mean something else, and the edge must start anew.
        """
        made = (await self._stream.stream_info(self.root)).created
        origin, place = await self.origin(edge)
        readers: list[_Reader] = []
        tasks: set[asyncio.Task[None]] = set()
        ending = until if caught_up is None else _at_once

        def follow(instructions: list[Instruction]) -> None:
            for instruction in instructions:
                if isinstance(instruction, Deliver):
                    deliver(instruction)
            subjects = [each.subject for each in instructions if isinstance(each, Subscribe)]
            if subjects:
                readers.append(_Reader(self._stream, self.root, subjects, place, made))
                tasks.add(asyncio.create_task(readers[-1].read(edge, follow, ending)))

        follow(edge.start(origin))
        try:
            await _finish(tasks)
            if caught_up is not None:
                caught_up()
                ending = until
                tasks.update(asyncio.create_task(reader.read(edge, follow, until)) for reader in readers)
                await _finish(tasks)
        finally:
            for task in tasks:
                task.cancel()
            # They are gone before the connection is: one that is closed under them is a failure.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _note(self, failure: Exception) -> None:
        """The library tells of every attempt: what is new is worth a line."""
        level = logging.DEBUG if str(failure) == str(self.failure) else logging.WARNING
        logger.log(level, "NATS: %s", failure or type(failure).__name__)
        self.failure = failure

    async def _all(self, subject: str) -> list[Msg]:
        """Every payload of a subject that is there now."""
        reader = _Reader(self._stream, self.root, [subject], 1)
        found: list[Msg] = []
        while not await reader.is_through():
            found += await reader.fetch()
        return found


class _Reader:
    """Reads some subjects from a place of the stream on, in order, and misses nothing."""

    def __init__(
        self,
        stream: JetStreamContext,
        name: str,
        subjects: list[str],
        place: int,
        made: datetime | None = None,
    ) -> None:
        self._stream = stream
        self._name = name
        self._subjects = subjects
        self._place = place
        #: when the stream was made that `place` is of; unless any will do
        self._made = made
        self._source: JetStreamContext.PullSubscription | None = None
        self._seen = 0

    async def read(
        self,
        edge: Edge,
        follow: Callable[[list[Instruction]], None],
        until: Callable[[], bool] | None,
    ) -> None:
        """Hand everything to an edge, until cancelled or told to end."""
        while until is None or not until() or not await self.is_through():
            for message in await self.fetch():
                follow(edge.handle(message.subject, message.data))

    async def is_through(self) -> bool:
        """Whether there is nothing more to read now, and all that was sent has arrived."""
        try:
            known = await (self._source or await self._open()).consumer_info()
        except NotFoundError:
            # The server was away for long, or is another one: read on from here.
            self._source = None
            return False
        except UNWELL:
            return False
        if known.delivered is not None and known.delivered.consumer_seq != self._seen:
            self._source = None
            return False
        return not known.num_pending

    async def fetch(self) -> list[Msg]:
        """The next payloads; none if none came for a while."""
        try:
            source = self._source or await self._open()
            messages = await source.fetch(FETCHED, timeout=PATIENCE)
        except UNWELL as failure:
            if not isinstance(failure, NothingCame):
                await asyncio.sleep(PATIENCE)
            await self.is_through()
            return []
        kept = []
        for message in messages:
            known = message.metadata
            if known.sequence.consumer != self._seen + 1:
                # Something was sent and did not arrive: read again from behind the last that did.
                self._source = None
                break
            self._seen = known.sequence.consumer
            self._place = known.sequence.stream + 1
            kept.append(message)
        return kept

    async def _open(self) -> JetStreamContext.PullSubscription:
        if self._made is not None:
            known = await self._stream.stream_info(self._name)
            if known.created != self._made:
                raise StateError(f"the stream {self._name!r} has been made anew")
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._place,
            filter_subjects=self._subjects,
            inactive_threshold=FORGOTTEN,
            mem_storage=True,
        )
        made = await self._stream.add_consumer(self._name, config)
        self._source = await self._stream.pull_subscribe_bind(made.name, self._name)
        self._seen = 0
        return self._source


async def _finish(tasks: set[asyncio.Task[None]]) -> None:
    """Until none is left, those included that come meanwhile."""
    while tasks:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        tasks -= done
        for task in done:
            task.result()


def _at_once() -> bool:
    return True
