"""Several threads at one engine: one works, the others wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tocsin import Engine


def test_threads_take_turns() -> None:
    engine = Engine()
    engine.create_table("t", key="k", columns={"k": "bigint", "x": "double"})
    top = engine.subscribe("SELECT k FROM t ORDER BY x DESC LIMIT 5")
    count = engine.subscribe("SELECT COUNT(*) FROM t WHERE x >= 0")

    def publish(first: int) -> None:
        for begin in range(0, 2_000, 20):
            keys = first + 3 * np.arange(begin, begin + 20)
            engine.publish("t", {"k": keys, "x": keys.astype(np.float64)})

    def read() -> list[int]:
        seen = []
        for _ in range(200):
            engine.result(top)
            sid = engine.subscribe("SELECT MAX(x) FROM t WHERE x < 100")
            seen += engine.result(count).column(0).to_pylist()
            engine.unsubscribe(sid)
        return seen

    with ThreadPoolExecutor(4) as pool:
        writers = [pool.submit(publish, first) for first in range(3)]
        seen = pool.submit(read).result()
        for writer in writers:
            writer.result()
    assert seen == sorted(seen)
    # A batch is seen as a whole.
    assert all(rows % 20 == 0 for rows in seen)
    assert engine.result(count).to_pydict() == {"COUNT(*)": [6_000]}
    assert engine.result(top).column(0).to_pylist() == [5_999, 5_998, 5_997, 5_996, 5_995]
