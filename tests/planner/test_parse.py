"""Statements: texts to values, and texts to errors with their places."""

from __future__ import annotations

import pytest

from planner.errors import SqlSyntaxError, SqlViewError
from planner.parse import CreateTable, CreateView, Select, oracle_sql, parse_query, parse_statement
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


#: Texts that would leave parentheses put around them, or that hide where they do so.
LEAVING = [
    "SELECT 1 AS a) UNION ALL (SELECT 2",
    "SELECT 1 AS a]",
    "SELECT (1 AS a",
    "SELECT f(1] AS a",
    "SELECT 1 /* /* */ ' */ ) UNION ALL (SELECT 2 -- '",
    "SELECT 1 -- \r ) UNION ALL (SELECT 2",
    "SELECT '\\\\') UNION ALL (SELECT '",
    "SELECT r'\\') UNION ALL (SELECT r'",
    "SELECT 1; SELECT 2",
    "SELECT 1 /* never closed",
]
#: What looks like it, and is none.
STAYING = [
    "SELECT ')' AS a -- )",
    "SELECT 1 AS a /* ) /* ) */ ) */",
    "SELECT 1 AS `)` -- ) \\\n )",
    'SELECT ") (" AS a;',
    "SELECT ')'')' AS a",
    "SELECT '\\') UNION ALL (SELECT '",
]


@pytest.mark.parametrize("start", ["", "CREATE MATERIALIZED VIEW v AS ", "EXPLAIN CREATE "])
@pytest.mark.parametrize("text", LEAVING)
def test_a_text_is_a_statement_by_itself(text: str, start: str) -> None:
    if start.startswith("EXPLAIN"):
        start += "MATERIALIZED VIEW v AS "
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(start + text)
    assert caught.value.line is not None


@pytest.mark.parametrize("text", STAYING)
def test_brackets_in_strings_and_comments_are_none(text: str) -> None:
    assert isinstance(parse_statement(text), Select)
    view = parse_statement("CREATE MATERIALIZED VIEW v AS " + text)
    assert isinstance(view, CreateView)
    assert len(view.query.tree.expressions) == 1


def test_comments_end_where_spark_ends_them() -> None:
    view = parse_statement("CREATE MATERIALIZED VIEW v AS SELECT 1 AS a -- b \\\n, 2 AS c")
    assert isinstance(view, CreateView)
    assert len(view.query.tree.expressions) == 1
