"""The server as a process: sockets, signals, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
from types import FrameType

import uvicorn
from starlette.types import Receive, Scope, Send

from tocsin.gateway.app import create_app
from tocsin.gateway.prompt import PromptProtocol
from tocsin.gateway.registry import OPERATOR, SCOPES, Registry
from tocsin.gateway.server import Server, Settings
from tocsin.gateway.wire import WireProtocol

logger = logging.getLogger(__name__)

#: Seconds that open requests are given when the server stops.
GRACE = 10

#: Seconds between two pings of a connection; one that does not answer for half as long is closed.
PING = 60.0

#: Seconds between two looks for temporary subscriptions that nobody watches.
SWEEP = 1.0


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


class WebServer(uvicorn.Server):
    """A web server around a gateway, which starts before anybody can connect and ends after all have gone."""

    def __init__(self, settings: Settings, host: str, port: int) -> None:
        # The web server's own lines would have headers with keys in them, and query strings.
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._settings = settings
        self._gateway: Server | None = None
        super().__init__(
            uvicorn.Config(
                self._answer,
                host=host,
                port=port,
                http=PromptProtocol,
                ws=WireProtocol,
                ws_max_size=settings.frame_limit,
                ws_per_message_deflate=False,
                ws_ping_interval=PING,
                ws_ping_timeout=PING / 2,
                log_config=None,
                access_log=False,
                server_header=False,
                interface="asgi3",
                lifespan="off",
                backlog=4096,
                timeout_graceful_shutdown=GRACE,
            )
        )

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the gateway, then listen. Raises Error if the gateway cannot start."""
        self._gateway = await self._started()
        if self._gateway is None:
            return
        self._app = create_app(self._gateway)
        self._sweeping = asyncio.create_task(_sweep(self._gateway))
        try:
            await super().startup(sockets)
        except BaseException:
            await self._stop(self._gateway)
            raise
        logger.info("serving on http://%s:%d", self.config.host, self.port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End endless answers first: uvicorn would wait for them."""
        assert self._gateway is not None
        self._gateway.say_goodbye()
        await super().shutdown(sockets)
        await self._stop(self._gateway)

    async def _started(self) -> Server | None:
        """The gateway; none if a signal says to stop before it has started."""
        starting = asyncio.create_task(Server.start(self._settings))
        while not starting.done() and not self.should_exit:
            await asyncio.wait([starting], timeout=0.1)
        if starting.done():
            return starting.result()
        starting.cancel()
        await asyncio.wait([starting])
        return None

    async def _stop(self, gateway: Server) -> None:
        self._sweeping.cancel()
        await gateway.stop()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until a signal says to stop."""
    # Long work in a thread holds the interpreter for short turns only, so that frames leave in time.
    sys.setswitchinterval(0.001)
    # Nearly everything here is short-lived or lasts: looking through all of it is seldom worth the pause.
    gc.set_threshold(10_000, 5, 1_000)
    # A connection is a file: as many as the system allows.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # uvicorn has handlers of its own while it runs; after an orderly end it raises the signal again.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    WebServer(settings, host, port).run()


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(0)


async def _sweep(server: Server) -> None:
    while True:
        await asyncio.sleep(SWEEP)
        try:
            await server.sweep()
        except Exception:
            logger.exception("looking after subscriptions failed; it is tried again")
