"""Boolean expressions over events: which conjunctions does an event satisfy, and which score best?"""

from tocsin.indexes.matching.access.index import AccessIndex
from tocsin.indexes.matching.conjunctions import Conjunctions, PredicateColumns, count_saved
from tocsin.indexes.matching.events import Events
from tocsin.indexes.matching.examine import examine, verdict
from tocsin.indexes.matching.index import EventMatcher
from tocsin.indexes.matching.layout import SCORES, IdOrder
from tocsin.indexes.matching.scan.index import MatchScan
from tocsin.indexes.matching.sets import EventSets

__all__ = [
    "SCORES",
    "AccessIndex",
    "Conjunctions",
    "EventMatcher",
    "EventSets",
    "Events",
    "IdOrder",
    "MatchScan",
    "PredicateColumns",
    "count_saved",
    "examine",
    "verdict",
]
