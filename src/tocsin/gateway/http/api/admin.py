"""Tenants and keys."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from tocsin.gateway.core.hub import Hub
from tocsin.gateway.core.statements import check_condition
from tocsin.gateway.failures import Forbidden
from tocsin.gateway.http.api import schemas
from tocsin.gateway.http.api.endpoints import Call, Endpoint
from tocsin.gateway.http.models import Model, NewKey, NewTenant, TenantName
from tocsin.gateway.registry import EVERY, OPERATOR, KeyInfo, Tenant


class Whose(Model):
    """The tenant to list; another one only for the operator's admins."""

    tenant: TenantName | None = None


async def _tenants(call: Call) -> Any:
    found = await asyncio.to_thread(call.server.registry.tenants)
    return {"tenants": [_tenant(each) for each in found]}


async def _create_tenant(call: Call) -> Any:
    tenant = call.given.tenant()
    await call.execute(lambda hub: _check_grants(hub, tenant))
    await asyncio.to_thread(call.server.registry.create_tenant, tenant)
    return _tenant(tenant)


async def _change_tenant(call: Call) -> Any:
    """Open connections get the new grants; subscriptions whose plan they change are ended."""
    tenant = call.given.tenant()
    if tenant.name != call.path("name"):
        raise Forbidden("a tenant cannot be renamed")
    await call.execute(lambda hub: _check_grants(hub, tenant))
    await asyncio.to_thread(call.server.registry.change_tenant, tenant)
    await call.server.adopt(tenant)
    return _tenant(tenant)


async def _keys(call: Call) -> Any:
    whose = call.query.tenant or call.tenant
    if whose != call.tenant and call.tenant != OPERATOR:
        raise Forbidden("you may list the keys of your own tenant only")
    found = await asyncio.to_thread(call.server.registry.keys, whose)
    return {"keys": [_key(each) for each in found]}


async def _create_key(call: Call) -> Any:
    request: NewKey = call.given
    tenant = request.tenant or call.tenant
    if tenant != call.tenant and call.tenant != OPERATOR:
        raise Forbidden("you may create keys of your own tenant only")
    info, text = await asyncio.to_thread(
        call.server.registry.create_key, tenant, tuple(request.scopes), request.label
    )
    return {**_key(info), "key": text}


async def _revoke(call: Call) -> None:
    key = call.path("id")
    await asyncio.to_thread(call.server.registry.revoke, call.tenant, key)
    call.server.drop_key(key)


def _check_grants(hub: Hub, tenant: Tenant) -> None:
    """Check conditions, against their source if it is declared already."""
    for name, condition in tenant.grants.items():
        if condition:
            check_condition(condition, None)
            for schema in hub.schemas():
                if name in (EVERY, schema.name):
                    check_condition(condition, schema)


def _tenant(tenant: Tenant) -> dict[str, Any]:
    return {"name": tenant.name, "grants": tenant.grants, **asdict(tenant.quotas)}


def _key(info: KeyInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "tenant": info.tenant,
        "scopes": list(info.scopes),
        "label": info.label,
        "created": info.created.isoformat(),
        "revoked": info.revoked.isoformat() if info.revoked else None,
    }


ENDPOINTS = [
    Endpoint(
        "GET",
        "/v1/tenants",
        "operator",
        "List tenants",
        _tenants,
        schema=schemas.listed("tenants", schemas.TENANT),
    ),
    Endpoint(
        "POST",
        "/v1/tenants",
        "operator",
        "Create a tenant",
        _create_tenant,
        model=NewTenant,
        status=201,
        schema=schemas.TENANT,
    ),
    Endpoint(
        "PUT",
        "/v1/tenants/{name}",
        "operator",
        "Change a tenant's grants and quotas",
        _change_tenant,
        model=NewTenant,
        schema=schemas.TENANT,
    ),
    Endpoint(
        "GET",
        "/v1/keys",
        "admin",
        "List keys",
        _keys,
        query=Whose,
        schema=schemas.listed("keys", schemas.KEY),
    ),
    Endpoint(
        "POST",
        "/v1/keys",
        "admin",
        "Create a key; it is shown only once",
        _create_key,
        model=NewKey,
        status=201,
        schema=schemas.KEY,
    ),
    Endpoint("DELETE", "/v1/keys/{id}", "admin", "Revoke a key", _revoke, status=204),
]
