"""WHERE and HAVING: sqlglot's nodes to conditions and aggregates."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from sqlglot import TokenType, exp

from tocsin.language.expressions import Column, Constant, Expression, Parameter, columns_of
from tocsin.language.parsing.filters import (
    And,
    Comparison,
    Filter,
    Identical,
    IsNull,
    IsTruth,
    Like,
    Not,
    Or,
)
from tocsin.language.parsing.sql_values import (
    ARITHMETIC_NODES,
    MAX_DEPTH,
    only,
    read_column,
    read_expression,
    read_value,
    unwrapped,
)
from tocsin.language.parsing.statement import (
    AggregateCall,
    BooleanLiteral,
    Condition,
    Distance,
    StringLiteral,
    TimestampLiteral,
    Value,
)
from tocsin.language.parsing.syntax import SyntaxTree

AGGREGATES = (exp.Min, exp.Max, exp.Count, exp.Sum, exp.Avg)

CONDITIONS = (
    "WHERE takes comparisons (x BETWEEN 1 AND 2, x < 3, name = 'a', x > y), IN, LIKE and IS NULL, "
    "joined by AND, OR and NOT."
)

DISTANCES = "Write DISTANCE(x, z, :a, :b) <= :r: two columns, the center of the disk, and its radius."

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.LT: "<",
    exp.LTE: "<=",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GTE: ">=",
    exp.GT: ">",
}
_FLIPPED = {"<": ">", "<=": ">=", "=": "=", "<>": "<>", ">=": "<=", ">": "<"}


def read_comparison(node: exp.Expr) -> tuple[exp.Expr, str, exp.Expr] | None:
    """Left side, operator, right side; None if it is not a comparison."""
    operator = _OPERATORS.get(type(node))
    return None if operator is None else (unwrapped(node.this), operator, unwrapped(node.args["expression"]))


def read_aggregate(tree: SyntaxTree, node: exp.Expr) -> AggregateCall:
    """MIN, MAX, COUNT, SUM or AVG of a column or arithmetic, or COUNT(*)."""
    function = node.key.upper()
    hint = f"{function} takes one column, or arithmetic over columns."
    if function == "COUNT":
        hint = "COUNT takes one column, arithmetic over columns, or *."
    only(tree, node, "this", "big_int", hint=hint)
    argument = unwrapped(node.this)
    if function == "COUNT" and isinstance(argument, exp.Star):
        only(tree, argument, hint=hint)
        return AggregateCall(function, None, tree.span(node))
    if not _is_expression(argument) or isinstance(argument.this, exp.Star):
        tree.refuse(tree.clause(argument), f"{function} of this is not supported", hint)
    subject = read_expression(tree, argument)
    if not columns_of(subject):
        tree.refuse(tree.clause(argument), f"{function} of this is not supported", hint)
    return AggregateCall(function, subject, tree.span(node))


def read_where(tree: SyntaxTree, node: exp.Expr) -> tuple[Filter, ...]:
    """The parts of a conjunction, in the order of the text."""
    return tuple(_filter(tree, part, 0) for part in _parts(node, exp.And))


def _parts(node: exp.Expr, connector: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of nested ANDs or ORs, in the order of the text. Not recursive: there may be thousands."""
    parts, stack = [], [node]
    while stack:
        part = unwrapped(stack.pop())
        if isinstance(part, connector):
            stack += [part.args["expression"], part.this]
        else:
            parts.append(part)
    return parts


def _filter(tree: SyntaxTree, node: exp.Expr, depth: int) -> Filter:
    """Any condition."""
    node, span = unwrapped(node), tree.span(node)
    if depth > MAX_DEPTH:
        tree.refuse(node, "this condition is nested too deeply", f"At most {MAX_DEPTH} levels are supported.")
    for connector, combined in ((exp.And, And), (exp.Or, Or)):
        if isinstance(node, connector):
            return combined(tuple(_filter(tree, part, depth + 1) for part in _parts(node, connector)), span)
    match node:
        case exp.Not() if not isinstance(unwrapped(node.this), exp.In | exp.Column):
            return Not(_filter(tree, node.this, depth + 1), span)
        case exp.Is():
            return _is(tree, node)
        case exp.NullSafeEQ() | exp.NullSafeNEQ():
            return _distinct(tree, node)
        case exp.Like() | exp.ILike() | exp.Escape():
            return _like(tree, node)
    sides = read_comparison(node)
    if sides is not None and _is_expression(sides[0]) and _is_expression(sides[2]):
        left, right = (read_expression(tree, side) for side in (sides[0], sides[2]))
        if columns_of(left) and columns_of(right):
            return Comparison(left, sides[1], right, span)
    return _condition(tree, node)


