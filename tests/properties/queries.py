"""Random queries of the maintained class, over random schemas.

A `QueryMaker` writes Spark SQL text: joins (also of a relation with itself), filters, expressions,
GROUP BY, HAVING, DISTINCT, UNION ALL, subqueries in FROM, CTEs, ORDER BY … LIMIT, over tables and
over earlier views. It stays away from what DuckDB and Spark do differently (division of decimals,
overflow, casts to integers, division by zero): `tests/spark` compares those with Spark itself.

So that no difference can be an accident of rounding, each column carries a bound of its integers
and how exact its doubles are: sums of doubles that are not dyadic depend on the order of addition,
and such columns are only ever passed on, never compared, grouped, ordered or joined.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from planner import types as t

#: No view over the small tables has more rows than this; it bounds sums.
MAX_ROWS = 10_000

DYADIC, ROUNDED, INEXACT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Value:
    """An expression or column: its text, its type, a bound of |value|, how exact a double is.

    `constant`: a column that is the same in every row; to join on it is to have a cross join.
    """

    text: str
    type: t.SqlType
    bound: int = 5
    exactness: int = DYADIC
    constant: bool = False

    @property
    def kind(self) -> str:
        match self.type:
            case t.IntegerType():
                return "int"
            case t.DecimalType():
                return "decimal"
            case t.FloatType():
                return "double"
            case t.BooleanType():
                return "boolean"
            case t.DateType():
                return "date"
            case _:
                return "string"


@dataclass(frozen=True, slots=True)
class Relation:
    """Something with a name to select from; the values' texts are column names."""

    name: str
    columns: tuple[Value, ...]


Scope = list[Value]

#: An item of a select list: the expression's text, and the column that it makes.
Output = tuple[str, Value]

_LITERALS = {
    "int": ("0", "1", "2", "3", "-1"),
    "decimal": ("0.05", "1.00", "2.5", "-1.05"),
    "double": ("5e-1", "2.25e0", "-1e0"),
    "string": ("'a'", "'b'", "''", "'ab'", "'A'"),
    "date": ("DATE '1996-01-31'", "DATE '1996-02-29'", "DATE '1997-06-30'"),
    "boolean": ("TRUE", "FALSE"),
}
_BOUNDS = {
    "int": ("0", "2"),
    "decimal": ("-1.05", "5"),
    "double": ("-2e0", "1e0"),
    "string": ("'a'", "'b'"),
    "date": ("DATE '1996-01-01'", "DATE '1997-01-01'"),
}
_LITERAL_TYPES: dict[str, t.SqlType] = {
    "int": t.INT,
    "decimal": t.DecimalType(3, 2),
    "double": t.DOUBLE,
    "string": t.STRING,
    "date": t.DATE,
    "boolean": t.BOOLEAN,
}
_PATTERNS = ("'a%'", "'%b'", "'_'", "'%!_%' ESCAPE '!'", "'a'", "''", "'%'")
_OPERATORS = ("=", "<>", "<>", "<", "<=", "<=", ">", ">=", ">=", "<=>")
_COLUMN = re.compile(r"\br\d+\.\w+")
_AGGREGATE = re.compile(r"\b(count|sum|avg)\(")
_KINDS = ("int", "int", "decimal", "double", "string", "date")


