"""A sketch of a subscription space, for a page to draw: a point a subscription, a tile a message.

Changes and messages are two ways to tell of the same rows, and the engine tells one of them. So a sketch has
a small engine of its own, with the key and two columns of one table, which is told of every batch while
somebody looks.
"""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa

from tocsin.engine.catalog import Declaration
from tocsin.engine.engine import Engine
from tocsin.engine.text import value_of
from tocsin.gateway.failures import BadRequest
from tocsin.gateway.statements import Checked
from tocsin.language import Operand, Parameter, TopK

logger = logging.getLogger(__name__)

#: Batches after which a sketch that nobody looked at is dropped.
PATIENCE = 500

#: Tiles that are drawn at most.
TILES = 400


class Sketch:
    """What the last batch meant to one space: top-k lists of a table, each over a range of one column."""

    def __init__(self, engine: Engine, declaration: Declaration, checked: Checked) -> None:
        made = checked.plan
        if not isinstance(made, TopK) or len(made.box) != 1 or checked.is_confined:
            raise BadRequest("top-k lists over a range of one column of a table can be drawn")
        (self._dimension,) = made.box
        #: the table
        self.source = declaration.name
        self._key = declaration.key
        self._space = Engine()
        self._space.declare(declaration)
        name = self._name(engine, made)
        rows = engine.snapshot(declaration.name, name)
        self._fill(declaration, rows, made.score.columns[0])
        self._space.create_space(checked.kept)
        #: the messages of the last batch that had any
        self.tiles: list[dict[str, Any]] = []
        self.idle = 0

    @property
    def column(self) -> str:
        """The column of the range."""
        return self._dimension.column

    def interval(self, params: dict[str, Any]) -> tuple[float | None, float | None]:
        """The range of a subscription; None where it is open."""
        lows = [_value(bound.operand, params) for bound in self._dimension.lows]
        highs = [_value(bound.operand, params) for bound in self._dimension.highs]
        return max(lows, default=None), min(highs, default=None)

    def follow(self, rows: Any) -> None:
        """Rows have been published. Cost: that of telling them in messages."""
        self.idle += 1
        told = self._space.messages(self.source, rows, others="ignore")
        if told.num_rows:
            names = ["inner_lo", "inner_hi", "outer_lo", "outer_hi", "key", "gone"]
            self.tiles = [_tile(each) for each in told.select(names).slice(0, TILES).to_pylist()]

    def _name(self, engine: Engine, made: TopK) -> str:
        """The space in the engine that a plan's subscriptions are in."""
        spaces = engine.spaces(made.source)
        column, order = self._dimension.column, made.score.columns[0]
        for each in spaces:
            is_same = each["kind"] == "top-k" and each["descending"] == made.descending
            if is_same and each["k"] == made.limit and column in each["space"] and order in each["space"]:
                return str(each["space"])
        raise BadRequest("this space cannot be drawn: its lists have no common length")

    def _fill(self, declaration: Declaration, rows: pa.Table, order: str) -> None:
        assert declaration.columns is not None
        ordered = rows.sort_by("born")
        schema = declaration.build().schema
        assert schema.columns is not None
        keys = value_of(ordered.column("key").combine_chunks(), schema.columns[str(self._key)].arrow)
        x = pa.array([each[0] for each in ordered.column("x").to_pylist()], pa.float64())
        filled = {str(self._key): keys, self._dimension.column: x, order: ordered.column("y")}
        self._space.publish(declaration.name, pa.table(filled))


def try_follow(sketch: Sketch, rows: Any) -> bool:
    """Whether a sketch goes on after a batch: one that nobody looks at, or that fails, does not."""
    try:
        sketch.follow(rows)
    except Exception:
        # A drawing is no reason to refuse rows.
        logger.exception("a sketch could not follow")
        return False
    return sketch.idle <= PATIENCE


def _value(operand: Operand, params: dict[str, Any]) -> float:
    value = params.get(operand.name) if isinstance(operand, Parameter) else operand
    return float(value) if isinstance(value, int | float) else 0.0


def _tile(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a rectangle of ranges: `lo` from the one to the other, `hi` likewise."""
    bounds = {name: _first(message[name]) for name in ("outer_lo", "inner_lo", "inner_hi", "outer_hi")}
    return {**bounds, "key": message["key"], "gone": message["gone"]}


def _first(bound: list[float | None] | None) -> float | None:
    return bound[0] if bound else None
