"""Range thresholds over streams: when does the weight inside a box reach tau?"""

from tocsin.indexes.thresholds.adaptive import AdaptiveThresholds
from tocsin.indexes.thresholds.lazy import LazyThresholds
from tocsin.indexes.thresholds.scan import ThresholdScan

__all__ = ["AdaptiveThresholds", "LazyThresholds", "ThresholdScan"]
