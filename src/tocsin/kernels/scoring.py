"""Vectorised scoring and box tests of *tiles*: some subscriptions by some rows.

A tile is either one subscription against many rows, or up to BLOCK subscriptions against fewer than
WIDE rows. The inner loop always runs over the longer side, so that each operation of a program is one
vectorised loop, for a large batch as for a single row.

Rows and subscriptions are column-major: `columns[c, row]`, `thetas[p, subscription]`, `lo[d, subscription]`.
The result for row `r` and subscription `i` of a tile is at `r * tile_stride(n) + i`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tocsin.arrays.jit import kernel, lean_kernel
from tocsin.arrays.types import Bools, Floats, Ints

#: Opcodes. The first three push one value, the next four and POWER take two, the others one.
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

#: Values scored at a time: a stack of a few blocks fits the L1 cache.
BLOCK = 256
#: From this many rows on, a tile is one subscription and the inner loop runs over the rows.
WIDE = 32


class Program(NamedTuple):
    """A score as a flat postfix program. Build one with `tocsin.kernels.programs.program`."""

    #: int32 (operations,): opcodes
    ops: Ints
    #: int32 (operations,): which column, theta or constant is pushed; 0 for the other opcodes
    args: Ints
    #: float64 (constants,)
    constants: Floats
    #: greatest height of the stack
    depth: int
    n_columns: int
    n_theta: int


@kernel
def tile_width(n_rows: int, n_subscriptions: int) -> int:
    """How many of the remaining subscriptions the next tile takes."""
    if n_rows >= WIDE:
        return min(1, n_subscriptions)
    return min(BLOCK, n_subscriptions)


@kernel
def tile_stride(n_subscriptions: int) -> int:
    """The distance between the results of neighbouring rows of a tile."""
    return 1 if n_subscriptions == 1 else BLOCK


@lean_kernel
def apply_binary(op: int, left: Floats, right: Floats, n: int) -> None:
    """Combine the first `n` values of `left` with those of `right`, in place."""
    if op == ADD:
        for j in range(n):
            left[j] += right[j]
    elif op == SUBTRACT:
        for j in range(n):
            left[j] -= right[j]
    elif op == MULTIPLY:
        for j in range(n):
            left[j] *= right[j]
    elif op == DIVIDE:
        for j in range(n):
            left[j] = left[j] / right[j] if right[j] != 0.0 else np.nan
    else:
        # In C, pow(NaN, 0) == pow(1, NaN) == 1; but NaN is NULL here, and NULL stays NULL.
        for j in range(n):
            if math.isnan(left[j]) or math.isnan(right[j]) or (left[j] == 0.0 and right[j] < 0.0):
                left[j] = np.nan
            else:
                left[j] = left[j] ** right[j]


@lean_kernel
def apply_unary(op: int, into: Floats, n: int) -> None:
    """Apply an operation of one operand to the first `n` values of `into`, in place."""
    if op == NEGATE:
        for j in range(n):
            into[j] = -into[j]
    elif op == ABS:
        for j in range(n):
            into[j] = abs(into[j])
    elif op == SQRT:
        for j in range(n):
            into[j] = math.sqrt(into[j]) if into[j] >= 0.0 else np.nan
    elif op == LN:
        for j in range(n):
            if into[j] > 0.0:
                into[j] = math.log(into[j])
            else:
                into[j] = -np.inf if into[j] == 0.0 else np.nan
    else:
        # The last double whose exponential is finite: beyond it Python would raise.
        for j in range(n):
            into[j] = np.inf if into[j] > 709.782712893384 else math.exp(into[j])


@kernel
def score_block(
    program: Program,
    columns: Floats,
    first_column: int,
    row: int,
    thetas: Floats,
    subscription: int,
    is_over_rows: bool,
    n: int,
    stack: Floats,
    out_score: Floats,
) -> None:
    """Score `n` rows for one subscription, or one row for `n` subscriptions. `n` is at most BLOCK."""
    top = -1
    for i in range(len(program.ops)):
        op = program.ops[i]
        arg = program.args[i]
        if op <= CONSTANT:
            top += 1
            into = stack[top]
            if op == COLUMN and is_over_rows:
                column = columns[first_column + arg]
                for j in range(n):
                    into[j] = column[row + j]
            elif op == THETA and not is_over_rows:
                theta = thetas[arg]
                for j in range(n):
                    into[j] = theta[subscription + j]
            else:
                if op == COLUMN:
                    value = columns[first_column + arg, row]
                elif op == THETA:
                    value = thetas[arg, subscription]
                else:
                    value = program.constants[arg]
                for j in range(n):
                    into[j] = value
        elif op <= DIVIDE or op == POWER:
            top -= 1
            apply_binary(op, stack[top], stack[top + 1], n)
        else:
            apply_unary(op, stack[top], n)
    result = stack[0]
    for j in range(n):
        out_score[j] = result[j]


@kernel
def score_tile(
    program: Program,
    columns: Floats,
    first_column: int,
    row: int,
    n_rows: int,
    thetas: Floats,
    subscription: int,
    n_subscriptions: int,
    stack: Floats,
    out_score: Floats,
) -> None:
    """Scores of the tile that begins with `row` and `subscription`."""
    # One call site, because the block scorer is large and is inlined into its caller.
    is_over_rows = n_subscriptions == 1
    total = n_rows if is_over_rows else n_rows * BLOCK
    done = 0
    while done < total:
        n = min(BLOCK, total - done) if is_over_rows else n_subscriptions
        at = row + (done if is_over_rows else done // BLOCK)
        out = out_score[done : done + n]
        score_block(program, columns, first_column, at, thetas, subscription, is_over_rows, n, stack, out)
        done += BLOCK


@kernel
def mark_tile(
    columns: Floats,
    is_there: Bools,
    row: int,
    n_rows: int,
    lo: Floats,
    hi: Floats,
    subscription: int,
    n_subscriptions: int,
    out_inside: Bools,
) -> None:
    """Whether each row of a tile is live and inside each subscription's box. NaN is inside no box."""
    if n_subscriptions == 1:
        inside = out_inside[:n_rows]
        for r in range(n_rows):
            inside[r] = is_there[row + r]
        for d in range(lo.shape[0]):
            x = columns[d, row : row + n_rows]
            low = lo[d, subscription]
            high = hi[d, subscription]
            for r in range(n_rows):
                inside[r] &= (low <= x[r]) & (x[r] <= high)
        return
    for r in range(n_rows):
        inside = out_inside[r * BLOCK : r * BLOCK + n_subscriptions]
        inside[:] = is_there[row + r]
        for d in range(lo.shape[0]):
            value = columns[d, row + r]
            lows = lo[d, subscription : subscription + n_subscriptions]
            highs = hi[d, subscription : subscription + n_subscriptions]
            for i in range(n_subscriptions):
                inside[i] &= (lows[i] <= value) & (value <= highs[i])
