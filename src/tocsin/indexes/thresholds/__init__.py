"""Range thresholds over streams: when does the weight inside a box reach tau?"""

from tocsin.indexes.thresholds.deferred.index import DeferredThresholds
from tocsin.indexes.thresholds.scan.index import ThresholdScan, count_saved

__all__ = ["DeferredThresholds", "ThresholdScan", "count_saved"]
