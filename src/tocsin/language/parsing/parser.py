"""SQL text to a `Statement`: the clauses. Their contents are read by `sql_values` and `conditions`."""

from __future__ import annotations

from itertools import pairwise

from sqlglot import TokenType, exp

from tocsin.language.expressions import Column
from tocsin.language.parsing.conditions import AGGREGATES, read_aggregate, read_comparison, read_where
from tocsin.language.parsing.sql_values import (
    name_text,
    only,
    read_column,
    read_expression,
    read_value,
    unwrapped,
)
from tocsin.language.parsing.statement import (
    AggregateCall,
    Having,
    Identifier,
    JoinClause,
    OrderBy,
    SelectItem,
    SourceReference,
    Star,
    Statement,
    Value,
)
from tocsin.language.parsing.syntax import STATEMENT_FORM, SyntaxTree, read, too_deep
from tocsin.language.spans import Span

_REFUSED_CLAUSES = {
    "group": (
        "GROUP BY is not supported",
        "An aggregate is over all the rows that WHERE leaves; subscribe once per group.",
    ),
    "offset": ("OFFSET is not supported", "LIMIT k selects the first k rows."),
    "windows": ("WINDOW is not supported", STATEMENT_FORM),
    "qualify": ("QUALIFY is not supported", STATEMENT_FORM),
    "laterals": ("LATERAL is not supported", STATEMENT_FORM),
    "into": ("INTO is not supported", STATEMENT_FORM),
    "sample": ("sampling is not supported", STATEMENT_FORM),
    "locks": ("locking is not supported", STATEMENT_FORM),
}


def parse(sql: str) -> Statement:
    """Read one statement. Raises `SQLError`, and nothing else, for whatever is not supported."""
    tree = read(sql)
    try:
        return _statement(tree)
    except RecursionError:
        raise too_deep(sql) from None


def _statement(tree: SyntaxTree) -> Statement:
    root = tree.root
    _refuse_clauses(tree)
    if not root.expressions:
        start, end = tree.tokens[0], tree.tokens[min(1, len(tree.tokens) - 1)]
        tree.refuse(
            Span(start.start, end.end + 1),
            "there is nothing between SELECT and FROM",
            "Name columns, or write *.",
        )
    if root.args.get("from_") is None:
        tree.refuse(tree.span(root), "there is no FROM", STATEMENT_FORM)
    return Statement(
        items=_items(tree),
        distinct=_distinct(tree),
        source=_source(tree, root.args["from_"].this),
        join=_join(tree),
        where=read_where(tree, root.args["where"].this) if root.args.get("where") else (),
        having=_having(tree),
        order=_order(tree),
        limit=_limit(tree),
        index=_index(tree),
        sql=tree.sql,
    )


def _refuse_clauses(tree: SyntaxTree) -> None:
    supported = {"expressions", "hint", "distinct", "from_", "joins", "where", "having", "order", "limit"}
    for name, clause in tree.root.args.items():
        if not clause or name in supported:
            continue
        nodes = [
            node for node in (clause if isinstance(clause, list) else [clause]) if isinstance(node, exp.Expr)
        ]
        message, hint = _REFUSED_CLAUSES.get(
            name, (f"{name.strip('_').upper()} is not supported", STATEMENT_FORM)
        )
        tree.refuse(tree.clause(*nodes), message, hint)


def _index(tree: SyntaxTree) -> str | None:
    """The index that a hint names: `/*+ INDEX('sma') */`."""
    hint = tree.root.args.get("hint")
    if hint is None:
        return None
    hints = [node for node in hint.expressions if isinstance(node, exp.Anonymous)]
    names = [argument for node in hints if node.name.upper() == "INDEX" for argument in node.expressions]
    if len(hint.expressions) == len(hints) == len(names) == 1 and isinstance(
        names[0], exp.Literal | exp.Column
    ):
        return str(names[0].name)
    token = next(token for token in tree.tokens if token.token_type == TokenType.HINT)
    tree.refuse(
        Span(token.start, token.end + 1),
        "this hint is not supported",
        "A hint names the index that maintains a statement: /*+ INDEX('sma') */.",
    )


def _items(tree: SyntaxTree) -> tuple[SelectItem, ...]:
    items = tuple(_item(tree, node) for node in tree.root.expressions)
    for item in items:
        if isinstance(item.value, Star) and (len(items) > 1 or item.alias):
            tree.refuse(item.span, "* stands alone in a SELECT list", "Write SELECT *, or name the columns.")
    return items


def _item(tree: SyntaxTree, node: exp.Expr) -> SelectItem:
    span, alias = tree.span(node), None
    if isinstance(node, exp.Alias):
        alias = _identifier(tree, node.args["alias"])
        node = node.this
    node = unwrapped(node)
    value: Column | AggregateCall | Star
    if isinstance(node, exp.Star):
        only(tree, node)
        value = Star(tree.span(node))
    elif isinstance(node, AGGREGATES):
        value = read_aggregate(tree, node)
    elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        value = read_column(tree, node)
    else:
        hint = "SELECT takes columns, *, or one of MIN, MAX, COUNT, SUM, AVG of a column."
        tree.refuse(span, "this cannot be selected", hint)
    return SelectItem(value, alias, span)


