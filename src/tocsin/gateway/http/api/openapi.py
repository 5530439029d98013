"""The OpenAPI description, generated from the endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from tocsin import __version__
from tocsin.gateway.http.api import schemas
from tocsin.gateway.http.api.endpoints import Endpoint
from tocsin.gateway.http.models import ID, NAME

_REFUSALS = {
    "400": "The request is invalid; the error says where.",
    "401": "There is no valid key.",
    "403": "The key does not allow this.",
    "404": "It does not exist, or is not yours.",
    "408": "The body did not come in time.",
    "409": "It exists already, or belongs to the job that feeds this gateway.",
    "410": "The cursor is too old: take a new snapshot.",
    "413": "The body is too large.",
    "415": "The content type of the body is not supported.",
    "422": "The Idempotency-Key was used for a different request.",
    "429": "A quota is used up; Retry-After says when to retry.",
    "503": "The server is starting, stopping, or cannot write its log.",
}


def describe(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    paths: dict[str, dict[str, Any]] = {}
    models: dict[str, Any] = {"Error": schemas.ERROR}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, models)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tocsin gateway",
            "version": __version__,
            "description": "Register standing queries, publish rows, and receive what changes.",
        },
        "paths": paths,
        "components": {
            "schemas": models,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(endpoint: Endpoint, models: dict[str, Any]) -> dict[str, Any]:
    words = [word for word in re.split(r"[/{}]+", endpoint.path) if word and word != "v1"]
    operation: dict[str, Any] = {
        "operationId": "-".join([endpoint.method.lower(), *words]),
        "summary": endpoint.summary,
        "description": f"Needs a key for: {endpoint.scope}.",
        "parameters": _parameters(endpoint),
        "responses": _responses(endpoint),
    }
    content = {}
    if endpoint.model is not None:
        content["application/json"] = {"schema": _reference(endpoint.model, models)}
    for form in endpoint.forms:
        content.setdefault(form, {"schema": _body(form)})
    if content:
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _body(form: str) -> dict[str, Any]:
    rows = {"type": "array", "items": {"type": "object"}}
    if form == "application/json":
        return {"oneOf": [rows, {"type": "object", "required": ["rows"], "properties": {"rows": rows}}]}
    return {"type": "string", "format": "binary"}


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": ID if name == "id" else NAME},
        }
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    if endpoint.query is not None:
        for name, schema in endpoint.query.model_json_schema()["properties"].items():
            parameters.append({"name": name, "in": "query", "schema": _without_null(schema)})
    return parameters


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without null: a query parameter is omitted, never null."""
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return kinds[0] if kinds else {name: value for name, value in schema.items() if name != "title"}


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    responses: dict[str, Any] = {
        status: {"description": text, "content": refused} for status, text in _REFUSALS.items()
    }
    good: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.status != 204:
        good["content"] = {endpoint.answer: {"schema": endpoint.schema} if endpoint.schema else {}}
    responses[str(endpoint.status)] = good
    return responses


def _reference(model: type[BaseModel], models: dict[str, Any]) -> dict[str, str]:
    name = model.__name__
    if name not in models:
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        models.update(schema.pop("$defs", {}))
        models[name] = schema
    return {"$ref": f"#/components/schemas/{name}"}
