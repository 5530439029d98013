"""Request timeouts: an HTTP connection that sends its request too slowly is aborted.

Connections are also limited so that enough file descriptors remain for the log, because failing to open the
log is worse than refusing a caller.
"""

from __future__ import annotations

import asyncio
import resource

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds that a request's head may take, from the connection or from its first byte.
PATIENCE = 20.0

#: Descriptors reserved for the log, snapshots and the registry.
RESERVED = 64


class RequestTimeoutProtocol(H11Protocol):
    """A uvicorn connection with a timeout on request heads. h11 limits heads to 16 KB."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self.transport.abort()
            return
        self._deadline = self.loop.call_later(PATIENCE, self._abort_if_idle)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._cancel_timeout()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self._abort_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        super().connection_lost(exc)

    def _cancel_timeout(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _abort_if_idle(self) -> None:
        self._deadline = None
        # Meanwhile a request may have been answered and another one may be arriving.
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()


def most_connections() -> float:
    """The number of connections that the descriptor limit allows."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return float("inf") if most == resource.RLIM_INFINITY else most - RESERVED
