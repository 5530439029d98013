"""Server-sent events: one subscription's answer, then every change, over plain HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tocsin.gateway.api.endpoints import Call
from tocsin.gateway.book import full_id
from tocsin.gateway.cursors import read_cursor
from tocsin.gateway.dealings import Asking
from tocsin.gateway.failures import TooOld
from tocsin.gateway.feeds import Feed
from tocsin.gateway.server import Server
from tocsin.gateway.sinks import Closing, Message, QueueSink

#: Seconds of silence after which a comment shows that the connection is there.
HEARTBEAT = 15.0

MEDIA = "text/event-stream"


async def changes(call: Call) -> Any:
    """Begin a stream of events. A cursor that is too old is refused with 410 before it begins."""
    name, desk = call.path("id"), call.server.desk
    cursor = call.request.headers.get("last-event-id") or call.query.cursor
    after = read_cursor(cursor, desk.epoch)
    if call.request.method == "HEAD":
        return Response(media_type=MEDIA)
    sink = QueueSink()
    seconds: float | None = call.query.seconds
    feed = Feed(desk, sink, full_id(call.tenant, name), name)
    sink.on_room = feed.flush
    stream = EventStream(call, feed, sink, seconds)
    call.server.admit(stream)
    is_on = False
    try:
        opening = await desk.watch(feed, Asking(call.tenant, name, after))
        is_on = opening.kind != "too-old"
    finally:
        if not is_on:
            stream.end()
    if not is_on:
        raise TooOld("the cursor is older than what is retained: take a new snapshot, without a cursor")
    if opening.held.template.temporary:
        call.server.lonely.pop(feed.full, None)
        stream.is_temporary = True
    return stream


class EventStream(StreamingResponse):
    """A response that goes on until one of both ends it, or for some seconds."""

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
        """The client has gone."""
        self._server.dismiss(self)
        self._server.desk.unwatch(self._feed)
        if self.is_temporary:
            self._server.lonely[self._feed.full] = self._server.desk.now()


async def _events(sink: QueueSink, seconds: float | None) -> AsyncIterator[str]:
    clock = asyncio.get_running_loop().time
    end = math.inf if seconds is None else clock() + seconds
    while True:
        left = end - clock()
        if left <= 0 and sink.is_empty:
            return
        try:
            # What waits is sent, also after the end.
            item = await asyncio.wait_for(sink.take(), min(HEARTBEAT, left) if sink.is_empty else HEARTBEAT)
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
    """One event; its id is the cursor that a browser sends back by itself."""
    at = f"id: {message.cursor}\n" if message.cursor else ""
    return f"{at}event: {message.kind}\ndata: {message.text}\n\n"
