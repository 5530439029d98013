"""The threshold scan: every event is compared with every subscription.

Exact and without any structure: the baseline that an index must beat, and the right choice for a small set.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tocsin.arrays.changes import ChangeSet
from tocsin.arrays.columns import ensure_capacity
from tocsin.arrays.layout import check_layout, empty, grow
from tocsin.arrays.types import Arrays, Floats, Ints, Longs
from tocsin.indexes.thresholds.layout import LARGEST
from tocsin.indexes.thresholds.reports import MaturityReport, matured_changes, value_changes
from tocsin.indexes.thresholds.scan.scan_kernels import ThresholdColumns, count_events


class ThresholdScan:
    """Maintains `SUM(w) >= tau` over boxes of `dimensions` ranges, in whole multiples of 1 / `scale`.

    `register` takes `lo` and `hi`, float64 (n, dimensions), `tau`, int64 (n,), and `repeat`,
    bool (n,). A threshold matures at a row that it counts, so one of 0 or less matures at the first.
    After maturing, a repeating one starts again from 0 with the next row; others never fire again.
    """

    def __init__(self, dimensions: int, scale: int, capacity: int = 16) -> None:
        self._dimensions = dimensions
        self._scale = scale
        self._top = 0
        # A box of no dimensions is stored as one unbounded range, and its events are at 0.
        self._columns = empty(ThresholdColumns, axes=max(dimensions, 1), slots=capacity)
        self._is_there = np.zeros(capacity, np.bool_)
        self._report = MaturityReport(capacity)

    def register(self, slots: Ints, values: Mapping[str, np.ndarray]) -> None:
        """Add subscriptions; they count from the next event on. Cost: linear in their number."""
        if len(slots) == 0:
            return
        self._reserve(int(slots.max()) + 1)
        columns = self._columns
        columns.low[:, slots] = values["lo"].T if self._dimensions else -np.inf
        columns.high[:, slots] = values["hi"].T if self._dimensions else np.inf
        columns.tau[slots] = values["tau"]
        columns.reached[slots] = 0
        columns.is_repeating[slots] = values["repeat"]
        self._is_there[slots] = True

    def terminate(self, slots: Ints) -> None:
        """Remove subscriptions. Cost: linear in their number."""
        self._columns.low[:, slots] = np.inf
        self._columns.high[:, slots] = -np.inf
        self._columns.tau[slots] = 1
        self._columns.reached[slots] = 0
        self._is_there[slots] = False

    def apply(self, values: Floats, weights: Longs) -> ChangeSet:
        """Count a batch of events, values (events, dimensions); report maturities, each at its event.

        Cost: events x subscriptions x dimensions.
        """
        if self._dimensions == 0:
            values = np.zeros((len(weights), 1))
        positions = np.flatnonzero((weights > 0) & ~np.isnan(values).any(axis=1)).astype(np.int32)
        axes = np.ascontiguousarray(values[positions].T, np.float64)
        weights = weights[positions].astype(np.int64)
        self._report.rows.n_rows[0] = 0
        for begin, end in _split_at_overflow(weights):
            self._count(axes[:, begin:end].copy(), weights[begin:end], positions[begin:end])
        out = self._report.rows
        # Slots ascend within each part, and parts are in order of events: one stable sort suffices.
        order = np.argsort(out.step[: out.n_rows[0]], kind="stable")
        step = out.step[order]
        return matured_changes(out.subscription[order], out.reached[order], step, self._scale)

    def result(self, slots: Ints) -> ChangeSet:
        """The weight counted so far, as VALUE. Cost: linear in the number of slots."""
        return value_changes(slots, self._columns.reached[slots], self._scale)

    def progress(self, slots: Ints) -> tuple[Longs, Longs]:
        """Scaled weight reached, and missing to tau. Weight beyond int64 is shown as the largest int64."""
        reached, tau = self._columns.reached[slots], self._columns.tau[slots]
        return reached, np.maximum(tau, reached) - reached

    def arrays(self) -> Arrays:
        """The columns up to the largest slot ever used."""
        columns = {name: column[..., : self._top].copy() for name, column in self._columns._asdict().items()}
        return {**columns, "is_there": self._is_there[: self._top].copy()}

    def restore(self, arrays: Arrays) -> None:
        """Restore the state that `arrays` returned."""
        names = ThresholdColumns._fields
        self._columns = ThresholdColumns(*(np.array(arrays[name], order="C") for name in names))
        self._is_there = np.array(arrays["is_there"])
        self._top = len(self._is_there)

    def check_invariants(self) -> None:
        """Assert that all columns agree. For tests."""
        columns = self._columns
        check_layout(columns)
        assert columns.low.shape == (max(self._dimensions, 1), len(self._is_there))
        assert not self._is_there[self._top :].any()
        is_inactive = ((columns.low == np.inf) & (columns.high == -np.inf)).all(axis=0)
        assert is_inactive[~self._is_there].all()
        assert (columns.reached >= 0).all()
        assert ((columns.reached == 0) | (columns.reached < columns.tau) | is_inactive).all()

    def parameters(self, slot: int) -> dict[str, object]:
        """What a subscription was registered with; `tau` as it is scaled. Cost: constant."""
        columns = self._columns
        shown: dict[str, object] = {}
        if self._dimensions:
            shown |= {"lo": columns.low[:, slot].tolist(), "hi": columns.high[:, slot].tolist()}
        return shown | {
            "tau": int(columns.tau[slot]) / self._scale,
            "repeat": bool(columns.is_repeating[slot]),
        }

    def explain(self) -> str:
        """One line: how it works."""
        return (
            f"{int(self._is_there.sum())} boxes of {self._dimensions} ranges; "
            f"each event is compared with each box, weights in multiples of 1/{self._scale}"
        )

    def _count(self, axes: Floats, weights: Longs, positions: Ints) -> None:
        self._report.reserve(len(weights))
        self._report.fill(
            lambda begin, out: count_events(self._columns, begin, self._top, axes, weights, positions, out),
            self._top,
        )

    def _reserve(self, top: int) -> None:
        self._top = max(self._top, top)
        if top > len(self._is_there):
            self._columns = grow(self._columns, slots=top)
            self._is_there = ensure_capacity(self._is_there, top, False)


def _split_at_overflow(weights: Longs) -> Iterator[tuple[int, int]]:
    """Cut a batch of positive weights so that each part sums to an int64. Nearly always one part."""
    if weights.sum(dtype=np.float64) < LARGEST / 2:
        yield 0, len(weights)
        return
    begin, total = 0, 0
    for end, weight in enumerate(weights.tolist()):
        if total + weight > LARGEST:
            yield begin, end
            begin, total = end, 0
        total += weight
    yield begin, len(weights)


def count_saved(arrays: Arrays) -> int:
    """How many slots there are in saved arrays, free ones included."""
    return len(arrays["is_there"])
