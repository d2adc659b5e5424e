"""Random change streams over random or given tables, with domains so small that values collide.

A `Stream` keeps its own model of the tables, so every change that it makes is one that the tables
can take; what a transaction does to one key within an epoch comes in both orders.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any

from planner import types as t
from tests.reference.tables import Change, Row, Table, canonical, delete, insert, upsert

_DATES = ("1995-12-31", "1996-01-31", "1996-02-29", "1997-06-30")
_DECIMALS = ("0", "0.05", "1", "-2.5", "10.99")
_STRINGS = ("", "a", "b", "ab", "A", "a_b")
_KEYS = 10
NULL_SHARE = 0.12


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
        case _:
            return rng.choice(_STRINGS)


class Stream:
    """Transactions over `tables`, which it copies. `size`: about how many rows a table has."""

    def __init__(self, rng: Random, tables: Mapping[str, Table], size: int = 12) -> None:
        self._rng = rng
        self.tables = {name: table.copy() for name, table in tables.items()}
        self._size = size

    def transaction(self) -> list[Change]:
        """One epoch's changes, to one or more tables; rarely none at all."""
        changes: list[Change] = []
        for _ in range(self._rng.choice((0, 1, 2, 4, 6, 8, 8, 12))):
            changes += self._some(self._rng.choice(list(self.tables.values())))
        return changes

    def filling(self) -> list[Change]:
        """A transaction that fills every table to about its size."""
        changes: list[Change] = []
        for table in self.tables.values():
            for _ in range(self._size):
                row = self._row(table)
                if not table.key or tuple(row[i] for i in table.key) not in table.by_key:
                    changes.append(insert(table.name, row))
                    table.apply(changes[-1])
        return changes

    def _some(self, table: Table) -> list[Change]:
        changes = self._keyed(table) if table.key else self._bag(table)
        for change in changes:
            table.apply(change)
        return changes

    def _row(self, table: Table) -> Row:
        row = [value(self._rng, field) for field in table.schema]
        if table.key and table.schema[table.key[0]].type == t.INT:
            row[table.key[0]] = self._rng.randrange(_KEYS)
        return canonical(row)

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
