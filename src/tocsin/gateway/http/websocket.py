"""The WebSocket endpoint: clients watch subscriptions. Frames are JSON objects with a `type`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from tocsin.errors import Error, RowError
from tocsin.gateway.core.bodies import read_json
from tocsin.gateway.core.catalog import full_id
from tocsin.gateway.core.protocol import WatchRequest
from tocsin.gateway.failures import BadRequest, GatewayError, QuotaExceeded, Unauthorized
from tocsin.gateway.http.answers import INTERNAL, describe, problem
from tocsin.gateway.http.models import Hello, NewSubscription, Unwatch, Watch
from tocsin.gateway.http.server import Server, require
from tocsin.gateway.http.wire import EXTENSION, WireSink
from tocsin.gateway.live.cursors import read_cursor
from tocsin.gateway.live.feeds import UNSAID, Feed, Pace
from tocsin.gateway.live.sinks import Closing, QueueSink
from tocsin.gateway.registry import Identity

logger = logging.getLogger(__name__)

#: Close codes of the application.
UNAUTHORIZED, FORBIDDEN, CROWDED = 4001, 4003, 4029


async def live(websocket: WebSocket) -> None:
    """Serve one connection, from the handshake to the close."""
    server: Server = websocket.app.state.server
    if not _is_allowed(websocket, server.settings.origins):
        server.metrics.refused.labels("origin").inc()
        await websocket.close(FORBIDDEN, "this origin may not connect")
        return
    await websocket.accept()
    try:
        identity = await _authenticate(websocket, server)
        await Session(server, websocket, identity).run()
    except Unauthorized as failure:
        server.metrics.refused.labels(failure.code).inc()
        await _quietly(websocket.close(UNAUTHORIZED, str(failure)))
    except QuotaExceeded as failure:
        server.metrics.refused.labels(failure.code).inc()
        await _quietly(websocket.close(CROWDED, str(failure)))
    except GatewayError as failure:
        await _quietly(websocket.close(FORBIDDEN, str(failure)))
    except WebSocketDisconnect:
        pass


class Session:
    """An authenticated connection."""

    kind = "websocket"

    def __init__(self, server: Server, websocket: WebSocket, identity: Identity) -> None:
        require(identity, "subscribe")
        self.identity = identity
        self._server = server
        self._websocket = websocket
        self._feeds: dict[str, Feed] = {}
        self._temporary: set[str] = set()
        self._ending: asyncio.Task[None] | None = None
        self._pump: asyncio.Task[None] | None = None
        wire = websocket.scope.get("extensions", {}).get(EXTENSION)
        self._sink: WireSink | QueueSink = WireSink(wire, self.close) if wire is not None else self._queue()
        self._sink.on_writable = self._flush
        self._handlers: Mapping[str, Callable[[dict[str, Any]], Any]] = {
            "watch": self._watch,
            "unwatch": self._unwatch,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "ping": self._ping,
        }

    async def run(self) -> None:
        """Serve until the client disconnects."""
        self._server.admit(self)
        try:
            self._send(
                "welcome", {"tenant": self.identity.tenant.name, "scopes": sorted(self.identity.scopes)}
            )
            while True:
                await self._receive()
        except WebSocketDisconnect:
            pass
        finally:
            self._server.dismiss(self)
            self._leave()
            for task in (self._pump, self._ending):
                if task is not None:
                    task.cancel()

    def close(self, code: int, reason: str) -> None:
        """Close the connection; aborts it after a timeout if the client does not read."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._close(code, reason))

    async def _close(self, code: int, reason: str) -> None:
        if isinstance(self._sink, WireSink):
            # No frame may follow the close frame.
            self._sink.is_ending = True
        with suppress(Exception):
            await asyncio.wait_for(self._websocket.close(code, reason), 10)
            return
        if isinstance(self._sink, WireSink):
            self._sink.abort()

    async def _receive(self) -> None:
        # Replies to a client that sends but does not read would pile up.
        await self._sink.wait_writable()
        frame = await self._websocket.receive()
        if frame["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(frame.get("code", 1005))
        request: Any = None
        try:
            text = frame.get("text")
            if text is None:
                raise BadRequest("a frame must be text, got binary data")
            content = read_json(text.encode("utf-8", "surrogatepass"), where="the frame")
            if not isinstance(content, dict) or content.get("type") not in self._handlers:
                types = ", ".join(self._handlers)
                raise BadRequest(f"a frame must be a JSON object whose type is one of {types}")
            request = content.pop("request", None)
            await self._handlers[content.pop("type")](content)
        except (Error, ValidationError) as failure:
            self._refuse(failure, request)
        except Exception:
            logger.exception("a frame could not be handled")
            self._refuse(GatewayError(INTERNAL), request)

    async def _watch(self, frame: dict[str, Any]) -> None:
        request = Watch.model_validate(frame)
        after = read_cursor(request.cursor, self._server.committer.epoch)
        await self._begin(request.subscription, after, Pace(request.policy, request.throttle))

    async def _begin(self, name: str, after: int | None, pace: Pace) -> None:
        committer, tenant = self._server.committer, self.identity.tenant.name
        if name in self._feeds:
            committer.unwatch(self._feeds.pop(name))
        if len(self._feeds) >= self._server.settings.watches:
            most = self._server.settings.watches
            raise QuotaExceeded(f"quota of watches on a connection exceeded ({most} of {most})")
        feed = Feed(committer, self._sink, full_id(tenant, name), name, pace)
        self._feeds[name] = feed
        is_watching = False
        try:
            start = await committer.watch(feed, WatchRequest(tenant, name, after))
            is_watching = start.kind != "too-old"
            if start.subscription.template.temporary:
                self._temporary.add(name)
        finally:
            if not is_watching:
                committer.unwatch(feed)
                self._feeds.pop(name, None)
                self._note_unwatched([name])

    async def _unwatch(self, given: dict[str, Any]) -> None:
        name = Unwatch.model_validate(given).subscription
        feed = self._feeds.pop(name, None)
        if feed is not None:
            self._server.committer.unwatch(feed)
            self._note_unwatched([name])
        self._send("unwatched", {"subscription": name})

    async def _subscribe(self, frame: dict[str, Any]) -> None:
        request = NewSubscription.model_validate(frame)
        server, tenant = self._server, self.identity.tenant.name
        ack = await server.committer.execute(
            lambda hub: request.register(hub, server.rights(self.identity)), tenant=tenant
        )
        name = ack.ids[0]
        if request.temporary:
            self._temporary.add(name)
            self._note_unwatched([name])
        subscription = await server.committer.execute(
            lambda hub: hub.subscription(tenant, name), tenant=tenant
        )
        self._send("subscribed", describe(name, subscription))
        await self._begin(name, None, UNSAID)

    async def _unsubscribe(self, given: dict[str, Any]) -> None:
        name = Unwatch.model_validate(given).subscription
        await self._server.unsubscribe(self.identity.tenant.name, name)
        self._feeds.pop(name, None)

    async def _ping(self, given: dict[str, Any]) -> None:
        self._send("pong", {})

    def _flush(self) -> None:
        for feed in list(self._feeds.values()):
            if self._sink.is_full:
                break
            feed.flush()

    def _leave(self) -> None:
        for feed in self._feeds.values():
            self._server.committer.unwatch(feed)
        self._note_unwatched(list(self._feeds))
        self._feeds.clear()

    def _note_unwatched(self, names: list[str]) -> None:
        """Start the clock of temporary subscriptions: they end some time after their last watcher leaves."""
        now = self._server.committer.now()
        for name in self._temporary.intersection(names):
            self._server.unwatched[full_id(self.identity.tenant.name, name)] = now

    def _send(self, kind: str, given: Mapping[str, Any]) -> None:
        self._sink.send(kind, None, json.dumps({"type": kind, **given}))

    def _refuse(self, failure: Exception, request: Any) -> None:
        _, error, _ = problem(failure)
        self._server.metrics.refused.labels(error["code"]).inc()
        again = {} if request is None else {"request": request}
        self._send("error", {**error, **again})

    def _queue(self) -> QueueSink:
        sink = QueueSink()
        self._pump = asyncio.ensure_future(self._drain(sink))
        return sink

    async def _drain(self, sink: QueueSink) -> None:
        with suppress(Exception):
            while True:
                item = await sink.take()
                if isinstance(item, Closing):
                    await self._websocket.close(item.code, item.reason)
                    return
                await self._websocket.send_text(item.text)


async def _authenticate(websocket: WebSocket, server: Server) -> Identity:
    """Authenticate by header, or by the first frame, because browsers cannot set headers on WebSockets."""
    authorization = websocket.headers.get("authorization")
    if authorization is not None:
        return await server.identify(authorization)
    try:
        frame = await asyncio.wait_for(websocket.receive_text(), server.settings.patience)
        hello = Hello.model_validate(read_json(frame.encode("utf-8", "surrogatepass")))
    except (TimeoutError, ValidationError, RowError, KeyError):
        raise Unauthorized('authenticate first: {"type": "hello", "key": "tocsin_…"}') from None
    return await server.identify_key(hello.key)


def _is_allowed(websocket: WebSocket, origins: tuple[str, ...]) -> bool:
    """Whether the origin may connect: none (programs), this host, or one that the settings allow."""
    origin = websocket.headers.get("origin")
    if origin is None or origin in origins:
        return True
    with suppress(ValueError):
        return urlsplit(origin).netloc == websocket.headers.get("host")
    return False


async def _quietly(closing: Any) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):
        await closing
