"""The oracle: what a view must hold, recomputed from scratch by another engine, DuckDB.

An `Oracle` keeps a copy of the base tables in a DuckDB database in memory, in step with the
changes it is told of, and runs the view's own text over them (`oracle_sql` translates it). Nothing
of the planner, the operators or the store takes part, so a mistake of theirs cannot hide here.

`compare` tells whether two results are the same multiset. NULL equals NULL, NaN equals NaN and
-0.0 equals 0.0. Doubles may differ by a relative 1e-9: rows that are exactly equal are cancelled
first; what remains is grouped by its columns that are not doubles, and within a group each row
takes the first remaining row of the other side, in ascending order, whose doubles are all within
the tolerance of its own. All other types compare exactly.
"""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from planner import types as t
from sqlview.oracle_sql import MACROS, Columns, Translated, translate

RELATIVE_TOLERANCE = 1e-9

#: Below this many rows Python is faster than starting a query.
_SMALL_ROWS = 2_000

Row = tuple[Any, ...]


_SETTINGS = (
    "python_enable_replacements = false",
    "enable_progress_bar = false",
    # The session's, whatever the machine's.
    "TimeZone = 'UTC'",
    "scalar_subquery_error_on_multiple_rows = true",
    # Conjuncts in the order of the text, so that one may guard the next against a failure.
    "disabled_optimizers = 'reorder_filter'",
)

#: What DuckDB raises where a value cannot be computed, not for text that is wrong.
_FAILURES = (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException)


class OracleError(Exception):
    """The oracle was told of changes that its tables cannot take: a fault of the caller."""


class RowError(OracleError):
    """The query has no result now: a row under it cannot be computed (division by zero, a failed
    cast, overflow, a scalar subquery with two rows)."""


class TooLarge(OracleError):
    """The query has more rows than the caller wants."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows of `expected` that are `missing` from `actual`, and rows that are `extra` in it.

    Both keep their multiplicities. `position` is the first row out of order where the multisets
    are equal but the order is not, else None.
    """

    missing: pa.Table
    extra: pa.Table
    position: int | None = None

    def __str__(self) -> str:
        if self.position is not None:
            return f"the rows are right but row {self.position} is out of order"
        parts = []
        for name, table in (("missing", self.missing), ("extra", self.extra)):
            rows = [tuple(r.values()) for r in table.slice(0, 10).to_pylist()]
            more = f" and {table.num_rows - 10} more" if table.num_rows > 10 else ""
            if rows:
                parts.append(f"{name} {table.num_rows}: {', '.join(map(str, rows))}{more}")
        return "; ".join(parts)


