"""Column layouts: a NamedTuple of arrays whose fields say dtype, shape and fill once.

    class Members(NamedTuple):
        #: bound of the box; +inf at a free place
        bound: Annotated[Floats, Column("sides", "places", fill=np.inf)]
        #: slot of the subscription; -1 at a free place
        slot: Annotated[Ints, Column("places", fill=-1)]

    members = empty(Members, sides=2, places=256)
    members = grow(members, places=300)
    check_layout(members)
    members = restored(Members, saved(members, places=280))

The dtype is that of the array type. A dimension is a number or the name of a size, which `empty` and `grow`
are given; `Size("blocks", times=64, plus=1)` is one that follows from another. A field may also be a layout,
which has the same sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_type_hints

import numpy as np

#: A NamedTuple of arrays.
Layout = TypeVar("Layout", bound=tuple[Any, ...])
Fill: TypeAlias = float | int | bool | None


@dataclass(frozen=True)
class Size:
    """A dimension that follows from a named size: `times` as many, and `plus` more."""

    name: str
    times: int = 1
    plus: int = 0

    def of(self, count: int) -> int:
        return count * self.times + self.plus

    def count(self, length: int) -> int:
        """The named size behind a length."""
        return (length - self.plus) // self.times


class Column:
    """The shape of a column, and what new rows hold: `fill`, or, if None, anything.

    Only arrays of records need a `dtype`, which their type does not say.
    """

    def __init__(self, *shape: int | str | Size, fill: Fill = 0, dtype: np.dtype | None = None) -> None:
        self.shape = tuple(Size(size) if isinstance(size, str) else size for size in shape)
        self.fill = fill
        self.dtype = dtype

    def lengths(self, sizes: dict[str, int]) -> tuple[int, ...]:
        return tuple(size.of(sizes[size.name]) if isinstance(size, Size) else size for size in self.shape)


class _Field(NamedTuple):
    name: str
    dtype: np.dtype
    column: Column


class _Part(NamedTuple):
    """A field that is a layout itself."""

    layout: type


@cache
def _fields(layout: type) -> tuple[_Field | _Part, ...]:
    """The columns of a layout, as its annotations say."""
    fields: list[_Field | _Part] = []
    for name, hint in get_type_hints(layout, include_extras=True).items():
        if isinstance(hint, type):
            fields.append(_Part(hint))
            continue
        array, column = get_args(hint)
        (scalar,) = get_args(get_args(array)[1])
        fields.append(_Field(name, column.dtype or np.dtype(scalar), column))
    return tuple(fields)


def _allocated(field: _Field | _Part, sizes: dict[str, int]) -> Any:
    if isinstance(field, _Part):
        return _empty(field.layout, sizes)
    shape, fill = field.column.lengths(sizes), field.column.fill
    if fill is None:
        return np.empty(shape, field.dtype)
    return np.zeros(shape, field.dtype) if fill == 0 else np.full(shape, fill, field.dtype)


def empty(layout: type[Layout], **sizes: int) -> Layout:
    """Columns of these sizes, filled as declared. Cost: linear in their length."""
    return _empty(layout, sizes)


def _empty(layout: type[Layout], sizes: dict[str, int]) -> Layout:
    return cast(Callable[..., Layout], layout)(*[_allocated(field, sizes) for field in _fields(layout)])


def sizes_of(columns: tuple[Any, ...]) -> dict[str, int]:
    """The named sizes of a layout's columns."""
    sizes: dict[str, int] = {}
    for field, array in zip(_fields(type(columns)), columns, strict=True):
        if isinstance(field, _Part):
            sizes |= sizes_of(array)
            continue
        for size, length in zip(field.column.shape, array.shape, strict=True):
            if isinstance(size, Size):
                sizes[size.name] = size.count(length)
    return sizes


def grow(columns: Layout, **at_least: int) -> Layout:
    """`columns` with at least these sizes: itself, or with larger copies of the columns concerned.

    A size that is too small at least doubles; sizes that are not given stay. Cost: amortised constant a row.
    """
    sizes = sizes_of(columns)
    too_small = {name: size for name, size in at_least.items() if size > sizes[name]}
    if not too_small:
        return columns
    sizes |= {name: max(size, 2 * sizes[name]) for name, size in too_small.items()}
    return _extended(columns, sizes)


def _extended(columns: Layout, sizes: dict[str, int]) -> Layout:
    return cast(Callable[..., Layout], type(columns))(
        *[
            _extended(column, sizes) if isinstance(field, _Part) else _extended_column(column, field, sizes)
            for field, column in zip(_fields(type(columns)), columns, strict=True)
        ]
    )


def _extended_column(array: np.ndarray, field: _Field, sizes: dict[str, int]) -> np.ndarray:
    if array.shape == field.column.lengths(sizes):
        return array
    extended: np.ndarray = _allocated(field, sizes)
    extended[tuple(slice(length) for length in array.shape)] = array
    return extended


def saved(columns: tuple[Any, ...], **counts: int) -> dict[str, np.ndarray]:
    """Copies of the columns under the names of their fields, cut to these sizes; sizes not given stay whole.

    For layouts without layouts in them. Cost: linear.
    """
    sizes = sizes_of(columns) | counts
    return {
        field.name: column[tuple(slice(length) for length in field.column.lengths(sizes))].copy()
        for field, column in _plain(columns)
    }


def restored(layout: type[Layout], arrays: Mapping[str, np.ndarray]) -> Layout:
    """Columns of the sizes that `saved` wrote; of `arrays`, only those that the layout names. Linear."""
    made = [
        np.array(arrays[field.name], field.dtype, order="C")
        for field in _fields(layout)
        if isinstance(field, _Field)
    ]
    return cast(Callable[..., Layout], layout)(*made)


def _plain(columns: tuple[Any, ...]) -> list[tuple[_Field, np.ndarray]]:
    """The columns of a layout that has no layouts in it, each with its field."""
    pairs = list(zip(_fields(type(columns)), columns, strict=True))
    assert all(isinstance(field, _Field) for field, _ in pairs)
    return cast(list[tuple[_Field, np.ndarray]], pairs)


def check_layout(columns: tuple[Any, ...]) -> None:
    """Assert that columns are as declared: dtype, contiguity, and one length for each size. For tests."""
    _check(columns, sizes_of(columns))


def _check(columns: tuple[Any, ...], sizes: dict[str, int]) -> None:
    for field, array in zip(_fields(type(columns)), columns, strict=True):
        if isinstance(field, _Part):
            _check(array, sizes)
            continue
        what = f"{type(columns).__name__}.{field.name}"
        assert array.dtype == field.dtype, what
        assert array.flags.c_contiguous, what
        assert array.shape == field.column.lengths(sizes), what
