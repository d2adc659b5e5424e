"""The parser: statements and queries from SQL text.

tokens      tokens and a cursor over them
relations   which relations a query names
schemas     CREATE SCHEMA, DROP SCHEMA, USE
statements  CREATE, DROP, DESCRIBE, EXPLAIN, SHOW, VERIFY, SET TIME ZONE
alter       ALTER
changes     INSERT, UPDATE, DELETE, MERGE
columns     what CREATE and ALTER say of columns
queries     SELECT, by sqlglot
clock       now() in texts
epochs      VERSION AS OF, in queries that Spark runs
"""

from planner.parse.alter import AddColumns, AlterColumn, Comment, NewColumn, Rename
from planner.parse.changes import Assignment, Clause, Delete, Insert, Merge, Target, Update
from planner.parse.clock import at_clock, says_clock
from planner.parse.columns import schema_type
from planner.parse.epochs import without_epochs
from planner.parse.queries import (
    Query,
    may_take,
    offset_of,
    oracle_sql,
    parse_query,
    placed,
    plain,
    qualified,
    short,
    written_name,
)
from planner.parse.schemas import (
    CreateSchema,
    DescribeSchema,
    DropSchema,
    ShowSchemas,
    UseSchema,
)
from planner.parse.statements import (
    CreateStream,
    CreateTable,
    CreateTableAs,
    CreateView,
    Describe,
    DropFunction,
    DropStream,
    DropTable,
    DropView,
    ExplainView,
    Select,
    SetTimeZone,
    ShowArrangements,
    ShowColumns,
    ShowCreate,
    ShowFunctions,
    ShowStreams,
    ShowTables,
    ShowViews,
    Statement,
    VerifyView,
    parse_statement,
)
from planner.parse.tokens import line_and_column, words_of

__all__ = [
    "AddColumns",
    "AlterColumn",
    "Assignment",
    "Clause",
    "Comment",
    "CreateSchema",
    "CreateStream",
    "CreateTable",
    "CreateTableAs",
    "CreateView",
    "Delete",
    "Describe",
    "DescribeSchema",
    "DropFunction",
    "DropSchema",
    "DropStream",
    "DropTable",
    "DropView",
    "ExplainView",
    "Insert",
    "Merge",
    "NewColumn",
    "Query",
    "Rename",
    "Select",
    "SetTimeZone",
    "ShowArrangements",
    "ShowColumns",
    "ShowCreate",
    "ShowFunctions",
    "ShowSchemas",
    "ShowStreams",
    "ShowTables",
    "ShowViews",
    "Statement",
    "Target",
    "Update",
    "UseSchema",
    "VerifyView",
    "at_clock",
    "line_and_column",
    "may_take",
    "offset_of",
    "oracle_sql",
    "parse_query",
    "parse_statement",
    "placed",
    "plain",
    "qualified",
    "says_clock",
    "schema_type",
    "short",
    "without_epochs",
    "words_of",
    "written_name",
]