class Oracle:
    """Base tables in DuckDB, kept in step, and queries over them.

    `optimize=False` runs queries as they are written, for a second opinion: a rewrite of DuckDB's
    that is wrong gives two answers.
    State: a copy of every base table.
    """

    def __init__(self, *, threads: int | None = None, optimize: bool = True) -> None:
        self.optimizes = optimize
        self._db = duckdb.connect()
        for setting in _SETTINGS:
            self._db.execute(f"SET {setting}")
        if not optimize:
            self._db.execute("PRAGMA disable_optimizer")
        if threads is not None:
            self._db.execute(f"SET threads = {threads:d}")
        for macro in MACROS:
            self._db.execute(macro)
        self._catalog: dict[str, Columns] = {}
        self._keys: dict[str, tuple[str, ...]] = {}

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def load(self, name: str, table: pa.Table, key: Sequence[str] = ()) -> None:
        """Create base table `name` with the columns and rows of `table`.

        `key`: columns that identify a row; `apply` then deletes by them alone.
        """
        name = name.lower()
        table = _plain(table)
        self._db.register("oracle_batch", table)
        self._db.execute(f'CREATE TABLE "{name}" AS SELECT * FROM oracle_batch')
        self._db.unregister("oracle_batch")
        self._catalog[name] = {f.name.lower(): spark_type(f.type) for f in table.schema}
        self._keys[name] = tuple(k.lower() for k in key)

    def drop(self, name: str) -> None:
        """Forget a table or view."""
        name = name.lower()
        kind = "TABLE" if name in self._keys else "VIEW"
        self._db.execute(f'DROP {kind} "{name}"')
        del self._catalog[name]
        self._keys.pop(name, None)

    def apply(self, name: str, inserts: pa.Table | None, deletes: pa.Table | None) -> None:
        """Take `deletes` out of table `name`, then put `inserts` in.

        A row of `deletes` takes one equal row away; in a table with a key, the row with its key.

        Raises: OracleError if a row to delete is not there; the table is then unchanged.
        """
        name = name.lower()
        if deletes is not None and deletes.num_rows:
            self._delete(name, _plain(deletes))
        if inserts is not None and inserts.num_rows:
            self._db.register("oracle_batch", _plain(inserts))
            self._db.execute(f'INSERT INTO "{name}" BY NAME SELECT * FROM oracle_batch')
            self._db.unregister("oracle_batch")

    def _delete(self, name: str, rows: pa.Table) -> None:
        columns = self._keys[name] or tuple(self._catalog[name])
        listed = ", ".join(f'"{c}"' for c in columns)
        same = " AND ".join(f'b."{c}" IS NOT DISTINCT FROM d."{c}"' for c in columns)
        self._db.register("oracle_batch", rows)
        try:
            self._db.execute("BEGIN")
            deleted = self._db.execute(f"""
                DELETE FROM "{name}" WHERE rowid IN (
                    SELECT victim FROM (
                        SELECT b.rowid AS victim, d.copies AS copies, row_number() OVER (
                            PARTITION BY {", ".join(f'b."{c}"' for c in columns)} ORDER BY b.rowid
                        ) AS nth
                        FROM "{name}" b JOIN (
                            SELECT {listed}, count(*) AS copies FROM oracle_batch GROUP BY ALL
                        ) d ON {same}
                    ) WHERE nth <= copies
                )""").fetchone()
            if deleted is None or deleted[0] != rows.num_rows:
                self._db.execute("ROLLBACK")
                found = deleted[0] if deleted else 0
                raise OracleError(f"{rows.num_rows - found} rows to delete are not in {name!r}")
            self._db.execute("COMMIT")
        finally:
            self._db.unregister("oracle_batch")

    def create_view(self, name: str, text: str, schema: t.Schema | None = None) -> None:
        """Let queries read `text` under `name`; `schema`, if given, names its columns and types."""
        name = name.lower()
        translated = self._translate(text)
        names = tuple(f.name.lower() for f in schema) if schema else translated.names
        listed = ", ".join(f'"{n}"' for n in names)
        self._db.execute(f'CREATE VIEW "{name}" ({listed}) AS {translated.sql}')
        self._catalog[name] = dict(zip(names, translated.types, strict=True))

    def is_ordered(self, text: str) -> bool:
        """Whether the result of `text` has an order: an ORDER BY of output columns at the top."""
        return self._translate(text).ordered

    def describe(self, text: str) -> Translated:
        """The query as DuckDB runs it, with its columns: names, and Spark's types where known."""
        return self._translate(text)

    def query(self, text: str, schema: t.Schema, most_rows: int | None = None) -> pa.Table:
        """The result of Spark SQL `text` now, its columns cast by position to `schema`.

        Rows come in the text's order, if it has one, ties broken by all columns.

        Raises: RowError if a row cannot be computed; TooLarge for more than `most_rows`.
        """
        translated = self._translate(text)
        inner = ", ".join(f"c{i}" for i in range(len(schema)))
        casts = ", ".join(f"CAST(c{i} AS {_duckdb_name(f.type)})" for i, f in enumerate(schema))
        limit = "" if most_rows is None else f" LIMIT {most_rows + 1:d}"
        try:
            result = self._db.sql(f"SELECT {casts} FROM ({translated.sql}) AS r({inner}){limit}")
            table = result.to_arrow_table()
        except _FAILURES as failure:
            raise RowError(str(failure)) from failure
        if most_rows is not None and table.num_rows > most_rows:
            raise TooLarge(f"the query has more than {most_rows} rows")
        return table.rename_columns([f.name for f in schema])

    def _translate(self, text: str) -> Translated:
        words = text.lower()
        mentioned = ((name, columns) for name, columns in self._catalog.items() if name in words)
        return _translated(text, tuple((name, tuple(c.items())) for name, c in mentioned))


@functools.lru_cache(maxsize=4096)
def _translated(
    text: str, catalog: tuple[tuple[str, tuple[tuple[str, t.SqlType | None], ...]], ...]
) -> Translated:
    """Oracles over equal tables translate a text once: it takes longer than a small query.

    `catalog` has all the tables and views that the text mentions; more do no harm.
    """
    return translate(text, {name: dict(columns) for name, columns in catalog})


def compare(actual: pa.Table, expected: pa.Table, ordered: bool = False) -> Difference | None:
    """None if the two hold equal multisets of rows (and, if `ordered`, in the same order).

    Columns are compared by position. Cost: O(n log n), in DuckDB for many rows.
    """
    expected = _plain(expected)
    actual = _plain(actual).rename_columns(expected.column_names)
    doubles = [i for i, f in enumerate(expected.schema) if pa.types.is_floating(f.type)]
    if actual.num_rows + expected.num_rows <= _SMALL_ROWS:
        missing, extra = _small_difference(actual, expected)
    else:
        missing, extra = _large_difference(actual, expected)
    if missing and extra and doubles:
        missing, extra = _cancel_close(missing, extra, doubles)
    if missing or extra:
        return Difference(_table(missing, expected.schema), _table(extra, actual.schema))
    if ordered:
        for i, (a, b) in enumerate(
            zip(canonical_rows(actual), canonical_rows(expected), strict=True)
        ):
            if not _close(a, b):
                return Difference(expected.slice(0, 0), actual.slice(0, 0), i)
    return None


