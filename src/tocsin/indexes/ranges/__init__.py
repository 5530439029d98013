"""Standing queries over the rows of tables: range top-k, aggregates, DISTINCT and the select-join."""

from tocsin.indexes.ranges.aggregates.box_totals import BoxTotals
from tocsin.indexes.ranges.aggregates.range_totals import RangeTotals
from tocsin.indexes.ranges.distinct.index import RangeDistinct
from tocsin.indexes.ranges.joins.index import RangeJoin
from tocsin.indexes.ranges.steps.bounds import count_saved
from tocsin.indexes.ranges.steps.rows import in_units
from tocsin.indexes.ranges.topk.tiles import MinMaxTiles, TopKTiles
from tocsin.indexes.ranges.topk.trees import MinMaxBoxTree, TopKBoxTree

__all__ = [
    "BoxTotals",
    "MinMaxBoxTree",
    "MinMaxTiles",
    "RangeDistinct",
    "RangeJoin",
    "RangeTotals",
    "TopKBoxTree",
    "TopKTiles",
    "count_saved",
    "in_units",
]
