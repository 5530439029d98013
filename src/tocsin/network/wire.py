"""Wire format: subjects, and payloads of a line of JSON followed by an Arrow table.

| subject | payloads |
|---|---|
| `ROOT.SPACE.map` | maps of zones, by version |
| `ROOT.SPACE.snapshot` | snapshots of the table, in parts |
| `ROOT.SPACE.vVERSION.ZONE` | messages for the zone; at the end, the next version of the map |

A space's name is any text; in subjects a hash stands for it.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

import pyarrow as pa

from tocsin.arrow_streams import write_arrow

MAP = "map"
SNAPSHOT = "snapshot"
MESSAGES = "messages"
MOVE = "move"

#: Approximate maximum of a payload; NATS accepts a megabyte.
MAX_PAYLOAD_BYTES = 400_000


class OutboundMessage(NamedTuple):
    """A payload and its subject."""

    subject: str
    payload: bytes


class Payload(NamedTuple):
    """A decoded payload: its kind, the other fields of its first line, and its table."""

    kind: str
    header: dict[str, Any]
    table: pa.Table | None


def space_subject(root: str, space: str, *rest: str) -> str:
    """A subject of a space."""
    return ".".join((root, hashlib.sha256(space.encode()).hexdigest()[:16], *rest))


def zone_subject(root: str, space: str, version: int, zone: int) -> str:
    """The subject of a zone."""
    return space_subject(root, space, f"v{version}", str(zone))


def pack(kind: str, table: pa.Table | None = None, **header: Any) -> bytes:
    """Encode a payload."""
    line = json.dumps({"kind": kind, **header}).encode()
    if table is None:
        return line
    return line + b"\n" + write_arrow(table)


def split_table(table: pa.Table) -> list[pa.Table]:
    """Split a table into parts, in order, each small enough for a payload. Cost: linear in the parts."""
    if not table.num_rows:
        return []
    rows = max(1, MAX_PAYLOAD_BYTES * table.num_rows // max(1, table.nbytes))
    return [table.slice(begin, rows) for begin in range(0, table.num_rows, rows)]


def unpack(payload: bytes) -> Payload:
    """Decode a payload. The table's columns are views of it."""
    line, _, rest = payload.partition(b"\n")
    header = json.loads(line)
    table = pa.ipc.open_stream(rest).read_all() if rest else None
    return Payload(header.pop("kind"), header, table)
