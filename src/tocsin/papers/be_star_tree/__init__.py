"""Boolean expressions by BE*-Tree, and its competitors BE-Tree, k-index and counting.

Mohammad Sadoghi, Hans-Arno Jacobsen: "Relevance Matters: Capitalizing on Less. Top-k Matching in
Publish/Subscribe", ICDE 2012. The engine's own index is `tocsin.indexes.matching`. See
`docs/papers/be-star-tree.md`.
"""

from tocsin.papers.be_star_tree.betree import BEStarTree, BETree, TreeOptions
from tocsin.papers.be_star_tree.kindex import CountingIndex, KIndex

__all__ = ["BEStarTree", "BETree", "CountingIndex", "KIndex", "TreeOptions"]
