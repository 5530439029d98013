"""Recognises scores that are weighted sums, which need no interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tocsin.arrays.types import Floats, Ints
from tocsin.kernels.scoring import (
    ADD,
    COLUMN,
    CONSTANT,
    DIVIDE,
    MULTIPLY,
    NEGATE,
    POWER,
    SUBTRACT,
    THETA,
    Program,
)

#: Operations that may compute a weight: each gives the same bits wherever it is evaluated.
EXACT: dict[int, Callable[..., Any]] = {
    ADD: np.add,
    SUBTRACT: np.subtract,
    MULTIPLY: np.multiply,
    DIVIDE: lambda left, right: np.divide(left, np.where(right == 0.0, np.nan, right)),
    NEGATE: np.negative,
}
#: Operands of operations that do not have exactly one.
OPERANDS = {COLUMN: 0, THETA: 0, CONSTANT: 0, ADD: 2, SUBTRACT: 2, MULTIPLY: 2, DIVIDE: 2, POWER: 2}


class ExpressionNode(NamedTuple):
    """An operation of a score expression, with its operands."""

    op: int
    #: index of the column or theta
    place: int = 0
    constant: float = 0.0
    operands: tuple[ExpressionNode, ...] = ()


class LinearTerms(NamedTuple):
    """A score as `weight * column + weight * column + …`, added from the left; empty if it is none."""

    #: int32 (terms,): distinct columns
    column: Ints
    #: of each: a theta, or an expression of thetas and constants
    weight: tuple[ExpressionNode, ...]

    def weights(self, thetas: Floats) -> Floats:
        """The weights (terms, subscriptions), for `thetas` (n_theta, subscriptions)."""
        made = [np.broadcast_to(evaluate_weight(weight, thetas), thetas.shape[1:]) for weight in self.weight]
        return np.stack(made) if made else np.empty((0, *thetas.shape[1:]))


NO_TERMS = LinearTerms(np.empty(0, np.int32), ())


def linear_terms(program: Program) -> LinearTerms:
    """The terms of a sum of columns, each alone or times an expression without columns."""
    found: list[tuple[int, ExpressionNode]] = []
    node: ExpressionNode | None = _expression_tree(program)
    # Sums are added from the left, so that the last term is at the root. A difference is bit for bit the sum
    # with the negative.
    while node is not None and node.op in (ADD, SUBTRACT):
        term = _term(node.operands[1], is_negative=node.op == SUBTRACT)
        found += [term] if term else []
        node = node.operands[0] if term else None
    first = _term(node, is_negative=False) if node else None
    if first is None:
        return NO_TERMS
    column, weight = zip(first, *reversed(found), strict=True)
    return LinearTerms(np.array(column, np.int32), weight) if len(set(column)) == len(column) else NO_TERMS


def evaluate_weight(weight: ExpressionNode, thetas: Floats) -> Any:
    """A weight, for `thetas` (n_theta, subscriptions): a scalar, or one per subscription."""
    if weight.op == THETA:
        return thetas[weight.place]
    if weight.op == CONSTANT:
        return weight.constant
    with np.errstate(all="ignore"):
        return EXACT[weight.op](*(evaluate_weight(operand, thetas) for operand in weight.operands))


def _expression_tree(program: Program) -> ExpressionNode:
    """The program as a tree: its last operation."""
    stack: list[ExpressionNode] = []
    for op, place in zip(program.ops.tolist(), program.args.tolist(), strict=True):
        count = OPERANDS.get(op, 1)
        operands = tuple(stack[len(stack) - count :])
        del stack[len(stack) - count :]
        constant = float(program.constants[place]) if op == CONSTANT else 0.0
        stack.append(ExpressionNode(op, place, constant, operands))
    return stack[0]


def _term(node: ExpressionNode, *, is_negative: bool) -> tuple[int, ExpressionNode] | None:
    """The column and the weight of a term, if it is one."""
    if node.op == NEGATE:
        return _term(node.operands[0], is_negative=not is_negative)
    factors = node.operands if node.op == MULTIPLY else (ExpressionNode(CONSTANT, constant=1.0), node)
    for weight, column in (factors, factors[::-1]):
        if column.op == COLUMN and _is_weight(weight):
            return column.place, ExpressionNode(NEGATE, operands=(weight,)) if is_negative else weight
    return None


def _is_weight(node: ExpressionNode) -> bool:
    """Whether it contains no columns, so that it can be computed at registration."""
    return node.op in (THETA, CONSTANT) or (node.op in EXACT and all(map(_is_weight, node.operands)))
