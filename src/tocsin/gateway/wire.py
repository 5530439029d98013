"""The short way to a WebSocket: frames are written to the connection at once, without a task or a queue.

uvicorn's protocol with two additions: the application finds it in the scope, and hears when the connection
takes no more. A server's frame has no mask and, with compression off, no state: it is a header and the text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from tocsin.gateway.sinks import Message

#: Where the protocol is in the scope's extensions.
EXTENSION = "tocsin.wire"


class WireProtocol(WebSocketsSansIOProtocol):
    """One connection of uvicorn's, which also takes whole frames."""

    on_room: Callable[[], None] | None = None

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

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.on_room is not None:
            self.on_room()

    def write_text(self, text: str) -> None:
        """Send one text frame; nothing if the connection is ending."""
        if not (self.close_sent or self.disconnected or self.transport.is_closing()):
            payload = text.encode()
            self.transport.write(_header(len(payload)) + payload)


class WireSink:
    """A sink on the wire."""

    def __init__(self, extension: dict[str, WireProtocol], close: Callable[[int, str], None]) -> None:
        self._wire = extension["wire"]
        self._close = close

    @property
    def on_room(self) -> Callable[[], None]:
        return self._wire.on_room or _nothing

    @on_room.setter
    def on_room(self, call: Callable[[], None]) -> None:
        self._wire.on_room = call

    @property
    def is_full(self) -> bool:
        return not self._wire.writable.is_set()

    async def has_room(self) -> None:
        """Return when it is not full, or gone."""
        await self._wire.writable.wait()

    def send(self, message: Message) -> None:
        self._wire.write_text(message.text)

    def close(self, code: int, reason: str) -> None:
        self._close(code, reason)

    def abort(self) -> None:
        """Cut the connection off."""
        self._wire.transport.abort()


def _header(length: int) -> bytes:
    if length < 126:
        return bytes((0x81, length))
    if length < 1 << 16:
        return struct.pack("!BBH", 0x81, 126, length)
    return struct.pack("!BBQ", 0x81, 127, length)


def _nothing() -> None:
    """Nobody wants to know."""
