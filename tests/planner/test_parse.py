"""Statements: texts to values, and texts to errors with their places."""

from __future__ import annotations

import pytest

from planner.errors import SqlViewError
from planner.parse import CreateTable, CreateView, oracle_sql, parse_query, parse_statement
from tests.planner import cases


def parsed(text: str) -> str:
    """The statement in short, or the error."""
    try:
        statement = parse_statement(text)
    except SqlViewError as error:
        return f"{type(error).__name__}: {error}"
    match statement:
        case CreateTable():
            columns = ", ".join(map(str, statement.columns))
            return (
                f"CreateTable {statement.name} ({columns}) key {statement.primary_key}"
                f" enforced {statement.enforced} if_not_exists {statement.if_not_exists}"
            )
        case CreateView():
            return repr(statement).replace("CreateView(", "CreateView (")
        case _:
            return repr(statement)


@pytest.mark.parametrize("case", cases.read("statements"), ids=lambda c: c.text)
def test_parse(case: cases.Case, bless: bool) -> None:
    if not bless:
        assert parsed(case.text) == case.expected


def test_bless(bless: bool) -> None:
    if bless:
        cases.bless("statements", parsed)


@pytest.mark.parametrize(
    ("text", "oracle"),
    [
        ("select a / 2, cast(s as int) from t", "SELECT a / 2, CAST(s AS INT) FROM t"),
        ("select 'it''s' from t", "SELECT 'it''s' FROM t"),
        (
            "select d + interval '3' month from t where s rlike 'x'",
            "SELECT d + INTERVAL '3' MONTH FROM t WHERE REGEXP_MATCHES(s, 'x')",
        ),
        (
            "select a from t order by a desc limit 3",
            "SELECT a FROM t ORDER BY a DESC LIMIT 3",
        ),
    ],
)
def test_oracle_sql(text: str, oracle: str) -> None:
    assert oracle_sql(parse_query(text)) == oracle


def test_the_queries_of_a_view_keep_their_text() -> None:
    view = parse_statement("CREATE MATERIALIZED VIEW v AS\n  SELECT a -- first\n  FROM t ;")
    assert isinstance(view, CreateView)
    assert view.query.text == "SELECT a -- first\n  FROM t"
    assert parse_query(view.query.text) != view.query  # their places differ
