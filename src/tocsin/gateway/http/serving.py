"""The server process: sockets, signals, and a graceful shutdown."""

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

from tocsin.errors import StateError
from tocsin.gateway.http.app import create_app
from tocsin.gateway.http.request_timeouts import RESERVED, RequestTimeoutProtocol, most_connections
from tocsin.gateway.http.server import Server, Settings
from tocsin.gateway.http.wire import WireProtocol
from tocsin.gateway.registry import OPERATOR, SCOPES, Registry

logger = logging.getLogger(__name__)

#: Seconds that open requests have to finish at shutdown.
GRACE = 10

#: Seconds between two pings; a connection that does not answer within half of that is closed.
PING = 60.0

#: Connections that may wait to be accepted, and those accepted at once: few, so that they can be limited.
BACKLOG, ACCEPTED = 4096, 16

#: Seconds between two sweeps for unwatched temporary subscriptions.
SWEEP = 1.0


def first_key(settings: Settings, *, always: bool = False) -> str | None:
    """Create a key with all scopes for the operator's tenant if there is no key yet, or always."""
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    registry = Registry(settings.url)
    try:
        if registry.has_keys() and not always:
            return None
        return registry.create_key(OPERATOR, SCOPES, "created by tocsin serve")[1]
    finally:
        registry.close()


class WebServer(uvicorn.Server):
    """A web server around a gateway, which starts before the sockets open and stops after they close."""

    def __init__(self, settings: Settings, host: str, port: int) -> None:
        # uvicorn's own log lines would contain keys (in headers) and query strings.
        logging.getLogger("uvicorn").setLevel(logging.WARNING)
        self._settings = settings
        self._gateway: Server | None = None
        super().__init__(
            uvicorn.Config(
                self._answer,
                host=host,
                port=port,
                http=RequestTimeoutProtocol,
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
                backlog=ACCEPTED,
                timeout_graceful_shutdown=GRACE,
            )
        )

    @property
    def port(self) -> int:
        """The listening port."""
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
        for server in self.servers:
            for listening in server.sockets:
                with socket.fromfd(listening.fileno(), listening.family, listening.type) as same:
                    same.listen(BACKLOG)
        logger.info("serving on http://%s:%d", self.config.host, self.port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close endless responses first: uvicorn would wait for them."""
        assert self._gateway is not None
        self._gateway.say_goodbye()
        await super().shutdown(sockets)
        await self._stop(self._gateway)

    async def _started(self) -> Server | None:
        """Start the gateway; None if a signal stops it before it has started."""
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
    """Serve until a signal stops the process."""
    # Short GIL slices, so that long work in a thread does not delay frames.
    sys.setswitchinterval(0.001)
    # Most objects are either short-lived or permanent: full collections are seldom worth their pause.
    gc.set_threshold(10_000, 5, 1_000)
    # Every connection needs a descriptor: raise the soft limit to the hard one.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most_connections() < 1:
        raise StateError(
            f"{most} open files are allowed (ulimit -Hn), and at least {RESERVED + 1} are needed"
        )
    # uvicorn installs its own handlers while it runs, and raises the signal again after its shutdown.
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
            logger.exception("sweeping temporary subscriptions failed; retrying")
