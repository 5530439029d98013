"""The API against its own description, by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig

from tests.gateway.servers import Gateway, running
from tocsin.gateway.http.api.openapi import describe
from tocsin.gateway.http.app import ENDPOINTS

#: Where 400 is an answer to what the description allows: a text that is no SQL, a condition that is none, an
#: unknown column type, rows of other columns than the table's, a cursor that is none; 403 is a tenant that
#: would change its name, 410 a cursor that is too old. Elsewhere what the description allows is accepted.
REFUSABLE = [
    "/v1/check",
    "/v1/subscriptions",
    "/v1/subscriptions/bulk",
    "/v1/subscriptions/{id}/changes",
    "/v1/subscriptions/{id}/space",
    "/v1/tables",
    "/v1/tables/{name}/rows",
    "/v1/tables/{name}/delete",
    "/v1/streams",
    "/v1/streams/{name}/rows",
    "/v1/streams/{name}/advance",
    "/v1/streams/{name}/try",
    "/v1/tenants",
    "/v1/tenants/{name}",
]
ACCEPTED = ["2xx", "404", "409", "429"]
CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {"positive_data_acceptance": {"expected-statuses": ACCEPTED}},
        "operations": [
            {
                "include-path": REFUSABLE,
                "checks": {
                    "positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "400", "403", "410"]}
                },
            }
        ],
    }
)

#: Seconds of an answer that has no end of its own.
LISTENING = 0.05


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("described"), linger=0.3) as gateway:
        columns = {"symbol": "string", "per": "double"}
        gateway.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": columns})
        gateway.ok("POST", "/v1/subscriptions", {"sql": "SELECT COUNT(*) FROM stocks", "id": "s"})
        yield gateway


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.arrow.stream")
def as_it_is(context: Any, value: Any) -> bytes:
    """Bodies that have no schema: any text or bytes."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


schema = schemathesis.openapi.from_dict(describe(ENDPOINTS), config=CONFIG)


@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck))
def test_the_api_keeps_to_its_description(case: Any, described: Gateway) -> None:
    if case.path.endswith("/changes"):
        shorten(case)
    response = case.call_and_validate(base_url=described.url, headers=described.headers(), timeout=60)
    assert response.status_code < 500


def shorten(case: Any) -> None:
    """Listen for a moment where the case would listen for long."""
    query = dict(case.query or {})
    given = query.get("seconds")
    # What is not there does not come either if it is null, or an empty list.
    is_long = given is None or given == []
    with suppress(TypeError, ValueError):
        is_long = is_long or 0 <= float(str(given)) <= 3600
    if is_long:
        case.query = {**query, "seconds": LISTENING}
        # Of a subscription that is there, if nothing else is wrong.
        if case.meta.generation.mode.is_positive:
            case.path_parameters = {**case.path_parameters, "id": "s"}
