"""Direct WebSocket writes: frames go straight to the transport, without a task or a queue.

uvicorn's protocol with two additions: the application finds it in the scope, and is notified when the
transport stops accepting data. A server's frame has no mask and, without compression, no state: a header and
the text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

#: Key of the protocol in the scope's extensions.
EXTENSION = "tocsin.wire"


class WireProtocol(WebSocketsSansIOProtocol):
    """A uvicorn connection that also accepts whole frames from a sink."""

    sink: WireSink | None = None

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            # The application's task exists already but has not run yet.
            self.scope["extensions"] = {**(self.scope.get("extensions") or {}), EXTENSION: {"wire": self}}

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            # No pong to a client that does not read: pongs would pile up.
            self.conn.data_to_send()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.sink is not None:
            self.sink.is_full = True

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.sink is not None:
            self.sink.is_full = False
            self.sink.on_writable()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.sink is not None:
            self.sink.is_ending = True
            self.sink.is_full = False
            self.sink = None


class WireSink:
    """A sink that writes to the transport. It copies what every frame needs, to save cache misses."""

    __slots__ = ("_close", "_transport", "_wire", "is_ending", "is_full", "on_writable")

    def __init__(self, extension: dict[str, WireProtocol], close: Callable[[int, str], None]) -> None:
        self._wire = extension["wire"]
        self._transport = self._wire.transport
        self._close = close
        self.on_writable: Callable[[], None] = _nothing
        self.is_full = not self._wire.writable.is_set()
        #: whether a close frame may have been sent
        self.is_ending = self._wire.close_sent or self._wire.disconnected
        self._wire.sink = self

    async def wait_writable(self) -> None:
        """Wait until the transport is writable or closed."""
        await self._wire.writable.wait()

    def send(self, kind: str, cursor: str | None, text: str) -> None:
        """Send a text frame, unless the connection is closing."""
        if not (self.is_ending or self._transport.is_closing()):
            payload = text.encode()
            self._transport.write(_header(len(payload)) + payload)

    def close(self, code: int, reason: str) -> None:
        self._close(code, reason)

    def abort(self) -> None:
        """Abort the connection."""
        self._transport.abort()


@lru_cache(1 << 12)
def _header(length: int) -> bytes:
    """The header of an unmasked text frame."""
    if length < 126:
        return bytes((0x81, length))
    if length < 1 << 16:
        return struct.pack("!BBH", 0x81, 126, length)
    return struct.pack("!BBQ", 0x81, 127, length)


def _nothing() -> None:
    """No listener."""
