"""Bounds of a score over a box of values: interval arithmetic over score programs.

A box is a range for each column. Every operation of a program maps ranges to a range that holds all its
results, as doubles: addition, multiplication, division and roots round to nearest, which is monotone, so
that the ends of the operands give the ends of the result. Neither the directions nor the domains of columns
need to be known. Where a column occurs once in an expression the bound is sharp.

As in the scorer, either one subscription is evaluated over many boxes or one box for many subscriptions.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Floats
from tocsin.kernels.scoring import Program

#: The scorer's opcodes, repeated: kernels read the globals of their own file.
COLUMN = 0
THETA = 1
CONSTANT = 2
ADD = 3
SUBTRACT = 4
MULTIPLY = 5
DIVIDE = 6
NEGATE = 7
ABS = 8
SQRT = 9
LN = 10
EXP = 11
POWER = 12


@lean_kernel
def rounding_slack(value: float) -> float:
    """More than the rounding error of a library function."""
    return abs(value) * 1e-14 + 1e-300


@lean_kernel
def power_range(low: float, high: float, exponent: float) -> tuple[float, float]:
    """The range of base ** exponent; all numbers where that is hard to bound."""
    is_whole = exponent == math.floor(exponent)
    straddles = low < 0.0 < high or low == 0.0 or high == 0.0
    if low < 0.0 and (not is_whole or abs(exponent) > 2.0**52):
        return -np.inf, np.inf
    if exponent < 0.0 and straddles:
        return -np.inf, np.inf
    first = low**exponent
    last = high**exponent
    if math.isnan(first) or math.isnan(last):
        return -np.inf, np.inf
    least = min(first, last)
    most = max(first, last)
    if straddles and exponent % 2.0 == 0.0:
        least = min(least, 0.0)
    if not math.isinf(least):
        least -= rounding_slack(least)
    if not math.isinf(most):
        most += rounding_slack(most)
    return least, most


@lean_kernel
def bound_binary(
    op: int, least: Floats, most: Floats, other_least: Floats, other_most: Floats, n: int
) -> None:
    """Combine the first `n` ranges of the left operand with those of the right one, in place."""
    if op == ADD:
        for j in range(n):
            least[j] += other_least[j]
            most[j] += other_most[j]
    elif op == SUBTRACT:
        for j in range(n):
            least[j] -= other_most[j]
            most[j] -= other_least[j]
    elif op == MULTIPLY:
        for j in range(n):
            a = least[j] * other_least[j]
            b = least[j] * other_most[j]
            c = most[j] * other_least[j]
            d = most[j] * other_most[j]
            # NaN if any product is: zero times infinity may be anything nearby.
            doubt = 0.0 * (a + b + c + d)
            least[j] = min(min(a, b), min(c, d)) + doubt
            most[j] = max(max(a, b), max(c, d)) + doubt
    elif op == DIVIDE:
        for j in range(n):
            a = least[j] / other_least[j]
            b = least[j] / other_most[j]
            c = most[j] / other_least[j]
            d = most[j] / other_most[j]
            doubt = 0.0 * (a + b + c + d)
            if other_least[j] <= 0.0 <= other_most[j]:
                doubt = np.nan
            least[j] = min(min(a, b), min(c, d)) + doubt
            most[j] = max(max(a, b), max(c, d)) + doubt
    else:
        for j in range(n):
            if other_least[j] == other_most[j]:
                least[j], most[j] = power_range(least[j], most[j], other_least[j])
            else:
                least[j] = -np.inf
                most[j] = np.inf
    # NaN is an unknown bound, which is an infinite one.
    for j in range(n):
        if not least[j] >= -np.inf:
            least[j] = -np.inf
        if not most[j] <= np.inf:
            most[j] = np.inf


@lean_kernel
def bound_unary(op: int, least: Floats, most: Floats, n: int) -> None:
    """Apply an operation of one operand to the first `n` ranges, in place."""
    for j in range(n):
        a = least[j]
        b = most[j]
        if op == NEGATE:
            least[j] = -b
            most[j] = -a
        elif op == ABS:
            least[j] = max(0.0, max(a, -b))
            most[j] = max(-a, b)
        elif op == SQRT:
            least[j] = math.sqrt(a) if a > 0.0 else 0.0
            most[j] = math.sqrt(b) if b > 0.0 else 0.0
        elif op == LN:
            least[j] = math.log(a) if a > 0.0 else -np.inf
            most[j] = math.log(b) if b > 0.0 else -np.inf
            least[j] -= 0.0 if math.isinf(least[j]) else rounding_slack(least[j])
            most[j] += 0.0 if math.isinf(most[j]) else rounding_slack(most[j])
        else:
            least[j] = np.inf if a > 709.782712893384 else math.exp(a)
            most[j] = np.inf if b > 709.782712893384 else math.exp(b)
            least[j] -= 0.0 if math.isinf(least[j]) else rounding_slack(least[j])
            most[j] += 0.0 if math.isinf(most[j]) else rounding_slack(most[j])


@lean_kernel
def bound_block(
    program: Program,
    low: Floats,
    high: Floats,
    first_column: int,
    box: int,
    thetas: Floats,
    subscription: int,
    is_over_boxes: bool,
    n: int,
    stack_low: Floats,
    stack_high: Floats,
) -> None:
    """Bound the scores of one subscription in `n` boxes, or of `n` subscriptions in one box.

    `low` and `high` (columns, boxes) are the boxes. The bounds are returned in the first rows of the stacks.
    """
    top = -1
    for i in range(len(program.ops)):
        op = program.ops[i]
        arg = program.args[i]
        if op <= CONSTANT:
            top += 1
            least = stack_low[top]
            most = stack_high[top]
            if op == COLUMN:
                column = first_column + arg
                step = 1 if is_over_boxes else 0
                for j in range(n):
                    least[j] = low[column, box + step * j]
                    most[j] = high[column, box + step * j]
            elif op == THETA:
                step = 0 if is_over_boxes else 1
                for j in range(n):
                    least[j] = thetas[arg, subscription + step * j]
                    most[j] = least[j]
            else:
                for j in range(n):
                    least[j] = program.constants[arg]
                    most[j] = least[j]
        elif op <= DIVIDE or op == POWER:
            top -= 1
            bound_binary(op, stack_low[top], stack_high[top], stack_low[top + 1], stack_high[top + 1], n)
        else:
            bound_unary(op, stack_low[top], stack_high[top], n)
