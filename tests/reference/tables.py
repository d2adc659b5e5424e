"""Base tables as Python collections: what a transaction means, in the plainest words.

A change is applied in statement order to the current rows, the transaction's own earlier writes
included. A keyed table is a dict from key to row, a bag a multiset. The net effect of a
transaction on a table is the difference of two multisets.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from planner.calculus import types as t

Row = tuple[Any, ...]


class Rejected(Exception):
    """The table cannot take the change."""


@dataclass(frozen=True, slots=True)
class Change:
    """`op` is insert, delete or upsert; rows are whole rows (a keyed delete reads the key)."""

    op: str
    table: str
    rows: tuple[Row, ...]

    def __str__(self) -> str:
        return f"{self.op}({self.table!r}, {', '.join(map(repr, self.rows))})"


def insert(table: str, *rows: Row) -> Change:
    return Change("insert", table, rows)


def delete(table: str, *rows: Row) -> Change:
    return Change("delete", table, rows)


def upsert(table: str, *rows: Row) -> Change:
    return Change("upsert", table, rows)


def canonical(row: Iterable[Any]) -> Row:
    """Equal rows are equal tuples, of tuples where values are nested: NaN is one object, and -0.0
    is 0.0."""
    return tuple(map(_canonical, row))


def _canonical(value: Any) -> Any:
    match value:
        case float():
            return math.nan if math.isnan(value) else value + 0.0
        case tuple():
            return tuple(map(_canonical, value))
        case _:
            return value


@dataclass(slots=True)
class Table:
    """`key`: positions of the primary key, empty for a bag."""

    name: str
    schema: t.Schema
    key: tuple[int, ...]
    rows: Counter[Row] = field(default_factory=Counter)
    by_key: dict[Row, Row] = field(default_factory=dict)

    def copy(self) -> Table:
        return Table(self.name, self.schema, self.key, self.rows.copy(), self.by_key.copy())

    def apply(self, change: Change) -> None:
        """Raises Rejected, leaving earlier rows of the change applied: work on a copy."""
        for row in map(canonical, change.rows):
            match change.op:
                case "insert":
                    self._insert(row)
                case "delete":
                    self._delete(row)
                case "upsert":
                    if not self.key:
                        raise Rejected(f"table {self.name!r} has no key to upsert by")
                    old = self.by_key.get(self._key(row))
                    if old is not None:
                        self._delete(old)
                    self._insert(row)

    def _key(self, row: Row) -> Row:
        return tuple(row[i] for i in self.key)

    def _insert(self, row: Row) -> None:
        for value, column in zip(row, self.schema, strict=True):
            if value is None and not column.nullable:
                raise Rejected(f"NULL in column {column.name!r} of {self.name!r}")
        if self.key:
            if self._key(row) in self.by_key:
                raise Rejected(f"duplicate key {self._key(row)} in {self.name!r}")
            self.by_key[self._key(row)] = row
        self.rows[row] += 1

    def _delete(self, row: Row) -> None:
        if self.key:
            found = self.by_key.pop(self._key(row), None)
            if found is None:
                raise Rejected(f"no row with key {self._key(row)} in {self.name!r}")
            row = found
        if not self.rows[row]:
            raise Rejected(f"no row {row} in {self.name!r}")
        self.rows[row] -= 1
        if not self.rows[row]:
            del self.rows[row]


def net(before: Table, after: Table) -> tuple[list[Row], list[Row]]:
    """Rows to insert and rows to delete that lead from one to the other."""
    return (
        list((after.rows - before.rows).elements()),
        list((before.rows - after.rows).elements()),
    )


def arrow_type(kind: t.SqlType) -> pa.DataType:
    match kind:
        case t.BooleanType():
            return pa.bool_()
        case t.IntegerType():
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bits]
        case t.FloatType():
            return pa.float32() if kind.bits == 32 else pa.float64()
        case t.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case t.DateType():
            return pa.date32()
        case t.TimestampType():
            return pa.timestamp("us", None if kind.local else "UTC")
        case t.BinaryType():
            return pa.binary()
        case t.ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.element)))
        case t.MapType():
            return pa.map_(arrow_type(kind.key), arrow_type(kind.value))
        case t.StructType():
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in kind.fields])
        case _:
            return pa.string()


def arrow_table(schema: t.Schema, rows: Sequence[Row]) -> pa.Table:
    """The rows as an Arrow table of the schema's columns."""
    columns = [pa.array([row[i] for row in rows], arrow_type(f.type)) for i, f in enumerate(schema)]
    return pa.table(columns, names=[f.name for f in schema])