def _identifier(tree: SyntaxTree, node: exp.Expr) -> Identifier:
    span = tree.span(node)
    written = tree.sql[span.start : span.end]
    is_string = "'" in written and not written.startswith('"')
    if not isinstance(node, exp.Identifier) or not node.name or is_string:
        tree.refuse(
            node, "this is not a name", "A name is letters, digits and _, or anything in double quotes."
        )
    return Identifier(node.name, name_text(node), span)


def _distinct(tree: SyntaxTree) -> bool:
    distinct = tree.root.args.get("distinct")
    if isinstance(distinct, exp.Expr):
        only(tree, distinct, hint="Write SELECT DISTINCT y FROM …")
    return distinct is not None


def _source(tree: SyntaxTree, node: exp.Expr) -> SourceReference:
    hint = "FROM takes the name of a table or stream, and an alias with AS."
    if isinstance(node, exp.Query):
        tree.refuse(node, "subqueries are not supported", hint)
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        tree.refuse(node, "this is not the name of a table or stream", hint)
    only(tree, node, "this", "alias", hint=hint)
    alias = node.args.get("alias")
    if alias is not None:
        only(tree, alias, "this", hint=hint)
        alias = _identifier(tree, alias.this)
    return SourceReference(_identifier(tree, node.this), alias, tree.span(node))


def _join(tree: SyntaxTree) -> JoinClause | None:
    joins = tree.root.args.get("joins") or []
    if not joins:
        return None
    hint = "A join is FROM r JOIN s ON r.a = s.a, of two tables."
    if len(joins) > 1:
        tree.refuse(tree.clause(*joins[1:]), "more than two tables are joined", hint)
    join = joins[0]
    kind = " ".join(
        str(join.args[name]).upper() for name in ("method", "side", "kind") if join.args.get(name)
    )
    if kind not in ("", "INNER"):
        tree.refuse(tree.clause(join), f"{kind} JOIN is not supported", hint)
    only(tree, join, "this", "on", "kind", hint=hint)
    source = _source(tree, join.this)
    on = join.args.get("on")
    if on is None:
        tree.refuse(tree.clause(join), "this join has no ON", hint)
    on = unwrapped(on)
    if not isinstance(on, exp.EQ):
        tree.refuse(on, "ON takes one equality of two columns", hint)
    sides = [unwrapped(on.this), unwrapped(on.expression)]
    for side in sides:
        if not isinstance(side, exp.Column):
            tree.refuse(side, "ON compares a column of one table with a column of the other", hint)
    left, right = (read_column(tree, side) for side in sides)
    return JoinClause(source, left, right, tree.clause(join))


def _having(tree: SyntaxTree) -> Having | None:
    clause = tree.root.args.get("having")
    if clause is None:
        return None
    hint = "HAVING takes SUM(w) >= tau or COUNT(*) >= tau, or >."
    sides = read_comparison(unwrapped(clause.this))
    if sides is None:
        tree.refuse(clause.this, "this is not supported in HAVING", hint)
    left, operator, right = sides
    if not isinstance(left, AGGREGATES):
        left, operator, right = (
            right,
            {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(operator, operator),
            left,
        )
    if not isinstance(left, AGGREGATES):
        tree.refuse(clause.this, "HAVING compares the aggregate of the SELECT list", hint)
    value = read_value(tree, right)
    if value is None:
        tree.refuse(right, "an aggregate is compared with a number or a :parameter", hint)
    return Having(read_aggregate(tree, left), operator, value, tree.clause(clause))


def _order(tree: SyntaxTree) -> OrderBy | None:
    clause = tree.root.args.get("order")
    if clause is None:
        return None
    only(tree, clause, "expressions")
    first, *others = clause.expressions
    if others:
        hint = "Order by one column or one expression; ties are broken by age."
        tree.refuse(tree.span(*others), "ORDER BY takes one expression", hint)
    for token, following in pairwise(tree.tokens):
        # sqlglot fills in its own default: only the tokens show whether it was written.
        is_nulls = token.token_type == TokenType.VAR and token.text.upper() == "NULLS"
        if is_nulls and following.text.upper() in ("FIRST", "LAST"):
            tree.refuse(
                Span(token.start, following.end + 1),
                "NULL is never ranked",
                "Leave NULLS FIRST and NULLS LAST out.",
            )
    if isinstance(first, exp.Ordered):
        only(tree, first, "this", "desc", "nulls_first")
        descending, expression = bool(first.args.get("desc")), first.this
    else:
        descending, expression = False, first
    span = tree.clause(clause)
    after = tree.token_after(span)
    if after is not None and after.token_type in (TokenType.ASC, TokenType.DESC):
        span = Span(span.start, after.end + 1)
    return OrderBy(read_expression(tree, expression), descending, span)


def _limit(tree: SyntaxTree) -> Value | None:
    clause = tree.root.args.get("limit")
    if clause is None:
        return None
    hint = "LIMIT takes a whole number from 1 on, or a :parameter."
    if not isinstance(clause, exp.Limit):
        tree.refuse(tree.clause(clause), f"{clause.key.upper()} is not supported", hint)
    only(tree, clause, "expression", hint=hint)
    value = read_value(tree, clause.expression)
    if value is None:
        tree.refuse(clause.expression, "this is not a number of rows", hint)
    rest = Span(value.span.end, tree.tokens[-1].end + 1)
    if tree.sql[rest.start : rest.end].strip(" \t\r\n)"):
        tree.refuse(rest, "nothing can follow LIMIT k", STATEMENT_FORM)
    return value
