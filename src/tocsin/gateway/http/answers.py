"""JSON bodies of responses: subscriptions, sources and errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from tocsin import errors
from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.catalog import Subscription
from tocsin.gateway.failures import GatewayError

#: The message of an error that is none of the library's: what it says may be of other tenants.
INTERNAL = "internal server error: the server's log has the reason"

#: Status and code of the library's errors, subclasses first.
STATUSES: tuple[tuple[type[errors.Error], int, str], ...] = (
    (errors.SQLError, 400, "sql-error"),
    (errors.UnknownSource, 404, "not-found"),
    (errors.UnknownSubscription, 404, "not-found"),
    (errors.DuplicateSource, 409, "conflict"),
    (errors.DuplicateSubscription, 409, "conflict"),
    (errors.DeclarationError, 400, "bad-declaration"),
    (errors.ParameterError, 400, "bad-parameter"),
    (errors.IndexRefused, 400, "index-refused"),
    (errors.RowError, 400, "bad-rows"),
)


def problem(failure: Exception) -> tuple[int, dict[str, Any], float | None]:
    """Status, JSON body and Retry-After seconds of an error."""
    if isinstance(failure, GatewayError):
        return failure.status, {"code": failure.code, "message": str(failure)}, failure.retry_after
    if isinstance(failure, ValidationError):
        return 400, {"code": "bad-request", "message": _first(failure)}, None
    for kind, status, code in STATUSES:
        if isinstance(failure, kind):
            return status, {"code": code, "message": _plain(failure), **_place(failure)}, None
    return 500, {"code": "internal", "message": INTERNAL}, None


def describe(name: str, subscription: Subscription) -> dict[str, Any]:
    """A subscription as JSON."""
    template = subscription.template
    return {
        "id": name,
        "sql": template.sql,
        "params": {key: _finite(value) for key, value in subscription.params.items()},
        "kind": template.kind,
        "repeat": template.repeat,
        "policy": template.policy,
        "throttle": template.throttle,
        "temporary": template.temporary,
        "state": "matured" if subscription.is_matured else "live",
    }


def describe_source(declaration: Declaration) -> dict[str, Any]:
    """A table or stream as JSON, without what was not declared."""
    return {name: value for name, value in declaration.as_dict().items() if value is not None}


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(failure: Exception) -> str:
    return failure.message if isinstance(failure, errors.SQLError) else str(failure)


def _place(failure: Exception) -> Mapping[str, Any]:
    """The position of an error in the statement, for a page to underline."""
    if not isinstance(failure, errors.SQLError):
        return {}
    return {
        "line": failure.line,
        "column": failure.column,
        "start": failure.start,
        "end": failure.end,
        "hint": failure.hint,
    }


def _first(failure: ValidationError) -> str:
    """The first validation error of a request, without repeating its input."""
    first = failure.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])
