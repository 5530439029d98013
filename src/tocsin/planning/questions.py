"""Questions: what planning needs to know of a plan to choose and make its index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from tocsin.indexes.contract import DistinctIndex, Index, JoinIndex, MatchIndex, RowIndex, ThresholdIndex
from tocsin.kernels.programs import Program
from tocsin.language import (
    Aggregate,
    Column,
    Distinct,
    Join,
    Match,
    Plan,
    Rows,
    SourceSchema,
    Threshold,
    TopK,
    scale,
)
from tocsin.language.plan_keys import region_of
from tocsin.planning.programs import compile_score

#: Kinds of questions, as `Engine(indexes=…)` names them.
TOPK = "top-k"
PREFERENCES = "preferences"
ROWS = "rows"
AGGREGATES = "aggregates"
DISTINCT = "distinct"
JOINS = "joins"
THRESHOLDS = "thresholds"
MATCHING = "matching"
#: The folder of `indexes/` that answers questions of a kind.
FAMILIES = {
    TOPK: "ranges",
    PREFERENCES: "preferences",
    ROWS: "filters",
    AGGREGATES: "ranges",
    DISTINCT: "ranges",
    JOINS: "ranges",
    THRESHOLDS: "thresholds",
    MATCHING: "matching",
}
KINDS = tuple(FAMILIES)

TABLE, WINDOW, STREAM = "table", "window", "stream"

#: The protocol of the indexes that answer a question.
Answering = TypeVar("Answering", bound=Index)


@dataclass(frozen=True, slots=True)
class Question(Generic[Answering]):
    """A plan reduced to what the choice of its index depends on."""

    kind: str
    source: str
    #: ranges over columns; of a join, those of the left table
    dimensions: int = 0
    #: of a join, those of the right table
    other_dimensions: int = 0
    region: str | None = None
    descending: bool = False
    #: of an aggregate: min, max, count, sum or avg
    function: str = ""
    #: how a row is scored, if the index does it
    program: Program | None = None
    #: of a threshold: the factor of its scaled integers
    scale: int = 1
    #: of a match: how weights combine to a score
    score_rule: str = "sum"


def source_kind(schema: SourceSchema) -> str:
    """What planning calls a source."""
    return TABLE if schema.is_table else WINDOW if schema.windowed else STREAM


@overload
def question_of(plan: TopK | Rows | Aggregate, source: str) -> Question[RowIndex]: ...
@overload
def question_of(plan: Distinct, source: str) -> Question[DistinctIndex]: ...
@overload
def question_of(plan: Join, source: str) -> Question[JoinIndex]: ...
@overload
def question_of(plan: Threshold, source: str) -> Question[ThresholdIndex]: ...
@overload
def question_of(plan: Match, source: str, *, score_rule: str = "sum") -> Question[MatchIndex]: ...
def question_of(plan: Plan, source: str, *, score_rule: str = "sum") -> Question[Any]:
    """The plan's question over a source of this kind; `score_rule` is the stream's, for a match."""
    region = None if (named_region := region_of(plan)) is None else named_region.kind
    match plan:
        case TopK():
            is_column = isinstance(plan.score.expression, Column)
            return Question(
                TOPK if is_column and source == TABLE else PREFERENCES,
                source,
                len(plan.box),
                region=region,
                descending=plan.descending,
                program=compile_score(plan.score),
            )
        case Rows():
            program = compile_score(plan.score) if plan.score else None
            return Question(ROWS, source, len(plan.box), program=program)
        case Aggregate():
            return Question(
                AGGREGATES,
                source,
                len(plan.box),
                region=region,
                descending=plan.function == "max",
                function=plan.function,
            )
        case Distinct():
            return Question(DISTINCT, source, len(plan.box), region=region)
        case Join():
            return Question(JOINS, source, len(plan.left_box), len(plan.right_box))
        case Threshold():
            return Question(THRESHOLDS, source, len(plan.box), scale=scale(plan))
        case Match():
            return Question(MATCHING, source, score_rule=score_rule)
