"""Standing queries over the rows of tables: range top-k, aggregates, DISTINCT and the select-join."""

from tocsin.indexes.ranges.aggregates import RangeAggregate
from tocsin.indexes.ranges.changes_switch import ExtremeRange, TopKRange
from tocsin.indexes.ranges.changes_topk import RangeExtreme, RangeTopK
from tocsin.indexes.ranges.distinct import RangeDistinct
from tocsin.indexes.ranges.joins import RangeJoin
from tocsin.indexes.ranges.ranked import TopKScan

__all__ = [
    "ExtremeRange",
    "RangeAggregate",
    "RangeDistinct",
    "RangeExtreme",
    "RangeJoin",
    "RangeTopK",
    "TopKRange",
    "TopKScan",
]
