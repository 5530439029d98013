"""The tables and streams that the language's tests speak of."""

from __future__ import annotations

from tocsin.language import Plan, SourceSchema, parse, plan
from tocsin.types import ColumnType


def columns(**types: str) -> dict[str, ColumnType]:
    return {name: ColumnType.parse(text.replace("_", ","), column=name) for name, text in types.items()}


STOCKS = columns(
    symbol="string", risk="double", per="double", price="decimal(12_2)", active="boolean", at="timestamp"
)
OWNERS = columns(owner="string", symbol="string", shares="bigint", at="timestamp", risk="float")
TRADES = columns(
    price="double", shares="bigint", fee="decimal(10_2)", venue="string", open="boolean", at="timestamp"
)
FLOWS = columns(bytes="double", packets="double", host="string", at="timestamp") | {
    "my col": ColumnType.parse("double", column="my col")
}

CATALOG = {
    source.name: source
    for source in (
        SourceSchema("stocks", "table", STOCKS, "symbol", False),
        SourceSchema("owners", "table", OWNERS, "owner", False),
        SourceSchema("trades", "stream", TRADES, None, False),
        SourceSchema("flows", "stream", FLOWS, None, True),
        SourceSchema("visitors", "stream", None, None, False),
    )
}


def plan_of(sql: str) -> Plan:
    return plan(parse(sql), CATALOG)
