"""Columns, literals, parameters and arithmetic inside a clause: sqlglot's nodes to ours."""

from __future__ import annotations

import math

from sqlglot import exp

from tocsin.language.expressions import (
    FUNCTIONS,
    Binary,
    Call,
    Column,
    Constant,
    Expression,
    Negate,
    Parameter,
)
from tocsin.language.parsing.statement import BooleanLiteral, StringLiteral, TimestampLiteral, Value
from tocsin.language.parsing.syntax import STATEMENT_FORM, SyntaxTree

#: Enough for a hundred weighted columns; far from Python's own limit.
MAX_DEPTH = 200

ARITHMETIC = "Arithmetic takes columns, numbers, :parameters, + - * / and " + ", ".join(FUNCTIONS) + "."

_OPERATORS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Sqrt: "SQRT",
    exp.Ln: "LN",
    exp.Exp: "EXP",
    exp.Abs: "ABS",
    exp.Pow: "POWER",
}

#: Nodes that `read_expression` reads as arithmetic.
ARITHMETIC_NODES = (*_OPERATORS, *_FUNCTIONS, exp.Neg)


def unwrapped(node: exp.Expr) -> exp.Expr:
    """`node` without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def only(tree: SyntaxTree, node: exp.Expr, *allowed: str, hint: str = STATEMENT_FORM) -> None:
    """Refuse a node with other parts than those named: sqlglot reads far more than is supported."""
    for name, part in node.args.items():
        if not part or name in allowed:
            continue
        nodes = [each for each in (part if isinstance(part, list) else [part]) if isinstance(each, exp.Expr)]
        inside = nodes and not isinstance(nodes[0], exp.Identifier)
        span = tree.clause(*nodes) if inside else tree.span(node)
        is_query = any(isinstance(each, exp.Query) for each in nodes)
        message = "subqueries are not supported" if is_query else "this is not supported here"
        tree.refuse(span, message, hint)


def name_text(identifier: exp.Identifier) -> str:
    """An identifier as written."""
    name = identifier.name
    return '"' + name.replace('"', '""') + '"' if identifier.quoted else name


def read_column(tree: SyntaxTree, node: exp.Expr) -> Column:
    """A column, perhaps qualified by its table."""
    only(tree, node, "this", "table", hint="A column is written x, or t.x.")
    name, table = node.this, node.args.get("table")
    if not isinstance(name, exp.Identifier) or not name.name:
        tree.refuse(node, "this is not a column", "A column is written x, or t.x.")
    if name.name.startswith("$") and not name.quoted:
        tree.refuse(node, "this is not how a parameter is written", "Parameters are written :name.")
    if not isinstance(table, exp.Identifier):
        return Column(name.name, None, name_text(name), tree.span(node))
    return Column(name.name, table.name, f"{name_text(table)}.{name_text(name)}", tree.span(node))


def read_value(tree: SyntaxTree, node: exp.Expr) -> Value | None:
    """A literal or a parameter; None if it is neither."""
    node = unwrapped(node)
    match node:
        case exp.Literal():
            return StringLiteral(node.this, tree.span(node)) if node.is_string else _number(tree, node)
        case exp.Boolean():
            return BooleanLiteral(bool(node.this), tree.span(node))
        case exp.Placeholder():
            return _parameter(tree, node)
        case exp.Cast():
            return _timestamp(tree, node)
        case exp.Neg():
            inner = read_value(tree, node.this)
            return _negated(inner, tree, node) if isinstance(inner, Constant) else None
        case exp.Null():
            tree.refuse(
                node, "NULL satisfies no condition", "Compare with a number, a string or a :parameter."
            )
        case exp.Parameter() | exp.SessionParameter():
            tree.refuse(node, "this is not how a parameter is written", "Parameters are written :name.")
        case _:
            return None


def _number(tree: SyntaxTree, node: exp.Expr) -> Constant:
    text = str(node.this)
    try:
        value = int(text) if text.isdecimal() else float(text)
        finite = math.isfinite(float(value))
    except ValueError:
        tree.refuse(node, "this is not a number", "Numbers are written 12, 0.5 or 1.5e3.")
    except OverflowError:
        finite = False
    if not finite:
        tree.refuse(node, "this number is too large for a double", "The largest is about 1.8e308.")
    return Constant(value, text, tree.span(node))


def _negated(constant: Constant, tree: SyntaxTree, node: exp.Expr) -> Constant:
    text = constant.text[1:] if constant.text.startswith("-") else f"-{constant.text}"
    return Constant(-constant.value, text, tree.span(node))


def _parameter(tree: SyntaxTree, node: exp.Placeholder) -> Parameter:
    name = str(node.this or "")
    if not name.isidentifier():
        tree.refuse(node, "this parameter has no name", "Parameters are written :name.")
    return Parameter(name, tree.span(node))


def _timestamp(tree: SyntaxTree, node: exp.Cast) -> TimestampLiteral:
    only(tree, node, "this", "to")
    to, literal = node.args["to"], unwrapped(node.this)
    plain = isinstance(to, exp.DataType) and to.this == exp.DataType.Type.TIMESTAMP and not to.expressions
    if not plain or not isinstance(literal, exp.Literal) or not literal.is_string:
        hint = "Times are written TIMESTAMP '2013-10-08T18:11:46Z'."
        tree.refuse(node, "casts are not supported", hint)
    return TimestampLiteral(literal.this, tree.span(node))


def read_expression(tree: SyntaxTree, node: exp.Expr, depth: int = 0) -> Expression:
    """Arithmetic over columns, numbers and parameters."""
    node = unwrapped(node)
    if depth > MAX_DEPTH:
        tree.refuse(
            node, "this expression is nested too deeply", f"At most {MAX_DEPTH} levels are supported."
        )
    if isinstance(node, exp.Column):
        return read_column(tree, node)
    operator = _OPERATORS.get(type(node))
    if operator is not None:
        left = read_expression(tree, node.this, depth + 1)
        right = read_expression(tree, node.args["expression"], depth + 1)
        return Binary(operator, left, right, tree.span(node))
    if isinstance(node, exp.Neg):
        operand = read_expression(tree, node.this, depth + 1)
        return (
            _negated(operand, tree, node)
            if isinstance(operand, Constant)
            else Negate(operand, tree.span(node))
        )
    if type(node) in _FUNCTIONS:
        return _call(tree, node, depth)
    value = read_value(tree, node)
    if isinstance(value, Constant | Parameter):
        return value
    tree.refuse(node, _complaint(node), ARITHMETIC)


def _call(tree: SyntaxTree, node: exp.Expr, depth: int) -> Call:
    function = _FUNCTIONS[type(node)]
    only(tree, node, "this", "expression", hint=ARITHMETIC)
    argument = read_expression(tree, node.this, depth + 1)
    if function != "POWER":
        return Call(function, (argument,), tree.span(node))
    exponent = read_value(tree, node.args["expression"])
    if not isinstance(exponent, Constant):
        hint = "The exponent decides what kind of function it is, so it cannot be a parameter: POWER(x, 2)."
        tree.refuse(node.args["expression"], "the exponent of POWER must be a number", hint)
    return Call(function, (argument, exponent), tree.span(node))


def _complaint(node: exp.Expr) -> str:
    if isinstance(node, exp.Literal | exp.Boolean | exp.Cast):
        return "this is not a number"
    if isinstance(node, exp.AggFunc):
        return "an aggregate cannot stand here"
    if isinstance(node, exp.Subquery | exp.Select):
        return "subqueries are not supported"
    if isinstance(node, exp.Func):
        return "this function is not supported"
    return "this is not supported in an expression"
