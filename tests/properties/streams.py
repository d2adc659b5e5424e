"""Random change streams over random or given tables, with domains so small that values collide.

A `Stream` keeps its own model of the tables, so every change that it makes is one that the tables
can take; what a transaction does to one key within an epoch comes in both orders.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np

from planner.calculus import types as t
from tests.properties.values import EXTREME, SMALL, WIDE
from tests.reference.tables import Change, Row, Table, delete, insert, upsert

_DATES = ("1995-12-31", "1996-01-31", "1996-02-29", "1997-06-30")
_DECIMALS = ("0", "0.05", "1", "-2.5", "10.99")
_STRINGS = ("", "a", "b", "ab", "A", "a_b")
_KEYS = 10
NULL_SHARE = 0.12

_UTC = datetime.timezone.utc
_STAMPS = tuple(
    datetime.datetime.fromisoformat(text).replace(tzinfo=_UTC)
    for text in (
        "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "2024-02-29T23:59:59.999999",
        "2024-03-31T02:30:00", "2024-12-31T00:00:00",
    )
)  # fmt: skip
_END_STAMPS = tuple(
    datetime.datetime.fromisoformat(text).replace(tzinfo=_UTC)
    for text in ("0001-01-02T00:00:00", "1582-10-10T12:00:00", "9999-12-30T23:59:59.999999")
)
_BLOBS = (b"", b"\x00", b"ab\x00", b"ab\x00\xff", b"\xff" * 40, b"\x00" * 17, b"abcdefghijklmnopq")
_PREFIX = "a prefix that all share "
_LONG = (
    "", _PREFIX, _PREFIX + "a", _PREFIX + "b", _PREFIX * 20, _PREFIX * 20 + "z", "\x00", "a\x00b",
    "é", "e\u0301", "名前の長い文字列です", "😀", "ß", "a" * 16, "a" * 17, "\U0010ffff",
)  # fmt: skip
_FLOATS = (0.0, -0.0, 0.5, -1.5, float(np.float32(0.1)), float(np.float32(1e38)))
_INFINITE = (math.inf, -math.inf, math.nan)


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that a column takes, some of them often, and a bound of its integers: SMALL where
    one may compute with them, else EXTREME."""

    values: tuple[Any, ...]
    bound: int = SMALL


def domain(rng: Random, kind: t.SqlType) -> Domain:
    """A random domain of the type: ordinary values, or its extremes among them."""
    extreme = rng.random() < 0.35
    match kind:
        case t.IntegerType() if extreme:
            top = 1 << (kind.bits - 1)
            return Domain((-top, 1 - top, -1, 0, 1, top - 2, top - 1), EXTREME)
        case t.IntegerType():
            return Domain((-1, 0, 1, 1, 2, 2, 3))
        case t.DecimalType() if kind == WIDE:
            texts = ("0", "0.01", "-1", "1234567890123456789012345678901234.25",
                     "-999999999999999999999999999999999999.99",
                     "999999999999999999999999999999999999.99")  # fmt: skip
            return Domain(tuple(Decimal(x) for x in texts), EXTREME)
        case t.DecimalType():
            unit = Decimal(1).scaleb(-kind.scale)
            return Domain(tuple(Decimal(x).quantize(unit) for x in _DECIMALS))
        case t.FloatType() if kind.bits == 32:
            return Domain((*_FLOATS, *(_INFINITE if extreme else (math.nan,))), EXTREME)
        case t.FloatType():
            usual = (0.0, -0.0, 0.5, 0.5, -1.5, 2.25, math.nan)
            return Domain((*usual, *_INFINITE), EXTREME) if extreme else Domain(usual)
        case t.DateType():
            dates = tuple(map(datetime.date.fromisoformat, _DATES))
            ends = (datetime.date.min, datetime.date(1582, 10, 10), datetime.date.max)
            return Domain((*dates, *ends), EXTREME) if extreme else Domain(dates)
        case t.TimestampType():
            return Domain((*_STAMPS, *_END_STAMPS), EXTREME) if extreme else Domain(_STAMPS)
        case t.BinaryType():
            return Domain(_BLOBS)
        case t.BooleanType():
            return Domain((False, True))
        case _:
            return Domain(tuple(rng.sample(_LONG, 7))) if extreme else Domain(_STRINGS)


