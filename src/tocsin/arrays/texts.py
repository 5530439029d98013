"""Arrow strings as kernels read them: one byte heap and offsets into it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Bytes, Longs

Strings: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
#: Short inputs may be a list: cheaper than an Arrow array.
AnyStrings: TypeAlias = "Strings | list[str]"

_STRING, _LARGE_STRING = pa.string(), pa.large_string()


class Texts(NamedTuple):
    """Text number i is `heap[offsets[i]:offsets[i + 1]]`, in UTF-8."""

    #: uint8, writable.
    heap: Bytes
    #: int64 (texts + 1,), from 0 on.
    offsets: Longs


def texts_of(values: AnyStrings) -> Texts:
    """The bytes of a string, large string or dictionary array without nulls, copied. Cost: linear."""
    if isinstance(values, list):
        encoded = [value.encode() for value in values]
        heap = np.frombuffer(bytearray(b"".join(encoded)), np.uint8)
        return Texts(heap, np.array([0, *accumulate(map(len, encoded))], np.int64))
    assert values.null_count == 0, "texts must not be null"
    if not (isinstance(values, pa.Array) and values.type == _STRING):
        values = values.cast(_LARGE_STRING)
        if isinstance(values, pa.ChunkedArray):
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], _LARGE_STRING)
    _, offset_buffer, byte_buffer = values.buffers()
    if len(values) == 0 or offset_buffer is None:
        return Texts(np.empty(0, np.uint8), np.zeros(1, np.int64))
    width = np.int32 if values.type == _STRING else np.int64
    offsets = np.frombuffer(memoryview(offset_buffer), width)[values.offset : values.offset + len(values) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    # Copied: Arrow's buffers are read-only, for which kernels would be compiled again.
    heap = (
        np.empty(0, np.uint8)
        if byte_buffer is None
        else np.frombuffer(memoryview(byte_buffer), np.uint8)[first:last].copy()
    )
    return Texts(heap, np.subtract(offsets, first, dtype=np.int64))


def one_text(value: str) -> Texts:
    """A single string."""
    return texts_of([value])


def strings_of(texts: Texts, chunk_bytes: int) -> pa.ChunkedArray[Any]:
    """The texts as Arrow strings, in chunks of at most `chunk_bytes`. Cost: linear."""
    return pa.chunked_array(list(_chunks(texts, chunk_bytes)), _STRING)


def _chunks(texts: Texts, chunk_bytes: int) -> Iterator[pa.Array[Any]]:
    heap, offsets = texts
    begin, count = 0, len(offsets) - 1
    if len(heap) <= chunk_bytes:
        yield _strings(heap, offsets)
        return
    while begin < count:
        end = int(np.searchsorted(offsets, offsets[begin] + chunk_bytes, side="right")) - 1
        end = min(max(end, begin + 1), count)
        yield _strings(heap[offsets[begin] : offsets[end]], offsets[begin : end + 1] - offsets[begin])
        begin = end


def _strings(heap: Bytes, offsets: Longs) -> pa.Array[Any]:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(heap)]
    return pa.Array.from_buffers(_STRING, len(offsets) - 1, buffers)
