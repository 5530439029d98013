"""Expressions and row filters as JSON, for saved engines."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, cast

from tocsin.language import (
    AllOf,
    AnyOf,
    Binary,
    Call,
    Column,
    Compared,
    Constant,
    Expression,
    Missing,
    Negate,
    Negated,
    Pattern,
    Predicate,
    RowFilter,
)
from tocsin.types import ColumnType

_CLASSES: tuple[Any, ...] = (
    AllOf, AnyOf, Binary, Call, Column, Compared, Constant, Missing, Negate, Negated, Pattern, Predicate
)  # fmt: skip
_NODES = {node.__name__: node for node in _CLASSES}


def tree_to_json(tree: Expression | RowFilter) -> Any:
    """A tree as lists of a node's name and its fields."""
    return _encoded(tree)


def tree_from_json(encoded: Any) -> Expression | RowFilter:
    """The inverse of `tree_to_json`."""
    return cast("Expression | RowFilter", _decoded(encoded))


def _encoded(value: Any) -> Any:
    if isinstance(value, ColumnType):
        return {"type": value.name}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each) for each in value]}
    if is_dataclass(value):
        inner = [_encoded(getattr(value, field.name)) for field in fields(value) if field.compare]
        return [type(value).__name__, *inner]
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if "type" in value:
            return ColumnType.parse(value["type"], column="")
        return tuple(_decoded(each) for each in value["tuple"])
    if isinstance(value, list):
        return _NODES[value[0]](*map(_decoded, value[1:]))
    return value
