"""The columns of a table that is made of data: names and types as SQL has them.

A column is nullable unless it is of the key, or an Arrow schema that was given for itself says
otherwise: rows that happen to have no NULL promise nothing about those to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from operators.flight.arrow import is_pandas_index, months_of, sql_type
from operators.flight.misfits import listed, merged
from operators.flight.rows import by_name, inferred, represented
from planner.calculus import types as t
from planner.errors import DataError, suggestion
from planner.names import folded
from sqlview.sources.given import Columns, Given, Rows, is_unicode

#: Decimals of Python's are given so many digits, or the most, so that later ones fit too.
_NARROW_DIGITS = 18


def typed(given: Given) -> tuple[pa.Schema, Given]:
    """The Arrow types of data, and the data again.

    Raises: DataError for rows without names, and for values of no one type.
    """
    if isinstance(given, Rows):
        given = Columns(_columns(given))
    inferred = isinstance(given, Columns)
    if isinstance(given, Columns):
        given = _arrays(given.columns)
    schema = given.schema
    if inferred or b"pandas" in (schema.metadata or {}):
        schema = _roomy(schema)
    return schema, given


def fields(schema: pa.Schema, key: Sequence[str], declared: bool) -> tuple[t.Field, ...]:
    """The columns of a table with these Arrow types. `declared`: whether the schema was given for
    itself, and says which columns may be NULL.

    Raises: DataError for types that no table has, for columns without a name or of one name, and
    for a key that is no column, all at once.
    """
    made: list[t.Field] = []
    errors: list[DataError] = []
    known = {folded(k) for k in key}
    for field in schema:
        if is_pandas_index(field.name):
            continue
        if not field.name:
            errors.append(DataError("a column has no name"))
        if folded(field.name) in (folded(f.name) for f in made):
            hint = "Give each column a name of its own."
            errors.append(DataError(f"the data has {listed([field.name])} twice", hint=hint))
        try:
            nullable = folded(field.name) not in known and (field.nullable or not declared)
            made.append(t.Field(field.name, _type(field), nullable))
        except DataError as error:
            errors.append(error)
    if not len(schema):
        errors.append(DataError("a table has columns, and the data has none"))
    names = [f.name for f in schema]
    for part in key:
        if folded(part) not in map(folded, names):
            unknown = f"the key names an unknown {listed([part])}"
            errors.append(DataError(unknown, hint=suggestion(part, names)))
    if len(known) < len(key):
        errors.append(DataError("the key names a column twice"))
    if errors:
        raise merged(errors)
    return tuple(made)


def _type(field: pa.Field) -> t.SqlType:
    message = f'column "{field.name}" has the type {field.type}, which no table has'
    try:
        kind = months_of(field) or sql_type(field.type)
    except DataError:
        hint = "Take what is in it apart, into columns of scalar types."
        if pa.types.is_time(field.type):
            hint = "Give it as text or as a number: column.cast(pa.string())."
        elif pa.types.is_decimal(field.type):
            hint = "Give it with at most 38 digits: column.cast(pa.decimal128(38, 2))."
        raise DataError(message, hint=hint) from None
    if isinstance(kind, t.NullType):
        hint = "Say its type: column.cast(pa.string()), or in SQL CAST(NULL AS STRING)."
        raise DataError(f'column "{field.name}" has no type, but NULLs alone', hint=hint)
    return kind


def _columns(given: Rows) -> Mapping[str, list[Any]]:
    """Rows that have names, by column."""
    columns: dict[str, list[Any]] = {}
    number = -1
    for number, row in enumerate(given.rows):
        named = by_name(row)
        if named is None:
            raise DataError(
                f"row {number} has no names for its columns",
                detail=f"It is {represented(row)}.",
                hint="Give dicts, named tuples or a dict of columns; or create the table first, "
                "and insert the rows.",
            )
        if number == 0:
            columns = {str(name): [] for name in named}
            for name in columns:
                if not is_unicode(name):
                    raise DataError(f"no column can have the name {represented(name)}")
        if list(named) != list(columns) and {str(n) for n in named} != set(columns):
            raise DataError(
                f"row {number} has other columns than row 0",
                detail=f"It has {listed([str(n) for n in named])}, and row 0 has "
                f"{listed(list(columns))}.",
            )
        for name, value in named.items():
            columns[str(name)].append(value)
    if number < 0:
        raise DataError(
            "there are no rows to tell the columns",
            hint="Give a pyarrow schema, or CREATE TABLE and insert the rows when they are there.",
        )
    return columns


def _arrays(columns: Mapping[str, Any]) -> pa.Table:
    arrays: dict[str, Any] = {}
    errors: list[DataError] = []
    for name, values in columns.items():
        try:
            arrays[name] = inferred(values) if isinstance(values, list) else values
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            said = str(error).splitlines()
            errors.append(
                DataError(
                    f'column "{name}" has values of no one type',
                    detail=f"{said[0].rstrip('.')}." if said else None,
                    hint="Make them one type, or CREATE TABLE and insert the rows with cast=True.",
                )
            )
    if errors:
        raise merged(errors)
    return pa.table(arrays)


def _roomy(schema: pa.Schema) -> pa.Schema:
    """With more digits for decimals, whose types are those of the values at hand."""
    for i, field in enumerate(schema):
        kind = field.type
        if pa.types.is_decimal(kind) and kind.precision <= t.MAX_PRECISION:
            digits = _NARROW_DIGITS if kind.precision <= _NARROW_DIGITS else t.MAX_PRECISION
            schema = schema.set(i, field.with_type(pa.decimal128(digits, max(kind.scale, 0))))
    return schema
