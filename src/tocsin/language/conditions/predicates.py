"""WHERE as predicates over events: the conditions of matching."""

from __future__ import annotations

from tocsin.language.conditions.boxes import typed_operand
from tocsin.language.expressions import Column, Constant, Parameter
from tocsin.language.parsing.statement import Condition, Distance
from tocsin.language.plans import Operand, Predicate
from tocsin.language.scopes import Scope
from tocsin.types import ColumnType

#: The types of attributes that are computed.
_NUMBER = ColumnType.parse("double", column="")
TRUTH = ColumnType.parse("boolean", column="")

_TRUTH_ONLY = "TRUE and FALSE are compared with = and <> only"


def predicate(scope: Scope, condition: Condition) -> Predicate:
    """One condition on one attribute."""
    if not isinstance(condition.subject, Column):
        is_disk = isinstance(condition.subject, Distance)
        what = "DISTANCE" if is_disk else "arithmetic with :parameters"
        hint = "Write the parameters on the other side: price * shares > :v."
        if is_disk:
            hint = "Disks are supported over tables: ORDER BY a column LIMIT k, MIN to AVG, DISTINCT."
        scope.refuse(condition.subject.span, f"{what} is not supported in matching", hint)
    resolved = scope.resolve(condition.subject)
    operands = tuple(
        typed_operand(scope, each, resolved.type, str(condition.subject)) for each in condition.operands
    )
    _check_truth(scope, condition, operands, resolved.type is not None and resolved.type.is_boolean)
    if condition.operator == "BETWEEN" and len({_kind(each) for each in operands} - {None}) > 1:
        hint = "Both ends of BETWEEN are numbers, or both are strings."
        scope.refuse(condition.span, "the ends of this range are of different types", hint)
    return Predicate(resolved.name, resolved.type, condition.operator, operands, _weight(condition))


def computed_predicate(scope: Scope, condition: Condition) -> Predicate:
    """A condition on arithmetic over columns, which is an attribute of its own."""
    assert not isinstance(condition.subject, Distance)
    subject = scope.plain(condition.subject, "match events")
    operands = tuple(
        typed_operand(scope, each, _NUMBER, str(condition.subject)) for each in condition.operands
    )
    return Predicate(str(subject), _NUMBER, condition.operator, operands, _weight(condition), subject)


def _check_truth(scope: Scope, condition: Condition, operands: tuple[Operand, ...], declared: bool) -> None:
    if (declared or any(isinstance(each, bool) for each in operands)) and condition.operator not in (
        "=",
        "<>",
    ):
        scope.refuse(condition.span, _TRUTH_ONLY, f"Write {condition.subject} = TRUE.")


def _kind(operand: Operand) -> str | None:
    if isinstance(operand, Parameter):
        return None
    return "string" if isinstance(operand, str) else "number"


def _weight(condition: Condition) -> Operand:
    match condition.weight:
        case Parameter():
            return condition.weight
        case Constant(value):
            return value
        case _:
            return 1.0
