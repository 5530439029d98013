"""The ASGI application: routes and middleware."""

from __future__ import annotations

from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin.gateway.http.api import admin, sources, subscriptions
from tocsin.gateway.http.api.endpoints import routes
from tocsin.gateway.http.api.operations import health, ready, with_description
from tocsin.gateway.http.server import Server
from tocsin.gateway.http.websocket import live

#: The page needs its own files and its own server, and nothing else may load.
GUARDS = [
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]

ENDPOINTS = with_description([*sources.ENDPOINTS, *subscriptions.ENDPOINTS, *admin.ENDPOINTS])


def create_app(server: Server) -> Starlette:
    """The application of a running server."""
    settings = server.settings
    middleware = [Middleware(Guarded)]
    if settings.origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.origins),
                allow_methods=["GET", "POST", "PUT", "DELETE"],
                allow_headers=[
                    "authorization",
                    "content-type",
                    "idempotency-key",
                    "last-event-id",
                    "tocsin-subscription",
                ],
            )
        )
    app = Starlette(
        routes=[
            Route("/", _page),
            Route("/health", health),
            Route("/ready", ready),
            WebSocketRoute("/v1/live", live),
            *routes(ENDPOINTS),
            Mount("/page", StaticFiles(directory=str(files("tocsin.gateway") / "page"))),
        ],
        middleware=middleware,
        exception_handlers={HTTPException: _http_error},
    )
    app.state.server = server
    return app


class Guarded:
    """Adds security headers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *GUARDS]
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)


async def _page(request: Request) -> Response:
    page = files("tocsin.gateway") / "page" / "index.html"
    return Response(page.read_bytes(), media_type="text/html")


async def _http_error(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    code = {404: "not-found", 405: "wrong-method"}.get(failure.status_code, "bad-request")
    error = {"error": {"code": code, "message": failure.detail}}
    return JSONResponse(error, failure.status_code, headers=failure.headers)