@dataclass(slots=True)
class QueryMaker:
    """Writes queries over `relations`; `features` counts what they use."""

    rng: Random
    relations: list[Relation]
    features: dict[str, int] = field(default_factory=dict)
    _ctes: list[Relation] = field(default_factory=list)
    _constants: set[str] = field(default_factory=set)
    _names: int = 0

    def view(self) -> tuple[str, tuple[Value, ...]]:
        """A query for a view, and its columns."""
        self._ctes = []
        prefix = ""
        if self._chance(0.2):
            text, columns = self._query(1)
            name = self._name("w")
            self._ctes = [Relation(name, columns), Relation(name, columns)]
            prefix = f"WITH {name} AS ({text}) "
            self._use("cte")
        text, columns = self._query(2)
        return prefix + text, columns

    # --- queries

    def _query(self, depth: int) -> tuple[str, tuple[Value, ...]]:
        makers: list[tuple[int, Callable[[int], tuple[str, tuple[Value, ...]]]]]
        makers = [(5, self._plain), (4, self._grouped), (1, self._global), (2, self._distinct)]
        if depth > 0:
            makers.append((2, self._union))
        weights = [w for w, _ in makers]
        return self.rng.choices([m for _, m in makers], weights)[0](depth)

    def _plain(self, depth: int) -> tuple[str, tuple[Value, ...]]:
        source, scope = self._from(depth)
        outputs = self._outputs([self._pick(scope) for _ in range(self.rng.randint(1, 4))])
        text = f"SELECT {_listed(outputs)} FROM {source}"
        return self._limited(text, outputs, scope, 0.15), _columns(outputs)

    def _distinct(self, depth: int) -> tuple[str, tuple[Value, ...]]:
        self._use("distinct")
        source, scope = self._from(depth)
        outputs = self._outputs([self._key(scope) for _ in range(self.rng.randint(1, 3))])
        text = f"SELECT DISTINCT {_listed(outputs)} FROM {source}"
        return self._limited(text, outputs, [], 0.15), _columns(outputs)

    def _grouped(self, depth: int) -> tuple[str, tuple[Value, ...]]:
        self._use("group by")
        source, scope = self._from(depth)
        keys = [self._key(scope) for _ in range(self.rng.choice((1, 1, 2)))]
        calls = [self._call(scope) for _ in range(self.rng.randint(1, 3))]
        outputs = self._outputs([*keys, *map(self._over_calls, calls)])
        by = [k.text for k in keys]
        if self._chance(0.2):
            by = [str(i + 1) for i in range(len(keys))]
            self._use("group by position")
        text = f"SELECT {_listed(outputs)} FROM {source} GROUP BY {', '.join(by)}"
        text += self._having(scope)
        return self._limited(text, outputs, [], 0.15), _columns(outputs)

    def _global(self, depth: int) -> tuple[str, tuple[Value, ...]]:
        self._use("global aggregate")
        source, scope = self._from(depth)
        calls = [self._call(scope) for _ in range(self.rng.randint(1, 3))]
        outputs = self._outputs([self._over_calls(c) for c in calls])
        return f"SELECT {_listed(outputs)} FROM {source}{self._having(scope)}", _columns(outputs)

    def _union(self, depth: int) -> tuple[str, tuple[Value, ...]]:
        self._use("union all")
        kinds: list[str] = []
        parts: list[str] = []
        merged: list[Value] = []
        for _ in range(self.rng.choice((2, 2, 3))):
            source, scope = self._from(depth - 1)
            if not kinds:
                picked = [self._pick(scope) for _ in range(self.rng.randint(1, 3))]
                kinds = [v.kind for v in picked]
            else:
                picked = [self._of_kind(kind, scope, 1) for kind in kinds]
            outputs = self._outputs(picked)
            parts.append(f"SELECT {_listed(outputs)} FROM {source}")
            if merged:
                merged = [_merge(a, b) for a, b in zip(merged, _columns(outputs), strict=True)]
            else:
                merged = list(_columns(outputs))
        return " UNION ALL ".join(parts), tuple(merged)

    def _limited(self, text: str, outputs: list[Output], scope: Scope, share: float) -> str:
        if not self._chance(share) or any(v.exactness == INEXACT for _, v in outputs):
            return text
        self._use("order by limit")
        keys = []
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            if scope and self._chance(0.3):
                key = self._key(scope).text
                self._use("order by unselected")
            else:
                key = self.rng.choice(outputs)[1].text
            direction = self.rng.choice(("", " DESC", " ASC"))
            keys.append(key + direction + self.rng.choice(("", "", " NULLS FIRST", " NULLS LAST")))
        order = f" ORDER BY {', '.join(keys)}" if keys else ""
        return f"{text}{order} LIMIT {self.rng.choice((1, 2, 3, 5))}"

    # --- FROM and WHERE

    def _from(self, depth: int) -> tuple[str, Scope]:
        """FROM and WHERE, with the values they offer."""
        first, scope = self._source(depth)
        text, conditions = first, []
        joined, commas = 1, False
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2))):
            source, offered = self._source(depth)
            pairs = [
                (a, b)
                for a in scope
                for b in offered
                if a.kind == b.kind
                and INEXACT not in (a.exactness, b.exactness)
                and not (a.constant or b.constant)
            ]
            if not pairs:
                continue
            joined += 1
            # Of two pairs the one of integers, whose values meet most often.
            a, b = min(self.rng.choices(pairs, k=2), key=lambda pair: pair[0].kind != "int")
            on = f"{a.text} = {b.text}"
            if self._chance(0.15):
                c, d = self.rng.choice(pairs)
                on += f" AND {c.text} {self.rng.choice(('=', '<=>', '<', '<>'))} {d.text}"
                self._use("join with residual")
            shared = a.text.partition(".")[2] == b.text.partition(".")[2]
            if shared and joined == 2 and not commas and self._chance(0.4):
                column = a.text.partition(".")[2]
                text += f" JOIN {source} USING ({column})"
                self._use("using")
            elif not commas and self._chance(0.6):
                text += f" JOIN {source} ON {on}"
            else:
                # From here on only commas: a JOIN would bind tighter and not see what is before.
                text += f", {source}"
                conditions.append(on)
                commas = True
                self._use("comma join")
            scope = scope + offered
        if joined > 1:
            self._use(f"join of {joined}")
        if self._chance(0.35):
            conditions.append(self._predicate(scope, 2).text)
            self._use("where")
        if conditions:
            text += f" WHERE {' AND '.join(f'({c})' for c in conditions)}"
        return text, scope

    def _source(self, depth: int) -> tuple[str, Scope]:
        alias = self._name("r")
        if depth > 0 and self._chance(0.2):
            self._use("subquery in from")
            text, columns = self._query(depth - 1)
            relation = Relation(f"({text})", columns)
        elif self._ctes and self._chance(0.6):
            relation = self.rng.choice(self._ctes)
            self._use("cte reference")
        else:
            relation = self.rng.choice(self.relations)
            if relation.name.startswith("v"):
                self._use("view over view")
        scope = [replace(c, text=f"{alias}.{c.text}") for c in relation.columns]
        self._constants.update(v.text for v in scope if v.constant)
        return f"{relation.name} {alias}", scope

    # --- expressions

    def _pick(self, scope: Scope) -> Value:
        """An output: mostly a column, else an expression."""
        if self._chance(0.5):
            return self.rng.choice(scope)
        return self._of_kind(self._some_kind(scope), scope, 2)

    def _some_kind(self, scope: Scope) -> str:
        """Mostly a kind that the scope has columns of, so that expressions are not constant."""
        present = [v.kind for v in scope if v.kind != "boolean"]
        return self.rng.choice(present if present and self._chance(0.85) else _KINDS)

    def _key(self, scope: Scope) -> Value:
        """A value to group, order or tell rows apart by: never inexact, never constant."""
        usable = [v for v in scope if v.exactness != INEXACT]
        for _ in range(4):
            if usable and self._chance(0.6):
                return self.rng.choice(usable)
            value = self._of_kind(self._some_kind(usable), usable, 1)
            if value.exactness != INEXACT and _COLUMN.search(value.text):
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
            return replace(_merge(a, b), text=f"coalesce({a.text}, {b.text})")
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
                unit = self.rng.choice(("'1' MONTH", "'1' YEAR", "'3' DAY", "'2' MONTH"))
                return Value(f"({a.text} {self.rng.choice('+-')} INTERVAL {unit})", t.DATE)
            case "boolean":
                return self._predicate(scope, depth - 1)
            case _:
                return self.rng.choice(columns) if columns else self._literal(kind)

    def _literal(self, kind: str) -> Value:
        return Value(self.rng.choice(_LITERALS[kind]), _LITERAL_TYPES[kind])

    def _case(self, kind: str, scope: Scope, depth: int) -> Value:
        a, b = self._of_kind(kind, scope, depth), self._of_kind(kind, scope, 0)
        when = self._predicate(scope, depth).text
        otherwise = f" ELSE {b.text}" if self._chance(0.7) else ""
        merged = _merge(a, b) if otherwise else a
        return replace(merged, text=f"CASE WHEN {when} THEN {a.text}{otherwise} END")

    def _integer(self, scope: Scope, depth: int) -> Value:
        roll = self.rng.random()
        dates = [v for v in scope if v.kind == "date"]
        if roll < 0.2 and dates:
            self._use("extract")
            part = self.rng.choice(("YEAR", "MONTH", "DAY"))
            return Value(f"extract({part} FROM {self.rng.choice(dates).text})", t.INT, 3000)
        a, b = self._of_kind("int", scope, depth), self._of_kind("int", scope, 0)
        if roll < 0.3:
            return replace(a, text=f"({a.text} % 3)", bound=2)
        if roll < 0.4:
            return replace(a, text=f"(-{_operand(a)})")
        self._use("arithmetic")
        kind = _wider(a.type, b.type)
        if roll < 0.6:
            bound, text = a.bound * b.bound, f"({a.text} * {b.text})"
        else:
            bound, text = a.bound + b.bound, f"({a.text} {self.rng.choice('+-')} {b.text})"
        limit = 1 << (30 if kind == t.INT else 40)
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
            return Value(f"({a.text} / 4)", t.DOUBLE)
        if roll < 0.35:
            a = self._of_kind(self.rng.choice(("int", "decimal")), scope, 0)
            self._use("cast")
            exactness = DYADIC
            if isinstance(a.type, t.DecimalType):
                exactness = ROUNDED if a.type.precision <= 15 else INEXACT
            return Value(f"cast({a.text} AS DOUBLE)", t.DOUBLE, 5, exactness)
        a, b = self._of_kind("double", scope, depth), self._of_kind("double", scope, 0)
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
            listed = ", ".join(self.rng.sample(_LITERALS[a.kind], 2))
            negated = self.rng.choice(("", "NOT ", "NOT "))
            return f"{a.text} {negated}IN ({listed})"
        if roll < 0.3 and a.kind != "boolean":
            self._use("between")
            low, high = _BOUNDS[a.kind]
            return f"{a.text} BETWEEN {low} AND {high}"
        if a.kind == "string" and roll < 0.55:
            self._use("like")
            return f"{a.text} {self.rng.choice(('', 'NOT '))}LIKE {self.rng.choice(_PATTERNS)}"
        b = self._of_kind(a.kind, scope, 0) if self._chance(0.6) else self._literal(a.kind)
        if a.text == b.text:
            b = self._literal(a.kind)
        operators = ("=", "<>", "<=>") if a.kind == "boolean" else _OPERATORS
        return f"{a.text} {self.rng.choice(operators)} {b.text}"

    # --- aggregates

    def _call(self, scope: Scope) -> Value:
        if self._chance(0.25):
            self._use("count(*)")
            return Value("count(*)", t.BIGINT, MAX_ROWS)
        numbers = [v.kind for v in scope if v.kind in ("int", "decimal", "double")]
        a = self._of_kind(self.rng.choice(numbers or ["int"]), scope, 1)
        function = self.rng.choice(("sum", "sum", "avg", "count"))
        if function == "count":
            self._use("count(x)")
            a = self.rng.choice(scope) if self._chance(0.5) else a
            return Value(f"count({a.text})", t.BIGINT, MAX_ROWS)
        self._use(f"{function} of {a.kind}")
        text = f"{function}({a.text})"
        match a.type:
            case t.DecimalType() if function == "sum":
                kind = t.DecimalType(min(a.type.precision + 10, 38), a.type.scale)
                return Value(text, kind)
            case t.DecimalType():
                grown = min(a.type.precision + 4, 38)
                return Value(text, t.DecimalType(grown, min(a.type.scale + 4, grown)))
            case t.IntegerType() if function == "sum" and a.bound < 1 << 40:
                return Value(text, t.BIGINT, a.bound * MAX_ROWS)
            case t.IntegerType():
                return Value(f"avg({a.text})", t.DOUBLE, 5, ROUNDED)
            case _:
                exactness = INEXACT if a.exactness != DYADIC else ROUNDED
                exactness = DYADIC if exactness == ROUNDED and function == "sum" else exactness
                return Value(text, t.DOUBLE, 5, exactness)

    def _over_calls(self, call: Value) -> Value:
        if call.kind != "int" or not self._chance(0.25):
            return call
        self._use("expression over aggregates")
        if self._chance(0.5):
            when = f"CASE WHEN {call.text} > 2 THEN 'many' WHEN {call.text} IS NULL THEN 'none' END"
            return Value(when, t.STRING)
        if call.bound < 1 << 50:
            return replace(call, text=f"(count(*) + 2 * {call.text})", bound=4 * call.bound)
        return call

    def _having(self, scope: Scope) -> str:
        if not self._chance(0.3):
            return ""
        self._use("having")
        call = self._call(scope)
        if call.exactness == INEXACT:
            call = Value("count(*)", t.BIGINT)
        literal = self.rng.choice(_LITERALS[call.kind])
        return f" HAVING {call.text} {self.rng.choice(('>', '>=', '<=', '<>', '<=>'))} {literal}"

    # --- small things

    def _outputs(self, values: Sequence[Value]) -> list[Output]:
        outputs = []
        for value in values:
            columns = set(_COLUMN.findall(value.text))
            varies = bool(columns - self._constants) or _AGGREGATE.search(value.text) is not None
            column = replace(value, text=self._name("c"), constant=not varies)
            outputs.append((value.text, column))
        return outputs

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _use(self, feature: str) -> None:
        self.features[feature] = self.features.get(feature, 0) + 1


def _listed(outputs: Sequence[Output]) -> str:
    return ", ".join(f"{text} AS {column.text}" for text, column in outputs)


def _columns(outputs: Sequence[Output]) -> tuple[Value, ...]:
    return tuple(column for _, column in outputs)


def _operand(value: Value) -> str:
    return f"({value.text})" if value.text.startswith("-") else value.text


def _merge(a: Value, b: Value) -> Value:
    """A value that may be either, under the name of the first."""
    return Value(
        a.text,
        _wider(a.type, b.type),
        max(a.bound, b.bound),
        max(a.exactness, b.exactness),
        a.constant and b.constant,
    )


def _wider(a: t.SqlType, b: t.SqlType) -> t.SqlType:
    match a, b:
        case t.IntegerType(), t.IntegerType():
            return a if a.bits >= b.bits else b
        case t.DecimalType(), t.DecimalType():
            scale = max(a.scale, b.scale)
            whole = max(a.precision - a.scale, b.precision - b.scale)
            return t.bounded_decimal(whole + scale, scale)
        case _:
            return a
