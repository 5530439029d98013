"""The save format: a manifest and flat arrays in one Arrow file, followed by a checksum.

Each array is one binary value, so that a memory-mapped file is read without copying. The checksum covers all
bytes and is verified before anything is parsed. Equal states give equal bytes.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.arrays.types import Arrays
from tocsin.errors import StateError

#: Incremented when files of the previous format can no longer be read.
FORMAT = 3
_MANIFEST = b"tocsin"

#: The trailer: the number of bytes before it, their checksum, and magic bytes.
_TRAILER = struct.Struct("<QI12s")
_TRAILER_MARK = b"tocsin state"
#: Magic bytes of an Arrow file, which is all that a file was before format 3.
_ARROW_MARK = b"ARROW1"


def write(path: str | PathLike[str], manifest: Mapping[str, Any], arrays: Arrays) -> None:
    """Write atomically and durably: fsynced before it returns. Raises StateError if it cannot be written."""
    try:
        target = Path(path)
        aside = target.with_name(target.name + ".writing")
        if target.is_dir():
            raise StateError(f"the path to save to must be a file, got the folder {str(target)!r}")
        opened = aside.open("wb")
    except (TypeError, ValueError) as failure:
        raise StateError(f"{path!r} is not a path to save to: {failure}") from None
    except FileNotFoundError:
        raise StateError(
            f"{str(target)!r} cannot be saved: there is no folder {str(target.parent)!r}"
        ) from None
    except OSError as failure:
        raise StateError(f"{str(target)!r} cannot be saved: {failure}") from failure
    try:
        with opened as file:
            dump(file, manifest, arrays)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
        _sync_folder(target.parent)
    except OSError as failure:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise StateError(f"{str(target)!r} cannot be saved: {failure}") from failure


def _sync_folder(path: Path) -> None:
    """Make the names of the files in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: str | PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write` wrote. Raises StateError if it is something else or damaged."""
    try:
        name = os.fspath(path)
        if "\0" in str(name):
            raise TypeError("it contains a NUL")
    except TypeError as failure:
        raise StateError(f"{path!r} is not a path to load from: {failure}") from None
    try:
        with pa.memory_map(name) as source:
            return load(source, name=name)
    except FileNotFoundError:
        raise StateError(f"there is no file {name!r}") from None
    except OSError as failure:
        raise StateError(f"{name!r} cannot be read: {failure}") from failure


def dump(sink: Any, manifest: Mapping[str, Any], arrays: Arrays) -> None:
    """Write to an open file or Arrow stream."""
    summed = _ChecksumWriter(sink)
    _dump_arrow(summed, manifest, arrays)
    sink.write(_TRAILER.pack(summed.n_bytes, summed.checksum, _TRAILER_MARK))


class _ChecksumWriter:
    """A writable file that computes the checksum of what is written."""

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
    """The bytes before the trailer, verified against it."""
    n_bytes = data.size - _TRAILER.size
    size, checksum, mark = (0, 0, b"") if n_bytes < 0 else _TRAILER.unpack(data.slice(n_bytes))
    if mark != _TRAILER_MARK:
        if (
            data.size >= 2 * len(_ARROW_MARK)
            and data.slice(data.size - len(_ARROW_MARK)).to_pybytes() == _ARROW_MARK
        ):
            raise StateError(f"{name!r} was saved by an earlier version; this one reads format {FORMAT}")
        raise StateError(f"{name!r} is not a saved engine, or its end is missing or damaged")
    body = data.slice(0, n_bytes)
    if size != n_bytes or zlib.crc32(body) != checksum:
        raise StateError(f"{name!r} is damaged: it does not have the checksum it was saved with")
    return body


def with_prefix(prefix: str, arrays: Arrays) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays under a common prefix."""
    return ((f"{prefix}/{name}", array) for name, array in arrays.items())


def with_prefix_stripped(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays under a common prefix, without it."""
    start = f"{prefix}/"
    return {name[len(start) :]: array for name, array in arrays.items() if name.startswith(start)}
