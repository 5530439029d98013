"""Pictures of messages: a rectangle for each, where it says."""

from __future__ import annotations

from pathlib import Path

import pytest

import tocsin
from tocsin.engine import plots

pytest.importorskip("matplotlib")

SQL = "SELECT k, y FROM t WHERE x BETWEEN :lo AND :hi ORDER BY y LIMIT 2"


def test_an_update_is_drawn(tmp_path: Path) -> None:
    engine = tocsin.Engine()
    engine.create_table("t", key="k", columns={"k": "string", "x": "double", "y": "double"})
    space = engine.create_space(SQL)
    engine.publish("t", [{"k": f"r{i}", "x": float(i), "y": float(i * 7 % 5)} for i in range(8)])
    messages = engine.messages("t", [{"k": "r3", "x": 3.0, "y": 9.0}])
    rows = engine.snapshot("t", space)
    figure = plots.plot_update(rows, messages, [(0.5, 4.5), (5.0, 2.0)], title="r3 gets worse")
    event_space, subscription_space = figure.axes
    assert len(event_space.lines) == rows.num_rows
    assert len(subscription_space.patches) == messages.num_rows > 1
    low, high = plots.limits_of(rows)
    for patch in subscription_space.patches:
        left, bottom, right, top = (
            patch.get_extents().transformed(subscription_space.transData.inverted()).extents
        )
        assert low - 1e-6 <= left < right <= bottom + 1e-6 < top <= high + 1e-6
    figure.savefig(tmp_path / "update.png")
    assert (tmp_path / "update.png").stat().st_size > 1000


def test_nothing_is_drawn_of_nothing() -> None:
    figure = plots.plot_update([], [])
    assert not figure.axes[1].patches
