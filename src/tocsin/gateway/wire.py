"""The short way to a WebSocket: frames are written to the connection at once, without a task or a queue.

uvicorn's protocol with two additions: the application finds it in the scope, and hears when the connection
takes no more. A server's frame has no mask and, with compression off, no state: it is a header and the text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

#: Where the protocol is in the scope's extensions.
EXTENSION = "tocsin.wire"


class WireProtocol(WebSocketsSansIOProtocol):
    """One connection of uvicorn's, which also takes whole frames by way of a sink."""

    sink: WireSink | None = None

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            # The application's task has been made, and runs later.
            self.scope["extensions"] = {**(self.scope.get("extensions") or {}), EXTENSION: {"wire": self}}

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            # Who asks and does not listen gets no answer: answers would pile up.
            self.conn.data_to_send()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.sink is not None:
            self.sink.is_full = True

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.sink is not None:
            self.sink.is_full = False
            self.sink.on_room()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.sink is not None:
            self.sink.is_ending = True
            self.sink.is_full = False
            self.sink = None


class WireSink:
    """A sink on the wire. What is looked at for every frame is in it: the protocol has much more."""

    __slots__ = ("_close", "_transport", "_wire", "is_ending", "is_full", "on_room")

    def __init__(self, extension: dict[str, WireProtocol], close: Callable[[int, str], None]) -> None:
        self._wire = extension["wire"]
        self._transport = self._wire.transport
        self._close = close
        self.on_room: Callable[[], None] = _nothing
        self.is_full = not self._wire.writable.is_set()
        #: whether the frame that ends the connection may have been sent
        self.is_ending = self._wire.close_sent or self._wire.disconnected
        self._wire.sink = self

    async def has_room(self) -> None:
        """Return when it is not full, or gone."""
        await self._wire.writable.wait()

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        """Send one text frame; nothing if the connection is ending."""
        if not (self.is_ending or self._transport.is_closing()):
            payload = text.encode()
            self._transport.write(_header(len(payload)) + payload)

    def close(self, code: int, reason: str) -> None:
        self._close(code, reason)

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()


@lru_cache(1 << 12)
def _header(length: int) -> bytes:
    """The head of a text frame without a mask."""
    if length < 126:
        return bytes((0x81, length))
    if length < 1 << 16:
        return struct.pack("!BBH", 0x81, 126, length)
    return struct.pack("!BBQ", 0x81, 127, length)


def _nothing() -> None:
    """Nobody wants to know."""
