"""sqlglot front end: text to its syntax tree, and the span of each node in the text.

Only this module and those that read the tree know sqlglot. Whatever it raises leaves here as an `SQLError`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import ClassVar, NoReturn

from sqlglot import Token, TokenType, exp, parser
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from tocsin.errors import SQLError
from tocsin.language.spans import Span

STATEMENT_FORM = (
    "A standing query is SELECT … FROM … [JOIN … ON …] [WHERE … AND …] [HAVING …] [ORDER BY … LIMIT k]."
)

#: The leading keywords of a clause end before one of these.
_NOT_KEYWORDS = {
    TokenType.WHERE,
    TokenType.AND,
    TokenType.FROM,
    TokenType.ON,
    TokenType.VAR,
    TokenType.IDENTIFIER,
    TokenType.NUMBER,
    TokenType.STRING,
    TokenType.STAR,
    TokenType.TRUE,
    TokenType.FALSE,
    TokenType.NULL,
    TokenType.ASC,
    TokenType.DESC,
}

#: Brackets and arrows make sqlglot read JSON paths, lambdas and the like.
_FOREIGN = {
    TokenType.L_BRACKET,
    TokenType.R_BRACKET,
    TokenType.L_BRACE,
    TokenType.R_BRACE,
    TokenType.ARROW,
    TokenType.DARROW,
    TokenType.FARROW,
}


def _placed(node: exp.Expr, first: Token, last: Token) -> exp.Expr:
    return node.update_positions(line=first.line, col=first.col, start=first.start, end=last.end)


def _parameter(reader: parser.Parser) -> exp.Expr | None:
    colon = reader._prev
    if not reader._match_set(reader.COLON_PLACEHOLDER_TOKENS):
        return None
    return _placed(exp.Placeholder(this=reader._prev.text), colon, reader._prev)


def _other_parameter(reader: parser.Parser) -> exp.Expr:
    sign = reader._prev
    return _placed(reader._parse_parameter(), sign, reader._prev)


def _anonymous(reader: parser.Parser) -> exp.Expr:
    return _placed(exp.Placeholder(), reader._prev, reader._prev)


def _true(reader: parser.Parser, token: Token) -> exp.Expr:
    return _placed(exp.Boolean(this=True), token, token)


def _false(reader: parser.Parser, token: Token) -> exp.Expr:
    return _placed(exp.Boolean(this=False), token, token)


def _null(reader: parser.Parser, token: Token) -> exp.Expr:
    return _placed(exp.Null(), token, token)


def _minus(reader: parser.Parser) -> exp.Expr:
    sign = reader._prev
    return reader.expression(exp.Neg(this=reader._parse_unary()), sign)


def _not(reader: parser.Parser) -> exp.Expr:
    word = reader._prev
    return reader.expression(exp.Not(this=reader._parse_equality()), word)


class StandingSQL(Dialect):
    """sqlglot's common SQL, except that parameters, signs, booleans and NULL keep their positions."""

    class Parser(parser.Parser):
        PRIMARY_PARSERS: ClassVar = {
            **parser.Parser.PRIMARY_PARSERS,
            TokenType.TRUE: _true,
            TokenType.FALSE: _false,
            TokenType.NULL: _null,
        }
        UNARY_PARSERS: ClassVar = {
            **parser.Parser.UNARY_PARSERS,
            TokenType.DASH: _minus,
            TokenType.NOT: _not,
        }
        PLACEHOLDER_PARSERS: ClassVar = {
            **parser.Parser.PLACEHOLDER_PARSERS,
            TokenType.COLON: _parameter,
            TokenType.PLACEHOLDER: _anonymous,
            TokenType.PARAMETER: _other_parameter,
        }


