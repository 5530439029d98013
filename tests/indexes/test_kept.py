"""Columns that kernels are told of once: who opens them must leave writing to others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tocsin
from tocsin.indexes.contract import Longs
from tocsin.indexes.shared.jit import lean_kernel
from tocsin.indexes.shared.kept import Kept, opened


@lean_kernel
def write_all(column: Longs, values: Longs) -> None:
    for index in range(values.shape[0]):
        column[index] = values[index]


@lean_kernel
def write_kept(kept: Kept, values: Longs) -> None:
    (column,) = opened(kept)
    write_all(column, values)


def test_what_is_written_by_a_kernel_that_is_called_is_there() -> None:
    first, second = np.zeros(3, np.int64), np.zeros(5, np.int64)
    kept = Kept((first,))
    write_kept(kept, np.array([1, 2, 3]))
    kept.keep((second,))
    write_kept(kept, np.array([4, 5]))
    assert first.tolist() == [1, 2, 3]
    assert second.tolist() == [4, 5, 0, 0, 0]


def test_no_kernel_writes_to_what_it_has_opened_itself() -> None:
    functions = list(_openers())
    assert len(functions) >= 4
    for function in functions:
        stores = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        ]
        assert not stores, function.name


def _openers() -> Iterator[ast.FunctionDef]:
    """Functions of the package that open columns."""
    for file in sorted(Path(tocsin.__file__).parent.rglob("*_kernels.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and "opened(" in ast.unparse(node):
                yield node
