"""Sparse rows with several values of one attribute, as plain events: one for each combination of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product, zip_longest
from math import prod
from typing import Any

import numpy as np

from tocsin.engine.conversion.events import as_range, events_from_rows, is_several
from tocsin.errors import RowError
from tocsin.indexes.matching.sets import EventSets

#: Plain events of one event, at most. Beyond, every condition of every conjunction is evaluated instead.
MAX_PLAIN_EVENTS = 1 << 12


def sets_from_rows(rows: Sequence[Mapping[str, Any]]) -> EventSets:
    """Read sparse rows as `events_from_rows` does; a list, a set or an array is several values.

    Cost: linear in the plain events, in Python.
    """
    plain: list[Mapping[str, Any]] = []
    owner: list[int] = []
    several: set[str] = set()
    is_whole = True
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise RowError(
                f"row {number}: a sparse row must be a dict of attribute to value, got {type(row).__name__}"
            )
        values = {name: _values_of(number, name, value) for name, value in row.items() if is_several(value)}
        found, every = _choices(values)
        is_whole &= every
        several |= {name for name, some in values.items() if len(some) > 1}
        rest = {name: value for name, value in row.items() if name not in values}
        plain += [{**rest, **choice} for choice in found]
        owner += [number] * len(found)
    events = events_from_rows(plain, owner)
    return EventSets(events, np.array(owner, np.int32), len(rows), frozenset(several), is_whole)


def _values_of(row: int, name: str, value: Any) -> list[Any]:
    """The values of an attribute, each once."""
    given = [as_range(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    for item in given:
        if is_several(item) or isinstance(item, Mapping):
            raise RowError(
                f"row {row}, attribute {name!r}: a list must hold single values, got a {type(item).__name__}"
            )
    try:
        # True and 1 are two values.
        return list({(type(item), item): item for item in given if item is not None}.values())
    except TypeError:
        raise RowError(f"row {row}, attribute {name!r}: {value!r} is not a list of values") from None


def _choices(values: Mapping[str, list[Any]]) -> tuple[list[dict[str, Any]], bool]:
    """All combinations of values; if too many, some that contain each value. And whether these are all."""
    names = [name for name, some in values.items() if some]
    columns = [values[name] for name in names]
    if prod(map(len, columns)) <= MAX_PLAIN_EVENTS:
        return [dict(zip(names, chosen, strict=True)) for chosen in product(*columns)], True
    return [dict(zip(names, chosen, strict=True)) for chosen in zip_longest(*columns)], False
