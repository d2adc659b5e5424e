"""Whether two results are the same multiset of rows.

NULL equals NULL, NaN equals NaN and -0.0 equals 0.0. Doubles may differ by a relative 1e-9, or by
what a subtraction of such doubles as the row has may leave (see LEAST_DIFFERENCE): rows that are
exactly equal are cancelled first; what remains is grouped by its columns that are not
doubles, and within a group each row takes the first remaining row of the other side, in ascending
order, whose doubles are all within the tolerance of its own. All other types compare exactly.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from operators.flight.rendering import texts
from sqlview.oracle.database import connect

RELATIVE_TOLERANCE = 1e-9
#: What a subtraction leaves where the other engine's is exact, or less: beside doubles of the row
#: that are 2**50 times as large.
LEAST_DIFFERENCE = 1e-12

#: Below this many rows Python is faster than starting a query.
_SMALL_ROWS = 2_000

Row = tuple[Any, ...]


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
            more = f" and {table.num_rows - 10} more" if table.num_rows > 10 else ""
            if table.num_rows:
                rows = ", ".join(_shown(table.slice(0, 10)))
                parts.append(f"{name} {table.num_rows}: {rows}{more}")
        return "; ".join(parts)


def compare(
    actual: pa.Table,
    expected: pa.Table,
    ordered: bool = False,
    by: Sequence[int] | None = None,
) -> Difference | None:
    """None if the two hold equal multisets of rows (and, if `ordered`, in the same order, as far as
    the columns `by` tell; None: all).

    Columns are compared by position. Cost: O(n log n), in DuckDB for many rows.
    """
    schemas = plain(expected).schema, plain(actual).schema
    expected = _counted(plain(expected))
    actual = _counted(plain(actual)).rename_columns(expected.column_names)
    doubles = [i for i, f in enumerate(expected.schema) if pa.types.is_floating(f.type)]
    if actual.num_rows + expected.num_rows <= _SMALL_ROWS:
        missing, extra = _small_difference(actual, expected)
    else:
        missing, extra = _large_difference(actual, expected)
    if missing and extra and doubles:
        missing, extra = _cancel_close(missing, extra, doubles)
    if missing or extra:
        tables = _table(missing, expected.schema), _table(extra, actual.schema)
        return Difference(_uncounted(tables[0], schemas[0]), _uncounted(tables[1], schemas[1]))
    if ordered:
        seen = range(actual.num_columns) if by is None else by
        both = (canonical_rows(t.select(list(seen))) for t in (actual, expected))
        for i, (a, b) in enumerate(zip(*both, strict=True)):
            if not _close(a, b):
                return Difference(schemas[0].empty_table(), schemas[1].empty_table(), i)
    return None


def _small_difference(actual: pa.Table, expected: pa.Table) -> tuple[list[Row], list[Row]]:
    have, want = Counter(canonical_rows(actual)), Counter(canonical_rows(expected))
    return list((want - have).elements()), list((have - want).elements())


def _large_difference(actual: pa.Table, expected: pa.Table) -> tuple[list[Row], list[Row]]:
    names = [f"c{i}" for i in range(actual.num_columns)]
    try:
        with connect() as db:
            db.register("have", actual.rename_columns(names))
            db.register("want", expected.rename_columns(names))
            missing = db.sql("FROM want EXCEPT ALL FROM have").to_arrow_table()
            extra = db.sql("FROM have EXCEPT ALL FROM want").to_arrow_table()
    except duckdb.OutOfMemoryException:
        return _small_difference(actual, expected)  # slower, in what memory there is
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
    doubles = (abs(x) for x in (*left, *right) if isinstance(x, float) and math.isfinite(x))
    rest = min(max(doubles, default=0.0) * 2.0**-50, LEAST_DIFFERENCE)
    return all(
        a == b
        or (
            isinstance(a, float)
            and isinstance(b, float)
            and math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE, abs_tol=rest)
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
        elif pa.types.is_nested(column.type):
            values = [canonical_value(v) for v in values]
        columns.append(values)
    return zip(*columns, strict=True) if columns else iter([()] * table.num_rows)


def canonical_value(value: Any) -> Any:
    """A nested value as tuples, equal where it is: a struct as its fields."""
    match value:
        case dict():
            return tuple(map(canonical_value, value.values()))
        case list() | tuple():
            return tuple(map(canonical_value, value))
        case float():
            return math.nan if math.isnan(value) else value + 0.0  # one NaN is itself
        case _:
            return value


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


def _shown(table: pa.Table) -> list[str]:
    """Rows for people, as Python's where it has all values."""
    try:
        return [str(tuple(row.values())) for row in table.to_pylist()]
    except (OverflowError, ValueError, pa.ArrowException):
        columns = (texts(column, quoted=True) for column in table.columns)
        return [f"({', '.join(row)})" for row in zip(*columns, strict=True)]


def _counted(table: pa.Table) -> pa.Table:
    """Dates and times as the numbers that they are: Python has those of years 1 to 9999 alone."""
    for i, field in enumerate(table.schema):
        if pa.types.is_date32(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.int32()))
        elif pa.types.is_timestamp(field.type):
            micros = pa.timestamp("us", field.type.tz)
            table = table.set_column(i, field.name, table.column(i).cast(micros).cast(pa.int64()))
    return table


def _uncounted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for column, field in zip(table.columns, schema, strict=True):
        micros = pa.types.is_timestamp(field.type)
        kind = pa.timestamp("us", field.type.tz) if micros else field.type
        columns.append(column.cast(kind).cast(field.type))
    return pa.table(columns, schema=schema)


def plain(table: pa.Table) -> pa.Table:
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
