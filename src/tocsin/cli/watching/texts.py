"""CSV and JSON lines, from a file or a pipe."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tocsin.cli.failures import BadRow, DataFailure
from tocsin.cli.watching.blocks import wait
from tocsin.cli.watching.formats import Csv, JsonLines, RowData, TextFormat
from tocsin.cli.watching.records import RecordReader, Records
from tocsin.types import ColumnType

#: Maximum records from which types are inferred.
SAMPLE_RECORDS = 20_000

_MAGIC = {
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "gzip; decompress it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "zstd; decompress it first",
}


@dataclass(frozen=True)
class TextBlock:
    """Records of a text file, not yet converted to rows."""

    label: str
    format: TextFormat
    columns: Mapping[str, ColumnType] | None
    records: Records

    def __len__(self) -> int:
        return len(self.records.texts)

    def rows(self) -> RowData:
        return self.format.read(self.records, self.columns)

    def part(self, start: int, stop: int) -> TextBlock:
        return TextBlock(self.label, self.format, self.columns, self.records.part(start, stop))

    def place(self) -> str:
        return f"{self.label}:{self.records.lines[0]}"


class TextInput:
    """CSV or JSON lines, from a file or a pipe."""

    def __init__(
        self,
        label: str,
        descriptor: int,
        format_name: str | None,
        *,
        is_pipe: bool,
        follow: bool,
        delimiter: str,
        names: list[str] | None,
    ) -> None:
        self.label = label
        self.is_pipe = is_pipe
        self._format_name = format_name
        self._delimiter = delimiter
        self._names = names
        self.grows = is_pipe or follow
        self.is_open = False
        self._reader = RecordReader(descriptor, label, is_pipe=is_pipe, follow=follow)
        self._format: TextFormat | None = None
        self._columns: Mapping[str, ColumnType] | None = None

    def columns(self) -> dict[str, str] | None:
        while not self._begun():
            if self._reader.ended:
                return None
            if not self._reader.fill() and not self._reader.ended:
                wait([self])
        if self._format is None:
            return None
        sample = self._reader.peek(SAMPLE_RECORDS)
        try:
            return self._format.infer(sample)
        except BadRow as failure:
            raise DataFailure(f"{self.label}:{sample.lines[0]}: {failure}") from None

    def declare(self, columns: Mapping[str, ColumnType] | None) -> None:
        self._columns = columns

    def take(self, limit: int) -> TextBlock | None:
        while len(self._reader) < limit and self._reader.fill():
            pass
        records = self._reader.take(limit)
        if not records.texts or self._format is None:
            return None
        return TextBlock(self.label, self._format, self._columns, records)

    def ended(self) -> bool:
        return self._reader.ended and len(self._reader) == 0

    def descriptor(self) -> int | None:
        return self._reader.descriptor if self.is_pipe and not self._reader.ended else None

    def close(self) -> None:
        os.close(self._reader.descriptor)

    def _begun(self) -> bool:
        """Whether the format is known, the header is read, and a record is available for inference."""
        if self._format is None:
            if not self._reader.opening:
                return False
            self._format = self._choose(self._reader.opening)
            self._reader.start(quoted=isinstance(self._format, Csv))
        return self._format.begin(self._reader) and len(self._reader) > 0

    def _choose(self, opening: bytes) -> TextFormat:
        for magic, what in _MAGIC.items():
            if opening.startswith(magic):
                raise DataFailure(f"{self.label}: not text; it looks like {what}")
        if b"\0" in opening[:4096]:
            raise DataFailure(f"{self.label}: not text; it has a zero byte near the beginning")
        looks_like_json = opening.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        if self._format_name == "jsonl" or (self._format_name is None and looks_like_json):
            self.is_open = True
            return JsonLines()
        return Csv(self.label, self._delimiter, self._names)
