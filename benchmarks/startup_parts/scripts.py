"""What is started: the README's example, and a script for each form of statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from tocsin.cli.workload import NOON, SOURCES, TEMPLATES
from tocsin.engine.sources.catalog import Declaration

README = Path(__file__).resolve().parents[2] / "README.md"

#: Rows for each source, published at once.
ROWS: dict[str, list[dict[str, Any]]] = {
    "cars": [
        {"id": "a", "km": 1.0, "price": 3, "maker": "x"},
        {"id": "b", "km": 4.0, "price": 2, "maker": "y"},
    ],
    "makers": [{"name": "x", "size": 3}, {"name": "y", "size": 2}],
    "packets": [{"size": 1.0}, {"size": 2.0}],
    "flows": [{"size": 2.0, "at": NOON}, {"size": 4.0, "at": NOON + timedelta(seconds=20)}],
    "trades": [{"price": price, "shares": 7, "fee": Decimal("0.5")} for price in (1.0, 2.0, 3.0)],
    "offers": [{"name": "n", "price": 1.0, "city": "a"}, {"name": "m", "price": 6.0, "city": "b"}],
    "visitors": [{"age": 30, "city": city, "member": True} for city in ("Oslo", "Bergen")],
}

#: The end of each script: an answer for which kernels were compiled is not the wheel's.
CHECK = """
from tocsin.arrays.compile_progress import compilation
assert compilation.count == 0, f"{compilation.count} kernels were compiled"
"""


class Script(NamedTuple):
    """A program in Python, and what it must print, where that is known."""

    name: str
    text: str
    output: str | None = None


def readme_example() -> Script:
    """The first example of the README, with its output."""
    blocks = re.findall(r"```\w*\n(.*?)```", README.read_text(), re.DOTALL)
    return Script("README's example", blocks[0] + CHECK, blocks[1])


def forms() -> list[Script]:
    """Each form of statement: its sources, one subscription, one publish, and the answer.

    Thresholds repeat: they would end with the row that reaches them.
    """
    return [_form(sql, {name: values[0] for name, values in columns.items()}) for sql, columns in TEMPLATES]


def _form(sql: str, params: Mapping[str, Any]) -> Script:
    sources = [declared for declared in SOURCES if re.search(rf"\b(FROM|JOIN) {declared.name}\b", sql)]
    lines = ["import datetime", "from decimal import Decimal", "import tocsin", "engine = tocsin.Engine()"]
    lines += [_declaration(declared) for declared in sources]
    lines.append(f"subscription = engine.subscribe({sql!r}, repeat={'HAVING' in sql}, **{dict(params)!r})")
    lines += [f"print(engine.publish({each.name!r}, {ROWS[each.name]!r}).to_pylist())" for each in sources]
    lines.append("print(engine.result(subscription).to_pylist())")
    return Script(sql, "\n".join(lines) + CHECK)


def _declaration(declared: Declaration) -> str:
    given = {name: value for name, value in declared.as_dict().items() if value is not None}
    kind, name = given.pop("kind"), given.pop("name")
    return f"engine.create_{kind}({name!r}, **{given!r})"
