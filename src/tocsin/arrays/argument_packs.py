"""Columns that are unboxed once, for many calls of kernels."""

from __future__ import annotations

from operator import is_
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types
from numba.extending import intrinsic, models, overload, register_model, typeof_impl

from tocsin.arrays.jit import lean_kernel


class ArgumentPack:
    """Named tuples of columns, unboxed once for many calls; kernels get them by `unpack`.

    Unboxing an array costs about as much as a few cache misses, and an index may have eighty: with small
    batches that is more than the work. Only for lean kernels, which count no references: the columns live
    as long as the pack.
    """

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self.columns = columns
        #: the unboxed columns, and their address
        self._words = np.empty(0, np.int64)
        self.address = 0
        self._describe()

    def repack(self, columns: tuple[Any, ...]) -> None:
        """Replace the columns by others of the same types. Cost: constant if they are the same."""
        if not all(map(is_, columns, self.columns)):
            self.columns = columns
            self._describe()

    def _describe(self) -> None:
        if hasattr(describe, "overloads"):
            if not len(self._words):
                self._words = np.zeros(described_words(self.columns), np.int64)
                self.address = self._words.ctypes.data
            describe(self.columns, self._words)


def unpack(pack: ArgumentPack) -> Any:
    """The columns of a pack.

    A kernel that unpacks must not write to them itself, but call one that does: the compiler takes an array
    that is no argument for the kernel's own, and may drop stores to it.
    """
    return pack.columns


class _ArgumentPackType(types.Type):
    """`ArgumentPack` in compiled code: the address of what `describe` wrote."""

    def __init__(self, columns: types.Type) -> None:
        self.columns = columns
        super().__init__(name=f"ArgumentPack({columns})")


register_model(_ArgumentPackType)(models.OpaqueModel)


#: Numba's stubs do not declare these.
_numba: Any = numba
_extending: Any = extending


@typeof_impl.register(ArgumentPack)
def _typeof(pack: ArgumentPack, context: Any) -> _ArgumentPackType:
    return _ArgumentPackType(_numba.typeof(pack.columns))


def _unboxed(kind: Any, pack: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(pack, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return _extending.NativeValue(pointer)


_extending.unbox(_ArgumentPackType)(_unboxed)


def _typed_load(typing: Any, pack: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = signature.return_type
        pointer = builder.bitcast(arguments[0], context.get_data_type(kind).as_pointer())
        return context.unpack_value(builder, kind, pointer)

    return pack.columns(pack), generate


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


@overload(unpack, inline="always")
def _unpacked(pack: Any) -> Any:
    def load(pack: Any) -> Any:
        return _load(pack)

    return load


@lean_kernel
def described_words(columns: Any) -> int:
    """How many words the unboxed columns take."""
    return int((_size(columns) + 7) // 8)


@lean_kernel
def describe(columns: Any, words: Any) -> None:
    """Store the unboxed columns."""
    _store(columns, words)