def value(rng: Random, field: t.Field) -> Any:
    """A value of the column's small domain, sometimes NULL where that is allowed."""
    if field.nullable and rng.random() < NULL_SHARE:
        return None
    match field.type:
        case t.BooleanType():
            return rng.random() < 0.5
        case t.IntegerType():
            return rng.choice((-1, 0, 1, 1, 2, 2, 3))
        case t.DecimalType():
            unit = Decimal(1).scaleb(-field.type.scale)
            return Decimal(rng.choice(_DECIMALS)).quantize(unit)
        case t.FloatType():
            return rng.choice((0.0, -0.0, 0.5, 0.5, -1.5, 2.25, math.nan))
        case t.DateType():
            return datetime.date.fromisoformat(rng.choice(_DATES))
        case t.ArrayType(element=element):
            inner = t.Field("element", element)
            return tuple(value(rng, inner) for _ in range(rng.choice((0, 1, 1, 2, 2, 3))))
        case t.StructType(fields=fields):
            return tuple(value(rng, f) for f in fields)
        case t.MapType(key=key, value=kind):
            keys = {value(rng, t.Field("key", key, False)) for _ in range(rng.choice((0, 1, 2)))}
            return tuple((k, value(rng, t.Field("value", kind))) for k in sorted(keys))
        case _:
            return rng.choice(_STRINGS)


class Stream:
    """Transactions over `tables`, which it copies. `size`: about how many rows a table has.
    `domains`: of each table's columns; without it those of `value`."""

    def __init__(
        self,
        rng: Random,
        tables: Mapping[str, Table],
        size: int = 12,
        domains: Mapping[str, Sequence[Domain]] | None = None,
    ) -> None:
        self._rng = rng
        self._domains = {} if domains is None else domains
        self._keys = max(_KEYS, 4 * size // 5)
        self.tables = {name: table.copy() for name, table in tables.items()}
        self._size = size

    def transaction(self) -> list[Change]:
        """One epoch's changes, to one or more tables; rarely none at all."""
        changes: list[Change] = []
        rng, tables = self._rng, list(self.tables.values())
        if rng.random() < 0.4:
            tables = [rng.choice(tables)]
        for _ in range(rng.choice((0, 1, 2, 4, 6, 8, 8, 12))):
            changes += self._some(rng.choice(tables))
        return changes

    def filling(self) -> list[Change]:
        """A transaction that fills every table to about its size."""
        changes: list[Change] = []
        for table in self.tables.values():
            rows: list[Row] = []
            for _ in range(self._size):
                row = self._row(table)
                if not table.key or tuple(row[i] for i in table.key) not in table.by_key:
                    rows.append(row)
                    table.apply(insert(table.name, row))
            at_once = len(rows) if self._size > 2 * _KEYS else 1
            parts = [rows[i : i + at_once] for i in range(0, len(rows), max(at_once, 1))]
            changes += [insert(table.name, *part) for part in parts]
        return changes

    def _some(self, table: Table) -> list[Change]:
        changes = self._keyed(table) if table.key else self._bag(table)
        for change in changes:
            table.apply(change)
        return changes

    def _row(self, table: Table) -> Row:
        rng, domains = self._rng, self._domains.get(table.name)
        if domains is None:
            row = [value(rng, field) for field in table.schema]
        else:
            row = [
                None if f.nullable and rng.random() < NULL_SHARE else rng.choice(d.values)
                for f, d in zip(table.schema, domains, strict=True)
            ]
        if table.key and table.schema[table.key[0]].type == t.INT:
            row[table.key[0]] = rng.randrange(self._keys)
        return tuple(row)

    def _bag(self, table: Table) -> list[Change]:
        rng, rows = self._rng, sorted(table.rows.elements(), key=repr)
        if rows and rng.random() < 0.03:
            return [delete(table.name, *rows)]
        if rows and rng.random() < len(rows) / (2 * self._size):
            victims = tuple(rng.sample(rows, rng.randint(1, min(2, len(rows)))))
            again = [insert(table.name, victims[0])] if rng.random() < 0.2 else []
            return [delete(table.name, *victims), *again]
        if rows and rng.random() < 0.3:
            return [insert(table.name, rng.choice(rows))]
        row = self._row(table)
        if rng.random() < 0.1:
            return [insert(table.name, row), delete(table.name, row)]
        return [insert(table.name, *([row] * rng.choice((1, 1, 1, 2))))]

    def _keyed(self, table: Table) -> list[Change]:
        rng, name = self._rng, table.name
        rows = sorted(table.by_key.values(), key=repr)
        new = self._row(table)
        key = tuple(new[i] for i in table.key)
        if not rows:
            return [insert(name, new)]
        old = rng.choice(rows)
        changed = list(self._row(table))
        for i in table.key:
            changed[i] = old[i]
        roll = rng.random()
        if roll < 0.03:
            return [delete(name, *rows)]
        if roll < 0.2:
            return [upsert(name, tuple(changed))]
        if roll < 0.3:
            return [delete(name, old), insert(name, tuple(changed))]
        if roll < 0.35 and key not in table.by_key:
            return [insert(name, new), delete(name, new)]
        if roll < 0.45 and key not in table.by_key:
            moved = list(old)
            for i in table.key:
                moved[i] = new[i]
            return [delete(name, old), insert(name, tuple(moved))]
        if roll < 0.45 + 0.3 * len(rows) / self._size:
            return [delete(name, old)]
        return [upsert(name, new) if key in table.by_key else insert(name, new)]
