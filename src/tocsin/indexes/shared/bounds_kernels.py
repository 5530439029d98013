"""How large a score can be inside a box of values: interval arithmetic over score programs.

A box is a range for each column. Every operation of a program turns ranges into a range that holds all
results, as doubles, that it can have on them: adding, multiplying, dividing and taking roots round to the
nearest double, which never turns a smaller result into a larger one, so that the ends of the ranges give
the ends of the result. Nothing needs to be known about whether a score rises or falls with a column, or
about its columns' domains. Where a column stands once in an expression the bound is sharp.

As in the scorer, either one subscription is held against many boxes or one box against many subscriptions.
"""

from __future__ import annotations

import math

import numpy as np

from tocsin.indexes.contract import Floats
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.programs_kernels import Program

#: The scorer's opcodes, again: kernels read the globals of their own file.
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
def slack(value: float) -> float:
    """How far a library function that rounds carelessly may be off, and then some."""
    return abs(value) * 1e-14 + 1e-300


@lean_kernel
def power_range(low: float, high: float, exponent: float) -> tuple[float, float]:
    """The range of base ** exponent; all numbers where that is hard to say."""
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
        least -= slack(least)
    if not math.isinf(most):
        most += slack(most)
    return least, most


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

    `low` and `high` (columns, boxes) are the boxes. The bounds are left in the stacks' first rows.
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
            least = stack_low[top]
            most = stack_high[top]
            other_least = stack_low[top + 1]
            other_most = stack_high[top + 1]
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
                    # Adding a NaN makes the sum NaN: zero times infinity may be anything nearby.
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
            # No number stands for "unknown", which is any number.
            for j in range(n):
                if not least[j] >= -np.inf:
                    least[j] = -np.inf
                if not most[j] <= np.inf:
                    most[j] = np.inf
        else:
            least = stack_low[top]
            most = stack_high[top]
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
                    least[j] -= 0.0 if math.isinf(least[j]) else slack(least[j])
                    most[j] += 0.0 if math.isinf(most[j]) else slack(most[j])
                else:
                    least[j] = np.inf if a > 709.782712893384 else math.exp(a)
                    most[j] = np.inf if b > 709.782712893384 else math.exp(b)
                    least[j] -= 0.0 if math.isinf(least[j]) else slack(least[j])
                    most[j] += 0.0 if math.isinf(most[j]) else slack(most[j])
