"""Recognising scores that are weighted sums, which need no interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tocsin.indexes.contract import Floats, Ints
from tocsin.indexes.shared.programs_kernels import (
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

#: Operations that a weight may be made by: each is exact to the bit wherever it is done.
EXACT: dict[int, Callable[..., Any]] = {
    ADD: np.add,
    SUBTRACT: np.subtract,
    MULTIPLY: np.multiply,
    DIVIDE: np.divide,
    NEGATE: np.negative,
}
#: How many values an operation takes, where it is not one.
OPERANDS = {COLUMN: 0, THETA: 0, CONSTANT: 0, ADD: 2, SUBTRACT: 2, MULTIPLY: 2, DIVIDE: 2, POWER: 2}


class Node(NamedTuple):
    """An operation of a score, with what it is done to."""

    op: int
    #: which column or theta
    place: int = 0
    constant: float = 0.0
    operands: tuple[Node, ...] = ()


class Terms(NamedTuple):
    """A score as `weight * column + weight * column + …`, added from the left; nothing if it is none."""

    #: int32 (terms,): no column twice
    column: Ints
    #: of each: a theta, or made of thetas and constants
    weight: tuple[Node, ...]

    def weights(self, thetas: Floats) -> Floats:
        """The weights (terms, subscriptions), for `thetas` (n_theta, subscriptions)."""
        made = [np.broadcast_to(weigh(weight, thetas), thetas.shape[1:]) for weight in self.weight]
        return np.stack(made) if made else np.empty((0, *thetas.shape[1:]))


NO_TERMS = Terms(np.empty(0, np.int32), ())


def linear_terms(program: Program) -> Terms:
    """The terms of a sum of columns, each alone or times something without columns."""
    found: list[tuple[int, Node]] = []
    node: Node | None = _tree(program)
    # Sums are added from the left, so that the last term is on top. A difference is the sum with the
    # negative, to the bit.
    while node is not None and node.op in (ADD, SUBTRACT):
        term = _term(node.operands[1], is_negative=node.op == SUBTRACT)
        found += [term] if term else []
        node = node.operands[0] if term else None
    first = _term(node, is_negative=False) if node else None
    if first is None:
        return NO_TERMS
    column, weight = zip(first, *reversed(found), strict=True)
    return Terms(np.array(column, np.int32), weight) if len(set(column)) == len(column) else NO_TERMS


def weigh(weight: Node, thetas: Floats) -> Any:
    """A weight, for `thetas` (n_theta, subscriptions): one for all, or one for each."""
    if weight.op == THETA:
        return thetas[weight.place]
    if weight.op == CONSTANT:
        return weight.constant
    with np.errstate(all="ignore"):
        return EXACT[weight.op](*(weigh(operand, thetas) for operand in weight.operands))


def _tree(program: Program) -> Node:
    """The program's last operation."""
    waiting: list[Node] = []
    for op, place in zip(program.ops.tolist(), program.args.tolist(), strict=True):
        count = OPERANDS.get(op, 1)
        operands = tuple(waiting[len(waiting) - count :])
        del waiting[len(waiting) - count :]
        constant = float(program.constants[place]) if op == CONSTANT else 0.0
        waiting.append(Node(op, place, constant, operands))
    return waiting[0]


def _term(node: Node, *, is_negative: bool) -> tuple[int, Node] | None:
    """The column and the weight of a term, if it is one."""
    if node.op == NEGATE:
        return _term(node.operands[0], is_negative=not is_negative)
    factors = node.operands if node.op == MULTIPLY else (Node(CONSTANT, constant=1.0), node)
    for weight, column in (factors, factors[::-1]):
        if column.op == COLUMN and _is_weight(weight):
            return column.place, Node(NEGATE, operands=(weight,)) if is_negative else weight
    return None


def _is_weight(node: Node) -> bool:
    """Whether there are no columns in it, and it can be made before there are rows."""
    return node.op in (THETA, CONSTANT) or (node.op in EXACT and all(map(_is_weight, node.operands)))
