"""Statements and expressions for Hypothesis, as trees."""

from __future__ import annotations

from hypothesis import strategies as st

from tocsin.language.expressions import (
    Binary,
    Call,
    Column,
    Constant,
    Expression,
    Negate,
    Parameter,
    columns_of,
)
from tocsin.language.parsing.statement import (
    AggregateCall,
    BooleanLiteral,
    Condition,
    Distance,
    Having,
    Identifier,
    JoinClause,
    OrderBy,
    SelectItem,
    SourceReference,
    Star,
    Statement,
    StringLiteral,
    TimestampLiteral,
    Value,
)

names = st.sampled_from(["x", "y", "price", "at", "my col", 'a"b', "größe"])
parameters = st.sampled_from(["a", "b", "lo", "k"]).map(Parameter)
columns = st.builds(Column, names, st.none() | st.sampled_from(["t", "s s"]))
numbers = st.integers(-3, 10**20) | st.floats(allow_nan=False, allow_infinity=False)
constants = numbers.map(Constant)
values: st.SearchStrategy[Value] = st.one_of(
    constants,
    parameters,
    st.text("ab'\"é\\ \n", max_size=4).map(StringLiteral),
    st.booleans().map(BooleanLiteral),
    st.sampled_from(["2013-10-08T18:11:46Z", "2020-01-01"]).map(TimestampLiteral),
)


def expressions(
    column: st.SearchStrategy[Column], constant: st.SearchStrategy[Constant], *, most: int = 8
) -> st.SearchStrategy[Expression]:
    """Trees without a minus before a number: that reads as a negative number."""

    def grown(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(
            st.builds(Binary, st.sampled_from("+-*/"), inner, inner),
            st.builds(Negate, inner.filter(lambda node: not isinstance(node, Constant))),
            st.builds(
                lambda name, node: Call(name, (node,)), st.sampled_from(["SQRT", "LN", "EXP", "ABS"]), inner
            ),
            st.builds(
                lambda node, power: Call("POWER", (node, Constant(power))),
                inner,
                st.sampled_from([-2, -1, -0.5, 0, 0.5, 1, 2, 3]),
            ),
        )

    return st.recursive(column | constant | parameters, grown, max_leaves=most)


scores = expressions(columns, constants).filter(lambda node: bool(columns_of(node)))
aliases = st.none() | names.map(Identifier)
aggregates = st.one_of(
    st.builds(AggregateCall, st.sampled_from(["MIN", "MAX", "COUNT", "SUM", "AVG"]), columns),
    st.just(AggregateCall("COUNT", None)),
)
sources = st.builds(SourceReference, names.map(Identifier), aliases)
centers = constants | parameters
distances = st.builds(Distance, st.tuples(columns, columns), st.tuples(centers, centers))
conditions = st.one_of(
    st.builds(
        lambda subject, operator, operand, weight: Condition(subject, operator, (operand,), weight),
        columns | scores | distances,
        st.sampled_from(["<", "<=", "=", "<>", ">=", ">"]),
        values,
        st.none() | constants | parameters,
    ),
    st.builds(
        lambda subject, ends: Condition(subject, "BETWEEN", ends), columns | scores, st.tuples(values, values)
    ),
    st.builds(
        lambda subject, operator, operands: Condition(subject, operator, tuple(operands)),
        columns,
        st.sampled_from(["IN", "NOT IN"]),
        st.lists(values, min_size=1, max_size=3),
    ),
)
statements = st.builds(
    Statement,
    items=st.just((SelectItem(Star(), None),))
    | st.lists(st.builds(SelectItem, columns | aggregates, aliases), min_size=1, max_size=3).map(tuple),
    distinct=st.booleans(),
    source=sources,
    join=st.none() | st.builds(JoinClause, sources, columns, columns),
    where=st.lists(conditions, max_size=3).map(tuple),
    having=st.none() | st.builds(Having, aggregates, st.sampled_from(["<", ">=", "="]), values),
    order=st.none() | st.builds(OrderBy, scores, st.booleans()),
    limit=st.none() | st.integers(0, 9).map(Constant) | parameters,
)
