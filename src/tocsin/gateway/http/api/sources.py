"""Tables and streams: declare, inspect, publish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.gateway.core.bodies import FORMS
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import Ack
from tocsin.gateway.failures import NotFound
from tocsin.gateway.http.answers import describe_source
from tocsin.gateway.http.api import schemas
from tocsin.gateway.http.api.endpoints import Call, Endpoint
from tocsin.gateway.http.models import Event, Keys, Moment, NewStream, NewTable

#: Subscriptions tested against one event at most.
TRIED = 200


async def _declare(call: Call) -> Any:
    declaration = call.given.declaration()
    await call.execute(lambda hub: hub.declare(declaration))
    return describe_source(declaration)


def _list(kind: str) -> Any:
    async def listed(call: Call) -> Any:
        found = await call.execute(lambda hub: hub.declarations(call.grants))
        return {f"{kind}s": [describe_source(each) for each in found if each.kind == kind]}

    return listed


def _get(kind: str) -> Any:
    async def get(call: Call) -> Any:
        def look(hub: Hub) -> dict[str, Any]:
            declaration = hub.declaration(call.path("name"), call.grants)
            if declaration.kind != kind:
                raise NotFound(f"there is no {kind} {declaration.name!r}")
            return {**describe_source(declaration), "counts": hub.engine.counts(declaration.name)}

        return await call.execute(look)

    return get


def _publish(kind: str) -> Any:
    async def publish(call: Call) -> Any:
        name = call.path("name")
        batch = call.batch(name)

        def take(hub: Hub) -> Ack:
            _require_kind(hub, call, kind)
            return hub.publish(name, call.form, call.body, tenant=call.tenant, batch=batch)

        return _acknowledged(call, name, await _charged(call, take))

    return publish


async def _delete_rows(call: Call) -> Any:
    name = call.path("name")
    batch = call.batch(name)

    def take(hub: Hub) -> Ack:
        _require_kind(hub, call, "table")
        return hub.delete(name, call.given.keys, tenant=call.tenant, batch=batch)

    return _acknowledged(call, name, await _charged(call, take))


async def _charged(call: Call, take: Callable[[Hub], Ack]) -> Ack:
    """Publish within the tenant's quota."""
    allowance = call.server.allowance

    def within(hub: Hub) -> Ack:
        # On the hub's thread, where commands run one by one: concurrent requests cannot overdraw the quota.
        tenant = call.server.rights(call.identity)
        allowance.check(tenant)
        rows = 0
        try:
            ack = take(hub)
            rows = ack.rows
        finally:
            # Refused requests have a cost too.
            allowance.charge(tenant, max(1, rows))
        return ack

    return await call.execute(within)


async def _advance(call: Call) -> Any:
    name = call.path("name")
    batch = call.batch(name)

    def take(hub: Hub) -> Ack:
        _require_kind(hub, call, "stream")
        return hub.advance(name, call.given.time, tenant=call.tenant, batch=batch)

    return _acknowledged(call, name, await call.execute(take))


async def _try(call: Call) -> Any:
    """Test an event against the tenant's matches over a stream, without publishing it."""
    name = call.path("name")

    def look(hub: Hub) -> list[dict[str, Any]]:
        _require_kind(hub, call, "stream")
        names = hub.ids_over(call.tenant, name, "match")
        return [_verdict(each, hub.explain(call.tenant, each, call.given.event)) for each in names[:TRIED]]

    return {"tried": await call.execute(look)}


def _verdict(name: str, text: str) -> dict[str, Any]:
    """An explanation parsed for a page: the verdict, and one line per predicate."""
    lines = text.split("\n")
    head = next((place for place, line in enumerate(lines) if line.startswith("event: ")), len(lines) - 1)
    outcome = lines[head].removeprefix("event: ")
    return {
        "id": name,
        "matches": not outcome.startswith("no match"),
        "said": outcome,
        "predicates": [line.strip() for line in lines[head + 1 :]],
    }


def _require_kind(hub: Hub, call: Call, kind: str) -> None:
    if hub.declaration(call.path("name"), call.grants).kind != kind:
        raise NotFound(f"there is no {kind} {call.path('name')!r}")


def _acknowledged(call: Call, name: str, ack: Ack) -> dict[str, Any]:
    call.server.metrics.rows.labels(name).inc(ack.rows)
    call.server.metrics.changes.labels(name).inc(ack.caused)
    return {
        "cursor": f"{call.server.committer.epoch}.{ack.number}",
        "rows": ack.rows,
        "changes": ack.changes,
    }


_FORMS = tuple(FORMS)

ENDPOINTS = [
    endpoint
    for kind, model in (("table", NewTable), ("stream", NewStream))
    for endpoint in (
        Endpoint(
            "POST",
            f"/v1/{kind}s",
            "operator",
            f"Declare a {kind}",
            _declare,
            model=model,
            status=201,
            schema=schemas.SOURCE,
        ),
        Endpoint(
            "GET",
            f"/v1/{kind}s",
            "any",
            f"List {kind}s",
            _list(kind),
            schema=schemas.listed(f"{kind}s", schemas.SOURCE),
        ),
        Endpoint(
            "GET", f"/v1/{kind}s/{{name}}", "any", f"Describe a {kind}", _get(kind), schema=schemas.SOURCE
        ),
        Endpoint(
            "POST",
            f"/v1/{kind}s/{{name}}/rows",
            "publish",
            f"Publish rows to a {kind}",
            _publish(kind),
            forms=_FORMS,
            schema=schemas.RECEIPT,
        ),
    )
] + [
    Endpoint(
        "POST",
        "/v1/tables/{name}/delete",
        "publish",
        "Delete rows of a table by key",
        _delete_rows,
        model=Keys,
        schema=schemas.RECEIPT,
    ),
    Endpoint(
        "POST",
        "/v1/streams/{name}/advance",
        "publish",
        "Advance the time of a windowed stream",
        _advance,
        model=Moment,
        schema=schemas.RECEIPT,
    ),
    Endpoint(
        "POST",
        "/v1/streams/{name}/try",
        "subscribe",
        "Test an event against your matches, without publishing it",
        _try,
        model=Event,
        schema=schemas.TRIED,
    ),
]
