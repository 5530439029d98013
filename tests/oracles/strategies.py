"""Few distinct values, so that ties, empty ranges and NULLs happen all the time."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.oracles.conditions import Condition, Operand, Param, Score, column_score
from tests.oracles.pair import Pair
from tests.oracles.values import Scalar

FINITE = [-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]

#: cells of a double column
doubles = st.one_of(
    st.sampled_from(FINITE),
    st.sampled_from([*FINITE, -0.0, math.inf, -math.inf, math.nan, None]),
)
#: cells of a bigint column
bigints = st.one_of(st.integers(0, 3), st.sampled_from([None, -1, 0, 2]))
bounds = st.one_of(st.sampled_from(FINITE), st.sampled_from([0, 1, -math.inf, math.inf]))
names = st.sampled_from(["a", "b", "c", "d", "it's"])


@st.composite
def operands(draw: st.DrawFn, name: str) -> Operand:
    """A bound, as a literal where SQL can write it, or as the parameter `name`."""
    value = draw(bounds)
    return Param(name, value) if math.isinf(value) or draw(st.booleans()) else value


#: cells of a text and of a boolean column
sectors = st.sampled_from(["tech", "oil", "it's", "", None])
truths = st.sampled_from([True, False, None])


@st.composite
def equalities(draw: st.DrawFn, column: str, name: str) -> Condition:
    """Of a column `sector`, or of a boolean one; to a value that no row may have."""
    texts = st.sampled_from(["tech", "oil", "", "none"])
    value: Scalar = draw(texts) if column == "sector" else draw(st.booleans())
    operand: Operand = Param(name, value) if draw(st.booleans()) else value
    return Condition(column, "=", (operand,))


@st.composite
def boxes(
    draw: st.DrawFn, columns: list[str], prefix: str = "p", equal: tuple[str, ...] = ()
) -> tuple[Condition, ...]:
    """No, one or two conditions over the columns, two maybe on the same one; and equalities of `equal`."""
    chosen = draw(st.lists(st.sampled_from(columns), max_size=draw(st.sampled_from([0, 1, 1, 2]))))
    conditions = []
    for position, column in enumerate(chosen):
        operator = draw(st.sampled_from(["BETWEEN", "BETWEEN", "<", "<=", "=", ">=", ">"]))
        needed = 2 if operator == "BETWEEN" else 1
        values = tuple(draw(operands(f"{prefix}{position}{place}")) for place in range(needed))
        conditions.append(Condition(column, operator, values))
    if equal:
        chosen = draw(st.lists(st.sampled_from(equal), max_size=draw(st.sampled_from([0, 1, 1, 2]))))
        for position, column in enumerate(chosen):
            place = draw(st.integers(0, len(conditions)))
            conditions.insert(place, draw(equalities(column, f"{prefix}e{position}")))
    return tuple(conditions)


@st.composite
def expressions(draw: st.DrawFn, first: str, second: str) -> Score:
    """Monotone expressions over two columns, one of them with parameters for weights."""
    weights = st.sampled_from([-1.0, 0.0, 0.5, 2.0])
    weighted = (Param("w0", draw(weights)), Param("w1", draw(weights)))
    return draw(
        st.sampled_from(
            [
                Score(f"{first} + {second}", (first, second), lambda a, b: a + b),
                Score(f"{first} - 2 * {second}", (first, second), lambda a, b: a - 2 * b),
                Score(f"-{first}", (first,), lambda a: -a),
                Score(f"({second} + 1) / 2", (second,), lambda b: (b + 1) / 2),
                Score(
                    f":w0 * {first} + :w1 * {second}",
                    (first, second),
                    lambda a, b, w0, w1: w0 * a + w1 * b,
                    weighted,
                ),
            ]
        )
    )


def scores(first: str, second: str) -> st.SearchStrategy[Score]:
    """An expression or a bare column."""
    return st.one_of(expressions(first, second), st.sampled_from([column_score(first), column_score(second)]))


limits = st.one_of(st.sampled_from([1, 2, 3, 50]), st.sampled_from([Param("k", 1), Param("k", 2)]))


def effort(share: float) -> settings:
    """So much of the examples that the chosen profile asks for."""
    return settings(max_examples=max(5, int(settings().max_examples * share)), stateful_step_count=12)


class PairMachine(RuleBasedStateMachine):
    """What every machine does: unsubscribe, save and load, and check everything after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.pair = Pair(Path(self.scratch.name))

    def teardown(self) -> None:
        self.scratch.cleanup()

    @precondition(lambda self: self.pair.oracle.subscriptions)
    @rule(choice=st.integers(0, 100))
    def unsubscribe(self, choice: int) -> None:
        ids = sorted(self.pair.oracle.subscriptions)
        self.pair.unsubscribe(ids[choice % len(ids)])

    @rule()
    def save_and_load(self) -> None:
        self.pair.reload()

    @invariant()
    def everything_agrees(self) -> None:
        self.pair.check()
