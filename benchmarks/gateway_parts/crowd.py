"""Thousands of WebSocket subscribers in one process, as light as Python allows.

Each writes down what it receives and when; everything else is done after the run, so that the clients take
little of the machine that the server runs on. They share an epoll, which the event loop looks at every few
milliseconds: a loop that is woken for every frame would take as much of the processor as the server does.
What a frame waits for that look is part of its delay.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

#: Seconds between two looks at what has come.
NAP = 0.005

#: Bytes that are read at once: seldom less than there is.
PIECE = 1 << 14

#: The head of the server's ping, whose payload has four bytes; nothing else that it sends looks like it.
PING = b"\x89\x04"
#: The head of the answer, with a mask of zeros.
PONG = b"\x8a\x84\0\0\0\0"

#: What a server proves that it speaks WebSocket with.
PROOF = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Subscriber:
    """One connection that watches one subscription."""

    def __init__(self, key: str, host: str, name: str, cursor: str | None) -> None:
        self.name = name
        #: what came, and when
        self.heard: list[tuple[float, bytes]] = []
        self.is_lost = False
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self._head = b""
        self._is_open = False
        nonce = base64.b64encode(os.urandom(16))
        self._proof = base64.b64encode(hashlib.sha1(nonce + PROOF).digest())
        self.greeting = (
            f"GET /v1/live HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {nonce.decode()}\r\nSec-WebSocket-Version: 13\r\n"
            f"Authorization: Bearer {key}\r\n\r\n"
        ).encode()
        wanted = {"type": "watch", "subscription": name, **({} if cursor is None else {"cursor": cursor})}
        self._wanted = masked(json.dumps(wanted).encode())

    def begin(self, when: float, data: bytes) -> None:
        """Something came before the first answer: the server's half of the handshake, or what follows it."""
        if not self._is_open:
            head, end, data = (self._head + data).partition(b"\r\n\r\n")
            if not end:
                self._head = head
                return
            if not (head.startswith(b"HTTP/1.1 101 ") and self._proof in head):
                self.begun.set_exception(ConnectionError(f"not a WebSocket: {head.decode()}"))
                return
            self._is_open = True
            self.socket.send(self._wanted)
        self.heard.append((when, data))
        if b'"snapshot"' in data or b'"resumed"' in data or b'"too-old"' in data:
            self.begun.set_result(None)

    def answer_ping(self, data: bytes) -> None:
        place = data.find(PING)
        self.socket.send(PONG + data[place + 2 : place + 6])

    def lose(self) -> None:
        """The server has gone."""
        self.is_lost = True
        self.socket.close()
        if not self.begun.done():
            self.begun.set_exception(ConnectionError("lost before it began"))

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


class Crowd:
    """All subscribers of a process. Close it, or leave its `async with`."""

    def __init__(self, key: str, port: int) -> None:
        self.people: list[Subscriber] = []
        self._key = key
        self._port = port
        self._by_file: dict[int, Subscriber] = {}
        self._poll = select.epoll()
        self._listening = asyncio.create_task(self._listen())

    async def __aenter__(self) -> Crowd:
        return self

    async def __aexit__(self, *failure: object) -> None:
        self.close()

    async def gather(
        self, names: Sequence[str], cursors: dict[str, str] | None = None, together: int = 100
    ) -> None:
        """Connect a subscriber for each name, some at a time, and wait until all have begun."""
        loop = asyncio.get_running_loop()
        for begin in range(0, len(names), together):
            part = []
            for name in names[begin : begin + together]:
                host = f"127.0.0.1:{self._port}"
                person = Subscriber(self._key, host, name, (cursors or {}).get(name))
                await loop.sock_connect(person.socket, ("127.0.0.1", self._port))
                person.socket.send(person.greeting)
                self._by_file[person.socket.fileno()] = person
                # Told once of what is new, because all of it is read then.
                self._poll.register(person.socket, select.EPOLLIN | select.EPOLLET)
                part.append(person)
            self.people += part
            await asyncio.gather(*(each.begun for each in part))

    def close(self) -> None:
        """Cut all connections off."""
        self._listening.cancel()
        self._poll.close()
        for person in self.people:
            person.socket.close()

    async def _listen(self) -> None:
        while True:
            self._read()
            await asyncio.sleep(NAP)

    def _read(self) -> None:
        """Write down all that has come. Nothing more is done here than must be: it is what is measured."""
        for file, _ in self._poll.poll(0, max(1, len(self._by_file))):
            person = self._by_file[file]
            size = PIECE
            while size == PIECE:
                try:
                    data = os.read(file, PIECE)
                except BlockingIOError:
                    break
                except ConnectionError:
                    data = b""
                when = time.perf_counter()
                size = len(data)
                if not size:
                    del self._by_file[file]
                    person.lose()
                elif not person.begun.done():
                    person.begin(when, data)
                else:
                    person.heard.append((when, data))
                if PING in data:
                    person.answer_ping(data)


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
