"""The API against its own description, by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.gateway.servers import Gateway, running
from tocsin.gateway.api.openapi import describe
from tocsin.gateway.app import ENDPOINTS

#: A text that is no SQL, or a cursor that is none, is of the right type all the same, and refused.
NOT_CHECKED: list[CheckFunction] = [positive_data_acceptance]

#: An answer without an end.
ENDLESS = "/v1/subscriptions/{id}/changes"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("described"), linger=0.3) as gateway:
        columns = {"symbol": "string", "per": "double"}
        gateway.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": columns})
        yield gateway


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def as_it_is(context: Any, value: Any) -> bytes:
    """Bodies that have no schema: any text or bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


schema = schemathesis.openapi.from_dict(describe(ENDPOINTS)).exclude(path=ENDLESS)


@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_the_api_keeps_to_its_description(case: Any, described: Gateway) -> None:
    headers = described.headers()
    case.call_and_validate(base_url=described.url, headers=headers, excluded_checks=NOT_CHECKED, timeout=60)
