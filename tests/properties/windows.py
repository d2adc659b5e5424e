"""Random window functions: ranks, offsets, values and aggregates over every kind of frame."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.calculus import types as t
from tests.properties.subqueries import Subqueries
from tests.properties.values import EXTREME, INEXACT, MAX_ROWS, SMALL, Output, Scope, Value

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_ENDS = ("UNBOUNDED PRECEDING", "{} PRECEDING", "CURRENT ROW", "{} FOLLOWING",
         "UNBOUNDED FOLLOWING")  # fmt: skip


@dataclass(slots=True)
class Windows(Subqueries):
    """`_named`: the windows of the query that are in its WINDOW clause."""

    def _window_calls(self, scope: Scope) -> tuple[list[Value], str]:
        """Some calls over values of the scope, and the WINDOW clause that they need."""
        self._use("window")
        named, clause = "", ""
        if self._may("named window") and self._chance(0.2):
            self._use("named window")
            named = self._name("w")
            clause = f" WINDOW {named} AS ({self._over(scope)})"
        over = self._over(scope)
        calls = []
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            if self._may("window rank") and self._chance(0.25):
                # Copies of a row come in one order in all windows, which DuckDB does not keep to:
                # of several windows one hangs on how ties are broken.
                name = self.rng.choice(("rank", "dense_rank"))
                self._use("window rank")
                text = f"{name}() OVER ({self._over(scope)})"
                calls.append(Value(text, t.INT, MAX_ROWS))
            elif named:
                calls.append(self._window_call(scope, named, clause))
            else:
                calls.append(self._window_call(scope, f"({over})", over))
        return calls, clause

    def _over(self, scope: Scope) -> str:
        parts = []
        keys = [self._key(scope).text for _ in range(self.rng.choice((0, 1, 1, 1, 2)))]
        if keys:
            parts.append(f"PARTITION BY {', '.join(keys)}")
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            direction = self.rng.choice(("", "", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"))
            key = self._key(scope).text + direction
            parts.append(f", {key}" if parts and "ORDER BY" in parts[-1] else f"ORDER BY {key}")
        return " ".join(parts).replace(" , ", ", ")

    def _window_call(self, scope: Scope, over: str, text: str) -> Value:
        """`text`: what `over` says or stands for, which decides on the frames that there may be."""
        kinds = self._may("window rank", "window shift", "window value", "window aggregate")
        kind = self.rng.choice(kinds) if kinds else "window aggregate"
        self._use(kind)
        value = self._key(scope)
        nulls = ""
        if kind in ("window shift", "window value") and self._may("ignore nulls"):
            if self._chance(0.25):
                self._use("ignore nulls")
                nulls = " IGNORE NULLS"
        match kind:
            case "window rank":
                name = self.rng.choice(_RANKS)
                arg = self.rng.choice("1234") if name == "ntile" else ""
                real = name in ("percent_rank", "cume_dist")
                made = Value("", t.DOUBLE, 1, INEXACT) if real else Value("", t.INT, MAX_ROWS)
                return replace(made, text=f"{name}({arg}) OVER {over}")
            case "window shift":
                by = self.rng.choice(("", ", 1", ", 2", ", 0", ", -1"))
                literal = self._literal(value.kind)
                if by and value.kind in ("int", "string", "date") and self._chance(0.3):
                    by += f", {literal.text}"
                name = self.rng.choice(("lag", "lead"))
                return replace(value, text=f"{name}({value.text}{by}){nulls} OVER {over}")
            case "window value":
                name = self.rng.choice(("first_value", "last_value", "nth_value", "first"))
                by = f", {self.rng.choice('123')}" if name == "nth_value" else ""
                framed = self._framed(None, over, text)
                return replace(value, text=f"{name}({value.text}{by}){nulls} OVER {framed}")
            case _:
                call = self._framed_call(scope)
                framed = self._framed(scope, over, text)
                return replace(call, text=f"{call.text} OVER {framed}")

    def _framed_call(self, scope: Scope) -> Value:
        """An aggregate that DuckDB computes over frames as Spark does."""
        roll = self.rng.random()
        if roll < 0.45:
            call = self._plain_call(scope)
        elif roll < 0.8:
            value = self._key(scope)
            call = replace(value, text=f"{self.rng.choice(('min', 'max'))}({value.text})")
        else:
            names = self._may("count_if", "bool_and", "bool_or", "any_value")
            call = self._newer_call(self.rng.choice(names or ["max"]), scope)
        if self._may("filter") and self._chance(0.1) and not call.text.startswith("("):
            call = replace(
                call, text=f"{call.text} FILTER (WHERE {self._predicate(scope, 0).text})"
            )
        return call

    def _framed(self, scope: Scope | None, over: str, text: str) -> str:
        """The window with a frame, if it has none; of a scope maybe in another order."""
        if not over.startswith("(") or self._chance(0.35):
            return over
        if self._may("rows frame") and self._chance(0.6):
            self._use("rows frame")
            first, last = sorted(self.rng.choices(range(5), k=2))
            sizes = sorted(self.rng.choices(range(4), k=2), reverse=first == last == 1)
            first, last = min(first, 3), max(last, 1)
            ends = [_ENDS[e].format(s) for e, s in zip((first, last), sizes, strict=True)]
            return f"({text} ROWS BETWEEN {ends[0]} AND {ends[1]})"
        if not self._may("range frame"):
            return over
        self._use("range frame")
        parted, _, order = text.partition("ORDER BY ")
        usable = [
            v for v in scope or () if v.kind in ("int", "date") and v.bound <= SMALL < EXTREME
        ]
        if not usable or self._chance(0.3):
            last = self.rng.choice(("CURRENT ROW", "UNBOUNDED FOLLOWING"))
            first = self.rng.choice(("UNBOUNDED PRECEDING", "CURRENT ROW"))
            return f"({parted}ORDER BY {order} RANGE BETWEEN {first} AND {last})"
        key = self.rng.choice(usable)
        unit = (
            self.rng.choice(("INTERVAL {} DAYS", "INTERVAL {} MONTHS"))
            if key.kind == "date"
            else "{}"
        )
        low, high = (unit.format(self.rng.choice(("0", "1", "2", "40"))) for _ in range(2))
        first = self.rng.choice((f"{low} PRECEDING", f"{low} PRECEDING", "CURRENT ROW"))
        last = self.rng.choice((f"{high} FOLLOWING", "CURRENT ROW", "UNBOUNDED FOLLOWING"))
        direction = self.rng.choice(("", " DESC", " NULLS LAST"))
        return f"({parted}ORDER BY {key.text}{direction} RANGE BETWEEN {first} AND {last})"

    def _qualified(self, windows: list[Output]) -> str:
        """QUALIFY, or nothing."""
        ints = [v for _, v in windows if v.kind == "int"]
        if not ints or not self._may("qualify") or not self._chance(0.3):
            return ""
        self._use("qualify")
        test = f"{self.rng.choice(ints).text} {self.rng.choice(('<=', '<=', '=', '>'))}"
        return f" QUALIFY {test} {self.rng.choice('1123')}"