class SyntaxTree:
    """A SELECT as sqlglot reads it, with the spans of its nodes in the text."""

    def __init__(self, sql: str, tokens: list[Token], root: exp.Select) -> None:
        self.sql = sql
        self.tokens = tokens
        self.root = root
        self._starts = [token.start for token in tokens]
        self._ends = [token.end + 1 for token in tokens]

    def span(self, *nodes: exp.Expr) -> Span:
        """The span of `nodes`: from their first leaf to their last, with balanced parentheses.

        sqlglot keeps positions of leaves and function names only. Nodes without any get the whole statement.
        """
        places = [
            (node.meta["start"], node.meta["end"] + 1)
            for top in nodes
            for node in top.walk()
            if node.meta.get("start") is not None
        ]
        if not places:
            return Span(self._starts[0], self._ends[-1])
        first = bisect_right(self._starts, min(start for start, _ in places)) - 1
        last = bisect_left(self._ends, max(end for _, end in places))
        if len(nodes) == 1 and isinstance(nodes[0], exp.Cast):
            # A cast is a type before its operand, or `::` and a type after it.
            first -= self._type_at(first - 1) in parser.Parser.TYPE_TOKENS
            last += 2 * (self._type_at(last + 1) == TokenType.DCOLON)
        first, last = self._balanced(first, last)
        return Span(self._starts[first], self._ends[last])

    def clause(self, *nodes: exp.Expr) -> Span:
        """Like `span`, and the keywords before it: `GROUP BY x`, `USING (x)`."""
        span = self.span(*nodes)
        first = bisect_right(self._starts, span.start) - 1
        last = bisect_left(self._ends, span.end)
        while first > 1 and self._is_keyword(first - 1):
            first -= 1
        first, last = self._balanced(first, last)
        return Span(self._starts[first], self._ends[last])

    def token_after(self, span: Span) -> Token | None:
        """The next token that is not a closing parenthesis."""
        place = bisect_right(self._starts, span.end - 1)
        while self._type_at(place) == TokenType.R_PAREN:
            place += 1
        return self.tokens[place] if place < len(self.tokens) else None

    def refuse(self, where: Span | exp.Expr, message: str, hint: str = STATEMENT_FORM) -> NoReturn:
        """Raise the error that underlines `where`."""
        if isinstance(where, exp.Query):
            where = self.clause(where)
        span = where if isinstance(where, Span) else self.span(where)
        raise SQLError(message, sql=self.sql, start=span.start, end=span.end, hint=hint)

    def _type_at(self, index: int) -> TokenType | None:
        return self.tokens[index].token_type if 0 <= index < len(self.tokens) else None

    def _is_keyword(self, index: int) -> bool:
        """Whether this token is a keyword, or an opening parenthesis after one."""
        token = self.tokens[index]
        if token.token_type == TokenType.L_PAREN:
            return index > 1 and self._is_keyword(index - 1)
        return token.text.replace(" ", "").isalpha() and token.token_type not in _NOT_KEYWORDS

    def _balanced(self, first: int, last: int) -> tuple[int, int]:
        """Widen a run of tokens until its parentheses are balanced."""
        depth = lowest = 0
        for token in self.tokens[first : last + 1]:
            depth += _depth(token)
            lowest = min(lowest, depth)
        missing = -lowest
        while missing > 0 and first > 0:
            first -= 1
            missing -= _depth(self.tokens[first])
        open_ones = depth - lowest
        while open_ones > 0 and last + 1 < len(self.tokens):
            last += 1
            open_ones += _depth(self.tokens[last])
        return first, last


def _depth(token: Token) -> int:
    return (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)


def read(sql: str) -> SyntaxTree:
    """Read one SELECT. Anything else is an `SQLError`."""
    half = re.search("[\ud800-\udfff]", sql)
    if half is not None:
        raise SQLError("this is half a character", sql=sql, start=half.start(), end=half.end())
    tokens = _tokenize(sql)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise SQLError("there is no statement here", sql=sql, start=0, end=len(sql), hint=STATEMENT_FORM)
    _check_tokens(sql, tokens)
    root = _parse(sql, tokens)
    if isinstance(root, exp.SetOperation):
        joint = next(
            (token for token in tokens if token.token_type in parser.Parser.SET_OPERATIONS), tokens[0]
        )
        raise SQLError(
            f"{joint.text.upper()} is not supported",
            sql=sql,
            start=joint.start,
            end=len(sql.rstrip()),
            hint=STATEMENT_FORM,
        )
    if not isinstance(root, exp.Select):
        end = tokens[-1].end + 1
        raise SQLError("this is not a SELECT", sql=sql, start=tokens[0].start, end=end, hint=STATEMENT_FORM)
    return SyntaxTree(sql, tokens, root)


