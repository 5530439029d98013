"""A gateway in a thread of the test's own process, and keys to it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tocsin.gateway.http import serving
from tocsin.gateway.http.server import Settings
from tocsin.gateway.http.serving import WebServer, first_key

STOCKS = {"symbol": "string", "risk": "double", "per": "double", "owner": "int"}
TOP = "SELECT symbol, per FROM stocks WHERE risk BETWEEN :lo AND :hi ORDER BY per LIMIT 3"


def secret_of(key: str) -> str:
    """The part of `tocsin_id_secret` that nobody may see; it may hold underscores of its own."""
    return key.split("_", 2)[2]


class Gateway:
    """A running gateway, as an operator's client."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key
        self._http = httpx.Client(base_url=url, timeout=120)

    def close(self) -> None:
        self._http.close()

    def headers(self, key: str | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {key or self.key}"}

    def call(
        self, method: str, path: str, given: Any = None, *, key: str | None = None, **more: Any
    ) -> httpx.Response:
        headers = {**self.headers(key), **more.pop("headers", {})}
        return self._http.request(method, path, json=given, headers=headers, **more)

    def bare(self, method: str, path: str, **more: Any) -> httpx.Response:
        """A request without a key."""
        return self._http.request(method, path, **more)

    def ok(self, method: str, path: str, given: Any = None, **more: Any) -> Any:
        response = self.call(method, path, given, **more)
        assert response.is_success, response.text
        return response.json() if response.content else None

    def make_key(self, tenant: str, *scopes: str) -> str:
        return str(self.ok("POST", "/v1/keys", {"tenant": tenant, "scopes": list(scopes)})["key"])

    @contextmanager
    def live(self, key: str | None = None, **more: Any) -> Iterator[Live]:
        headers = {**self.headers(key), **more.pop("headers", {})}
        address = "ws" + self.url.removeprefix("http") + "/v1/live"
        with connect(address, additional_headers=headers, compression=None, **more) as socket:
            live = Live(socket)
            assert live.next()["type"] == "welcome"
            yield live


class Live:
    """A WebSocket, message by message."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def say(self, **message: Any) -> None:
        self.socket.send(json.dumps(message))

    def next(self, timeout: float = 60) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.socket.recv(timeout))
        return message

    def ask(self, **message: Any) -> dict[str, Any]:
        self.say(**message)
        return self.next()


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Gateway]:
    """A gateway until the end of the block."""
    made = Settings(folder, **settings)
    key = first_key(made, always=True)
    assert key is not None
    server = WebServer(made, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    with pytest.MonkeyPatch.context() as patched:
        # What nobody watches is looked for often, so that tests need not wait for it.
        patched.setattr(serving, "SWEEP", 0.1)
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive(), "the gateway did not start"
                time.sleep(0.01)
            gateway = Gateway(f"http://127.0.0.1:{server.port}", key)
            yield gateway
            gateway.close()
        finally:
            server.should_exit = True
            thread.join()
