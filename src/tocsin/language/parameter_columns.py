"""Converts parameters, given as Arrow columns, to the arrays that plans need."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tocsin.decimals import doubles_of_decimals
from tocsin.errors import ParameterError
from tocsin.grids import Floors, Grid
from tocsin.language.did_you_mean import did_you_mean
from tocsin.language.expressions import Parameter
from tocsin.language.plans import LARGEST_LIMIT, Operand
from tocsin.language.threshold_scaling import scaled_decimals, scaled_floats, scaled_integers, scaled_literal
from tocsin.ordinals import EXACT
from tocsin.times import DAY, microseconds, microseconds_of
from tocsin.types import ColumnType

#: pyarrow's stubs do not cover these functions.
_types: Any = pa.types


class ParameterColumns:
    """The values of `count` subscriptions: a column per parameter; literals are broadcast.

    Every error names the parameter and, among many, the row.
    """

    def __init__(self, names: tuple[str, ...], columns: Mapping[str, Any], count: int) -> None:
        for name in names:
            if name not in columns:
                spare = [each for each in columns if each not in names]
                hint = did_you_mean(name, spare, "columns given") if spare else "Nothing was given for it."
                raise ParameterError(f"parameter :{name} is missing. {hint}")
        for name in columns:
            if name not in names:
                hint = (
                    did_you_mean(name, names, "parameters") if names else "The statement has no parameters."
                )
                raise ParameterError(f"there is no parameter :{name}. {hint}")
        self.count = count
        self._columns = {name: self._checked(name, columns[name]) for name in names}

    def _checked(self, name: str, column: Any) -> Any:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if len(column) != self.count:
            self._fail(name, f"has {len(column)} values for {self.count} subscriptions")
        if _types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if column.null_count:
            self._fail(name, "is null", column.is_null().to_numpy(zero_copy_only=False))
        return column

    def _fail(self, name: str, problem: str, rows: NDArray[np.bool_] | None = None) -> NoReturn:
        row = f" in row {int(np.argmax(rows))}" if rows is not None and self.count > 1 else ""
        raise ParameterError(f"parameter :{name}{row} {problem}")

    def type_of(self, operand: Operand) -> str:
        """`boolean`, `string` or `number`: the type that a sparse attribute is compared as."""
        if not isinstance(operand, Parameter):
            return {bool: "boolean", str: "string"}.get(type(operand), "number")
        arrow = self._columns[operand.name].type
        if _types.is_boolean(arrow):
            return "boolean"
        return "string" if _is_text(arrow) else "number"

    def numbers(self, operand: Operand, *, times: bool = False, finite: str = "") -> NDArray[np.float64]:
        """As doubles, never NaN nor -0.0; with `times`, also times as microseconds.

        `finite` names their use where infinities are not allowed.
        """
        if not isinstance(operand, Parameter):
            return np.full(self.count, float(operand) + 0.0)
        name, array = operand.name, self._columns[operand.name]
        arrow = array.type
        if times and (_types.is_temporal(arrow) or _is_text(arrow)):
            values = self._times(name, array).astype(np.float64)
        elif _types.is_decimal(arrow):
            values = doubles_of_decimals(array)
        elif _is_number(arrow):
            values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        else:
            self._fail(name, f"must be a {'time' if times else 'number'}, got {arrow}")
        if np.isnan(values).any():
            self._fail(name, "is NaN", np.isnan(values))
        if finite and np.isinf(values).any():
            self._fail(name, f"is infinite, which {finite} cannot be", np.isinf(values))
        plus_zero: NDArray[np.float64] = values + 0.0
        return plus_zero

    def attributes(self, operand: Operand) -> NDArray[np.float64]:
        """As `numbers`, with times, for a sparse attribute: values must be exact as doubles."""
        values = self.numbers(operand, times=True)
        if isinstance(operand, Parameter):
            array = self._columns[operand.name]
            is_whole = _types.is_integer(array.type) or _types.is_decimal(array.type)
            exact = array.to_pylist() if is_whole and (np.abs(values) >= EXACT).any() else None
        else:
            exact = [operand] * self.count if isinstance(operand, int) else None
        if exact is not None:
            for row, (value, double) in enumerate(zip(exact, values.tolist(), strict=True)):
                if value == int(value) and int(value) != double:
                    name = f"parameter :{operand.name}" if isinstance(operand, Parameter) else "the number"
                    where = f" in row {row}" if isinstance(operand, Parameter) and self.count > 1 else ""
                    raise ParameterError(
                        f"{name}{where} must be exact as a double, got {value}: the attributes of a stream "
                        "without columns are compared as doubles. Declare the column, or make it a text"
                    )
        return values

    def floors(self, operand: Operand, kind: ColumnType, grid: Grid) -> Floors:
        """As points on the grid of a column's type."""
        if not isinstance(operand, Parameter):
            assert not isinstance(operand, str)
            unit, is_exact = grid.floor_one(
                float(operand) if isinstance(operand, float) else Decimal(operand)
            )
            return np.full(self.count, unit, np.int64), np.full(self.count, is_exact)
        name, array = operand.name, self._columns[operand.name]
        arrow = array.type
        if (kind.is_timestamp or kind.is_date) and (_types.is_temporal(arrow) or _is_text(arrow)):
            times = self._times(name, array)
            if kind.is_timestamp:
                return times, np.ones(self.count, np.bool_)
            return times // DAY, times % DAY == 0
        if not _is_number(arrow):
            expected = "time" if kind.is_timestamp else "date" if kind.is_date else "number"
            self._fail(name, f"must be a {expected}, got {arrow}")
        if _types.is_floating(arrow):
            is_nan = np.isnan(array.to_numpy(zero_copy_only=False))
            if is_nan.any():
                self._fail(name, "is NaN", is_nan)
        return grid.floor(array)

    def _times(self, name: str, array: Any) -> NDArray[np.int64]:
        """Times, dates or ISO-8601 text as UTC microseconds, rounded down."""
        arrow = array.type
        if _is_text(arrow):
            return self._parsed_times(name, array)
        if _types.is_date(arrow):
            array = array.cast(pa.timestamp("us"))
        elif not _types.is_timestamp(arrow):
            self._fail(name, f"must be a time, got {arrow}")
        try:
            whole: NDArray[np.int64] = microseconds_of(array).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            self._fail(name, "is a time beyond the years 1 to 9999")
        return whole

    def _parsed_times(self, name: str, array: Any) -> NDArray[np.int64]:
        """ISO-8601 text: vectorised if all rows name a zone or none does, else row by row."""
        for target in (pa.timestamp("us", tz="UTC"), pa.timestamp("us")):
            try:
                return self._times(name, array.cast(target))
            except pa.ArrowInvalid:
                continue
        values = np.empty(self.count, np.int64)
        for row, text in enumerate(array.to_pylist()):
            try:
                values[row] = microseconds(text)
            except (ValueError, OverflowError):
                self._fail(name, f"must be a time, got {text!r}", np.arange(self.count) == row)
        return values

    def texts(self, operand: Operand) -> Any:
        """As an Arrow string array."""
        if not isinstance(operand, Parameter):
            return pa.repeat(pa.scalar(str(operand), pa.string()), self.count)
        array = self._columns[operand.name]
        if not _is_text(array.type):
            self._fail(operand.name, f"must be a string, got {array.type}")
        return array.cast(pa.string())

    def truths(self, operand: Operand) -> NDArray[np.bool_]:
        """As booleans."""
        if not isinstance(operand, Parameter):
            return np.full(self.count, bool(operand))
        array = self._columns[operand.name]
        if not _types.is_boolean(array.type):
            self._fail(operand.name, f"must be a boolean, got {array.type}")
        truths: NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
        return truths

    def counts(self, operand: Operand) -> NDArray[np.int32]:
        """As integers from 1 on."""
        values = self.numbers(operand, finite="a LIMIT")
        bad = (values < 1) | (values > LARGEST_LIMIT) | (values != np.floor(values))
        if bad.any() and isinstance(operand, Parameter):
            worst = values[int(np.argmax(bad))]
            self._fail(
                operand.name,
                f"must be a whole number from 1 to {LARGEST_LIMIT}, got {worst:.17g}",
                bad,
            )
        return values.astype(np.int32)

    def thresholds(self, operand: Parameter | float | int, scale: int, strict: bool) -> NDArray[np.int64]:
        """As scaled integers, each the smallest that reaches the threshold, or exceeds it if `strict`."""
        if not isinstance(operand, Parameter):
            # The literal was checked when the statement was resolved.
            return np.full(self.count, scaled_literal(operand, scale, strict), np.int64)
        name, array = operand.name, self._columns[operand.name]
        if _types.is_uint64(array.type):
            array = array.cast(pa.decimal128(20, 0))
        if _types.is_decimal(array.type):
            try:
                scaled, is_good = scaled_decimals(array, scale, strict)
            except pa.ArrowInvalid:
                self._fail(name, f"is {array.type}, which has too many digits for a threshold")
        elif _types.is_integer(array.type):
            whole = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
            scaled, is_good = scaled_integers(whole, scale, strict)
        else:
            scaled, is_good = scaled_floats(self.numbers(operand, finite="a threshold"), scale, strict)
        if not is_good.all():
            value = array[int(np.argmin(is_good))].as_py()
            problem = f"is out of reach of 64-bit sums in units of 1/{scale}"
            if value < 0 or (value == 0 and not strict):
                problem = "must not be negative" if strict else "must be positive"
            self._fail(name, f"is {value}: a threshold {problem}", ~is_good)
        return scaled


def _is_number(arrow: Any) -> bool:
    return bool(_types.is_integer(arrow) or _types.is_floating(arrow) or _types.is_decimal(arrow))


def _is_text(arrow: Any) -> bool:
    return bool(_types.is_string(arrow) or _types.is_large_string(arrow) or _types.is_string_view(arrow))
