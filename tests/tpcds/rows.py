"""Rows for the tables, of few keys and of the values that the queries ask for, so that results are
seldom empty and change."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import sqlglot
from sqlglot import exp

#: Rows of a table of facts, and of any other: keys are from 1 to the latter.
FACTS, OTHERS = 400, 24
_FACTS = ("_sales", "_returns", "inventory")
_FIRST_DAY = datetime.date(1998, 1, 1)
_COMPARISONS = (exp.EQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between)

Row = tuple[Any, ...]


class Rows:
    """Makes rows; the same ones for a seed."""

    def __init__(self, tables: Mapping[str, Mapping[str, str]], texts: Iterable[str], seed: int):
        self._tables = tables
        self._asked = _asked(texts)
        self._rng = random.Random(seed)
        self._made: dict[str, int] = defaultdict(int)

    def first(self, table: str) -> list[Row]:
        """The rows of a table at the beginning."""
        count = FACTS if table.endswith(_FACTS) else OTHERS
        return [self.row(table) for _ in range(count)]

    def row(self, table: str) -> Row:
        """One more row."""
        self._made[table] += 1
        columns = self._tables[table]
        return tuple(
            self._value(table, place, name, kind)
            for place, (name, kind) in enumerate(columns.items())
        )

    def _value(self, table: str, place: int, name: str, kind: str) -> Any:
        rng = self._rng
        is_fact = table.endswith(_FACTS)
        if place == 0 and not is_fact:
            return (self._made[table] - 1) % OTHERS + 1
        if rng.random() < 0.04:
            return None
        if name.endswith("_sk"):
            return rng.randint(1, OTHERS)
        asked = self._asked.get(name, [])
        value = rng.choice(asked) if asked and rng.random() < 0.85 else None
        try:
            return self._typed(value, kind)
        except (ValueError, ArithmeticError):
            return self._typed(None, kind)

    def _typed(self, value: str | None, kind: str) -> Any:
        rng = self._rng
        if kind == "STRING":
            return value if value is not None else rng.choice(("a", "b", "Zip 85669", "1st"))
        if kind == "DATE":
            day = datetime.date.fromisoformat(value.strip()) if value is not None else _FIRST_DAY
            return day + datetime.timedelta(
                rng.randint(0, 60) - 5 if value else rng.randint(0, 900)
            )
        if kind.upper().startswith("DECIMAL"):
            scale = int(kind.rstrip(")").split(",")[1])
            number = (
                decimal.Decimal(value)
                if value is not None
                else decimal.Decimal(rng.randint(-5, 120))
            )
            return round(number + rng.randint(0, 3), scale)
        return int(float(value)) + rng.randint(0, 1) if value is not None else rng.randint(1, 20)


def _asked(texts: Iterable[str]) -> dict[str, list[str]]:
    """By column the literals that queries compare it with."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for text in texts:
        for node in sqlglot.parse_one(text, read="spark").find_all(*_COMPARISONS):
            columns = {c.name.lower() for c in node.find_all(exp.Column)}
            if node.find(exp.Query) is not None:
                continue
            for column in columns:
                for literal in node.find_all(exp.Literal):
                    found[column][str(literal.this)] = None
    return {column: list(values) for column, values in found.items()}
