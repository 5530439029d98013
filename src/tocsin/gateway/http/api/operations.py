"""Operations: health, readiness, metrics, and the API's own description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tocsin.arrays.compile_progress import compilation
from tocsin.gateway.http.api.endpoints import Call, Endpoint
from tocsin.gateway.http.api.openapi import describe

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def health(request: Request) -> Response:
    """Liveness probe, and what is being compiled. Needs no key."""
    compiling = compilation.ongoing()
    if compiling is None:
        return JSONResponse({"status": "alive"})
    kernels, seconds = compiling
    return JSONResponse({"status": "alive", "compiling": {"kernels": kernels, "seconds": round(seconds, 1)}})


async def ready(request: Request) -> Response:
    """Readiness probe: the server accepts requests and can write. Needs no key."""
    server = getattr(request.app.state, "server", None)
    if server is None or server.is_stopping:
        return JSONResponse({"status": "not ready"}, 503)
    if server.committer.failure is not None:
        return JSONResponse({"status": "not ready", "reason": server.committer.failure}, 503)
    return JSONResponse({"status": "ready"})


async def _metrics(call: Call) -> Any:
    return Response(call.server.metrics.text(), media_type=METRICS_TYPE)


async def _whoami(call: Call) -> Any:
    return {
        "tenant": call.tenant,
        "scopes": sorted(call.identity.scopes),
        "subscriptions": await call.execute(lambda hub: hub.live(call.tenant)),
    }


def with_description(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """These endpoints, plus those that describe the server."""
    own: list[Endpoint] = []

    async def openapi(call: Call) -> Any:
        return describe(own)

    own += [
        *endpoints,
        Endpoint("GET", "/v1/me", "any", "Whose key this is", _whoami, schema={"type": "object"}),
        Endpoint(
            "GET",
            "/metrics",
            "operator",
            "The server's metrics, for Prometheus",
            _metrics,
            answer="text/plain",
        ),
        Endpoint("GET", "/openapi.json", "any", "This description", openapi, schema={"type": "object"}),
    ]
    return own
