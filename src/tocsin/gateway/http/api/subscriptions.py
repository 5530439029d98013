"""Subscriptions: register, list, inspect, end."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field
from starlette.responses import Response

from tocsin.engine.conversion.text import json_rows
from tocsin.gateway.core.bodies import read_arrow
from tocsin.gateway.core.catalog import full_id, own_id
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.protocol import Ack
from tocsin.gateway.failures import BadRequest
from tocsin.gateway.http.answers import describe
from tocsin.gateway.http.api import schemas
from tocsin.gateway.http.api.endpoints import Call, Endpoint
from tocsin.gateway.http.api.events import changes
from tocsin.gateway.http.models import (
    ID,
    Cursor,
    Id,
    Model,
    NewSubscription,
    NewSubscriptions,
    Statement,
    SubscriptionSpec,
)

_ID = re.compile(ID)

ARROW = "application/vnd.apache.arrow.stream"


class Page(Model):
    """Paging of a list."""

    after: Id | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100


class From(Model):
    """The cursor to resume from, and how long to stream."""

    cursor: Cursor | None = None
    #: 0 returns what exists now; None streams without end
    seconds: Annotated[float, Field(ge=0, le=3600)] | None = None


async def _create(call: Call) -> Any:
    batch = call.batch()
    ack = await call.execute(lambda hub: call.given.register(hub, call.rights, batch))
    if call.given.temporary:
        call.server.unwatched[full_id(call.tenant, ack.ids[0])] = call.server.committer.now()
    return await _described(call, ack.ids[0])


async def _create_many(call: Call) -> Any:
    if call.form == "arrow":
        head = call.request.headers.get("tocsin-subscription")
        if head is None:
            raise BadRequest('an Arrow body needs a header Tocsin-Subscription: {"sql": "…"}')
        spec: SubscriptionSpec = SubscriptionSpec.model_validate_json(head)
    else:
        spec = call.given
    batch = call.batch()

    def register(hub: Hub) -> Ack:
        table = spec.table() if isinstance(spec, NewSubscriptions) else read_arrow(call.body)
        _check_ids(table)
        return hub.subscribe_many(
            call.tenant,
            spec.sql,
            table,
            grants=call.grants,
            options=spec.options(),
            limit=call.rights.quotas.subscriptions,
            batch=batch,
        )

    ack = await call.execute(register)
    if spec.temporary:
        now = call.server.committer.now()
        call.server.unwatched.update((full_id(call.tenant, name), now) for name in ack.ids)
    return {"count": ack.rows, "cursor": f"{call.server.committer.epoch}.{ack.number}"}


def _check_ids(table: pa.Table) -> None:
    if "id" not in table.column_names:
        return
    column = table.column("id")
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise BadRequest("ids must be strings")
    for name in column.to_pylist():
        if name is None or not _ID.fullmatch(name):
            raise BadRequest(
                "an id is up to 128 of A-Z, a-z, 0-9 and . _ : -, and starts with a letter or digit"
            )


async def _list(call: Call) -> Any:
    page: Page = call.query

    def look(hub: Hub) -> list[dict[str, Any]]:
        return [
            describe(own_id(full), subscription)
            for full, subscription in hub.page(call.tenant, page.after, page.limit)
        ]

    subscriptions = await call.execute(look)
    return {
        "subscriptions": subscriptions,
        "next": subscriptions[-1]["id"] if len(subscriptions) == page.limit else None,
    }


async def _get(call: Call) -> Any:
    return await _described(call, call.path("id"))


async def _described(call: Call, name: str) -> Any:
    return describe(name, await call.execute(lambda hub: hub.subscription(call.tenant, name)))


async def _delete(call: Call) -> None:
    await call.server.unsubscribe(call.tenant, call.path("id"))


async def _result(call: Call) -> Any:
    name = call.path("id")

    def look(hub: Hub) -> str:
        rows = ",".join(json_rows(hub.result(call.tenant, name)).to_pylist())
        cursor = json.dumps(f"{call.server.committer.epoch}.{hub.number}")
        return f'{{"cursor":{cursor},"rows":[{rows}]}}'

    return Response(await call.execute(look), media_type="application/json")


async def _explain(call: Call) -> Any:
    return {"text": await call.execute(lambda hub: hub.explain(call.tenant, call.path("id")))}


async def _space(call: Call) -> Any:
    name = call.path("id")
    return await call.execute(lambda hub: hub.space(call.tenant, name, call.grants))


async def _spaces(call: Call) -> Any:
    return await call.execute(lambda hub: {"fed": hub.is_fed, "spaces": hub.offered(call.grants)})


async def _check(call: Call) -> Any:
    checked = await call.execute(lambda hub: hub.check(call.given.sql, call.grants))
    return {"kind": checked.kind, "parameters": list(checked.parameters)}


ENDPOINTS = [
    Endpoint(
        "POST",
        "/v1/subscriptions",
        "subscribe",
        "Register a standing query",
        _create,
        model=NewSubscription,
        status=201,
        schema=schemas.SUBSCRIPTION,
    ),
    Endpoint(
        "GET",
        "/v1/subscriptions",
        "subscribe",
        "List your subscriptions",
        _list,
        query=Page,
        schema=schemas.SUBSCRIPTIONS,
    ),
    Endpoint(
        "POST",
        "/v1/subscriptions/bulk",
        "subscribe",
        "Register a template with many parameters",
        _create_many,
        model=NewSubscriptions,
        forms=("application/json", ARROW),
        status=201,
        schema=schemas.CREATED,
    ),
    Endpoint(
        "GET",
        "/v1/subscriptions/{id}",
        "subscribe",
        "Describe a subscription",
        _get,
        schema=schemas.SUBSCRIPTION,
    ),
    Endpoint("DELETE", "/v1/subscriptions/{id}", "subscribe", "End a subscription", _delete, status=204),
    Endpoint(
        "GET",
        "/v1/subscriptions/{id}/result",
        "subscribe",
        "The current answer",
        _result,
        schema=schemas.RESULT,
    ),
    Endpoint(
        "GET",
        "/v1/subscriptions/{id}/explain",
        "subscribe",
        "Which index maintains it, and how",
        _explain,
        schema=schemas.EXPLANATION,
    ),
    Endpoint(
        "GET",
        "/v1/subscriptions/{id}/space",
        "subscribe",
        "Its subscription space: your ranges, and tiles for the last update's messages",
        _space,
        schema=schemas.SPACE,
    ),
    Endpoint(
        "GET",
        "/v1/subscriptions/{id}/changes",
        "subscribe",
        "The answer, then every change, as server-sent events",
        changes,
        query=From,
        answer="text/event-stream",
    ),
    Endpoint(
        "GET",
        "/v1/spaces",
        "subscribe",
        "Spaces that can be subscribed to, where a job feeds this gateway; elsewhere any statement can",
        _spaces,
        schema=schemas.SPACES,
    ),
    Endpoint(
        "POST",
        "/v1/check",
        "subscribe",
        "Check a statement without registering it",
        _check,
        model=Statement,
        schema=schemas.CHECKED,
    ),
]
