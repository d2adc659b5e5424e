"""Random scalar expressions and predicates over a scope of columns, as Spark SQL text.

They stay away from what DuckDB and Spark do differently, and from what can fail (division of
decimals, overflow, casts to integers, division by zero): `tests/spark` compares those with Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from planner.calculus import types as t
from tests.properties.features import SUPPORTED
from tests.properties.values import (
    AGGREGATE,
    BOUNDS,
    COLUMN,
    DYADIC,
    INEXACT,
    KINDS,
    LITERAL_TYPES,
    LITERALS,
    OPERATORS,
    PATTERNS,
    ROUNDED,
    SMALL,
    Output,
    Scope,
    Value,
    merge,
    operand,
    wider,
)


@dataclass(slots=True)
class Expressions:
    """`allowed`: the features that may be used; `features` counts those that are. `odd`: whether
    columns get names that need quotes."""

    rng: Random
    allowed: Collection[str] = SUPPORTED
    features: dict[str, int] = field(default_factory=dict)
    odd: bool = False
    _constants: set[str] = field(default_factory=set)
    _names: int = 0

    def _pick(self, scope: Scope) -> Value:
        """An output: mostly a column, else an expression."""
        if self._chance(0.5):
            return self.rng.choice(scope)
        return self._of_kind(self._some_kind(scope), scope, 2)

    def _some_kind(self, scope: Scope) -> str:
        """Mostly a kind that the scope has columns of, so that expressions are not constant."""
        present = [v.kind for v in scope if v.kind != "boolean"]
        return self.rng.choice(present if present and self._chance(0.85) else KINDS)

    def _key(self, scope: Scope) -> Value:
        """A value to group, order or tell rows apart by: never inexact, never constant."""
        usable = [v for v in scope if v.exactness != INEXACT]
        for _ in range(4):
            if usable and self._chance(0.6):
                return self.rng.choice(usable)
            value = self._of_kind(self._some_kind(usable), usable, 1)
            if value.exactness != INEXACT and COLUMN.search(value.text):
                return value
        if usable:
            return self.rng.choice(usable)
        return Value(f"({scope[0].text} IS NULL)", t.BOOLEAN)

    def _of_kind(self, kind: str, scope: Scope, depth: int) -> Value:
        columns = [v for v in scope if v.kind == kind]
        if columns and (depth == 0 or self._chance(0.4)):
            return self.rng.choice(columns)
        if depth == 0:
            return self._literal(kind)
        roll = self.rng.random()
        if roll < 0.15:
            self._use("case")
            return self._case(kind, scope, depth - 1)
        if roll < 0.3:
            self._use("coalesce")
            a, b = self._of_kind(kind, scope, depth - 1), self._of_kind(kind, scope, 0)
            return replace(merge(a, b), text=f"coalesce({a.text}, {b.text})")
        match kind:
            case "int":
                return self._integer(scope, depth - 1)
            case "decimal":
                return self._decimal(scope, depth - 1)
            case "double":
                return self._double(scope, depth - 1)
            case "date":
                self._use("date arithmetic")
                a = self._of_kind("date", scope, depth - 1)
                stamps = [v for v in scope if v.kind == "timestamp" and v.bound == SMALL]
                if stamps and self._chance(0.3):
                    return Value(f"CAST({self.rng.choice(stamps).text} AS DATE)", t.DATE)
                if a.bound > SMALL:
                    return a
                unit = self.rng.choice(("'1' MONTH", "'1' YEAR", "'3' DAY", "'2' MONTH"))
                return Value(f"({a.text} {self.rng.choice('+-')} INTERVAL {unit})", t.DATE)
            case "boolean":
                return self._predicate(scope, depth - 1)
            case _:
                return self.rng.choice(columns) if columns else self._literal(kind)

    def _literal(self, kind: str) -> Value:
        return Value(self.rng.choice(LITERALS[kind]), LITERAL_TYPES[kind])

    def _case(self, kind: str, scope: Scope, depth: int) -> Value:
        a, b = self._of_kind(kind, scope, depth), self._of_kind(kind, scope, 0)
        when = self._predicate(scope, depth).text
        otherwise = f" ELSE {b.text}" if self._chance(0.7) else ""
        merged = merge(a, b) if otherwise else a
        return replace(merged, text=f"CASE WHEN {when} THEN {a.text}{otherwise} END")

    def _integer(self, scope: Scope, depth: int) -> Value:
        roll = self.rng.random()
        dates = [v for v in scope if v.kind in ("date", "timestamp")]
        if roll < 0.2 and dates:
            self._use("extract")
            a = self.rng.choice(dates)
            parts = ("YEAR", "MONTH", "DAY", *(("HOUR", "MINUTE") if a.kind == "timestamp" else ()))
            return Value(f"extract({self.rng.choice(parts)} FROM {a.text})", t.INT, 10_000)
        a, b = self._of_kind("int", scope, depth), self._of_kind("int", scope, 0)
        if roll < 0.3:
            return replace(a, text=f"({a.text} % 3)", bound=2, type=wider(a.type, t.INT))
        if roll < 0.4 and a.summable:
            return replace(a, text=f"(-{operand(a)})")
        self._use("arithmetic")
        kind = wider(a.type, b.type)
        if roll < 0.6:
            bound, text = a.bound * b.bound, f"({a.text} * {b.text})"
        else:
            bound, text = a.bound + b.bound, f"({a.text} {self.rng.choice('+-')} {b.text})"
        assert isinstance(kind, t.IntegerType)
        limit = 1 << min(kind.bits - 2, 40)
        return Value(text, kind, bound) if bound < limit else a

    def _decimal(self, scope: Scope, depth: int) -> Value:
        roll = self.rng.random()
        if roll < 0.15:
            a = self._of_kind("int", scope, 0)
            if a.bound < 100_000:
                self._use("cast")
                return Value(f"cast({a.text} AS DECIMAL(8,2))", t.DecimalType(8, 2))
        a, b = self._of_kind("decimal", scope, depth), self._of_kind("decimal", scope, 0)
        assert isinstance(a.type, t.DecimalType) and isinstance(b.type, t.DecimalType)
        self._use("decimal arithmetic")
        if roll < 0.5 and a.type.precision + b.type.precision < 30:
            scale = a.type.scale + b.type.scale
            kind = t.DecimalType(a.type.precision + b.type.precision + 1, scale)
            return Value(f"({a.text} * {b.text})", kind)
        scale = max(a.type.scale, b.type.scale)
        whole = max(a.type.precision - a.type.scale, b.type.precision - b.type.scale)
        if whole + scale + 1 > 30:
            return a
        sign = self.rng.choice("+-")
        return Value(f"({a.text} {sign} {b.text})", t.DecimalType(whole + scale + 1, scale))

    def _double(self, scope: Scope, depth: int) -> Value:
        roll = self.rng.random()
        if roll < 0.2:
            a = self._of_kind("int", scope, 0)
            self._use("integer division")
            return Value(f"({a.text} / 4)", t.DOUBLE, 5, DYADIC if a.summable else ROUNDED)
        if roll < 0.35:
            a = self._of_kind(self.rng.choice(("int", "decimal")), scope, 0)
            self._use("cast")
            exactness = DYADIC if a.summable else ROUNDED
            if isinstance(a.type, t.DecimalType):
                exactness = ROUNDED if a.type.precision <= 15 else INEXACT
            return Value(f"cast({a.text} AS DOUBLE)", t.DOUBLE, 5, exactness)
        a, b = self._of_kind("double", scope, depth), self._of_kind("double", scope, 0)
        if not (a.summable and b.summable):
            return a
        self._use("double arithmetic")
        text = f"({a.text} {self.rng.choice('+-*')} {b.text})"
        # Products of products leave the dyadic range that adds up exactly.
        exactness = max(a.exactness, b.exactness, ROUNDED if "*" in text else DYADIC)
        return Value(text, t.DOUBLE, 5, exactness)

    def _predicate(self, scope: Scope, depth: int) -> Value:
        usable = [v for v in scope if v.exactness != INEXACT]
        if not usable:
            return Value(f"{scope[0].text} IS NOT NULL" if scope else "TRUE", t.BOOLEAN)
        if depth > 0 and self._chance(0.3):
            a, b = self._predicate(usable, depth - 1).text, self._predicate(usable, depth - 1).text
            form = self.rng.choice(("({} AND {})", "({} OR {})", "NOT ({})"))
            self._use("and, or, not")
            return Value(form.format(a, b), t.BOOLEAN)
        column = self.rng.choice(usable)
        a = self._of_kind(column.kind, usable, 1) if self._chance(0.3) else column
        return Value(f"({self._test(a, usable)})", t.BOOLEAN)

    def _test(self, a: Value, scope: Scope) -> str:
        roll = self.rng.random()
        if roll < 0.1:
            return f"{a.text} IS {self.rng.choice(('', 'NOT ', 'NOT ', 'NOT '))}NULL"
        if a.kind == "boolean" and roll < 0.6:
            return a.text
        if roll < 0.2:
            self._use("in list")
            listed = ", ".join(self.rng.sample(LITERALS[a.kind], 2))
            negated = self.rng.choice(("", "NOT ", "NOT "))
            return f"{a.text} {negated}IN ({listed})"
        if roll < 0.3 and a.kind != "boolean":
            self._use("between")
            low, high = BOUNDS[a.kind]
            return f"{a.text} BETWEEN {low} AND {high}"
        if a.kind == "string" and roll < 0.55:
            self._use("like")
            return f"{a.text} {self.rng.choice(('', 'NOT '))}LIKE {self.rng.choice(PATTERNS)}"
        b = self._of_kind(a.kind, scope, 0) if self._chance(0.6) else self._literal(a.kind)
        if a.text == b.text:
            b = self._literal(a.kind)
        operators = ("=", "<>", "<=>") if a.kind == "boolean" else OPERATORS
        return f"{a.text} {self.rng.choice(operators)} {b.text}"

    def _outputs(self, values: Sequence[Value]) -> list[Output]:
        outputs = []
        for value in values:
            columns = set(COLUMN.findall(value.text))
            varies = bool(columns - self._constants) or AGGREGATE.search(value.text) is not None
            fixed = value.constant or not varies
            name = self._name("c")
            if self.odd and self._chance(0.3):
                name = f"`{name} {self.rng.choice(('é', 'a.b', 'from', '(', 'x  y', '名'))}`"
            column = replace(value, text=name, constant=fixed)
            outputs.append((value.text, column))
        return outputs

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _use(self, feature: str) -> None:
        self.features[feature] = self.features.get(feature, 0) + 1

    def _may(self, *features: str) -> list[str]:
        """Those of the features that are allowed."""
        return [f for f in features if f in self.allowed]
