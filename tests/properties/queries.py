"""Random queries of the maintained class, over random schemas.

A `QueryMaker` writes Spark SQL text: joins of all kinds (also of a relation with itself), filters,
expressions, aggregates, subqueries in FROM and in expressions, set operations, VALUES, CTEs,
ORDER BY … LIMIT … OFFSET, over tables and over earlier views. What it may use of these is told by
the features in `allowed` (`tests.properties.features`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from planner.calculus import types as t
from tests.properties.features import ERRORS, GUARDS, WINDOWS
from tests.properties.values import (
    COLUMN,
    EXTREME,
    INEXACT,
    LITERAL_TYPES,
    LITERALS,
    MAX_ROWS,
    SMALL,
    Output,
    Relation,
    Scope,
    Value,
    columns,
    listed,
    lowered,
    merge,
)
from tests.properties.windows import Windows

_SETS = ("union", "intersect", "intersect all", "except", "except all")
_GROUPING = ("rollup", "cube", "grouping sets")
_OUTER = ("left join", "right join", "full join")

Query = tuple[str, tuple[Value, ...]]


@dataclass(slots=True)
class QueryMaker(Windows):
    """Writes queries over `relations`. `deep`: each over the latest view and tables."""

    deep: bool = False
    _read_latest: bool = False
    _ctes: list[Relation] = field(default_factory=list)

    def view(self) -> Query:
        """A query for a view, and its columns."""
        self._ctes, self._read_latest = [], False
        prefix = ""
        if self._chance(0.15):
            text, made = self._query(1)
            name = self._name("w")
            self._ctes = [Relation(name, made), Relation(name, made)]
            prefix = f"WITH {name} AS ({text}) "
            self._use("cte")
        elif self._may(*ERRORS) and self._chance(0.12):
            return self._failing()
        text, made = self._query(0 if self.deep else 2)
        text = prefix + text
        if self._may("lower case") and sum(map(ord, text)) % 5 == 0:  # what is drawn stays
            text = lowered(text)
            self._use("lower case")
        return text, made

    # --- queries

    def _query(self, depth: int) -> Query:
        makers: list[tuple[int, Callable[[int], Query]]]
        makers = [(5, self._plain), (4, self._grouped), (1, self._global), (2, self._distinct)]
        if self._may(*WINDOWS):
            makers.append((2, self._windowed))
        if depth > 0:
            makers.append((1, self._union_all))
            if self._may(*_SETS):
                makers.append((2, self._set_operation))
        weights = [w for w, _ in makers]
        return self.rng.choices([m for _, m in makers], weights)[0](depth)

    def _plain(self, depth: int) -> Query:
        source, scope = self._from(depth)
        outputs = self._outputs([self._pick(scope) for _ in range(self.rng.randint(1, 4))])
        text = f"SELECT {listed(outputs)} FROM {source}"
        return self._limited(text, outputs, scope, 0.12), columns(outputs)

    def _failing(self) -> Query:
        """Rows that cannot be computed now and then, mostly guarded from being computed."""
        source, scope = self._from(0)
        kind = self.rng.choice(self._may(*ERRORS))
        if kind == "lookup of two":
            found = self._lookup_of_two(scope)
            outputs = self._outputs([self.rng.choice(scope), found or self._literal("int")])
            return f"SELECT {listed(outputs)} FROM {source}", columns(outputs)
        self._use(kind)
        risky, safe = self._risk(kind, scope)
        guard = self.rng.choice(["", *GUARDS])
        if guard and guard not in self.allowed:
            guard = "guarded by case"
        if guard:
            self._use(guard)
        whole, rest = [self.rng.choice(scope), risky], ""
        match guard:
            case "guarded by case":
                form = self.rng.choice(("CASE WHEN {} THEN {} END", "if({}, {}, NULL)"))
                whole[1] = replace(risky, text=form.format(safe, risky.text))
            case "guarded by and" if self._chance(0.5):
                forms = ("({} AND {} > 0)", "(NOT {} OR {} > 0)", "NOT ({} AND {} <= 0)")
                test = self.rng.choice(forms).format(safe, risky.text)
                whole[1] = Value(f"({test} IS NULL)" if self._chance(0.2) else test, t.BOOLEAN)
            case "guarded by and":
                # Commas and conditions already there would come first: all in one query around.
                inner = self._outputs(scope)
                renamed = {v.text: c.text for v, (_, c) in zip(scope, inner, strict=True)}
                alias = self._name("r")
                source = f"(SELECT {listed(inner)} FROM {source}) {alias}"
                text = COLUMN.sub(
                    lambda m: f"{alias}.{renamed[m[0]]}" if m[0] in renamed else m[0],
                    f"{safe} AND {risky.text} IS NOT NULL",
                )
                outputs = self._outputs(
                    [replace(c, text=f"{alias}.{c.text}") for c in columns(inner)[:3]]
                )
                return f"SELECT {listed(outputs)} FROM {source} WHERE {text}", columns(outputs)
            case "guarded by coalesce":
                zero = f"CASE WHEN {safe} THEN NULL ELSE CAST(0 AS {risky.type}) END"
                whole[1] = replace(risky, text=f"coalesce({zero}, {risky.text})")
            case "guarded by filter":
                key = self._key(scope)
                count = f"count({risky.text}) FILTER (WHERE {safe})"
                whole = [key, Value(count, t.BIGINT, MAX_ROWS)]
                rest = f" GROUP BY {key.text}"
            case "guarded by on":
                return self._guarded_on(kind)
        outputs = self._outputs(whole)
        return f"SELECT {listed(outputs)} FROM {source}{rest}", columns(outputs)

    def _risk(self, kind: str, scope: Scope) -> tuple[Value, str]:
        """An expression that fails for some values of an integer column, and what is true of the
        others."""
        usable = [v for v in scope if v.kind == "int" and v.bound == SMALL]
        b = self.rng.choice(usable or [Value("1", t.INT)])
        match kind:
            case "division":
                a, zero = self._of_kind("int", usable, 0), self.rng.choice((2, 3, 5, 7))
                text = f"({a.text} / ({b.text} - {zero}))"
                return Value(text, t.DOUBLE, 5, INEXACT), f"{b.text} <> {zero}"
            case "overflow":
                text = f"(CAST({b.text} AS INT) * 1073741824)"
                return Value(text, t.INT, EXTREME), f"({b.text} BETWEEN -1 AND 1)"
            case _:
                text = f"CAST(CASE WHEN {b.text} > 2 THEN 'x' ELSE '7' END AS INT)"
                return Value(text, t.INT), f"({b.text} <= 2 OR {b.text} IS NULL)"

    def _guarded_on(self, kind: str) -> Query:
        """A condition of an outer join that fails for some of the pairs that its other parts leave
        out."""
        (left, first), (right, second) = self._source(0), self._source(0)
        pairs = _pairs(first, second) or [(Value("1", t.INT), Value("1", t.INT))]
        a, b = self.rng.choice(pairs)
        risky, safe = self._risk(kind, self.rng.choice((first, second)))
        word = self.rng.choice(("LEFT", "RIGHT", "FULL"))
        outputs = self._outputs([self.rng.choice(first), self.rng.choice(second)])
        text = f"SELECT {listed(outputs)} FROM {left} {word} JOIN {right}"
        text += f" ON {a.text} = {b.text} AND {safe} AND {risky.text} IS NOT NULL"
        return text, columns(outputs)

    def _distinct(self, depth: int) -> Query:
        self._use("distinct")
        source, scope = self._from(depth)
        outputs = self._outputs([self._key(scope) for _ in range(self.rng.randint(1, 3))])
        text = f"SELECT DISTINCT {listed(outputs)} FROM {source}"
        return self._limited(text, outputs, [], 0.12), columns(outputs)

    def _grouped(self, depth: int) -> Query:
        self._use("group by")
        source, scope = self._from(depth)
        keys = [self._key(scope) for _ in range(self.rng.choice((1, 1, 2)))]
        calls = [self._call(scope) for _ in range(self.rng.randint(1, 3))]
        if self._may("subquery in aggregate") and self._chance(0.1):
            self._use("subquery in aggregate")
            test = self._subquery_test(scope)
            calls.append(Value(f"sum(CASE WHEN {test} THEN 1 ELSE 0 END)", t.BIGINT, 10_000))
        sets = self._may(*_GROUPING) if self._chance(0.15) else []
        if sets and self._may("grouping") and self._chance(0.5):
            self._use("grouping")
            asked = self.rng.choice(keys).text
            calls.append(Value(f"grouping({asked})", t.TINYINT, 1))
        outputs = self._outputs([*keys, *map(self._over_calls, calls)])
        by = [k.text for k in keys]
        if self._chance(0.2) and not sets:
            by = [str(i + 1) for i in range(len(keys))]
            self._use("group by position")
        grouped = self._in_sets(self.rng.choice(sets), by) if sets else ", ".join(by)
        text = f"SELECT {listed(outputs)} FROM {source} GROUP BY {grouped}"
        text += self._having(scope, [k for k in keys if k in scope])
        return self._limited(text, outputs, [], 0.12), columns(outputs)

    def _windowed(self, depth: int) -> Query:
        source, scope = self._from(depth)
        grouped = ""
        if self._may("window over aggregates") and self._chance(0.2):
            self._use("window over aggregates")
            keys = [self._key(scope) for _ in range(self.rng.choice((1, 2)))]
            calls = [self._plain_call(scope) for _ in range(self.rng.choice((1, 2)))]
            grouped = f" GROUP BY {', '.join(k.text for k in keys)}"
            scope = [*keys, *calls]
            plain = self._outputs(scope)
        else:
            plain = self._outputs([self._key(scope) for _ in range(self.rng.choice((0, 1, 2, 3)))])
        made, clause = self._window_calls(scope)
        if self._may("window in case") and self._chance(0.3):
            self._use("window in case")
            when = [self._predicate(scope, 0).text for _ in range(2)]
            case = f"CASE WHEN {when[0]} THEN NULL WHEN {when[1]} THEN {made[-1].text} END"
            made[-1] = replace(made[-1], text=case)
        windows = self._outputs(made)
        outputs = [*plain, *windows]
        self.rng.shuffle(outputs)
        text = f"SELECT {listed(outputs)} FROM {source}{grouped}"
        text += self._qualified(windows) + clause
        return self._limited(text, outputs, [], 0.1), columns(outputs)

    def _in_sets(self, kind: str, keys: list[str]) -> str:
        self._use(kind)
        if kind != "grouping sets":
            return f"{kind.upper()} ({', '.join(keys)})"
        some = [[k for k in keys if self._chance(0.6)] for _ in range(self.rng.randint(1, 3))]
        some.append(keys)
        listed = ["(" + ", ".join(each) + ")" for each in some]
        return f"GROUPING SETS ({', '.join(listed)})"

    def _global(self, depth: int) -> Query:
        self._use("global aggregate")
        source, scope = self._from(depth)
        calls = [self._call(scope) for _ in range(self.rng.randint(1, 3))]
        outputs = self._outputs([self._over_calls(c) for c in calls])
        text = f"SELECT {listed(outputs)} FROM {source}{self._having(scope, [])}"
        return text, columns(outputs)

    def _union_all(self, depth: int) -> Query:
        self._use("union all")
        return self._combined(["UNION ALL"] * self.rng.choice((1, 1, 2)), depth, exact=False)

    def _set_operation(self, depth: int) -> Query:
        kind = self.rng.choice(self._may(*_SETS))
        self._use(kind)
        text, made = self._combined([kind.upper()], depth, exact=True)
        return self._limited(text, [("", c) for c in made], [], 0.1), made

    def _combined(self, operators: list[str], depth: int, exact: bool) -> Query:
        kinds: list[str] = []
        text = ""
        merged: list[Value] = []
        choose = self._key if exact else self._pick
        width = self.rng.choice((1, 1, 2)) if exact else self.rng.randint(1, 3)
        for operator in ("", *operators):
            source, scope = self._from(depth - 1)
            usable = [v for v in scope if v.exactness != INEXACT] if exact else scope
            if not kinds:
                picked = [choose(scope) for _ in range(width)]
                kinds = [v.kind for v in picked]
            else:
                level = 0 if exact else 1
                picked = [self._of_kind(kind, usable, level) for kind in kinds]
            outputs = self._outputs(picked)
            text += f" {operator} " if operator else ""
            text += f"SELECT {listed(outputs)} FROM {source}"
            if merged:
                merged = [merge(a, b) for a, b in zip(merged, columns(outputs), strict=True)]
            else:
                merged = list(columns(outputs))
        return text, tuple(merged)

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
        limit = f" LIMIT {self.rng.choice((2, 3, 5, 8))}"
        if self._may("offset") and self._chance(0.35):
            self._use("offset")
            limit = f"{limit if self._chance(0.7) else ''} OFFSET {self.rng.choice((1, 2, 3))}"
        return f"{text}{order}{limit}"

    # --- FROM and WHERE

    def _from(self, depth: int) -> tuple[str, Scope]:
        """FROM and WHERE, with the values they offer."""
        text, scope = self._source(depth)
        conditions: list[str] = []
        joined, commas, special = 1, False, False
        for _ in range(self.rng.choice((0, 0, 0, 1, 1, 2))):
            source, offered = self._source(depth)
            pairs = _pairs(scope, offered)
            kinds = self._may(*_OUTER, "left semi join", "left anti join")
            if joined == 1 and self._may("cross join") and self._chance(0.06):
                self._use("cross join")
                text, scope = f"{text} CROSS JOIN {source}", scope + offered
                special = True
                joined += 1
                break
            if not pairs:
                continue
            joined += 1
            # Of two pairs the one of integers, whose values meet most often.
            a, b = min(self.rng.choices(pairs, k=2), key=lambda pair: pair[0].kind != "int")
            on = f"{a.text} = {b.text}"
            plain = not (self._may("join on expressions") and self._chance(0.12))
            if not plain:
                self._use("join on expressions")
                on = f"{self._computed(a)} = {self.rng.choice((b.text, self._computed(b)))}"
            unequal = joined == 2 and self._may("inequality join") and self._chance(0.12)
            if unequal:
                on = self._inequality(pairs)
            if self._chance(0.2):
                c, d = self.rng.choice(pairs)
                on += f" AND {c.text} {self.rng.choice(('=', '<=>', '<', '<>'))} {d.text}"
                self._use("join with residual")
            if kinds and not commas and self._chance(0.45):
                kind = self.rng.choice(kinds)
                self._use(kind)
                special = True
                if self._chance(0.4 if "semi" in kind or "anti" in kind else 0.2):
                    on += f" AND {self._predicate(self.rng.choice((scope, offered)), 0).text}"
                    self._use("join with one-sided condition")
                shared = a.text.partition(".")[2]
                using = kind in _OUTER and joined == 2 and shared == b.text.partition(".")[2]
                if using and plain and not unequal and self._chance(0.3):
                    self._use("using of an outer join")
                    text += f" {kind.upper()} {source} USING ({shared})"
                    scope = scope + offered
                    continue
                outer = "" if "semi" in kind or "anti" in kind else self.rng.choice(("", " OUTER"))
                text += f" {kind.upper().replace(' JOIN', outer + ' JOIN')} {source} ON {on}"
                scope = scope + offered if kind in _OUTER else scope
                continue
            named = a.text.partition(".")[2] == b.text.partition(".")[2]
            named = named and plain and not unequal and joined == 2 and not commas
            if named and self._chance(0.4):
                column = a.text.partition(".")[2]
                text += f" JOIN {source} USING ({column})"
                self._use("using")
            elif not commas and (special or self._chance(0.6)):
                text += f" JOIN {source} ON {on}"
            else:
                # From here on only commas: a JOIN would bind tighter and not see what is before.
                text += f", {source}"
                conditions.append(on)
                commas = True
                self._use("comma join")
            scope = scope + offered
        if self._may("threshold join") and not commas and self._chance(0.05):
            text, scope, joined = *self._threshold(text, scope), joined + 1
        if self._may("lateral", "left lateral") and not commas and self._chance(0.08):
            text, scope, joined = *self._lateral(text, scope), joined + 1
        if joined > 1:
            self._use(f"join of {joined}")
        if self._chance(0.4):
            conditions.append(self._condition(scope, 0.55))
            self._use("where")
        if conditions:
            text += f" WHERE {' AND '.join(f'({c})' for c in conditions)}"
        return text, scope

    def _computed(self, a: Value) -> str:
        """What a join may equate instead of the column: of the column's kind."""
        if a.kind == "int" and self._chance(0.5):
            return f"({a.text} % 3)"
        if a.kind == "string" and self._chance(0.5):
            return f"concat({a.text}, 'b')"
        return f"coalesce({a.text}, {self._literal(a.kind).text})"

    def _lateral(self, text: str, scope: Scope) -> tuple[str, Scope]:
        """Beside each row the rows of a query that reads it: all, the first ones, or a sum."""
        kind = self.rng.choice(self._may("lateral", "left lateral"))
        self._use(kind)
        rest, inner = self._rest(scope, tied=0.9)
        alias = self._name("r")
        shape = self.rng.choice(("rows", "rows", "first", "aggregate", "groups"))
        limit = ""
        if shape == "aggregate":
            offered = self._outputs([self._over_calls(self._call(inner))])
        elif shape == "groups":
            key = self._key(inner)
            offered = self._outputs([key, self._call(inner)])
            limit = f" GROUP BY {key.text}"
        else:
            picked = [self._key(inner) for _ in range(self.rng.choice((1, 2)))]
            if self._chance(0.2):
                picked.append(self.rng.choice(scope))
            offered = self._outputs(picked)
        if shape == "first" and not any(v.exactness == INEXACT for _, v in offered):
            limit = f" ORDER BY {offered[0][1].text} LIMIT {self.rng.choice((1, 2))}"
        query = f"LATERAL (SELECT {listed(offered)} {rest}{limit}) {alias}"
        values = [replace(c, text=f"{alias}.{c.text}") for c in columns(offered)]
        self._constants.update(v.text for v in values if v.constant)
        if kind == "left lateral":
            return f"{text} LEFT JOIN {query} ON TRUE", scope + values
        on = f" ON {self._predicate(scope + values, 0).text}" if self._chance(0.2) else ""
        return f"{text} JOIN {query}{on}", scope + values

    def _inequality(self, pairs: list[tuple[Value, Value]]) -> str:
        """A condition without an equality, between columns or with a computed side."""
        self._use("inequality join")
        a, b = self.rng.choice(pairs)
        right = b.text
        if b.kind == "int" and b.bound < EXTREME and self._chance(0.25):
            right = f"{b.text} + {self.rng.choice((1, 2))}"
        if self._chance(0.2):
            c, d = self.rng.choice(pairs)
            kind = self.rng.choice((" AND ", " AND ", " OR "))
            return f"({a.text} <= {right}{kind}{d.text} < {c.text})"
        return f"{a.text} {self.rng.choice(('<', '<=', '>', '>=', '<>'))} {right}"

    def _threshold(self, text: str, scope: Scope) -> tuple[str, Scope]:
        """Beside each row the one row of a global aggregate that it is compared with."""
        self._use("threshold join")
        source, below = self._subquery_source()
        alias, name = self._name("r"), self._name("c")
        ints = [v for v in below if v.kind == "int"]
        call = f"max({self.rng.choice(ints).text})" if ints else "count(*)"
        bound = Value(f"{alias}.{name}", t.BIGINT, 10_000, constant=True)
        self._constants.add(bound.text)
        a = self._of_kind("int", scope, 0)
        on = f"{a.text} {self.rng.choice(('<', '<=', '>', '<>'))} {bound.text}"
        text += f" JOIN (SELECT {call} AS {name} FROM {source}) {alias} ON {on}"
        return text, [*scope, bound]

    def _source(self, depth: int) -> tuple[str, Scope]:
        alias = self._name("r")
        if depth > 0 and self._chance(0.18):
            self._use("subquery in from")
            text, made = self._query(depth - 1)
            relation = Relation(f"({text})", made)
        elif self._ctes and self._chance(0.6):
            relation = self.rng.choice(self._ctes)
            self._use("cte reference")
        elif self._may("values") and self._chance(0.03):
            return self._values(alias)
        else:
            relation = self._some_relation()
            if relation.view:
                self._use("view over view")
        scope = [replace(c, text=f"{alias}.{c.text}") for c in relation.columns]
        self._constants.update(v.text for v in scope if v.constant)
        return f"{relation.name} {alias}", scope

    def _some_relation(self) -> Relation:
        """A table or view; of deep views the latest, once, as DuckDB puts in the text of each."""
        if not self.deep:
            return self.rng.choice(self.relations)
        latest = [r for r in self.relations if r.view][-1:]
        if latest and not self._read_latest:
            self._read_latest = True
            return latest[0]
        return self.rng.choice([r for r in self.relations if not r.view])

    def _values(self, alias: str) -> tuple[str, Scope]:
        self._use("values")
        kinds = ["int", *self.rng.sample(("int", "string", "date"), self.rng.randint(0, 1))]
        names = [self._name("c") for _ in kinds]
        rows = [
            ", ".join("NULL" if i and self._chance(0.1) else self.rng.choice(LITERALS[k])
                      for k in kinds)
            for i in range(self.rng.randint(2, 5))
        ]  # fmt: skip
        text = f"(VALUES {', '.join(f'({row})' for row in rows)}) AS {alias}({', '.join(names)})"
        return text, [
            Value(f"{alias}.{name}", LITERAL_TYPES[kind])
            for name, kind in zip(names, kinds, strict=True)
        ]


def _pairs(scope: Scope, offered: Scope) -> list[tuple[Value, Value]]:
    """Columns that a join may equate."""
    return [
        (a, b)
        for a in scope
        for b in offered
        if a.kind == b.kind
        and INEXACT not in (a.exactness, b.exactness)
        and not (a.constant or b.constant)
    ]
