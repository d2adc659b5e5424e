"""The oracle that a view's language comes from: Spark itself, where there is one.

Tables are DataFrames of their rows, and views are their texts: a query becomes one statement in
which both are common table expressions, so that nothing is left in the Spark session, and all is
computed from the tables. Arithmetic is ANSI's, and the time zone is the oracle's; both are set for
the time of the query where the session has others.

Where a text leaves Spark a choice, it is told the documented one: LIMIT and OFFSET get the tie
columns, ANY_VALUE is the least value, APPROX_COUNT_DISTINCT the exact one. Other such functions
(`_CHOICES`) cannot be said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import sqlglot
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from planner.calculus import types as t
from planner.names import folded
from planner.parse import words_of
from planner.parse.queries import PERIODS, normalise
from sqlview.lending import with_numbers
from sqlview.oracle.functions import Spoken
from sqlview.oracle.protocol import CannotSay, OracleError, RowError
from sqlview.oracle.spelling import exact_count
from sqlview.oracle.translation import order_totally
from sqlview.quoting import spark_name, spark_template

_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*)")
#: A row that cannot be computed, by Spark's exceptions and by its names for what went wrong.
_FAILURES = (
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
_ROW_ERRORS = frozenset(
    "ARITHMETIC_OVERFLOW BINARY_ARITHMETIC_OVERFLOW CANNOT_PARSE_TIMESTAMP CAST_INVALID_INPUT "
    "CAST_OVERFLOW DATETIME_FIELD_OUT_OF_BOUNDS DATETIME_OVERFLOW DIVIDE_BY_ZERO "
    "INTERVAL_ARITHMETIC_OVERFLOW NUMERIC_VALUE_OUT_OF_RANGE REMAINDER_BY_ZERO "
    "SCALAR_SUBQUERY_TOO_MANY_ROWS".split()
)
#: Functions of which Spark gives one of several right answers: as texts have them, and as sqlglot.
_BY_NAME = frozenset("percentile_approx approx_percentile collect_union".split())
_CHOICES = frozenset("listagg string_agg max_by min_by mode".split()) | _BY_NAME
_CHOOSING = (exp.GroupConcat, exp.ArgMax, exp.ArgMin, exp.Mode)


class SparkOracle:
    """Implements Oracle. `dataframe` makes a DataFrame of rows in this Spark session.

    State: the tables' rows, and a DataFrame of each that was asked for.
    """

    engine = "Spark"

    def __init__(
        self,
        spark: SparkSession,
        dataframe: Callable[[pa.Table], DataFrame],
        *,
        zone: str = "UTC",
    ) -> None:
        self._spark = spark
        self._dataframe = dataframe
        self._settings = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": zone}
        self._tables: dict[str, tuple[str, DataFrame]] = {}
        self._views: dict[str, tuple[str, str, tuple[str, ...] | None]] = {}

    def close(self) -> None:
        self._tables.clear()
        self._views.clear()

    def load(self, name: str, table: pa.Table, key: Sequence[str] = ()) -> None:
        with self._failing():
            self._tables[folded(name)] = name, self._dataframe(table)

    def apply(self, name: str, inserts: pa.Table | None, deletes: pa.Table | None) -> None:
        raise OracleError("Spark's tables are loaded, not changed")

    def create_view(self, name: str, text: str, schema: t.Schema | None = None) -> None:
        columns = None if schema is None else tuple(f.name for f in schema)
        self._views[folded(name)] = name, _settled(text), columns

    def drop(self, name: str) -> None:
        if self._views.pop(folded(name), None) is None:
            del self._tables[folded(name)]

    def query(self, text: str, schema: t.Schema) -> pa.Table:
        text = _settled(text)
        frames: dict[str, Any] = {}
        parts = []
        needed = self._needed(text)
        for i, (key, (name, frame)) in enumerate(self._tables.items()):
            if key in needed:
                frames[f"_{i}"] = frame
                parts.append(f"{_template(name)} AS (SELECT * FROM {{_{i}}})")
        for key, (name, query, columns) in self._views.items():
            if key in needed:
                listed = "" if columns is None else f" ({', '.join(map(_template, columns))})"
                parts.append(f"{_template(name)}{listed} AS (\n{spark_template(query)}\n)")
        head = f"WITH {', '.join(parts)} " if parts else ""
        with self._failing(), self._as_asked():
            found = self._spark.sql(f"{head}(\n{spark_template(text)}\n)", **frames)
            table = with_numbers(found).toArrow()
        return table.rename_columns([f.name for f in schema])

    def _needed(self, text: str) -> set[str]:
        """The tables and views that the text may read, itself or through views."""
        needed: set[str] = set()
        waiting = set(words_of(text))
        while waiting:
            needed |= waiting
            texts = [self._views[name][1] for name in waiting if name in self._views]
            waiting = {word for text in texts for word in words_of(text)} - needed
        return needed

    @contextmanager
    def _as_asked(self) -> Iterator[None]:
        conf = self._spark.conf
        before = {name: conf.get(name, None) for name in self._settings}
        changed = {n: value for n, value in self._settings.items() if before[n] != value}
        for name, value in changed.items():
            conf.set(name, value)
        try:
            yield
        finally:
            for name in changed:
                old = before[name]
                if old is None:
                    conf.unset(name)
                else:
                    conf.set(name, old)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """What Spark raises, as errors of ours."""
        # Spark also logs it, as JSON with a stack trace.
        logger = PySparkLogger.getLogger("SQLQueryContextLogger")
        disabled, logger.disabled = logger.disabled, True
        try:
            yield
        except OracleError:
            raise
        except Exception as error:
            said = _CONDITION.search(str(error))
            row = isinstance(error, _FAILURES) or (said is not None and said[1] in _ROW_ERRORS)
            if row and not isinstance(error, AnalysisException):
                raise RowError(_first_line(error)) from error
            raise CannotSay(f"{type(error).__name__}: {_first_line(error)}") from error
        finally:
            logger.disabled = disabled


def _template(name: str) -> str:
    return spark_template(spark_name(name))


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")


def _settled(text: str) -> str:
    """The text with the documented choice where it leaves one.

    Raises: CannotSay where it cannot be told.
    """
    words = set(words_of(text))
    if words.isdisjoint(_CHOICES | {"limit", "offset", "any_value", "approx_count_distinct"}):
        return text
    try:
        tree = sqlglot.parse_one(normalise(text), read=Spoken)
        choosing = tree.find(*_CHOOSING)
        if choosing is not None:
            raise CannotSay(f"{choosing.sql_name()} has several right results")
        for function in tree.find_all(exp.Anonymous):
            if function.name.lower() in _BY_NAME:
                raise CannotSay(f"{function.name.upper()} has several right results")
            if function.this == PERIODS:
                function.set("this", "window")
        for call in list(tree.find_all(exp.AnyValue)):
            call.replace(exp.Min(this=call.this))
        for estimate in list(tree.find_all(exp.ApproxDistinct)):
            estimate.replace(exact_count(estimate))
        for query in list(tree.find_all(exp.Query)):
            if query.args.get("limit") is None and query.args.get("offset") is None:
                continue
            if any(e.is_star for e in query.selects):
                raise CannotSay("the ties of a LIMIT of all columns are broken by columns by name")
            order_totally(query)
        return tree.sql(Spoken)
    except CannotSay:
        raise
    except Exception as error:
        raise CannotSay(f"{type(error).__name__}: {_first_line(error)}") from error