def _small_difference(actual: pa.Table, expected: pa.Table) -> tuple[list[Row], list[Row]]:
    have, want = Counter(canonical_rows(actual)), Counter(canonical_rows(expected))
    return list((want - have).elements()), list((have - want).elements())


def _large_difference(actual: pa.Table, expected: pa.Table) -> tuple[list[Row], list[Row]]:
    names = [f"c{i}" for i in range(actual.num_columns)]
    with duckdb.connect() as db:
        db.register("have", actual.rename_columns(names))
        db.register("want", expected.rename_columns(names))
        missing = db.sql("FROM want EXCEPT ALL FROM have").to_arrow_table()
        extra = db.sql("FROM have EXCEPT ALL FROM want").to_arrow_table()
    return list(canonical_rows(missing)), list(canonical_rows(extra))


def _cancel_close(
    missing: list[Row], extra: list[Row], doubles: Sequence[int]
) -> tuple[list[Row], list[Row]]:
    exact = [i for i in range(len(missing[0])) if i not in doubles]
    waiting: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in sorted(extra, key=lambda r: [_double_order(r[i]) for i in doubles]):
        waiting[tuple(row[i] for i in exact)].append(row)
    left = []
    for row in sorted(missing, key=lambda r: [_double_order(r[i]) for i in doubles]):
        candidates = waiting[tuple(row[i] for i in exact)]
        match = next((i for i, other in enumerate(candidates) if _close(row, other)), None)
        if match is None:
            left.append(row)
        else:
            del candidates[match]
    return left, [row for rows in waiting.values() for row in rows]


def _double_order(value: Any) -> tuple[int, float]:
    if isinstance(value, float):
        return (1, value)
    return (0, 0.0) if value is None else (2, 0.0)


def _close(left: Row, right: Row) -> bool:
    return all(
        a == b
        or (
            isinstance(a, float)
            and isinstance(b, float)
            and math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE)
        )
        for a, b in zip(left, right, strict=True)
    )


def canonical_rows(table: pa.Table) -> Iterator[Row]:
    """Rows as tuples that are equal where the values are: NaN is one object, -0.0 is 0.0."""
    columns: list[list[Any]] = []
    for column in table.columns:
        values = column.to_pylist()
        if pa.types.is_floating(column.type):
            values = [_canonical(v) for v in values]
        columns.append(values)
    return zip(*columns, strict=True) if columns else iter([()] * table.num_rows)


_NAN = "NaN"


def _canonical(value: float | None) -> float | str | None:
    if value is None:
        return None
    return _NAN if math.isnan(value) else value + 0.0


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = []
    for i, field in enumerate(schema):
        values = [r[i] for r in rows]
        if pa.types.is_floating(field.type):
            values = [math.nan if v == _NAN else v for v in values]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def _plain(table: pa.Table) -> pa.Table:
    """The table without nullability, dictionaries and views, which tell nothing about its rows."""
    fields = []
    for field in table.schema:
        kind = field.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if kind in (pa.string_view(), pa.large_string()):
            kind = pa.string()
        fields.append(pa.field(field.name, kind))
    schema = pa.schema(fields)
    return table if schema.equals(table.schema, check_metadata=True) else table.cast(schema)


def spark_type(kind: pa.DataType) -> t.SqlType | None:
    """The Spark type of an Arrow type; None for one that the oracle has no rules for."""
    if pa.types.is_decimal(kind):
        return t.DecimalType(kind.precision, kind.scale)
    return {
        pa.bool_(): t.BOOLEAN,
        pa.int8(): t.TINYINT,
        pa.int16(): t.SMALLINT,
        pa.int32(): t.INT,
        pa.int64(): t.BIGINT,
        pa.float32(): t.FLOAT,
        pa.float64(): t.DOUBLE,
        pa.string(): t.STRING,
        pa.binary(): t.BINARY,
        pa.date32(): t.DATE,
    }.get(kind)


def _duckdb_name(kind: t.SqlType) -> str:
    match kind:
        case t.StringType():
            return "VARCHAR"
        case t.BinaryType():
            return "BLOB"
        case t.TimestampType():
            return "TIMESTAMP" if kind.local else "TIMESTAMPTZ"
        case t.NullType() | t.IntervalType():
            raise OracleError(f"a view has no column of type {kind}")
        case _:
            return str(kind)
