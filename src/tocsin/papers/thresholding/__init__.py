"""Range thresholds by distributed tracking over endpoint trees, and the baselines of the paper.

Miao Qiao, Junhao Gan, Yufei Tao: "Range Thresholding on Streams", SIGMOD 2016. The engine's own index is
`tocsin.indexes.thresholds`. See `docs/papers/thresholding.md`.
"""

from tocsin.papers.thresholding.baselines import IntervalTree, RTree, SegmentIntervalTree
from tocsin.papers.thresholding.tracking import EndpointTrees

__all__ = ["EndpointTrees", "IntervalTree", "RTree", "SegmentIntervalTree"]
