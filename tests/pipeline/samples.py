"""A small job and its input, for tests of the pipeline without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.pipeline.blobs import PARAMETERS, POSITION, ROWS, Blob, pack
from tocsin.pipeline.job.jobs import Job
from tocsin.pipeline.shard import Output
from tocsin.pipeline.sharding import shards_of

THRESHOLD = "SELECT SUM(shares) FROM trades WHERE price BETWEEN :lo AND :hi HAVING SUM(shares) >= :tau"

JOB: dict[str, Any] = {
    "job": {"name": "test", "checkpoint": "unused", "shards": 2},
    "tables": {
        "stocks": {
            "path": "unused",
            "key": "symbol",
            "columns": {"symbol": "string", "risk": "double", "per": "double"},
        }
    },
    "streams": {
        "trades": {
            "path": "unused",
            "columns": {"price": "double", "shares": "bigint", "at": "timestamp"},
            "order_by": "at",
        }
    },
    "subscriptions": [
        {"sql": THRESHOLD, "params": "unused"},
        {"sql": "SELECT symbol, per FROM stocks WHERE risk < 50 ORDER BY per LIMIT 3", "id": "cheap"},
        {"sql": "SELECT COUNT(*) FROM stocks WHERE risk >= 50", "id": "risky"},
    ],
    "sink": {"path": "unused", "rows": True},
}


def job(**changes: Any) -> Job:
    """The sample job, with sections replaced."""
    return Job.of({**JOB, **changes})


def trades(path: str, prices: list[float], shares: list[int], at: list[int]) -> Blob:
    """A file of trades."""
    return Blob(
        ROWS,
        "trades",
        path,
        pa.table(
            {
                "price": pa.array(prices, pa.float64()),
                "shares": pa.array(shares, pa.int64()),
                "at": pa.array(at, pa.timestamp("us", tz="UTC")),
                POSITION: np.arange(len(prices)),
            }
        ),
    )


def stocks(path: str, rows: dict[str, tuple[float, float]]) -> Blob:
    """A file of stocks: risk and per by symbol."""
    return Blob(
        ROWS,
        "stocks",
        path,
        pa.table(
            {
                "symbol": pa.array(list(rows), pa.string()),
                "risk": pa.array([risk for risk, _ in rows.values()], pa.float64()),
                "per": pa.array([per for _, per in rows.values()], pa.float64()),
                POSITION: np.arange(len(rows)),
            }
        ),
    )


def thresholds(path: str, rows: list[dict[str, Any]], shard: int, shards: int) -> Blob:
    """A file of parameters, as one shard gets it."""
    table = pa.Table.from_pylist(rows).append_column(POSITION, pa.array(np.arange(len(rows))))
    mine = shards_of(table.column("id").combine_chunks(), shards) == shard
    return Blob(PARAMETERS, "0", path, table.filter(pa.array(mine)))


def packed(blobs: Iterable[Blob]) -> list[bytes]:
    """Blobs as the operator hands them over."""
    return sorted(pack(blob) for blob in blobs)


def emitted(outputs: Iterable[Output]) -> list[tuple[str, tuple[Any, ...]]]:
    """Outputs as plain rows, in order."""
    return [(output.kind, tuple(row.values())) for output in outputs for row in output.table.to_pylist()]
