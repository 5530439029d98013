"""Parquet files as inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet

from tocsin.cli.failures import DataFailure
from tocsin.cli.watching.formats import RowData, type_name
from tocsin.types import ColumnType


@dataclass(frozen=True)
class ParquetBlock:
    """Rows of a Parquet file."""

    label: str
    table: pa.Table
    first: int
    is_sparse: bool

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def rows(self) -> RowData:
        if not self.is_sparse:
            return self.table
        named = self.table.to_pylist()
        return [{name: value for name, value in row.items() if value is not None} for row in named]

    def part(self, start: int, stop: int) -> ParquetBlock:
        piece = self.table.slice(start, stop - start)
        return ParquetBlock(self.label, piece, self.first + start, self.is_sparse)

    def place(self) -> str:
        return f"{self.label}, row {self.first}"


class ParquetInput:
    """A Parquet file. Columns of unsupported types are ignored."""

    is_pipe = False
    grows = False
    is_open = False

    def __init__(self, label: str, descriptor: int) -> None:
        self.label = label
        self._row = 1
        self._is_sparse = False
        self._ended = False
        self._pieces: Iterator[pa.RecordBatch] | None = None
        self._stream = os.fdopen(descriptor, "rb")
        try:
            self._file = pyarrow.parquet.ParquetFile(self._stream)
            schema = self._file.schema_arrow
        except (pa.ArrowException, OSError) as failure:
            self._stream.close()
            raise DataFailure(f"{label}: not a whole Parquet file: {_one_line(failure)}") from None
        self._types = {field.name: kind for field in schema if (kind := type_name(field.type))}
        if "_op" in schema.names:
            self._types["_op"] = "string"

    def columns(self) -> dict[str, str] | None:
        return dict(self._types)

    def declare(self, columns: Mapping[str, ColumnType] | None) -> None:
        self._is_sparse = columns is None

    def take(self, limit: int) -> ParquetBlock | None:
        try:
            if self._pieces is None:
                self._pieces = self._file.iter_batches(batch_size=limit, columns=list(self._types))
            piece = next(self._pieces, None)
        except (pa.ArrowException, OSError) as failure:
            raise DataFailure(f"{self.label}: damaged at row {self._row}: {_one_line(failure)}") from None
        if piece is None:
            self._ended = True
            return None
        block = ParquetBlock(self.label, pa.Table.from_batches([piece]), self._row, self._is_sparse)
        self._row += len(block)
        return block

    def ended(self) -> bool:
        return self._ended

    def descriptor(self) -> int | None:
        return None

    def close(self) -> None:
        self._stream.close()


def _one_line(failure: Exception) -> str:
    return " ".join(str(failure).split())
