"""The workload: a table whose rows change, and ranges that each hold a short list of it; and its oracle."""

from __future__ import annotations

from typing import Any

import numpy as np

#: An update changes the lists that had the row, and those that get it: about 2 · k · ranges / rows of them.
SQL = "SELECT symbol, price FROM quotes WHERE place BETWEEN :lo AND :hi ORDER BY price LIMIT 5"
K = 5
WIDTH = 0.02


class Market:
    """Rows with a fixed place and a price that changes. The oracle looks at all of them."""

    def __init__(self, rows: int, ranges: int, seed: int = 7) -> None:
        self._random = np.random.default_rng(seed)
        self.place = self._random.uniform(0, 1, rows)
        self.price = np.round(self._random.uniform(0, 100, rows), 2)
        self.lo = self._random.uniform(0, 1 - WIDTH, ranges)
        self.hi = self.lo + WIDTH
        self.names = [f"c{number}" for number in range(ranges)]

    def params(self) -> dict[str, Any]:
        return {"id": self.names, "lo": self.lo, "hi": self.hi}

    def everything(self) -> list[dict[str, Any]]:
        """All rows."""
        return [self._row(number) for number in range(len(self.place))]

    def change(self, count: int) -> list[dict[str, Any]]:
        """New prices for some rows."""
        chosen = self._random.choice(len(self.place), count, replace=False)
        self.price[chosen] = np.round(self._random.uniform(0, 100, count), 2)
        return [self._row(int(number)) for number in chosen]

    def top(self, number: int) -> list[tuple[str, float]]:
        """What a range holds now: equal prices in the order of insertion."""
        inside = np.flatnonzero((self.place >= self.lo[number]) & (self.place <= self.hi[number]))
        best = inside[np.argsort(self.price[inside], kind="stable")[:K]]
        return [(f"r{row}", float(self.price[row])) for row in best]

    def _row(self, number: int) -> dict[str, Any]:
        return {
            "symbol": f"r{number}",
            "place": float(self.place[number]),
            "price": float(self.price[number]),
        }
