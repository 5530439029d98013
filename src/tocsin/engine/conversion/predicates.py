"""Conjunctions from a table with one row a predicate: many that have no template in common, in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.arrays.types import Bools, Floats, Longs
from tocsin.engine.conversion.events import doubles_of, is_valid
from tocsin.errors import ParameterError
from tocsin.indexes.matching.conjunctions import Conjunctions, PredicatePiece

COLUMNS = (
    "id",
    "attribute",
    "operator",
    "value",
    "high",
    "text",
    "text_high",
    "flag",
    "values",
    "texts",
    "weight",
)
OPERATORS = ("<", "<=", "=", "<>", ">=", ">", "BETWEEN", "IN", "NOT IN")
#: Columns that hold operands, and the one with the upper end of a BETWEEN.
_HIGH = {"value": "high", "text": "text_high"}
_OPERANDS = ("value", "text", "flag", "values", "texts")


class Triplets(NamedTuple):
    """What a table of predicates says."""

    #: the id of each conjunction
    ids: Any
    conjunctions: Conjunctions


class _Piece(NamedTuple):
    """Rows with the same operator and the same kind and number of operands."""

    rows: Longs
    operator: str
    operands: tuple[Any, ...]


def conjunctions_from_triplets(table: Mapping[str, Any]) -> Triplets:
    """Read rows of `id, attribute, operator`, an operand, and a weight, 1 where there is none.

    A number is in `value` (for BETWEEN, up to `high`), a string in `text` (`text_high`), a boolean in `flag`;
    IN takes a list in `values` or `texts`. Rows of one id follow each other. Raises ParameterError.
    Cost: linear, vectorised.
    """
    for name in table:
        if name not in COLUMNS:
            raise ParameterError(f"predicates have no column {name!r}; they have {', '.join(COLUMNS)}")
    for name in ("id", "attribute", "operator"):
        if name not in table:
            raise ParameterError(f"predicates need a column {name!r}")
        _refuse(~is_valid(table[name]), f"{name} is null")
    ids, counts = _runs_of_ids(table["id"])
    attributes = table["attribute"].cast(pa.string()).dictionary_encode()
    numbers, weights = np.asarray(attributes.indices, np.int32), _weights(table)
    pieces = (
        PredicatePiece(rows, numbers[rows], operator, operands, weights[rows])
        for rows, operator, operands in _pieces(table)
    )
    return Triplets(ids, Conjunctions.from_pieces(attributes.dictionary.to_pylist(), counts, pieces))


def _runs_of_ids(ids: Any) -> tuple[Any, np.ndarray]:
    """The different ids, and how many rows each has."""
    codes = np.asarray(ids.dictionary_encode().indices, np.int64)
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    if len(np.unique(codes[begins])) < len(begins):
        raise ParameterError("the rows of one id must follow each other")
    counts = np.diff(np.append(begins, len(codes))).astype(np.int32)
    return ids.take(pa.array(begins)), counts


def _weights(table: Mapping[str, Any]) -> Floats:
    if "weight" not in table:
        return np.ones(len(table["id"]))
    weights = _doubles("weight", table["weight"])
    weights[~is_valid(table["weight"])] = 1.0
    _refuse(~np.isfinite(weights), "a weight must be a finite number")
    return weights


def _pieces(table: Mapping[str, Any]) -> Iterator[_Piece]:
    """The rows by operator and operands. Raises ParameterError for a row that has none, or two."""
    there = {name: is_valid(table[name]) for name in _OPERANDS if name in table}
    n_operands = sum((valid.astype(int) for valid in there.values()), np.zeros(len(table["id"]), int))
    _refuse(n_operands != 1, "a predicate has an operand in one of " + ", ".join(_OPERANDS))
    operators = table["operator"].cast(pa.string())
    for operator in operators.unique().to_pylist():
        mine = np.asarray(pc.equal(operators, operator), np.bool_)
        if operator not in OPERATORS:
            _refuse(mine, f"{operator!r} is no operator; there are {', '.join(OPERATORS)}")
        for name, valid in there.items():
            rows = np.flatnonzero(mine & valid)
            if len(rows):
                yield from (
                    _lists(table, rows, operator, name)
                    if name.endswith("s")
                    else [_Piece(rows, operator, _ends(table, rows, operator, name))]
                )


def _lists(table: Mapping[str, Any], rows: Longs, operator: str, name: str) -> Iterator[_Piece]:
    """Rows whose operand is a list, by its length."""
    if operator not in ("IN", "NOT IN"):
        _refuse_row(rows[0], f"{operator} takes one value, not a list")
    lists = table[name].take(pa.array(rows))
    lengths = np.asarray(pc.list_value_length(lists), np.int64)
    for length in np.unique(lengths).tolist():
        mine = np.flatnonzero(lengths == length)
        if length == 0:
            _refuse_row(rows[mine[0]], f"{operator} takes at least one value")
        flat = lists.take(pa.array(mine)).flatten()
        places = np.arange(len(mine)) * length
        operands = tuple(_operand(name, flat.take(pa.array(places + place))) for place in range(length))
        yield _Piece(rows[mine], operator, operands)


def _ends(table: Mapping[str, Any], rows: Longs, operator: str, name: str) -> tuple[Any, ...]:
    """The operand of each row, or both ends of a BETWEEN."""
    taken = pa.array(rows)
    first = _operand(name, table[name].take(taken))
    if name == "flag" and operator not in ("=", "<>"):
        _refuse_row(rows[0], "true and false are compared with = and <> only")
    if operator != "BETWEEN":
        return (first,)
    high = _HIGH[name]
    if high not in table or table[high].take(taken).null_count:
        _refuse_row(rows[0], f"BETWEEN needs {high}")
    return first, _operand(high, table[high].take(taken))


def _operand(name: str, values: Any) -> Any:
    if values.null_count:
        raise ParameterError(f"{name} has a null among its values")
    if name.startswith("text"):
        return values.cast(pa.string())
    if name == "flag":
        return np.asarray(values.cast(pa.bool_()), np.bool_)
    numbers = _doubles(name, values)
    _refuse(np.isnan(numbers), f"{name} is NaN")
    return numbers + 0.0


def _doubles(name: str, values: Any) -> Floats:
    if not (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_decimal(values.type)
    ):
        raise ParameterError(f"{name} must hold numbers, got {values.type}")
    return doubles_of(name, values)


def _refuse(is_bad: Bools, why: str) -> None:
    if is_bad.any():
        _refuse_row(int(np.argmax(is_bad)), why)


def _refuse_row(row: int | np.int64, why: str) -> None:
    raise ParameterError(f"predicate in row {row}: {why}")
