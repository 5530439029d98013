"""Argument packs: a kernel that unpacks one must leave writing to its callees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tocsin
from tocsin.arrays.argument_packs import ArgumentPack, unpack
from tocsin.arrays.jit import lean_kernel
from tocsin.arrays.types import Longs


@lean_kernel
def write_all(column: Longs, values: Longs) -> None:
    for index in range(values.shape[0]):
        column[index] = values[index]


@lean_kernel
def write_packed(pack: ArgumentPack, values: Longs) -> None:
    (column,) = unpack(pack)
    write_all(column, values)


def test_what_is_written_by_a_kernel_that_is_called_is_there() -> None:
    first, second = np.zeros(3, np.int64), np.zeros(5, np.int64)
    pack = ArgumentPack((first,))
    write_packed(pack, np.array([1, 2, 3]))
    pack.repack((second,))
    write_packed(pack, np.array([4, 5]))
    assert first.tolist() == [1, 2, 3]
    assert second.tolist() == [4, 5, 0, 0, 0]


def test_no_kernel_writes_to_what_it_has_unpacked_itself() -> None:
    functions = list(_unpackers())
    assert len(functions) >= 4
    for function in functions:
        stores = [
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        ]
        assert not stores, function.name


def _unpackers() -> Iterator[ast.FunctionDef]:
    """Functions of the package that unpack columns."""
    package = Path(tocsin.__file__).parent
    for file in sorted([*package.rglob("*_kernels.py"), *package.glob("kernels/*.py")]):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and "unpack(" in ast.unparse(node):
                yield node
