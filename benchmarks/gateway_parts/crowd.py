"""Thousands of WebSocket subscribers in one process, as light as Python allows.

Each writes down what it receives and when; everything else is done after the run, so that the clients take
little of the machine that the server runs on.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import struct
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

#: The head of the server's ping, whose payload has four bytes; nothing else that it sends looks like it.
PING = b"\x89\x04"
#: The head of the answer, with a mask of zeros.
PONG = b"\x8a\x84\0\0\0\0"

BUFFER = memoryview(bytearray(1 << 16))


class Subscriber(asyncio.BufferedProtocol):
    """One connection that watches one subscription."""

    def __init__(self, key: str, host: str, name: str, cursor: str | None) -> None:
        self.name = name
        #: what came, and when
        self.heard: list[tuple[float, bytes]] = []
        self.is_lost = False
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        nonce = base64.b64encode(os.urandom(16)).decode()
        self._greeting = (
            f"GET /v1/live HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {nonce}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {key}\r\n\r\n"
        ).encode()
        wanted = {"type": "watch", "subscription": name, **({} if cursor is None else {"cursor": cursor})}
        self._wanted = masked(json.dumps(wanted).encode())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._greeting)

    def get_buffer(self, sizehint: int) -> memoryview:
        # One for all of them: what is in it is copied before another connection is read.
        return BUFFER

    def buffer_updated(self, count: int) -> None:
        self._received(bytes(BUFFER[:count]))

    def _received(self, data: bytes) -> None:
        if self._greeting:
            self._greeting = b""
            assert self._transport is not None
            self._transport.write(self._wanted)
            data = data.partition(b"\r\n\r\n")[2]
        self.heard.append((time.perf_counter(), data))
        place = data.find(PING)
        if place >= 0 and self._transport is not None:
            self._transport.write(PONG + data[place + 2 : place + 6])
        if not self.begun.done() and (b'"snapshot"' in data or b'"resumed"' in data or b'"too-old"' in data):
            self.begun.set_result(None)

    def connection_lost(self, failure: Exception | None) -> None:
        self.is_lost = True
        if not self.begun.done():
            self.begun.set_exception(ConnectionError("lost before it began"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def messages(self) -> list[tuple[float, dict[str, Any]]]:
        """All messages in order, each with the time at which its last piece came."""
        found, left = [], b""
        for when, data in self.heard:
            left += data
            while (whole := frame_size(left)) is not None and len(left) >= whole[1]:
                opcode = left[0] & 15
                if opcode == 1:
                    found.append((when, json.loads(left[whole[0] : whole[1]])))
                left = left[whole[1] :]
        return found


async def gather(
    names: Sequence[str], key: str, port: int, cursors: dict[str, str] | None = None, together: int = 100
) -> list[Subscriber]:
    """Connect a subscriber for each name, some at a time, and wait until all have begun."""
    loop = asyncio.get_running_loop()
    crowd: list[Subscriber] = []
    for begin in range(0, len(names), together):
        part = []
        for name in names[begin : begin + together]:
            person = Subscriber(key, f"127.0.0.1:{port}", name, (cursors or {}).get(name))
            await loop.create_connection(partial(_given, person), "127.0.0.1", port)
            part.append(person)
        await asyncio.gather(*(each.begun for each in part))
        crowd += part
    return crowd


def _given(person: Subscriber) -> Subscriber:
    return person


def masked(payload: bytes) -> bytes:
    """A text frame of a client: the mask of zeros leaves it as it is."""
    length = len(payload)
    size = bytes((0x81, 0x80 | length)) if length < 126 else struct.pack("!BBH", 0x81, 0x80 | 126, length)
    return size + b"\0\0\0\0" + payload


def frame_size(data: bytes) -> tuple[int, int] | None:
    """Where the payload of a server's frame begins and ends; None if its head is not there yet."""
    if len(data) < 2:
        return None
    length, begin = data[1] & 127, 2
    if length == 126:
        if len(data) < 4:
            return None
        length, begin = struct.unpack_from("!H", data, 2)[0], 4
    elif length == 127:
        if len(data) < 10:
            return None
        length, begin = struct.unpack_from("!Q", data, 2)[0], 10
    return begin, begin + length
