"""The picture of the page on ranges.

`python -m benchmarks.range_parts.pictures docs/design/indexes/ranges-tiles.png`
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin
from tocsin.engine.plots import draw_rectangles, draw_rows, limits_of, new_figure

SQL = "SELECT k, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 2"


def world() -> tuple[tocsin.Engine, str, np.ndarray]:
    """Thirty rows, and two hundred subscriptions, most of them short."""
    random = np.random.default_rng(12)
    engine = tocsin.Engine()
    engine.create_table("t", key="k", columns={"k": "string", "x": "double", "y": "double"})
    space = engine.create_space(SQL)
    x, y = np.sort(random.uniform(0, 100, 30)), random.uniform(10, 100, 30)
    y[15] = 5.0
    engine.publish("t", pa.table({"k": [f"r{i}" for i in range(30)], "x": x, "y": y}))
    lo = random.uniform(0, 90, 200)
    ranges = np.stack([lo, np.minimum(lo + random.exponential(25, 200), 100)], axis=1)
    engine.subscribe_many(SQL, {"lo": ranges[:, 0], "hi": ranges[:, 1]})
    return engine, space, ranges


def main() -> None:
    """One row gets worse: the rows, the rectangles of Paint-Dense, and those of Paint-Sparse."""
    figure = new_figure(3)
    told: dict[str, Any] = {}
    for algorithm in ("dense", "sparse"):
        engine, space, ranges = world()
        row = next(row for row in engine.snapshot("t", space).to_pylist() if row["key"] == "r15")
        worse = [{"k": "r15", "x": row["x"][0], "y": 60.0}]
        told[algorithm] = engine.messages("t", worse, algorithm=algorithm)
    rows = engine.snapshot("t", space)
    draw_rows(figure.axes[0], rows, told["dense"])
    figure.axes[0].annotate(
        "", (row["x"][0], 59), (row["x"][0], 5), arrowprops={"arrowstyle": "->", "color": "0.4"}
    )
    for axes, (algorithm, messages) in zip(figure.axes[1:], told.items(), strict=True):
        title = f"subscription space: Paint-{algorithm.capitalize()}, {messages.num_rows} messages"
        draw_rectangles(axes, messages, map(tuple, ranges.tolist()), limits=limits_of(rows), title=title)
    figure.savefig(sys.argv[1], dpi=90)


if __name__ == "__main__":
    main()
