"""Recognising scores that are weighted sums, which need no interpreter."""

from __future__ import annotations

import numpy as np

from tocsin.indexes.contract import Ints
from tocsin.indexes.shared.programs_kernels import ADD, COLUMN, MULTIPLY, THETA, Program


def linear_terms(program: Program) -> tuple[Ints, Ints]:
    """The columns and thetas of `c * t + c * t + …`, added from the left as written; else nothing."""
    ops, args = program.ops.tolist(), program.args.tolist()
    columns, thetas = [], []
    none = np.empty(0, np.int32)
    at = 0
    while at < len(ops):
        pair = dict(zip(ops[at : at + 2], args[at : at + 2], strict=True))
        tail = [MULTIPLY] if at == 0 else [MULTIPLY, ADD]
        if pair.keys() != {COLUMN, THETA} or ops[at + 2 : at + 2 + len(tail)] != tail:
            return none, none
        columns.append(pair[COLUMN])
        thetas.append(pair[THETA])
        at += 2 + len(tail)
    return np.array(columns, np.int32), np.array(thetas, np.int32)


def padded_terms(program: Program) -> tuple[Ints, Ints]:
    """As `linear_terms`, with thetas filled up to a multiple of four with the one after the last."""
    columns, thetas = linear_terms(program)
    return columns, np.pad(thetas, (0, -len(thetas) % 4), constant_values=program.n_theta).astype(np.int32)
