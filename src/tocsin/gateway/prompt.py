"""HTTP connections that must say what they want in time: one that sends its request in drops is cut off."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds that the head of a request may take, from the connection or from its first byte on.
PATIENCE = 20.0


class PromptProtocol(H11Protocol):
    """One connection of uvicorn's, with a limit on waiting. Heads have 16 KB at most, as h11 says."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(transport)
        self._deadline = self.loop.call_later(PATIENCE, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._settle()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        super().connection_lost(exc)

    def _settle(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        # A request may have come and been answered meanwhile, and another one be on its way.
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()
