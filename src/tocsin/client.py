"""Clients of the gateway: `AsyncClient`, and the blocking `Client`.

A watch delivers the answer and then every change; it reconnects by itself, without gap or repetition.
"""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx
import pyarrow as pa
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tocsin.arrow_streams import write_arrow
from tocsin.errors import Error

T = TypeVar("T")

ARROW = "application/vnd.apache.arrow.stream"

#: Most attempts of a request that may have been lost.
ATTEMPTS = 5

#: Status and code of connections that the gateway closes for good, by close code.
REFUSED = {4001: (401, "unauthorized"), 4003: (403, "forbidden")}

#: The status of a request without a response.
UNREACHED = 0


class GatewayFailure(Error):
    """The gateway refused a request, or did not answer: status, error code and message."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "the gateway refused the request")))
        self.status = status
        self.code = str(error.get("code", ""))
        #: the whole error; for a statement, with the position
        self.error = dict(error)


class Answer:
    """A subscription's answer, maintained from the messages of a watch: rows in order, or a value."""

    def __init__(self) -> None:
        #: of top-k, rows, DISTINCT and joins, in order: `key`, `score`, `row`
        self.entries: list[dict[str, Any]] = []
        #: of MIN, MAX, COUNT, SUM and AVG
        self.value: Any = None

    @property
    def keys(self) -> list[str]:
        return [entry["key"] for entry in self.entries]

    def begin(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Start again from a snapshot."""
        self.entries, self.value = [], None
        self.apply(changes)

    def apply(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Remove what left or was updated, then insert updates and enters by rank. Cost: linear."""
        given = list(changes)
        removed = {change["key"] for change in given if change["op"] in ("leave", "update")}
        self.entries = [entry for entry in self.entries if entry["key"] not in removed]
        inserted = [change for change in given if change["op"] in ("update", "enter")]
        for change in sorted(inserted, key=lambda change: change.get("rank") or 0):
            entry = {name: change.get(name) for name in ("key", "score", "row")}
            self.entries.insert(change["rank"] - 1 if change.get("rank") else len(self.entries), entry)
        for change in given:
            if change["op"] == "value":
                self.value = change["score"]


@dataclass(frozen=True)
class Update:
    """One message of a watch: `kind` is `snapshot`, `changes` or `ended`; `answer` is the answer after it."""

    kind: str
    cursor: str | None
    changes: list[dict[str, Any]]
    answer: Answer
    #: of a threshold's snapshot: the weight so far, and the rest
    progress: dict[str, Any] | None = None
    #: events skipped because the client was too slow
    missed: int = 0
    #: of a snapshot of matches or a threshold: recent events, oldest first
    recent: list[dict[str, Any]] = field(default_factory=list)


class AsyncClient:
    """An asyncio client. `url` is the gateway's, `key` one of its API keys."""

    def __init__(self, url: str, key: str, *, timeout: float = 30.0) -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx.AsyncClient(base_url=self._url, headers=self._headers, timeout=timeout)
        self._kinds: dict[str, str] = {}

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def create_table(self, name: str, *, key: str, columns: Mapping[str, str]) -> None:
        """Declare a table."""
        await self._post("/v1/tables", {"name": name, "key": key, "columns": dict(columns)})

    async def create_stream(self, name: str, **options: Any) -> None:
        """Declare a stream: `columns`, `key`, `window`, `time`, `delay`, `score` as for an engine."""
        await self._post("/v1/streams", {"name": name, **options})

    async def sources(self) -> list[dict[str, Any]]:
        """The visible tables and streams."""
        tables, streams = await self._get("/v1/tables"), await self._get("/v1/streams")
        return [*tables["tables"], *streams["streams"]]

    async def spaces(self) -> list[dict[str, Any]]:
        """Spaces to subscribe to where a job feeds the gateway: `space`, `source`, `sql` to start from."""
        spaces: list[dict[str, Any]] = (await self._get("/v1/spaces"))["spaces"]
        return spaces

    async def publish(self, name: str, rows: Any, *, batch: str | None = None) -> dict[str, Any]:
        """Publish rows (a list of dicts or an Arrow table) exactly once, even if the connection is lost.

        A `batch` is an idempotency key, with which a restarted program can resend them.
        """
        path = f"/v1/{await self._kind(name)}s/{name}/rows"
        headers = {"Idempotency-Key": batch or uuid.uuid4().hex}
        if isinstance(rows, pa.Table):
            headers["Content-Type"], content = ARROW, write_arrow(rows)
        else:
            headers["Content-Type"], content = "application/json", json.dumps(list(rows)).encode()
        return await self._retry("POST", path, content=content, headers=headers)

    async def delete(self, name: str, keys: Sequence[Any]) -> dict[str, Any]:
        """Delete rows of a table by key."""
        return await self._post(f"/v1/tables/{name}/delete", {"keys": list(keys)})

    async def advance(self, name: str, time: str | int) -> dict[str, Any]:
        """Advance the time of a windowed stream."""
        return await self._post(f"/v1/streams/{name}/advance", {"time": time})

    async def check(self, sql: str) -> dict[str, Any]:
        """Describe a statement without registering it."""
        return await self._post("/v1/check", {"sql": sql})

    async def subscribe(
        self,
        sql: str,
        params: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        repeat: bool = False,
        policy: str = "squash",
        throttle: float = 0.0,
        temporary: bool = False,
    ) -> str:
        """Register a standing query, once, even if the connection is lost; its id."""
        asked = {"sql": sql, "params": dict(params or {}), "repeat": repeat, "policy": policy}
        asked |= {"throttle": throttle, "temporary": temporary} | ({} if id is None else {"id": id})
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return str((await self._retry("POST", "/v1/subscriptions", json=asked, headers=headers))["id"])

    async def subscribe_many(self, sql: str, params: Any, **options: Any) -> int:
        """Register a template with one subscription for each row of an Arrow table or dict of columns."""
        table = params if isinstance(params, pa.Table) else pa.table(dict(params))
        asked = json.dumps({"sql": sql, **options})
        headers = {"Content-Type": ARROW, "Tocsin-Subscription": asked, "Idempotency-Key": uuid.uuid4().hex}
        created = await self._retry(
            "POST", "/v1/subscriptions/bulk", content=write_arrow(table), headers=headers
        )
        return int(created["count"])

    async def unsubscribe(self, sid: str) -> None:
        """End a subscription."""
        await self._request("DELETE", f"/v1/subscriptions/{sid}")

    async def subscriptions(self) -> list[dict[str, Any]]:
        """All your subscriptions."""
        subscriptions: list[dict[str, Any]] = []
        query = ""
        while True:
            page = await self._get(f"/v1/subscriptions?limit=1000{query}")
            subscriptions += page["subscriptions"]
            if page["next"] is None:
                return subscriptions
            query = f"&after={page['next']}"

    async def result(self, sid: str) -> list[dict[str, Any]]:
        """The current answer."""
        rows: list[dict[str, Any]] = (await self._get(f"/v1/subscriptions/{sid}/result"))["rows"]
        return rows

    async def explain(self, sid: str) -> str:
        """Which index maintains a subscription, and how."""
        return str((await self._get(f"/v1/subscriptions/{sid}/explain"))["text"])

    async def watch(
        self, sid: str, *, cursor: str | None = None, **options: Any
    ) -> AsyncGenerator[Update, None]:
        """The answer, then every change, until the subscription ends.

        With the `cursor` of an earlier update it resumes after that one, or with a new snapshot if that is
        too old. `policy` and `throttle` override those of the subscription. It reconnects after a lost
        connection. Raises GatewayFailure if the subscription is unknown or the key no longer valid.
        """
        answer, pause = Answer(), 0.05
        while True:
            try:
                async with aclosing(self._watch_once(sid, cursor, answer, options)) as updates:
                    async for update in updates:
                        cursor, pause = update.cursor or cursor, 0.05
                        yield update
                        if update.kind == "ended":
                            return
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError) as failure:
                if (refusal := _refusal(failure)) is not None:
                    raise refusal from None
            except GatewayFailure as failure:
                if failure.code != "unavailable":
                    raise
            except TooOld:
                cursor = None
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, 2.0)

    async def _watch_once(
        self, sid: str, cursor: str | None, answer: Answer, options: Mapping[str, Any]
    ) -> AsyncGenerator[Update, None]:
        address = "ws" + self._url.removeprefix("http") + "/v1/live"
        async with connect(
            address, additional_headers=self._headers, compression=None, max_size=None
        ) as socket:
            at = {} if cursor is None else {"cursor": cursor}
            await socket.send(json.dumps({"type": "watch", "subscription": sid, **at, **options}))
            async for text in socket:
                message = json.loads(text)
                update = _update(message, answer)
                if update is not None:
                    yield update
        raise ConnectionResetError("the gateway closed the connection")

    async def _kind(self, name: str) -> str:
        if name not in self._kinds:
            self._kinds = {source["name"]: source["kind"] for source in await self.sources()}
        return self._kinds.get(name, "table")

    async def _get(self, path: str) -> dict[str, Any]:
        return await self._retry("GET", path)

    async def _post(self, path: str, given: Mapping[str, Any]) -> dict[str, Any]:
        return await self._request("POST", path, json=given)

    async def _retry(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        """Send an idempotent request, with retries."""
        pause = 0.1
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                return await self._request(method, path, **given)
            except GatewayFailure as failure:
                if not attempts_left or failure.status not in (UNREACHED, 429, 503):
                    raise
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError("the last attempt returns or raises")

    async def _request(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(method, path, **given)
        except httpx.TransportError as failure:
            unreached = {
                "code": "unreached",
                "message": f"no gateway answers at {self._http.base_url}: {failure}",
            }
            raise GatewayFailure(UNREACHED, unreached) from failure
        if response.is_success:
            answer: dict[str, Any] = response.json() if response.content else {}
            return answer
        try:
            error = response.json()["error"]
        except (ValueError, KeyError, TypeError):
            error = {"message": f"the gateway answers with status {response.status_code}"}
        raise GatewayFailure(response.status_code, error)


class Client:
    """A blocking client with the methods of `AsyncClient`."""

    def __init__(self, url: str, key: str, *, timeout: float = 30.0) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tocsin-client", daemon=True)
        self._thread.start()
        self._client = self._run(_make_client(url, key, timeout))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._thread.is_alive():
            self._run(self._client.close())
            self._run(self._loop.shutdown_asyncgens())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def create_table(self, name: str, *, key: str, columns: Mapping[str, str]) -> None:
        """Declare a table."""
        self._run(self._client.create_table(name, key=key, columns=columns))

    def create_stream(self, name: str, **options: Any) -> None:
        """Declare a stream: `columns`, `key`, `window`, `time`, `delay`, `score` as for an engine."""
        self._run(self._client.create_stream(name, **options))

    def sources(self) -> list[dict[str, Any]]:
        """The visible tables and streams."""
        return self._run(self._client.sources())

    def spaces(self) -> list[dict[str, Any]]:
        """Spaces to subscribe to where a job feeds the gateway: `space`, `source`, `sql` to start from."""
        return self._run(self._client.spaces())

    def publish(self, name: str, rows: Any, *, batch: str | None = None) -> dict[str, Any]:
        """Publish rows (a list of dicts or an Arrow table), exactly once."""
        return self._run(self._client.publish(name, rows, batch=batch))

    def delete(self, name: str, keys: Sequence[Any]) -> dict[str, Any]:
        """Delete rows of a table by key."""
        return self._run(self._client.delete(name, keys))

    def advance(self, name: str, time: str | int) -> dict[str, Any]:
        """Advance the time of a windowed stream."""
        return self._run(self._client.advance(name, time))

    def check(self, sql: str) -> dict[str, Any]:
        """Describe a statement without registering it."""
        return self._run(self._client.check(sql))

    def subscribe(self, sql: str, params: Mapping[str, Any] | None = None, **options: Any) -> str:
        """Register a standing query; its id. Options as for `AsyncClient.subscribe`."""
        return self._run(self._client.subscribe(sql, params, **options))

    def subscribe_many(self, sql: str, params: Any, **options: Any) -> int:
        """Register a template with one subscription for each row of an Arrow table or dict of columns."""
        return self._run(self._client.subscribe_many(sql, params, **options))

    def unsubscribe(self, sid: str) -> None:
        """End a subscription."""
        self._run(self._client.unsubscribe(sid))

    def subscriptions(self) -> list[dict[str, Any]]:
        """All your subscriptions."""
        return self._run(self._client.subscriptions())

    def result(self, sid: str) -> list[dict[str, Any]]:
        """The current answer."""
        return self._run(self._client.result(sid))

    def explain(self, sid: str) -> str:
        """Which index maintains a subscription, and how."""
        return self._run(self._client.explain(sid))

    def watch(self, sid: str, *, cursor: str | None = None, **options: Any) -> Generator[Update, None, None]:
        """The answer, then every change; see `AsyncClient.watch`."""
        updates = self._client.watch(sid, cursor=cursor, **options)
        try:
            while True:
                update = self._run(_next(updates))
                if update is None:
                    return
                yield update
        finally:
            self._run(_close(updates))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class TooOld(Exception):
    """The cursor is older than what is retained."""


def _update(message: Mapping[str, Any], answer: Answer) -> Update | None:
    """Apply a message; None if the watcher does not get it."""
    kind, cursor = message["type"], message.get("cursor")
    changes = list(message.get("changes", ()))
    match kind:
        case "snapshot":
            answer.begin(changes)
            recent = list(message.get("recent", ()))
            return Update(kind, cursor, changes, answer, message.get("progress"), recent=recent)
        case "changes":
            answer.apply(changes)
            return Update(kind, cursor, changes, answer, missed=message.get("missed", 0))
        case "ended":
            return Update(kind, cursor, [], answer)
        case "too-old":
            raise TooOld
        case "error":
            raise GatewayFailure(400, message)
    return None


def _refusal(failure: Exception) -> GatewayFailure | None:
    """The gateway's reason not to reconnect, if it gave one when it closed the connection."""
    said = failure.rcvd if isinstance(failure, ConnectionClosed) else None
    if said is None or said.code not in REFUSED:
        return None
    status, code = REFUSED[said.code]
    return GatewayFailure(status, {"code": code, "message": said.reason})


async def _make_client(url: str, key: str, timeout: float) -> AsyncClient:
    return AsyncClient(url, key, timeout=timeout)


async def _next(updates: AsyncGenerator[Update, None]) -> Update | None:
    return await anext(updates, None)


async def _close(updates: AsyncGenerator[Update, None]) -> None:
    await updates.aclose()
