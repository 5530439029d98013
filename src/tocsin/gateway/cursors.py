"""Cursors as clients hold them: the hub's name and a record's number. Clients do not look inside."""

from __future__ import annotations

from tocsin.gateway.failures import BadRequest

#: Before every record: what a cursor of another hub is read as.
BEFORE_ALL = -1


def read_cursor(text: str | None, epoch: str) -> int | None:
    """The record that a client heard last; of another hub, one that is too old. Raises BadRequest."""
    if text is None:
        return None
    name, _, number = text.partition(".")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise BadRequest("this is no cursor: send back what a message had as its cursor, or none")
    return int(number) if name == epoch else BEFORE_ALL