def _check_tokens(sql: str, tokens: list[Token]) -> None:
    first = tokens[0]
    if first.token_type == TokenType.WITH:
        message = "WITH is not supported: a standing query reads its tables and streams directly"
        raise SQLError(message, sql=sql, start=first.start, end=first.end + 1, hint=STATEMENT_FORM)
    if first.token_type != TokenType.SELECT:
        message = "a standing query starts with SELECT"
        raise SQLError(message, sql=sql, start=first.start, end=first.end + 1, hint=STATEMENT_FORM)
    for token, following in pairwise(tokens):
        if token.token_type == TokenType.SEMICOLON:
            message = "there is a second statement here"
            hint = "Subscribe to one statement at a time."
            raise SQLError(message, sql=sql, start=following.start, end=tokens[-1].end + 1, hint=hint)
        if token.token_type in _FOREIGN:
            message = f"{token.text} is not part of a standing query"
            raise SQLError(message, sql=sql, start=token.start, end=token.end + 1, hint=STATEMENT_FORM)
        if token.token_type == TokenType.COMMA and following.token_type in (
            TokenType.FROM,
            TokenType.R_PAREN,
        ):
            raise SQLError("nothing follows this comma", sql=sql, start=token.start, end=token.end + 1)


def _tokenize(sql: str) -> list[Token]:
    try:
        return list(StandingSQL().tokenize(sql))
    except TokenError as error:
        cause = str(error.__cause__ or error)
        unclosed = re.match(r"Missing (.+) from \d+:(\d+)", cause)
        if unclosed:
            start = min(int(unclosed[2]), len(sql) - 1)
            message = f"the quote that starts here is not closed by {unclosed[1]}"
            raise SQLError(message, sql=sql, start=start, end=len(sql)) from None
        raise SQLError(
            "this cannot be read as SQL", sql=sql, start=0, end=len(sql), hint=STATEMENT_FORM
        ) from None


def _parse(sql: str, tokens: list[Token]) -> exp.Expr | None:
    try:
        # With the whole text as context, an error shows its offset.
        trees = StandingSQL().parser(error_message_context=len(sql) + 1).parse(tokens, sql)
    except ParseError as error:
        raise _parse_error(sql, tokens, error) from None
    except RecursionError:
        raise too_deep(sql) from None
    except Exception:
        # sqlglot fails in many ways on text that is not SQL at all; to a user they are the same.
        message, end = "this cannot be read as SQL", tokens[-1].end + 1
        raise SQLError(message, sql=sql, start=tokens[0].start, end=end, hint=STATEMENT_FORM) from None
    return trees[0] if trees else None


def too_deep(sql: str) -> SQLError:
    """The error for a statement that exceeds the recursion limit."""
    return SQLError(
        "this statement is nested too deeply",
        sql=sql,
        start=0,
        end=len(sql),
        hint="Write it with fewer parentheses and shorter sums.",
    )


def _parse_error(sql: str, tokens: list[Token], error: ParseError) -> SQLError:
    details = error.errors[0] if error.errors else {}
    start = len(details.get("start_context") or "")
    end = start + len(details.get("highlight") or "")
    description = str(details.get("description") or "")
    if description.startswith("Required keyword"):
        message = f"something is missing after {sql[start:end]!r}" if end > start else "something is missing"
    elif description.startswith("Expecting"):
        message = f"expected {description.removeprefix('Expecting').strip()} here"
    else:
        message = "this was not expected here"
    return SQLError(message, sql=sql, start=start, end=max(end, start + 1), hint=STATEMENT_FORM)
