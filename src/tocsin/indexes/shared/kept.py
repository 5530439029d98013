"""Columns that a kernel is given at every call, described to it once.

To take an array apart takes about as long as to read a few far places, and an index may have eighty: with
small batches that is longer than the work. `Kept` holds their description as kernels see it.
"""

from __future__ import annotations

from operator import is_
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model, typeof_impl

from tocsin.indexes.shared.jit import lean_kernel


class Kept:
    """Named tuples of columns for kernels, which get them by `opened`.

    Only for lean kernels, which count no references: the columns live as long as this holds them.
    """

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self.columns = columns
        #: the description, and where it is
        self._words = np.empty(0, np.int64)
        self.address = 0
        self._describe()

    def keep(self, columns: tuple[Any, ...]) -> None:
        """Hold other columns, of the same types. Cost: constant if they are the same."""
        if not all(map(is_, columns, self.columns)):
            self.columns = columns
            self._describe()

    def _describe(self) -> None:
        if hasattr(describe, "overloads"):
            if not len(self._words):
                self._words = np.zeros(described_words(self.columns), np.int64)
                self.address = self._words.ctypes.data
            describe(self.columns, self._words)


def opened(kept: Kept) -> Any:
    """The columns that are kept.

    A kernel that opens them writes to none of them itself, but calls one that does: the compiler takes an
    array that is no argument for the kernel's own, and may leave out what is written to it.
    """
    return kept.columns


class _KeptType(types.Type):
    """`Kept`, as kernels see it: the address of what `describe` wrote."""

    def __init__(self, columns: types.Type) -> None:
        self.columns = columns
        super().__init__(name=f"Kept({columns})")


register_model(_KeptType)(models.OpaqueModel)


#: Numba's own types say nothing of these.
_numba: Any = numba
_extending: Any = extending


@typeof_impl.register(Kept)
def _typeof(kept: Kept, context: Any) -> _KeptType:
    return _KeptType(_numba.typeof(kept.columns))


def _unboxed(kind: Any, kept: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(kept, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return _extending.NativeValue(pointer)


_extending.unbox(_KeptType)(_unboxed)


def _typed_load(typing: Any, kept: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        pointer = builder.bitcast(arguments[0], context.get_data_type(kind).as_pointer())
        return context.unpack_value(builder, kind, pointer)

    return kept.columns(kept), generate


def _typed_store(typing: Any, columns: Any, words: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, words_kind = signature.args
        array = context.make_array(words_kind)(context, builder, arguments[1])
        pointer = builder.bitcast(array.data, context.get_data_type(kind).as_pointer())
        context.pack_value(builder, kind, arguments[0], pointer)
        return context.get_dummy_value()

    return numba.void(columns, words), generate


def _typed_size(typing: Any, columns: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.IntType(64)(context.get_abi_sizeof(context.get_data_type(signature.args[0])))

    return numba.int64(columns), generate


_load: Any = intrinsic(_typed_load)
_store: Any = intrinsic(_typed_store)
_size: Any = intrinsic(_typed_size)


@overload(opened, inline="always")
def _opened(kept: Any) -> Any:
    def load(kept: Any) -> Any:
        return _load(kept)

    return load


@lean_kernel
def described_words(columns: Any) -> int:
    """How many words a description takes."""
    return int((_size(columns) + 7) // 8)


@lean_kernel
def describe(columns: Any, words: Any) -> None:
    """Write columns down as kernels see them."""
    _store(columns, words)
