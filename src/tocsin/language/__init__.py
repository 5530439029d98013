"""SQL text → statement → plan → bound values."""

from tocsin.language.binding import BoundPredicate, bind, bind_match, scale
from tocsin.language.expressions import (
    Binary,
    Call,
    Column,
    Constant,
    Expression,
    Negate,
    Parameter,
    Theta,
    evaluate,
    lift,
)
from tocsin.language.parser import parse
from tocsin.language.planner import plan
from tocsin.language.plans import (
    Aggregate,
    Bound,
    Dimension,
    Distinct,
    Join,
    Match,
    Operand,
    Plan,
    Predicate,
    Region,
    Rows,
    Score,
    Selected,
    Threshold,
    TopK,
)
from tocsin.language.schema import Catalog, SourceSchema
from tocsin.language.shapes import parameters, shape
from tocsin.language.statement import Statement

__all__ = [
    "Aggregate",
    "Binary",
    "Bound",
    "BoundPredicate",
    "Call",
    "Catalog",
    "Column",
    "Constant",
    "Dimension",
    "Distinct",
    "Expression",
    "Join",
    "Match",
    "Negate",
    "Operand",
    "Parameter",
    "Plan",
    "Predicate",
    "Region",
    "Rows",
    "Score",
    "Selected",
    "SourceSchema",
    "Statement",
    "Theta",
    "Threshold",
    "TopK",
    "bind",
    "bind_match",
    "evaluate",
    "lift",
    "parameters",
    "parse",
    "plan",
    "scale",
    "shape",
]
