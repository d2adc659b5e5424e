"""Columns in flight from Python rows and back, and short schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.flight import arrow
from operators.flight.column import Column, Ints
from planner.calculus import types as t
from planner.calculus.types import Field
from tests.reference.tables import arrow_table, canonical

Row = tuple[Any, ...]


def schema(*kinds: t.SqlType, nullable: bool = True) -> t.Schema:
    """Fields c0, c1, … of these types."""
    return tuple(Field(f"c{i}", kind, nullable) for i, kind in enumerate(kinds))


def to_columns(rows: Sequence[Row], fields: t.Schema) -> list[Column]:
    return arrow.to_columns(arrow_table(fields, rows), fields)


def to_rows(columns: Sequence[Column], fields: t.Schema) -> list[Row]:
    """NaN is one object and -0.0 is 0.0, so that equal rows are equal tuples."""
    table = arrow.from_columns(columns, fields)
    return [canonical(row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)
