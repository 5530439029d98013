"""SQL text → statement → logical plan → bound values."""

from tocsin.language.binding import BoundPredicate, bind, bind_match, bind_texts, scale
from tocsin.language.expressions import (
    Binary,
    Call,
    Column,
    Constant,
    Expression,
    Negate,
    Parameter,
    Theta,
    lift,
)
from tocsin.language.logical_plan import plan
from tocsin.language.parsing.parser import parse
from tocsin.language.parsing.statement import Statement
from tocsin.language.plan_keys import parameters, plan_key
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
    "bind_texts",
    "lift",
    "parameters",
    "parse",
    "plan",
    "plan_key",
    "scale",
]
