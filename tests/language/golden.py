"""Golden files: statements, and what becomes of them.

An entry is a statement after `> `, its canonical form after `= ` where that differs, and the plan or
the error. Entries are apart by an empty line; lines that start with `#` are comments.
`python -m tests.language.golden` writes the files anew; read the difference before keeping it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

from tests.language.catalog import CATALOG
from tocsin.errors import SQLError
from tocsin.language import (
    Binary,
    Bound,
    Call,
    Column,
    Dimension,
    Expression,
    Negate,
    Parameter,
    Plan,
    Predicate,
    Region,
    Score,
    Selected,
    parameters,
    parse,
    plan,
)
from tocsin.types import ColumnType

FOLDER = Path(__file__).parent / "golden"


class Entry(NamedTuple):
    comments: list[str]
    sql: str
    outcome: str


def entries(path: Path) -> list[Entry]:
    blocks = path.read_text(encoding="utf-8").strip("\n").split("\n\n")
    return [_entry(block.split("\n")) for block in blocks]


def _entry(lines: list[str]) -> Entry:
    comments = [line for line in lines if line.startswith("#")]
    sql = "\n".join(line[2:] for line in lines if line.startswith("> "))
    outcome = [line for line in lines if not line.startswith(("#", "> "))]
    return Entry(comments, sql, "\n".join(outcome))


def outcome(sql: str) -> str:
    """What the language makes of a statement, as golden files show it."""
    try:
        statement = parse(sql)
        made = plan(statement, CATALOG)
    except SQLError as error:
        return str(error)
    printed = [] if str(statement) == sql else [f"= {statement}"]
    return "\n".join([*printed, *_plan_lines(made)])


def _plan_lines(made: Plan) -> Iterable[str]:
    yield type(made).__name__
    for field in fields(made):
        value = getattr(made, field.name)
        if value not in ((), None) and (field.name, value) != ("strict", False):
            yield f"  {field.name}: {_text(value)}"
    if parameters(made):
        yield f"  parameters: {', '.join(parameters(made))}"


def _text(value: object) -> str:
    match value:
        case tuple():
            return ", ".join(map(_text, value))
        case ColumnType():
            return value.name
        case Column() | Negate() | Binary() | Call() | Parameter():
            return str(value)
        case Selected(source, column, name):
            return f"{source}.{column} as {name}"
        case Dimension(source, column, kind, lows, highs, _, test):
            filtered = "" if test is None else f" if {test}"
            return f"{source}.{column} {kind.name}{_bounds(lows, highs)}{filtered}"
        case Region(kind, source, columns, operands, signs, bound, is_low):
            terms = [
                f"{'-' if sign < 0 else ''}{_text(operand)} {source}.{column}"
                for sign, operand, column in zip(signs, operands, columns, strict=True)
            ]
            return f"{kind} {', '.join(terms)}{_bounds((bound,) * is_low, (bound,) * (not is_low))}"
        case Score(expression, columns, directions):
            follows = ", ".join(f"{a} {_direction(b)}" for a, b in zip(columns, directions, strict=True))
            return f"{expression} ({follows})"
        case Bound(operand, strict):
            return f"{_text(operand)}{' strictly' if strict else ''}"
        case Predicate(attribute, kind, operator, operands, weight):
            shown = "any" if kind is None else kind.name
            return f"{attribute} {shown} {operator} ({_text(operands)}) weight {_text(weight)}"
        case _:
            return repr(value)


def _bounds(lows: tuple[Bound, ...], highs: tuple[Bound, ...]) -> str:
    low = [f" {'>' if bound.strict else '>='} {_text(bound.operand)}" for bound in lows]
    return "".join(low + [f" {'<' if bound.strict else '<='} {_text(bound.operand)}" for bound in highs])


def _direction(direction: int | Expression) -> str:
    if isinstance(direction, int):
        return "rises" if direction > 0 else "falls"
    return f"by the sign of {direction}"


def rewrite() -> None:
    for path in sorted(FOLDER.glob("*.txt")):
        blocks = []
        for entry in entries(path):
            statement = [f"> {line}" for line in entry.sql.split("\n")]
            blocks.append("\n".join([*entry.comments, *statement, outcome(entry.sql)]))
        path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    rewrite()
