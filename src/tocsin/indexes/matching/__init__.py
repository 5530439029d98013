"""Boolean expressions over events: which conjunctions does an event satisfy, and which best?"""

from tocsin.indexes.matching.events import Events, events_from_columns, events_from_rows
from tocsin.indexes.matching.predicates import PredicateColumns
from tocsin.indexes.matching.scan import MatchScan
from tocsin.indexes.matching.scan_kernels import IdOrder

__all__ = ["Events", "IdOrder", "MatchScan", "PredicateColumns", "events_from_columns", "events_from_rows"]
