"""Arithmetic over columns: an immutable expression tree, printed and lifted.

Equality is structural: source positions and the spelling of numbers do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tocsin.language.spans import NOWHERE, Span


@dataclass(frozen=True)
class Column:
    """A column; `source` is the table or alias written before the dot, until the logical plan resolves it."""

    name: str
    source: str | None = None
    text: str = field(default="", compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text or ".".join(quoted(part) for part in (self.source, self.name) if part is not None)


@dataclass(frozen=True)
class Constant:
    """A number; `text` is how it was written."""

    value: float | int
    text: str = field(default="", compare=False, repr=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text or repr(self.value)


@dataclass(frozen=True)
class Parameter:
    """A `:name` whose value arrives with each subscription."""

    name: str
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f":{self.name}"


@dataclass(frozen=True)
class Theta:
    """A placeholder for a lifted number: the `index`-th operand."""

    index: int
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f":{self.index}"


@dataclass(frozen=True)
class Negate:
    """Unary minus."""

    operand: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        # `--` would begin a comment, hence the parentheses.
        inner = str(self.operand)
        tight = not isinstance(self.operand, Binary) and not inner.startswith("-")
        return f"-{inner}" if tight else f"-({inner})"


@dataclass(frozen=True)
class Binary:
    """`left operator right`, the operator one of `+ - * /`."""

    operator: str
    left: Expression
    right: Expression
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        own = _PRECEDENCE[self.operator]
        left, right = str(self.left), str(self.right)
        if isinstance(self.left, Binary) and _PRECEDENCE[self.left.operator] < own:
            left = f"({left})"
        if isinstance(self.right, Binary) and _PRECEDENCE[self.right.operator] <= own:
            right = f"({right})"
        return f"{left} {self.operator} {right}"


@dataclass(frozen=True)
class Call:
    """SQRT, LN, EXP, ABS of one argument, or POWER of an argument and a Constant."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span = field(default=NOWHERE, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Expression: TypeAlias = Column | Constant | Parameter | Theta | Negate | Binary | Call

#: Function names, and how many arguments each takes.
FUNCTIONS = {"SQRT": 1, "LN": 1, "EXP": 1, "ABS": 1, "POWER": 2}

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


#: Names that are read as something else unless they are quoted.
_RESERVED = frozenset((
    "and", "as", "between", "case", "cast", "current_date", "current_time", "current_timestamp",
    "distinct", "else", "end", "exists", "false", "from", "group", "having", "ilike", "in", "interval",
    "is", "join", "like", "limit", "not", "null", "on", "or", "order", "select", "then", "true",
    "union", "when", "where"
))  # fmt: skip


def quoted(name: str) -> str:
    """`name` as an identifier, in double quotes where it needs them."""
    is_plain = name.isidentifier() and name.isascii() and name.lower() not in _RESERVED
    return name if is_plain else '"' + name.replace('"', '""') + '"'


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly below."""
    match expression:
        case Negate(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case _:
            return ()


def leaves(expression: Expression) -> Iterator[Expression]:
    """Columns, numbers and parameters, from left to right."""
    stack: list[Expression] = [expression]
    while stack:
        node = stack.pop()
        below = children(node)
        if below:
            stack.extend(reversed(below))
        else:
            yield node


def bare(expression: Expression) -> Expression:
    """The expression with columns named without their source."""
    match expression:
        case Column(name):
            return Column(name)
        case Negate(operand):
            return Negate(bare(operand))
        case Binary(operator, left, right):
            return Binary(operator, bare(left), bare(right))
        case Call(function, arguments):
            return Call(function, tuple(map(bare, arguments)))
        case _:
            return expression


def columns_of(expression: Expression) -> tuple[str, ...]:
    """The distinct columns of an expression, in order of first appearance."""
    return tuple(dict.fromkeys(leaf.name for leaf in leaves(expression) if isinstance(leaf, Column)))


def lift(expression: Expression) -> tuple[Expression, tuple[Parameter | float | int, ...]]:
    """Replace numbers and parameters by `Theta(0), Theta(1), …`; return the tree and the operands.

    Expressions that differ only in their numbers are equal once lifted. The exponent of POWER stays,
    because it decides what kind of function it is.
    """
    operands: list[Parameter | float | int] = []

    def lifted(node: Expression) -> Expression:
        match node:
            case Constant(value):
                operands.append(value)
                return Theta(len(operands) - 1)
            case Parameter():
                operands.append(node)
                return Theta(len(operands) - 1)
            case Negate(operand):
                return Negate(lifted(operand))
            case Binary(operator, left, right):
                return Binary(operator, lifted(left), lifted(right))
            case Call("POWER", (base, Constant(exponent))):
                return Call("POWER", (lifted(base), Constant(float(exponent))))
            case Call(function, arguments):
                return Call(function, tuple(lifted(argument) for argument in arguments))
            case _:
                return node

    return lifted(expression), tuple(operands)


def apply_binary(operator: str, left: float, right: float) -> float:
    """One of `+ - * /`, as in IEEE, except that division by zero is NaN."""
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return left / right if right != 0.0 else math.nan


def apply_function(function: str, argument: float, exponent: float = 1.0) -> float:
    """SQRT, LN, EXP, ABS or POWER, as in IEEE."""
    if function == "ABS":
        return abs(argument)
    if function == "SQRT":
        return math.sqrt(argument) if argument >= 0.0 else math.nan
    if function == "LN":
        if argument == 0.0:
            return -math.inf
        return math.log(argument) if argument > 0.0 else math.nan
    if function == "EXP":
        try:
            return math.exp(argument)
        except OverflowError:
            return math.inf
    return _power(argument, exponent)


def _power(base: float, exponent: float) -> float:
    odd = exponent % 2.0 == 1.0
    negative = math.copysign(1.0, base) < 0.0 and odd
    if base == 0.0 and exponent < 0.0:
        return math.nan
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if negative else math.inf
    except ValueError:
        return math.nan
