"""The values of new columns: what the rows that are there have in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from operators import scalar
from operators.flight import arrow
from operators.flight.column import Column
from planner import parse
from planner.bind import bind_query
from planner.calculus.algebra import Project
from planner.calculus.expr import Literal
from planner.calculus.types import Schema
from planner.calculus.zones import Zone
from planner.errors import DataError
from planner.rewrite.optimizer import optimize
from sqlview.catalog import Catalog, Table


def default_of(table: Table, column: parse.NewColumn, catalog: Catalog, zone: Zone) -> Literal:
    """What the rows of the table have in a new column.

    Raises: DataError where the column does not hold it; BindError for what is no literal.
    """
    field = column.field
    if column.default is None:
        value = Literal(None, field.type)
    else:
        plan = optimize(bind_query(column.default, catalog, zone).plan)
        assert isinstance(plan, Project), "a query of one literal"
        (found,) = plan.exprs
        assert isinstance(found, Literal), "a query of one literal"
        value = found
    if value.value is None and not field.nullable and table.state.relation.live_rows:
        raise DataError(
            f'cannot add column "{field.name}" to "{table.name}": it is NOT NULL',
            detail="The rows that are there would be NULL in it.",
            hint="Give it a DEFAULT, or leave NOT NULL out.",
        )
    columns_of((field,), (value,))
    return value


def columns_of(fields: Schema, values: Sequence[Literal]) -> list[Column]:
    """Each value as a column of its field with one row. Raises: DataError where it does not fit."""
    found = []
    for given, literal in zip(fields, values, strict=True):
        # No row has NULL where the column is NOT NULL.
        field = replace(given, nullable=given.nullable or literal.value is None)
        if literal.value is None:
            array = pa.nulls(1, arrow.arrow_type(field.type))
        else:
            made, _ = scalar.compile(literal).evaluate(_no_column, 1)
            array = arrow.from_column(made, literal.type)
        found.append(arrow.to_column(array, field, cast=True))
    return found


def _no_column(index: int) -> Column:
    raise LookupError(f"a literal reads no column {index}")
