"""Random aggregates: every function of the class, DISTINCT, FILTER, HAVING."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.calculus import types as t
from tests.properties.expressions import Expressions
from tests.properties.values import (
    DYADIC,
    INEXACT,
    LITERALS,
    MAX_ROWS,
    ROUNDED,
    Scope,
    Value,
)

_MORE = (
    "min",
    "max",
    "min",
    "max",
    "any_value",
    "count distinct",
    "sum distinct",
    "avg distinct",
    "count_if",
    "bool_and",
    "bool_or",
    "stddev",
    "stddev_pop",
    "var_samp",
    "var_pop",
    "percentile",
    "percentile_disc",
    "mode",
    "max_by",
    "listagg",
    "bits",
    "moments",
)
_PAIRS = (
    *("corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2"),
    *("regr_sxx", "regr_syy", "regr_sxy", "regr_avgx", "regr_avgy"),
)


@dataclass(slots=True)
class Aggregates(Expressions):
    def _call(self, scope: Scope) -> Value:
        more = self._may(*_MORE)
        if more and self._chance(0.55):
            call = self._newer_call(self.rng.choice(more), scope)
        else:
            call = self._plain_call(scope)
        if self._may("filter") and self._chance(0.15) and not call.text.startswith("("):
            self._use("filter")
            where = self._predicate(scope, 1).text
            return replace(call, text=f"{call.text} FILTER (WHERE {where})")
        return call

    def _plain_call(self, scope: Scope) -> Value:
        if self._chance(0.25):
            self._use("count(*)")
            return Value("count(*)", t.BIGINT, MAX_ROWS)
        function = self.rng.choice(("sum", "sum", "avg", "count"))
        a = self._number(scope)
        if function == "count":
            self._use("count(x)")
            a = self.rng.choice(scope) if self._chance(0.5) else a
            return Value(f"count({a.text})", t.BIGINT, MAX_ROWS)
        self._use(f"{function} of {a.kind}")
        return self._sum_or_average(function, "", a)

    def _newer_call(self, function: str, scope: Scope) -> Value:
        self._use(function)
        match function:
            case "min" | "max" | "any_value":
                a = self._key(scope)
                return replace(a, text=f"{function}({a.text})", constant=False)
            case "count distinct":
                a = self._key(scope)
                return Value(f"count(DISTINCT {a.text})", t.BIGINT, MAX_ROWS)
            case "sum distinct" | "avg distinct":
                a = self._number([v for v in scope if v.kind in ("int", "decimal")])
                return self._sum_or_average(function[:3], "DISTINCT ", a)
            case "count_if":
                return Value(f"count_if({self._predicate(scope, 1).text})", t.BIGINT, MAX_ROWS)
            case "bool_and" | "bool_or":
                return Value(f"{function}({self._predicate(scope, 0).text})", t.BOOLEAN)
            case "percentile":
                return self._percentile(scope)
            case "percentile_disc":
                a, way = self._number(scope), self.rng.choice(("", " DESC"))
                text = f"percentile_disc({self._fraction()}) WITHIN GROUP (ORDER BY {a.text}{way})"
                return Value(text, t.DOUBLE, a.bound, max(a.exactness, ROUNDED))
            case "mode":
                a = self._key(scope)
                forms = "mode({0})", "mode() WITHIN GROUP (ORDER BY {0} DESC)"
                return replace(a, text=self.rng.choice(forms).format(a.text), constant=False)
            case "max_by":
                a, by = self._key(scope), self._key(scope)
                name = self.rng.choice(("max_by", "min_by"))
                return replace(a, text=f"{name}({a.text}, {by.text})", constant=False)
            case "listagg":
                return self._list(scope)
            case "bits":
                a = self._of_kind("int", scope, 1)
                name = self.rng.choice(("bit_and(", "bit_or(", "bit_xor(", "bit_xor(DISTINCT "))
                return Value(f"{name}{a.text})", a.type, 2 * a.bound + 1)
            case "moments":
                return self._moments(scope)
            case _:
                a = self._number([v for v in scope if v.exactness == DYADIC], finite=True)
                a = a if a.exactness == DYADIC else Value("1", t.INT)
                return Value(f"{function}({a.text})", t.DOUBLE, 5, INEXACT)

    def _fraction(self) -> str:
        return self.rng.choice(("0", "0.25", "0.5", "0.75", "1"))

    def _percentile(self, scope: Scope) -> Value:
        a, p = self._number(scope, finite=True), self._fraction()
        exactness = INEXACT if a.kind == "decimal" else a.exactness
        order = self.rng.choice((a.text, f"{a.text} DESC"))
        text = self.rng.choice(
            (
                f"median({a.text})",
                f"median(DISTINCT {a.text})",
                f"percentile({a.text}, {p})",
                f"percentile_cont({p}) WITHIN GROUP (ORDER BY {order})",
            )
        )
        return Value(text, t.DOUBLE, a.bound, exactness if exactness == DYADIC else INEXACT)

    def _list(self, scope: Scope) -> Value:
        a, by = self._of_kind("string", scope, 0), self._key(scope)
        if self._chance(0.3):
            text = f"listagg(DISTINCT {a.text}, '-') WITHIN GROUP (ORDER BY {a.text} DESC)"
        else:
            further = self.rng.choice(("", " DESC", " NULLS LAST", f", {self._key(scope).text}"))
            text = f"listagg({a.text}, '-') WITHIN GROUP (ORDER BY {by.text}{further})"
        return Value(text, t.STRING)

    def _moments(self, scope: Scope) -> Value:
        """What is exactly 0 or nearly so in DuckDB is compared as a part of a greater number."""
        dyadic = [v for v in scope if v.exactness == DYADIC and v.bound <= 1_000]
        a, b = (self._of_kind(self.rng.choice(("int", "double")), dyadic, 0) for _ in range(2))
        if self._chance(0.3):
            function = self.rng.choice(("skewness", "kurtosis"))
            return Value(f"(1e3 + {function}({a.text}))", t.DOUBLE, 2_000, INEXACT)
        text = f"(1e3 + {self.rng.choice(_PAIRS)}({a.text}, {b.text}))"
        return Value(text, t.DOUBLE, 2_000, INEXACT)

    def _number(self, scope: Scope, finite: bool = False) -> Value:
        """A number to add up; `finite`: without infinities."""
        scope = [v for v in scope if v.summable or (v.kind == "double" and not finite)]
        numbers = [v.kind for v in scope if v.kind in ("int", "decimal", "double")]
        return self._of_kind(self.rng.choice(numbers or ["int"]), scope, 1)

    def _sum_or_average(self, function: str, distinct: str, a: Value) -> Value:
        text = f"{function}({distinct}{a.text})"
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
                return Value(f"avg({distinct}{a.text})", t.DOUBLE, 5, ROUNDED)
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
        if call.bound < 1 << 50 and call.type in (t.INT, t.BIGINT):
            return replace(call, text=f"(count(*) + 2 * {call.text})", bound=4 * call.bound)
        return call

    def _having_test(self, scope: Scope) -> str:
        call = self._call(scope)
        if call.exactness == INEXACT:
            call = Value("count(*)", t.BIGINT)
        if call.kind == "boolean":
            return call.text
        literal = self.rng.choice(LITERALS[call.kind])
        return f"{call.text} {self.rng.choice(('>', '>=', '<=', '<>', '<=>'))} {literal}"
