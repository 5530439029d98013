"""One edge in a process of its own: `python -m benchmarks.network_parts.edge FOLDER NUMBER`.

FOLDER has `scene.json`. The edge writes `ready-NUMBER` when it has started, and when `done` is there and it
has read all, its answers as `answers-NUMBER.parquet`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.network_parts.scenes import ranges_of, warm_up
from tocsin.network.edges import Deliver, Edge
from tocsin.network.nats import NatsCarrier


def main(folder: Path, number: int) -> None:
    """Hold every n-th subscription, follow, and write what is held in the end."""
    scene: dict[str, Any] = json.loads((folder / "scene.json").read_text())
    lo, hi = ranges_of(scene["subscriptions"])
    edge = Edge(scene["space"], lo[number :: scene["edges"]], hi[number :: scene["edges"]])
    warm_up()
    delivered = np.zeros(1, np.int64)

    def deliver(delivery: Deliver) -> None:
        delivered[0] += len(delivery.numbers)

    def is_over() -> bool:
        # Asked for the first time when the edge has started.
        (folder / f"ready-{number}").touch()
        return (folder / "done").exists()

    async def follow() -> None:
        async with NatsCarrier(scene["servers"]) as carrier:
            await carrier.run(edge, deliver, until=is_over)

    asyncio.run(follow())
    ended = time.time()
    pq.write_table(edge.answers(), folder / f"answers-{number}.parquet")
    told = {"ended": ended, "delivered": int(delivered[0])}
    (folder / f"told-{number}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
