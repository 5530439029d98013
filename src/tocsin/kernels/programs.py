"""Scores as small postfix programs: `x0 * theta0 + 2` is column 0, theta 0, multiply, constant 2, add.

The engine compiles the expression of a statement into one program; the subscriptions of a template differ
in their `theta`. Arithmetic is IEEE, in the order written, except that division by zero gives NaN, as does
zero to a negative power. The root or logarithm of a negative number is NaN, `ln(0)` is
minus infinity. NULL is NaN, and a NaN operand always gives NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tocsin.kernels import scoring as kernels
from tocsin.kernels.scoring import Program

__all__ = ["NO_PROGRAM", "OPERATIONS", "Program", "program", "swap_columns_and_theta", "tile_size"]

#: The names of the operations, and how many values each takes from the stack.
OPERATIONS: dict[str, tuple[int, int]] = {
    "column": (kernels.COLUMN, 0),
    "theta": (kernels.THETA, 0),
    "constant": (kernels.CONSTANT, 0),
    "add": (kernels.ADD, 2),
    "subtract": (kernels.SUBTRACT, 2),
    "multiply": (kernels.MULTIPLY, 2),
    "divide": (kernels.DIVIDE, 2),
    "negate": (kernels.NEGATE, 1),
    "abs": (kernels.ABS, 1),
    "sqrt": (kernels.SQRT, 1),
    "ln": (kernels.LN, 1),
    "exp": (kernels.EXP, 1),
    "power": (kernels.POWER, 2),
}


def program(steps: Sequence[tuple[str, int | float]]) -> Program:
    """The program of `steps`: pairs of an operation's name and its argument.

    The argument is the index of a `column` or a `theta`, or the value of a `constant`; the other
    operations ignore theirs. Raises ValueError unless the steps leave exactly one value.
    """
    ops: list[int] = []
    args: list[int] = []
    constants: list[float] = []
    counts = {"column": 0, "theta": 0}
    height = depth = 0
    for name, argument in steps:
        if name not in OPERATIONS:
            raise ValueError(f"unknown operation {name!r}; known are {', '.join(OPERATIONS)}")
        op, taken = OPERATIONS[name]
        if height < taken:
            raise ValueError(f"{name} takes {taken} values, and the stack holds {height}")
        arg = 0
        if name == "constant":
            arg = len(constants)
            constants.append(float(argument))
        elif name in counts:
            arg = int(argument)
            if arg < 0:
                raise ValueError(f"{name} {arg}: an index is not negative")
            counts[name] = max(counts[name], arg + 1)
        height += 1 - taken
        depth = max(depth, height)
        ops.append(op)
        args.append(arg)
    if height != 1:
        raise ValueError(f"a program leaves one value, this one leaves {height}")
    return Program(
        np.array(ops, np.int32),
        np.array(args, np.int32),
        np.array(constants, np.float64),
        depth,
        counts["column"],
        counts["theta"],
    )


#: What kernels get where nothing is scored: a program without operations.
NO_PROGRAM = Program(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float64), 1, 0, 0)


def swap_columns_and_theta(given: Program) -> Program:
    """The program with columns and theta swapped, to score one row for many parameters."""
    ops = given.ops.copy()
    ops[given.ops == kernels.COLUMN] = kernels.THETA
    ops[given.ops == kernels.THETA] = kernels.COLUMN
    return given._replace(ops=ops, n_columns=given.n_theta, n_theta=given.n_columns)


def tile_size(n_rows: int) -> int:
    """How many results a tile of at most `n_rows` rows can have."""
    return max(n_rows, kernels.WIDE * kernels.BLOCK)
