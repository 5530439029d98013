"""Boolean expressions over events: which conjunctions does an event satisfy, and which score best?"""

from tocsin.indexes.matching.access.index import AccessIndex
from tocsin.indexes.matching.conjunctions import Conjunctions, PredicateColumns
from tocsin.indexes.matching.events import (
    Events,
    SeveralValues,
    events_from_columns,
    events_from_rows,
    row_of,
)
from tocsin.indexes.matching.examine import examine, verdict
from tocsin.indexes.matching.index import EventMatcher, MatchIndex
from tocsin.indexes.matching.layout import SCORES, IdOrder
from tocsin.indexes.matching.scan.index import MatchScan
from tocsin.indexes.matching.sets import EventSets, sets_from_rows
from tocsin.indexes.matching.triplets import conjunctions_from_triplets

__all__ = [
    "SCORES",
    "AccessIndex",
    "Conjunctions",
    "EventMatcher",
    "EventSets",
    "Events",
    "IdOrder",
    "MatchIndex",
    "MatchScan",
    "PredicateColumns",
    "SeveralValues",
    "conjunctions_from_triplets",
    "events_from_columns",
    "events_from_rows",
    "examine",
    "row_of",
    "sets_from_rows",
    "verdict",
]
