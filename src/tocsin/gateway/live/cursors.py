"""Cursors: the hub's epoch and a record number. Opaque to clients."""

from __future__ import annotations

from tocsin.gateway.failures import BadRequest

#: Before every record: the value of a cursor from another epoch.
BEFORE_ALL = -1


def read_cursor(text: str | None, epoch: str) -> int | None:
    """The last record that a client received; too old if from another epoch. Raises BadRequest."""
    if text is None:
        return None
    name, _, number = text.partition(".")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise BadRequest("this is not a cursor: send the cursor of a message, or none")
    return int(number) if name == epoch else BEFORE_ALL
