"""Sketches of subscription spaces, for the page to draw: a point per subscription, a rectangle per message.

An engine emits either changes or messages for a batch of rows. So a sketch has a small engine of its own,
with the key and two columns of one table, and publishes every batch to it while it is in use.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from tocsin.engine.conversion.text import value_of
from tocsin.engine.engine import Engine
from tocsin.engine.sources.catalog import Declaration
from tocsin.gateway.core.catalog import Template
from tocsin.gateway.core.statements import Checked
from tocsin.gateway.failures import BadRequest
from tocsin.language import Operand, Parameter, TopK

logger = logging.getLogger(__name__)

#: Batches after which an unused sketch is dropped.
PATIENCE = 500

#: Rectangles drawn at most.
MAX_RECTANGLES = 400

#: Sketches maintained at most.
SKETCHES = 8


class Sketch:
    """The last batch's messages in one space: top-k lists of a table, each over a range of one column."""

    def __init__(self, engine: Engine, declaration: Declaration, checked: Checked) -> None:
        logical = checked.plan
        is_drawn = isinstance(logical, TopK) and [each.is_plain for each in logical.box] == [True]
        if not isinstance(logical, TopK) or not is_drawn or checked.is_confined:
            raise BadRequest("top-k lists over a range of one column of a table can be drawn")
        (self._dimension,) = logical.box
        #: the table
        self.source = declaration.name
        self._key = declaration.key
        self._space = Engine()
        self._space.declare(declaration)
        name = self._name(engine, logical)
        rows = engine.snapshot(declaration.name, name)
        self._fill(declaration, rows, logical.score.columns[0])
        self._space.create_space(checked.maintained_sql)
        #: rectangles of the last batch that caused messages
        self.rectangles: list[dict[str, Any]] = []
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

    def publish(self, rows: Any) -> None:
        """Publish rows to the sketch. Cost: that of one `Engine.messages`."""
        self.idle += 1
        messages = self._space.messages(self.source, rows, others="ignore")
        if messages.num_rows:
            names = ["inner_lo", "inner_hi", "outer_lo", "outer_hi", "key", "gone"]
            self.rectangles = [
                _rectangle(each) for each in messages.select(names).slice(0, MAX_RECTANGLES).to_pylist()
            ]

    def _name(self, engine: Engine, logical: TopK) -> str:
        """The engine's name for the space of a plan's subscriptions."""
        spaces = engine.spaces(logical.source)
        column, order = self._dimension.column, logical.score.columns[0]
        for each in spaces:
            is_same = each["kind"] == "top-k" and each["descending"] == logical.descending
            if is_same and each["k"] == logical.limit and column in each["space"] and order in each["space"]:
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


class Sketches:
    """The most recently used sketches, by template."""

    def __init__(self) -> None:
        #: least recently used first
        self._of_template: OrderedDict[Template, Sketch] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of_template)

    def look(self, template: Template, make: Callable[[], Sketch]) -> Sketch:
        """The sketch of a template's space, created on first use."""
        sketch = self._of_template.get(template)
        if sketch is None:
            sketch = self._of_template[template] = make()
            while len(self._of_template) > SKETCHES:
                self._of_template.popitem(last=False)
        self._of_template.move_to_end(template)
        sketch.idle = 0
        return sketch

    def publish(self, source: str, rows: Any) -> None:
        """Publish rows to the sketches of their table; drops those that fail or are unused."""
        for template, sketch in list(self._of_template.items()):
            if sketch.source == source and not _try_publish(sketch, rows):
                del self._of_template[template]


def _try_publish(sketch: Sketch, rows: Any) -> bool:
    """Publish a batch to a sketch; returns whether the sketch is still of use."""
    try:
        sketch.publish(rows)
    except Exception:
        # A failing drawing is no reason to refuse rows.
        logger.exception("a sketch could not apply a batch")
        return False
    return sketch.idle <= PATIENCE


def _value(operand: Operand, params: dict[str, Any]) -> float:
    value = params.get(operand.name) if isinstance(operand, Parameter) else operand
    return float(value) if isinstance(value, int | float) else 0.0


def _rectangle(message: dict[str, Any]) -> dict[str, Any]:
    """A message as a rectangle of ranges: an interval for `lo` and one for `hi`."""
    bounds = {name: _first(message[name]) for name in ("outer_lo", "inner_lo", "inner_hi", "outer_hi")}
    return {**bounds, "key": message["key"], "gone": message["gone"]}


def _first(bound: list[float | None] | None) -> float | None:
    return bound[0] if bound else None
