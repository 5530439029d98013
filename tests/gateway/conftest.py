"""A gateway that the tests of a module share, with a table and a stream of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.servers import STOCKS, Gateway, running


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with running(tmp_path_factory.mktemp("gateway"), linger=0.3, retained=16) as made:
        made.ok("POST", "/v1/tables", {"name": "stocks", "key": "symbol", "columns": STOCKS})
        columns = {"price": "double", "shares": "bigint", "owner": "int"}
        made.ok("POST", "/v1/streams", {"name": "trades", "columns": columns})
        made.ok("POST", "/v1/streams", {"name": "visitors"})
        flows = {"bytes": "double", "at": "timestamp", "owner": "int"}
        made.ok(
            "POST", "/v1/streams", {"name": "flows", "columns": flows, "window": "1 minute", "time": "at"}
        )
        yield made
