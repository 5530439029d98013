"""Server-sent events: one subscription's answer and then every change, over plain HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tocsin.gateway.core.catalog import full_id
from tocsin.gateway.core.protocol import WatchRequest
from tocsin.gateway.failures import TooOld
from tocsin.gateway.http.api.endpoints import Call
from tocsin.gateway.http.server import Server
from tocsin.gateway.live.cursors import read_cursor
from tocsin.gateway.live.feeds import Feed
from tocsin.gateway.live.sinks import Closing, Message, QueueSink

#: Seconds of silence after which a comment keeps the connection alive.
HEARTBEAT = 15.0

MEDIA = "text/event-stream"


async def changes(call: Call) -> Any:
    """Start an event stream. A cursor that is too old is refused with 410 before the stream starts."""
    name, committer = call.path("id"), call.server.committer
    cursor = call.request.headers.get("last-event-id") or call.query.cursor
    after = read_cursor(cursor, committer.epoch)
    if call.request.method == "HEAD":
        return Response(media_type=MEDIA)
    sink = QueueSink()
    seconds: float | None = call.query.seconds
    feed = Feed(committer, sink, full_id(call.tenant, name), name)
    sink.on_writable = feed.flush
    stream = EventStream(call, feed, sink, seconds)
    call.server.admit(stream)
    is_watching = False
    try:
        start = await committer.watch(feed, WatchRequest(call.tenant, name, after))
        is_watching = start.kind != "too-old"
    finally:
        if not is_watching:
            stream.end()
    if not is_watching:
        raise TooOld("the cursor is older than what is retained: take a new snapshot, without a cursor")
    if start.subscription.template.temporary:
        call.server.unwatched.pop(feed.full, None)
        stream.is_temporary = True
    return stream


class EventStream(StreamingResponse):
    """A streaming response that lasts until either side closes it, or for a given time."""

    kind = "events"

    def __init__(self, call: Call, feed: Feed, sink: QueueSink, seconds: float | None) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(_events(sink, seconds), media_type=MEDIA, headers=headers)
        self.identity = call.identity
        self.is_temporary = False
        self._server: Server = call.server
        self._feed = feed
        self._sink = sink

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.end()

    def close(self, code: int, reason: str) -> None:
        self._sink.close(code, reason)

    def end(self) -> None:
        """Clean up: the client has disconnected."""
        self._server.dismiss(self)
        self._server.committer.unwatch(self._feed)
        if self.is_temporary:
            self._server.unwatched[self._feed.full] = self._server.committer.now()


async def _events(sink: QueueSink, seconds: float | None) -> AsyncIterator[str]:
    clock = asyncio.get_running_loop().time
    end = math.inf if seconds is None else clock() + seconds
    while True:
        remaining = end - clock()
        if remaining <= 0 and sink.is_empty:
            return
        try:
            # Queued messages are sent even after the end.
            item = await asyncio.wait_for(
                sink.take(), min(HEARTBEAT, remaining) if sink.is_empty else HEARTBEAT
            )
        except TimeoutError:
            if clock() < end:
                yield ": still here\n\n"
            continue
        if isinstance(item, Closing):
            return
        yield _event(item)
        if item.kind == "ended":
            return


def _event(message: Message) -> str:
    """One event; its id is the cursor, which browsers send back on reconnect."""
    at = f"id: {message.cursor}\n" if message.cursor else ""
    return f"{at}event: {message.kind}\ndata: {message.text}\n\n"