def _is_expression(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Column, *ARITHMETIC_NODES))


def _is(tree: SyntaxTree, node: exp.Is) -> Filter:
    """`x IS NULL`, `x IS TRUE`, `x IS FALSE`."""
    span, subject = tree.span(node), read_expression(tree, node.this)
    other = unwrapped(node.args["expression"])
    if isinstance(other, exp.Null):
        return IsNull(subject, span)
    if isinstance(other, exp.Boolean) and isinstance(subject, Column):
        return IsTruth(subject, bool(other.this), span)
    tree.refuse(node, "this is not supported after IS", "Write IS NULL, IS TRUE or IS FALSE, or with NOT.")


def _distinct(tree: SyntaxTree, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Filter:
    """`a IS [NOT] DISTINCT FROM b`."""
    span, (left, right) = tree.span(node), (unwrapped(node.this), unwrapped(node.args["expression"]))
    same: Filter
    if isinstance(right, exp.Null):
        same = IsNull(read_expression(tree, left), span)
    else:
        equality = _filter(tree, exp.EQ(this=left, expression=right), 0)
        assert isinstance(equality, Condition | Comparison)
        same = Identical(replace(equality, span=span), span)
    return same if isinstance(node, exp.NullSafeEQ) else Not(same, span)


def _like(tree: SyntaxTree, node: exp.Expr) -> Filter:
    hint = "LIKE takes a column and a pattern: name LIKE 'A%', perhaps with ESCAPE '!'."
    span, escape = tree.span(node), None
    if isinstance(node, exp.Escape):
        mark = read_value(tree, node.args["expression"])
        if not isinstance(mark, StringLiteral) or len(mark.value) != 1:
            tree.refuse(span, "an escape is one character", hint)
        node, escape = node.this, mark.value
    if not isinstance(node, exp.Like | exp.ILike):
        tree.refuse(span, "this is not supported with ESCAPE", hint)
    only(tree, node, "this", "expression", "negate", hint=hint)
    pattern = read_value(tree, node.args["expression"])
    if not isinstance(pattern, StringLiteral):
        tree.refuse(span, "a pattern is a string", hint)
    subject = read_expression(tree, node.this)
    like = Like(subject, pattern.value, escape, isinstance(node, exp.ILike), span)
    return Not(like, span) if node.args.get("negate") else like


def _condition(tree: SyntaxTree, node: exp.Expr) -> Condition:
    if isinstance(node, exp.Anonymous) and node.name.upper() == "WEIGHT":
        return _weighted(tree, node)
    span = tree.span(node)
    sides = read_comparison(node)
    if sides is not None:
        return replace(_comparison(tree, *sides), span=span)
    if isinstance(node, exp.Between):
        only(tree, node, "this", "low", "high", hint=CONDITIONS)
        low, high = _operand(tree, node.args["low"]), _operand(tree, node.args["high"])
        after = tree.token_after(low.span)
        if after is None or after.token_type != TokenType.AND:
            tree.refuse(span, "there is no AND between the ends of this range", CONDITIONS)
        return Condition(_subject(tree, node.this), "BETWEEN", (low, high), span=span)
    is_negated = isinstance(node, exp.Not)
    inner = unwrapped(node.this) if is_negated else node
    if isinstance(inner, exp.Column) and not isinstance(inner.this, exp.Star):
        # A boolean column alone.
        return Condition(read_column(tree, inner), "=", (BooleanLiteral(not is_negated, span),), span=span)
    negated = is_negated and isinstance(inner, exp.In)
    listed = inner if negated else node
    if isinstance(listed, exp.In):
        only(tree, listed, "this", "expressions", hint="IN takes a list of values: x IN (1, 2, 3).")
        if not listed.expressions:
            tree.refuse(node, "this list is empty", "IN takes one value or more: x IN (1, 2, 3).")
        operands = tuple(_operand(tree, value) for value in listed.expressions)
        return Condition(_subject(tree, listed.this), "NOT IN" if negated else "IN", operands, span=span)
    _refuse(tree, node)


def _weighted(tree: SyntaxTree, node: exp.Expr) -> Condition:
    hint = "Write WEIGHT(x > 5, 0.4): one condition, and its weight as a number or a :parameter."
    if len(node.expressions) != 2:
        tree.refuse(node, "WEIGHT takes a condition and a number", hint)
    inner, weight = (unwrapped(part) for part in node.expressions)
    if isinstance(inner, exp.And | exp.Anonymous):
        tree.refuse(inner, "WEIGHT takes a single condition", hint)
    value = read_value(tree, weight)
    if not isinstance(value, Constant | Parameter):
        tree.refuse(weight, "a weight is a number or a :parameter", hint)
    return replace(_condition(tree, inner), weight=value, span=tree.span(node))


def _comparison(tree: SyntaxTree, left: exp.Expr, operator: str, right: exp.Expr) -> Condition:
    first, second = _side(tree, left), _side(tree, right)
    if isinstance(first, Constant | Parameter | StringLiteral | BooleanLiteral | TimestampLiteral):
        first, second = second, first
        operator, left, right = _FLIPPED[operator], right, left
    if isinstance(first, Constant | Parameter | StringLiteral | BooleanLiteral | TimestampLiteral):
        tree.refuse(tree.span(left, right), "there is no column in this condition", CONDITIONS)
    if isinstance(first, Distance) or isinstance(second, Distance):
        if isinstance(first, Distance) and isinstance(
            second, Constant | Parameter | StringLiteral | BooleanLiteral | TimestampLiteral
        ):
            return Condition(first, operator, (second,))
        tree.refuse(tree.span(left, right), "a distance is compared with one number or :parameter", DISTANCES)
    if not columns_of(first):
        tree.refuse(
            left, "a column is compared with one number or :parameter, not with arithmetic", CONDITIONS
        )
    if isinstance(second, Constant | Parameter | StringLiteral | BooleanLiteral | TimestampLiteral):
        return Condition(first, operator, (second,))
    tree.refuse(right, "a column is compared with one number or :parameter, not with arithmetic", CONDITIONS)


def _side(tree: SyntaxTree, node: exp.Expr) -> Expression | Distance | Value:
    value = None if isinstance(node, exp.Column) else read_value(tree, node)
    return _subject(tree, node) if value is None else value


def _subject(tree: SyntaxTree, node: exp.Expr) -> Expression | Distance:
    node = unwrapped(node)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DISTANCE":
        return _distance(tree, node)
    if isinstance(node, AGGREGATES):
        hint = "Aggregates stand in the SELECT list, and in HAVING SUM(w) >= tau."
        tree.refuse(node, "an aggregate cannot stand in WHERE", hint)
    return read_expression(tree, node)


def _distance(tree: SyntaxTree, node: exp.Anonymous) -> Distance:
    if len(node.expressions) != 4:
        tree.refuse(node, "DISTANCE takes two columns and two numbers", DISTANCES)
    arguments = [unwrapped(argument) for argument in node.expressions]
    for argument in arguments[:2]:
        if not isinstance(argument, exp.Column) or isinstance(argument.this, exp.Star):
            tree.refuse(argument, "DISTANCE starts with two columns", DISTANCES)
    x, z = (read_column(tree, argument) for argument in arguments[:2])
    a, b = (_number(tree, argument) for argument in arguments[2:])
    return Distance((x, z), (a, b), tree.span(node))


def _number(tree: SyntaxTree, node: exp.Expr) -> Constant | Parameter:
    value = read_value(tree, node)
    if not isinstance(value, Constant | Parameter):
        tree.refuse(node, "the center of a disk is two numbers or :parameters", DISTANCES)
    return value


def _operand(tree: SyntaxTree, node: exp.Expr) -> Value:
    value = read_value(tree, node)
    if value is None:
        message = "a column is compared with a number, a string, TRUE, FALSE or a :parameter"
        tree.refuse(node, message, CONDITIONS)
    return value


def _refuse(tree: SyntaxTree, node: exp.Expr) -> NoReturn:
    match node:
        case exp.Between() | exp.In():
            tree.refuse(node, "this is not supported here", CONDITIONS)
        case exp.Subquery() | exp.Select() | exp.Exists():
            tree.refuse(tree.clause(node), "subqueries are not supported", CONDITIONS)
        case exp.Anonymous():
            tree.refuse(node, f"the function {node.name.upper()} is not supported", CONDITIONS)
        case _:
            tree.refuse(node, f"{_plain(node)} is not supported", CONDITIONS)


def _plain(node: exp.Expr) -> str:
    name = type(node).__name__
    return name.upper() if isinstance(node, exp.Predicate) else "this condition"
