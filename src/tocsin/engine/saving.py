"""An engine as bytes: a manifest and flat arrays, in one Arrow file, and a checksum after it.

Each array is one binary value, so that a file mapped into memory is read without copying. The checksum is of
all bytes, and nothing is parsed before it is found right. Equal states give equal bytes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import StateError
from tocsin.indexes.contract import Arrays

#: Grows when a file of the version before can no longer be read.
FORMAT = 3
_MANIFEST = b"tocsin"

#: What comes last: how many bytes there are before it, their checksum, and that this is a saved engine.
_END = struct.Struct("<QI12s")
_MARK = b"tocsin state"
#: What an Arrow file begins with: before format 3 there was nothing else.
_ARROW = b"ARROW1"


def write(path: str | PathLike[str], manifest: Mapping[str, Any], arrays: Arrays) -> None:
    """Write all or nothing, and on disk before it returns."""
    try:
        target = Path(path)
        aside = target.with_name(target.name + ".writing")
        opened = aside.open("wb")
    except (TypeError, ValueError) as failure:
        raise StateError(f"{path!r} is no path to save to: {failure}") from None
    with opened as file:
        dump(file, manifest, arrays)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: str | PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """What `write` wrote. Raises StateError if it is something else, or damaged."""
    try:
        name = os.fspath(path)
        if "\0" in str(name):
            raise TypeError("it holds a NUL")
    except TypeError as failure:
        raise StateError(f"{path!r} is no path to load from: {failure}") from None
    try:
        with pa.memory_map(name) as source:
            return load(source, name=name)
    except FileNotFoundError:
        raise StateError(f"there is no file {name!r}") from None
    except OSError as failure:
        raise StateError(f"{name!r} cannot be read: {failure}") from failure


def dump(sink: Any, manifest: Mapping[str, Any], arrays: Arrays) -> None:
    """Write to an open file or Arrow stream."""
    summed = _Summed(sink)
    _dump_arrow(summed, manifest, arrays)
    sink.write(_END.pack(summed.n_bytes, summed.checksum, _MARK))


class _Summed:
    """A file to write to that sums up what goes into it."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.n_bytes = 0
        self.checksum = 0

    def write(self, data: Any) -> int:
        self._sink.write(data)
        self.n_bytes += memoryview(data).nbytes
        self.checksum = zlib.crc32(data, self.checksum)
        return memoryview(data).nbytes

    def tell(self) -> int:
        return self.n_bytes

    def flush(self) -> None:
        self._sink.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def _dump_arrow(sink: Any, manifest: Mapping[str, Any], arrays: Arrays) -> None:
    described = {}
    columns = []
    for name, array in arrays.items():
        flat = np.ascontiguousarray(array)
        buffer = pa.py_buffer(flat)
        described[name] = [flat.dtype.str, flat.shape]
        offsets = pa.py_buffer(np.array([0, flat.nbytes], np.int64))
        columns.append(pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, buffer]))
    text = json.dumps({"format": FORMAT, "manifest": manifest, "arrays": described}, ensure_ascii=False)
    fields = [pa.field(name, pa.large_binary()) for name in arrays]
    schema = pa.schema(fields, metadata={_MANIFEST: text.encode()})
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))


def load(source: Any, *, name: str) -> tuple[dict[str, Any], Arrays]:
    """Read from an open Arrow file or buffer; the arrays are views of it."""
    body = _checked(source.read_buffer(), name)
    try:
        with pa.ipc.open_file(pa.BufferReader(body)) as reader:
            described = json.loads((reader.schema.metadata or {})[_MANIFEST])
            batch = reader.get_batch(0)
        if described["format"] != FORMAT:
            raise StateError(f"{name!r} has format {described['format']!r}; this version reads {FORMAT}")
        arrays = {}
        for place, (key, (dtype, shape)) in enumerate(described["arrays"].items()):
            buffer = batch.column(place)[0].as_buffer()
            arrays[key] = np.frombuffer(buffer, np.dtype(dtype)).reshape(shape)
    except (pa.ArrowException, KeyError, ValueError, TypeError) as failure:
        raise StateError(f"{name!r} is not a saved engine: {failure}") from failure
    return described["manifest"], arrays


def _checked(data: pa.Buffer, name: str) -> pa.Buffer:
    """The bytes before the end mark, if they are what was written."""
    n_bytes = data.size - _END.size
    size, checksum, mark = (0, 0, b"") if n_bytes < 0 else _END.unpack(data.slice(n_bytes))
    if mark != _MARK:
        if data.size >= 2 * len(_ARROW) and data.slice(data.size - len(_ARROW)).to_pybytes() == _ARROW:
            raise StateError(f"{name!r} was saved by an earlier version; this one reads format {FORMAT}")
        raise StateError(f"{name!r} is not a saved engine, or its end is missing or damaged")
    body = data.slice(0, n_bytes)
    if size != n_bytes or zlib.crc32(body) != checksum:
        raise StateError(f"{name!r} is damaged: it does not have the checksum it was saved with")
    return body


def prefixed(prefix: str, arrays: Arrays) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays under a common name."""
    return ((f"{prefix}/{name}", array) for name, array in arrays.items())


def below(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays under a common name, without it."""
    start = f"{prefix}/"
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}
