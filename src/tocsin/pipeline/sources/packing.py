"""Packs sources: each Arrow batch becomes one binary row per shard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.types import Longs
from tocsin.engine.conversion.arrow import one_array
from tocsin.engine.conversion.casting import decoded
from tocsin.engine.conversion.intake import RawColumn, as_columns
from tocsin.engine.conversion.text import text_of
from tocsin.errors import RowError
from tocsin.pipeline.blobs import PARAMETERS, POSITION, ROWS, WHOLE_FILE, Blob, pack, rejects
from tocsin.pipeline.sharding import shards_of
from tocsin.pipeline.sources.file_rows import FileRows, UnreadableFile, read_file, read_objects
from tocsin.pipeline.sources.row_checks import check_rows, places_of
from tocsin.types import ColumnType

PACKED = "shard int, data binary"

Batches = Iterable[pa.RecordBatch]
Packer = Callable[[Batches], Iterator[pa.RecordBatch]]

#: Line breaks become tabs, which JSON treats alike: blanks outside of strings, errors inside.
_BLANKS = bytes.maketrans(b"\r\n", b"\t\t")

#: Types of parameters: numbers, text, times and booleans.
PARAMETER_TYPES = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_boolean,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_null,
)

#: Maximum rows of a blob.
MAX_BLOB_ROWS = 1 << 20


@dataclass(frozen=True)
class RowsPacker:
    """Packs rows of a table or a stream for every shard."""

    name: str
    columns: Mapping[str, ColumnType]
    #: columns that must not be null, and their role
    required: Mapping[str, str]
    keys: tuple[int, ...]
    #: whether a column `_op` deletes rows, as it does in a table
    ops: bool = False

    def pack(self, path: str, file: FileRows, positions: Longs | None = None) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one file or partition. Without `positions` they are numbered from 0."""
        checked = check_rows(file, self.columns, self.required, ops=self.ops)
        where = checked.places if positions is None else positions[checked.places]
        for begin in range(0, checked.rows.num_rows, MAX_BLOB_ROWS):
            rows = checked.rows.slice(begin, MAX_BLOB_ROWS)
            table = rows.append_column(POSITION, pa.array(where[begin : begin + MAX_BLOB_ROWS]))
            yield packed(pack(Blob(ROWS, self.name, path, table)), self.keys)
        bad, counts = checked.bad, {}
        for reason, places in checked.whole.items():
            # Rejects of a file are identified by position, and no row is rejected twice.
            bad[int(places[0])] = reason
            counts[int(places[0])] = len(places)
        if positions is not None:
            bad = {int(positions[place]): reason for place, reason in bad.items()}
            counts = {int(positions[place]): count for place, count in counts.items()}
        if bad:
            yield self.reject(path, bad, counts)

    def reject(self, path: str, bad: dict[int, str], rows: Mapping[int, int | None]) -> pa.RecordBatch:
        """Pack rejects for the first shard. `rows` maps positions to numbers of rows other than one."""
        return packed(pack(rejects(self.name, path, bad, rows)), self.keys[:1])


