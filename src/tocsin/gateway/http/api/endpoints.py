"""Endpoints with their inputs and scopes: validation and the OpenAPI description both derive from them."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tocsin.gateway.core.bodies import FORMS, read_json
from tocsin.gateway.core.hub import Hub
from tocsin.gateway.failures import BadRequest, Forbidden, TooLarge, TooSlow, Unavailable, Unsupported
from tocsin.gateway.http.answers import problem
from tocsin.gateway.http.server import Server, require
from tocsin.gateway.registry import OPERATOR, Identity, Tenant

logger = logging.getLogger("tocsin.gateway.requests")

T = TypeVar("T")

#: Bytes of a body that are cheap enough to parse on the event loop.
SHORT = 1 << 15

#: The longest Idempotency-Key.
KEY = 200


@dataclass
class Call:
    """A request whose key, path and body have been validated."""

    server: Server
    request: Request
    identity: Identity
    #: the validated body, if the endpoint has a model
    given: Any = None
    #: the validated query parameters, if it has a model for them
    query: Any = None
    #: the raw body and its format
    body: bytes = b""
    form: str = ""

    @property
    def tenant(self) -> str:
        return self.identity.tenant.name

    @property
    def rights(self) -> Tenant:
        """The tenant's current rights, which may have changed since the request arrived."""
        return self.server.rights(self.identity)

    @property
    def grants(self) -> dict[str, str]:
        return self.rights.grants

    def batch(self, source: str = "") -> str | None:
        """The Idempotency-Key as a batch name, scoped to the tenant and to one source or to subscriptions."""
        key = self.request.headers.get("idempotency-key")
        if key is not None and len(key) > KEY:
            raise BadRequest(f"an Idempotency-Key has at most {KEY} characters")
        return None if key is None else f"{self.tenant}/{source}/{key}"

    async def execute(self, work: Callable[[Hub], T]) -> T:
        """Run a command for this tenant; returns its result."""
        return await self.server.committer.execute(work, tenant=self.tenant, size=len(self.body))

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    #: the scope that a key needs; `operator` is admin of the operator's tenant
    scope: str
    summary: str
    handler: Handler
    model: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    #: content types of bodies passed to the handler unparsed
    forms: tuple[str, ...] = ()
    status: int = 200
    #: content type of the answer
    answer: str = "application/json"
    #: JSON schema of the answer
    schema: dict[str, Any] = field(default_factory=dict)


def routes(endpoints: Iterable[Endpoint]) -> list[Route]:
    """One route per path with all its methods, so that a wrong method is answered with the allowed ones."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [Route(path, _dispatcher(methods), methods=list(methods)) for path, methods in paths.items()]


def refusal(failure: Exception) -> JSONResponse:
    """The response to a refused request."""
    status, error, retry_after = problem(failure)
    headers = {}
    if retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(retry_after)))
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": error}, status, headers)


@asynccontextmanager
async def body_of(request: Request, server: Server) -> AsyncIterator[bytes]:
    """The whole body; its memory is accounted for until the end of the block.

    Raises TooLarge as soon as the limit is exceeded, TooSlow, and Unavailable if all bodies together exceed
    what the server may hold.
    """
    limit = server.settings.body_limit
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > limit:
        raise TooLarge(f"a body has at most {limit} bytes")
    parts, size = [], 0
    try:
        try:
            async with asyncio.timeout(server.settings.body_patience):
                async for part in request.stream():
                    size += len(part)
                    server.held_bytes += len(part)
                    if size > limit:
                        raise TooLarge(f"a body has at most {limit} bytes")
                    if server.held_bytes > server.settings.bodies:
                        raise Unavailable(
                            "the server holds too many request bodies: try again", retry_after=1.0
                        )
                    parts.append(part)
        except TimeoutError:
            raise TooSlow(f"a body must arrive within {server.settings.body_patience:g} seconds") from None
        yield b"".join(parts)
    finally:
        server.held_bytes -= size


def _dispatcher(methods: dict[str, Endpoint]) -> Callable[[Request], Awaitable[Response]]:
    async def dispatch(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        server = cast(Server, request.app.state.server)
        start = time.perf_counter()
        who: Identity | None = None
        response: Response
        try:
            who = await server.identify(request.headers.get("authorization"))
            _require(who, endpoint.scope)
            response = await _answer(endpoint, server, request, who)
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as failure:
            response = refusal(failure)
            if response.status_code >= 500 and problem(failure)[1]["code"] == "internal":
                logger.exception("a request could not be handled")
            server.metrics.refused.labels(problem(failure)[1]["code"]).inc()
        server.metrics.requests.labels(endpoint.path, request.method, response.status_code).inc()
        logger.info(
            "request",
            extra={
                "method": request.method,
                "route": endpoint.path,
                "status": response.status_code,
                "ms": round(1000 * (time.perf_counter() - start), 2),
                "tenant": who.tenant.name if who else None,
                "key": who.key if who else None,
            },
        )
        return response

    return dispatch


async def _answer(endpoint: Endpoint, server: Server, request: Request, who: Identity) -> Response:
    call = Call(server, request, who)
    if endpoint.query is not None:
        call.query = _query(endpoint.query, request)
    if endpoint.model is not None or endpoint.forms:
        content = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        allowed = endpoint.forms or ("application/json",)
        if content not in allowed:
            raise Unsupported(f"send a body of type {' or '.join(allowed)}")
        call.form = FORMS[content]
        async with body_of(request, server) as call.body:
            if endpoint.model is not None and call.form == "json":
                call.given = await _checked(endpoint.model, call.body)
            return _response(endpoint, await endpoint.handler(call))
    return _response(endpoint, await endpoint.handler(call))


async def _checked(model: type[BaseModel], body: bytes) -> BaseModel:
    """Validate a body. A long one is parsed in a thread, to keep the event loop free."""
    if len(body) <= SHORT:
        return model.model_validate(read_json(body))
    return await asyncio.to_thread(lambda: model.model_validate(read_json(body)))


def _response(endpoint: Endpoint, result: Any) -> Response:
    if isinstance(result, Response):
        return result
    if result is None:
        return Response(status_code=204)
    text = json.dumps(result, ensure_ascii=False, allow_nan=False)
    return Response(text, endpoint.status, media_type=endpoint.answer)


def _query(model: type[BaseModel], request: Request) -> BaseModel:
    items = request.query_params.multi_items()
    if len({name for name, _ in items}) < len(items):
        raise BadRequest("a query parameter is given twice")
    try:
        return model.model_validate_strings(dict(items))
    except ValidationError as failure:
        raise BadRequest(problem(failure)[1]["message"]) from None


def _require(who: Identity, scope: str) -> None:
    if scope == "any":
        return
    if scope == "operator":
        require(who, "admin")
        if who.tenant.name != OPERATOR:
            raise Forbidden("this is for admins of the operator's tenant")
        return
    require(who, scope)
