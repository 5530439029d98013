"""The server as a process: sockets, signals, and an orderly end."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import sys
from types import FrameType

import uvicorn

from tocsin.gateway.app import create_app
from tocsin.gateway.registry import OPERATOR, SCOPES, Registry
from tocsin.gateway.server import Settings
from tocsin.gateway.wire import WireProtocol

logger = logging.getLogger(__name__)

#: Seconds that open requests are given when the server stops.
GRACE = 10

#: Seconds between two pings of a connection; one that does not answer for half as long is closed.
PING = 60.0


def first_key(settings: Settings, *, always: bool = False) -> str | None:
    """A key for everything in the operator's tenant, if there is no key yet, or always."""
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    registry = Registry(settings.url)
    try:
        if registry.has_keys() and not always:
            return None
        return registry.create_key(OPERATOR, SCOPES, "made by tocsin serve")[1]
    finally:
        registry.close()


def configured(settings: Settings, host: str, port: int) -> uvicorn.Config:
    """How the web server runs."""
    # The web server's own lines would have headers with keys in them, and query strings.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return uvicorn.Config(
        create_app(settings),
        host=host,
        port=port,
        ws=WireProtocol,
        ws_max_size=settings.frame_limit,
        ws_per_message_deflate=False,
        ws_ping_interval=PING,
        ws_ping_timeout=PING / 2,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        backlog=4096,
        timeout_graceful_shutdown=GRACE,
    )


class WebServer(uvicorn.Server):
    """uvicorn, except that endless answers are ended first: it would wait for them."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        running = getattr(getattr(self.config.app, "state", None), "server", None)
        if running is not None:
            running.say_goodbye()
        await super().shutdown(sockets)


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until a signal says to stop."""
    # Long work in a thread holds the interpreter for short turns only, so that frames leave in time.
    sys.setswitchinterval(0.001)
    # Nearly everything here is short-lived or lasts: looking through all of it is seldom worth the pause.
    gc.set_threshold(10_000, 5, 1_000)
    # uvicorn has handlers of its own while it runs; after an orderly end it raises the signal again.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    logger.info("serving on http://%s:%d", host, port)
    WebServer(configured(settings, host, port)).run()


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)