@dataclass(frozen=True)
class ParametersPacker:
    """Packs parameters of a template: each row goes to the shard that owns its id."""

    #: the number of the subscription section
    name: str
    #: whether text that looks like a number becomes one
    numbers: bool
    keys: tuple[int, ...]
    columns: Mapping[str, ColumnType] = field(default_factory=dict)

    def pack(self, path: str, file: FileRows, positions: Longs | None = None) -> Iterator[pa.RecordBatch]:
        """Pack the rows of one file or partition."""
        where = places_of(file)
        bad = dict(file.bad)
        typed = {name: _parameter(values, name) for name, values in file.columns.items()}
        if "id" not in typed:
            yield from self._all(path, file, positions, "the column 'id' is missing")
            return
        for name, array in typed.items():
            if not any(fits(array.type) for fits in PARAMETER_TYPES):
                reason = f"column {name!r} is {array.type}, which is not a type of parameters"
                yield from self._all(path, file, positions, reason)
                return
        columns = {name: self._value(name, array) for name, array in typed.items()}
        ids = text_of(columns["id"])
        missing = np.asarray(ids.is_null().to_numpy(zero_copy_only=False), np.bool_)
        bad.update(dict.fromkeys(where[missing].tolist(), "the id is null"))
        if positions is not None:
            where = positions[where]
            bad = {int(positions[place]): reason for place, reason in bad.items()}
        table = pa.table({**columns, "id": ids, POSITION: where}).filter(pa.array(~missing))
        shards = shards_of(one_array(table.column("id")), len(self.keys))
        for number, key in enumerate(self.keys):
            of_shard = table.filter(pa.array(shards == number))
            if of_shard.num_rows:
                yield packed(pack(Blob(PARAMETERS, self.name, path, of_shard)), (key,))
        if bad:
            yield self.reject(path, bad, {})

    def reject(self, path: str, bad: dict[int, str], rows: Mapping[int, int | None]) -> pa.RecordBatch:
        """Pack rejects for the first shard. `rows` maps positions to numbers of rows other than one."""
        return packed(pack(rejects(f"subscriptions {self.name}", path, bad, rows)), self.keys[:1])

    def _all(
        self, path: str, file: FileRows, positions: Longs | None, reason: str
    ) -> Iterator[pa.RecordBatch]:
        """Reject all rows for `reason`: by one reject if they were read as columns, else by one each."""
        places = np.arange(file.n_rows + len(file.bad)) if positions is None else positions
        good = places[places_of(file)]
        bad = {int(places[place]): reason for place, reason in file.bad.items()}
        counts = {}
        if file.by_column and len(good):
            counts = {int(good[0]): len(good)}
            good = good[:1]
        bad.update(dict.fromkeys(good.tolist(), reason))
        if bad:
            yield self.reject(path, bad, counts)

    def _value(self, name: str, array: pa.Array) -> pa.Array:
        """Convert text that looks like a number: values of CSV, and of JSON columns that mix both."""
        if not self.numbers or name in ("id", "_op") or not pa.types.is_string(array.type):
            return array
        looks = pc.match_substring_regex(array, r"^\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf|nan)\s*$")
        if not pc.any(looks).as_py():
            return array
        return pc.utf8_trim_whitespace(pc.if_else(looks, array, None)).cast(pa.float64())


def pack_files(packer: RowsPacker | ParametersPacker, kind: str, options: Mapping[str, Any]) -> Packer:
    """Reads the files whose paths it is given. One that cannot be read is one reject, at position -1."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch.column(0).to_pylist():
                try:
                    file = read_file(path, kind, options, packer.columns)
                except UnreadableFile as failure:
                    yield packer.reject(path, {WHOLE_FILE: str(failure)}, {WHOLE_FILE: None})
                    continue
                yield from packer.pack(path, file)

    return run


def pack_kafka(packer: RowsPacker | ParametersPacker) -> Packer:
    """Reads records of (topic, partition, offset, value); a value is a JSON object."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = pa.Table.from_batches([batch])
            partitions = table.group_by(["topic", "partition"], use_threads=False).aggregate([]).to_pylist()
            for place in partitions:
                same = pc.and_(
                    pc.equal(table.column("topic"), place["topic"]),
                    pc.equal(table.column("partition"), place["partition"]),
                )
                of_partition = table.filter(same)
                texts = [
                    (value or b"null").translate(_BLANKS).strip()
                    for value in of_partition.column("value").to_pylist()
                ]
                file = read_objects(texts, packer.columns)._replace(by_column=False)
                yield from packer.pack(
                    f"{place['topic']}/{place['partition']}", file, of_partition.column("offset").to_numpy()
                )

    return run


def pack_frame(packer: RowsPacker | ParametersPacker, partition: Callable[[], int]) -> Packer:
    """Packs the columns of a DataFrame; a row's position is its number in its partition."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        first = 0
        for batch in batches:
            columns: dict[str, RawColumn] = {name: batch.column(name) for name in batch.schema.names}
            positions = np.arange(first, first + batch.num_rows, dtype=np.int64)
            first += batch.num_rows
            file = FileRows(columns, batch.num_rows, {}, False)
            yield from packer.pack(f"partition {partition():05d}", file, positions)

    return run


def packed(data: bytes, keys: tuple[int, ...]) -> pa.RecordBatch:
    """One row per shard, all with the same data."""
    return pa.RecordBatch.from_pydict(
        {"shard": pa.array(keys, pa.int32()), "data": pa.array([data] * len(keys))}
    )


def _parameter(values: RawColumn, name: str) -> pa.Array:
    """A column of parameters; JSON values of mixed types stay JSON, so that `_value` finds the numbers."""
    if not isinstance(values, list):
        return decoded(values)
    try:
        return as_columns({name: values}, source="")[name]
    except RowError:
        return pa.array([None if value is None else json.dumps(value) for value in values], pa.string())
