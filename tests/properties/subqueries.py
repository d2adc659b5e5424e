"""Random subqueries in expressions: EXISTS, IN, ANY, ALL, scalar; correlated or not; two deep.

Inside a subquery its own columns and those of the queries around it are in scope; the condition
that ties it to a row outside is mostly an equality and stands in its WHERE.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from planner.calculus import types as t
from tests.properties.aggregates import Aggregates
from tests.properties.values import INEXACT, Relation, Scope, Value

_TESTS = (
    "exists",
    "not exists",
    "in subquery",
    "not in subquery",
    "multi-column in",
    "multi-column not in",
    "any",
    "all",
    "scalar aggregate",
    "scalar aggregate",
    "scalar lookup",
    "correlated limit",
)
_SCALARS = ("scalar aggregate", "scalar aggregate", "scalar lookup", "correlated limit")
_COMPARED = (
    *("int", "decimal", "string", "date", "double"),
    *("wide", "float", "timestamp", "binary"),
)


@dataclass(slots=True)
class Subqueries(Aggregates):
    """`relations`: tables and earlier views to select from."""

    relations: list[Relation] = field(default_factory=list)
    _around: list[Scope] = field(default_factory=list)

    def _condition(self, scope: Scope, share: float) -> str:
        """A predicate; with probability `share` it has a subquery."""
        if not self._may(*_TESTS) or not self._chance(share):
            return self._predicate(scope, 2).text
        test = self._subquery_test(scope)
        roll = self.rng.random()
        if roll < 0.5 or not self._may("subquery under or, not"):
            return test
        if roll < 0.65:
            return f"({self._predicate(scope, 1).text} AND {test})"
        self._use("subquery under or, not")
        form = self.rng.choice(
            ("({} OR {})", "NOT ({} AND {})", "NOT ({} OR {})", "(NOT {} OR {})")
        )
        other = self._subquery_test(scope) if self._chance(0.3) else self._predicate(scope, 1).text
        parts = (other, test) if self._chance(0.5) else (test, other)
        return form.format(*parts)

    def _subquery_test(self, scope: Scope) -> str:
        """A condition with one subquery in it (and, nested, others)."""
        usable = [v for v in scope if v.exactness != INEXACT and v.kind in _COMPARED]
        kinds = self._may(*_TESTS)
        if not usable:
            kinds = [k for k in kinds if "exists" in k] or ["exists"]
        kind = self.rng.choice(kinds)
        match kind:
            case "exists" | "not exists":
                self._use(kind)
                rest, inner = self._rest(scope, tied=0.9)
                shown = self.rng.choice(("1", "*", inner[0].text))
                return f"{kind.upper()} (SELECT {shown} {rest})"
            case "in subquery" | "not in subquery":
                self._use(kind)
                a = self.rng.choice(usable)
                word = "NOT IN" if kind.startswith("not") else "IN"
                return f"{a.text} {word} ({self._column_of(a, scope)})"
            case "multi-column in" | "multi-column not in":
                self._use(kind)
                a, b = self.rng.choice(usable), self.rng.choice(usable)
                rest, inner = self._rest(scope, tied=0.35)
                c, d = self._of_kind(a.kind, inner, 0), self._of_kind(b.kind, inner, 0)
                word = "NOT IN" if "not" in kind else "IN"
                return f"({a.text}, {b.text}) {word} (SELECT {c.text}, {d.text} {rest})"
            case "any" | "all":
                self._use(kind)
                a = self.rng.choice(usable)
                operator = self.rng.choice(("=", "<>", "<", "<=", ">", ">="))
                return f"{a.text} {operator} {kind.upper()} ({self._column_of(a, scope)})"
            case _:
                value = self._scalar_value(kind, scope)
                other = self._of_kind(value.kind, usable, 0) if value.kind in _COMPARED else None
                if other is None or value.exactness == INEXACT:
                    return f"{value.text} IS {self.rng.choice(('', 'NOT '))}NULL"
                operator = self.rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
                sides = (other.text, value.text)
                left, right = sides if self._chance(0.7) else sides[::-1]
                return f"{left} {operator} {right}"

    def _scalar(self, scope: Scope) -> Value | None:
        """A scalar subquery as a value."""
        kinds = self._may(*_SCALARS)
        return self._scalar_value(self.rng.choice(kinds), scope) if kinds else None

    def _scalar_value(self, kind: str, scope: Scope) -> Value:
        if kind == "scalar lookup":
            found = self._lookup(scope)
            if found is not None:
                self._use(kind)
                return found
            kind = "scalar aggregate" if self._may("scalar aggregate") else "correlated limit"
        self._use(kind)
        if kind == "correlated limit":
            rest, inner = self._rest(scope, tied=0.8)
            a = self._key(inner)
            direction = self.rng.choice(("", " DESC", " NULLS LAST"))
            text = f"(SELECT {a.text} {rest} ORDER BY {a.text}{direction} LIMIT 1)"
            return replace(a, text=text, constant=False)
        rest, inner = self._rest(scope, tied=0.75)
        call = self._over_calls(self._call(inner))
        return replace(call, text=f"(SELECT {call.text} {rest})", constant=False)

    def _lookup(self, scope: Scope) -> Value | None:
        """The row with a key: never more than one."""
        ties = [
            (relation, v)
            for relation in self.relations
            if relation.key is not None
            for v in scope
            if v.kind == relation.key.kind and v.exactness != INEXACT and not v.constant
        ]
        if not ties:
            return None
        relation, outside = self.rng.choice(ties)
        assert relation.key is not None
        alias = self._name("r")
        a = self.rng.choice(relation.columns)
        where = f"{alias}.{relation.key.text} = {outside.text}"
        text = f"(SELECT {alias}.{a.text} FROM {relation.name} {alias} WHERE {where})"
        return replace(a, text=text, constant=False)

    def _lookup_of_two(self, scope: Scope) -> Value | None:
        """The row that equals a column of this one: an error while there are two."""
        ties = [
            (relation, a, b)
            for relation in self.relations
            for a in scope
            for b in relation.columns
            if a.kind == b.kind == "int" and not (a.constant or b.constant)
        ]
        if not ties:
            return None
        self._use("lookup of two")
        relation, outside, inside = self.rng.choice(ties)
        alias = self._name("r")
        a = self.rng.choice(relation.columns)
        where = f"{alias}.{inside.text} = {outside.text}"
        text = f"(SELECT {alias}.{a.text} FROM {relation.name} {alias} WHERE {where})"
        return replace(a, text=text, constant=False)

    def _column_of(self, a: Value, scope: Scope) -> str:
        """SELECT of one column that compares with `a`."""
        rest, inner = self._rest(scope, tied=0.4)
        if self._chance(0.2) and self._may("min"):
            # An aggregate has its one row, also over nothing.
            b = self._of_kind(a.kind, inner, 0)
            return f"SELECT {self.rng.choice(('min', 'max'))}({b.text}) {rest}"
        b = self._of_kind(a.kind, inner, 0)
        return f"SELECT {b.text} {rest}"

    def _rest(self, scope: Scope, tied: float) -> tuple[str, Scope]:
        """FROM, WHERE and columns of a subquery, which reads `scope` with probability `tied`."""
        source, inner = self._subquery_source()
        conditions = []
        if self._chance(tied):
            conditions += self._ties(scope, inner)
        if self._chance(0.35):
            conditions.append(self._predicate(inner, 1).text)
        if len(self._around) < 1 and self._may("nested subquery") and self._chance(0.25):
            self._use("nested subquery")
            self._around.append(scope)
            # Mostly the query in between is what the inner one reads; sometimes the outermost is.
            seen = inner if self._chance(0.6) else inner + scope
            conditions.append(self._subquery_test(seen))
            self._around.pop()
        where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        return f"FROM {source}{where}", inner

    def _ties(self, scope: Scope, inner: Scope) -> list[str]:
        pairs = [
            (a, b)
            for a in scope
            for b in inner
            if a.kind == b.kind and INEXACT not in (a.exactness, b.exactness)
        ]
        if not pairs:
            return []
        self._use("correlated subquery")
        a, b = min(self.rng.choices(pairs, k=3), key=lambda pair: pair[0].kind != "int")
        ties = [f"{b.text} = {a.text}"]
        if self._may("inequality correlation") and self._chance(0.25):
            self._use("inequality correlation")
            c, d = self.rng.choice(pairs)
            unequal = f"{d.text} {self.rng.choice(('<>', '<', '<=', '>', '<=>'))} {c.text}"
            ties = [unequal] if self._chance(0.3) else [*ties, unequal]
        return ties

    def _some_relation(self) -> Relation:
        return self.rng.choice(self.relations)

    def _subquery_source(self) -> tuple[str, Scope]:
        relation = self._some_relation()
        alias = self._name("r")
        scope = [replace(c, text=f"{alias}.{c.text}") for c in relation.columns]
        self._constants.update(v.text for v in scope if v.constant)
        return f"{relation.name} {alias}", scope

    def _pick(self, scope: Scope) -> Value:
        """An output: mostly a column, else an expression, sometimes a subquery."""
        if self._may("subquery in select") and self._chance(0.1):
            value = self._scalar(scope) if self._chance(0.65) else None
            if value is None and self._may(*_TESTS):
                value = Value(f"({self._subquery_test(scope)})", t.BOOLEAN)
            if value is not None:
                self._use("subquery in select")
                return value
        return Aggregates._pick(self, scope)

    def _having(self, scope: Scope, keys: Scope) -> str:
        """`keys`: the grouping columns, which subqueries in HAVING may read, and aggregates."""
        if not self._chance(0.3):
            return ""
        self._use("having")
        if self._may("subquery in having") and self._chance(0.35):
            self._use("subquery in having")
            outer = "aggregate of the outer query"
            numbers = [v for v in scope if v.kind == "int" and not v.constant]
            if numbers and self._may(outer) and self._chance(0.5):
                self._use(outer)
                of = self.rng.choice(numbers)
                keys = [replace(of, text=f"{self.rng.choice(('min', 'max'))}({of.text})")]
            value = self._scalar(keys)
            if value is not None and value.kind == "int":
                return f" HAVING count(*) {self.rng.choice(('<=', '>', '<>'))} {value.text}"
            if keys:
                return f" HAVING {self._subquery_test(keys)}"
        return f" HAVING {self._having_test(scope)}"
