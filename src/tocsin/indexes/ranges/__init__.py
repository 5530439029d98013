"""Standing queries over the rows of tables: range top-k, aggregates, DISTINCT and the select-join."""

from tocsin.indexes.ranges.aggregates import AggregateScan
from tocsin.indexes.ranges.changes_switch import ExtremeRange, TopKRange
from tocsin.indexes.ranges.changes_topk import RangeExtreme, RangeTopK
from tocsin.indexes.ranges.distinct import DistinctScan
from tocsin.indexes.ranges.joins import JoinScan
from tocsin.indexes.ranges.ranked import TopKScan

__all__ = [
    "AggregateScan",
    "DistinctScan",
    "ExtremeRange",
    "JoinScan",
    "RangeExtreme",
    "RangeTopK",
    "TopKRange",
    "TopKScan",
]
