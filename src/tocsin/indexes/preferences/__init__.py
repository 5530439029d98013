"""Top-k by any expression, over windows and tables; and long top-k lists."""

from tocsin.indexes.preferences.candidate_lists.index import CandidateLists
from tocsin.indexes.preferences.long_lists.index import LongLists

__all__ = ["CandidateLists", "LongLists"]
