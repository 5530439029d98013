"""Top-k over sliding windows: TMA, SMA, and the baselines TSL and recomputing everything.

Kyriakos Mouratidis, Spiridon Bakiras, Dimitris Papadias: "Continuous Monitoring of Top-k Queries over Sliding
Windows", SIGMOD 2006. The engine's own index is `tocsin.indexes.preferences`. See
`docs/papers/sliding-windows.md`.
"""

from tocsin.papers.sliding_windows.baselines import MatrixRecompute, ThresholdSortedLists
from tocsin.papers.sliding_windows.scan import PreferenceScan
from tocsin.papers.sliding_windows.tma import SkybandMonitoring, TopKMonitoring

__all__ = ["MatrixRecompute", "PreferenceScan", "SkybandMonitoring", "ThresholdSortedLists", "TopKMonitoring"]
