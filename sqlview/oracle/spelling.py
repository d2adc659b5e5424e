"""Spark SQL's own spellings, as those that sqlglot and DuckDB know, for the oracle alone.

Second names of functions (EVERY, BTRIM, BIGINT), fields of dates by short names, and intervals from
one unit TO another. Only the tree's shape counts here: no names are resolved and no types known.

Invariant: the tree means the same in Spark before and after, but for the name of a column that has
no alias.
"""

from __future__ import annotations

import re

from sqlglot import exp

from planner.bind.grouping_sets import BEHIND, grouping_sets
from planner.bind.report import Report


def respell(query: exp.Expr) -> None:
    """Change the tree in place."""
    for node in reversed(list(query.walk())):  # the innermost first: they move into what replaces
        known = _known(node)
        if known is not None:
            node.replace(known)


def exact_count(node: exp.Expr) -> exp.Expr:
    """What APPROX_COUNT_DISTINCT is in views."""
    value = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    return exp.Count(this=exp.Distinct(expressions=[value]))


def _group_as_standard(group: exp.Group) -> None:
    """GROUP BY with sets as DuckDB has it: a, b WITH ROLLUP as ROLLUP (a, b), a, b GROUPING SETS s
    as GROUPING SETS s, what GROUPING_ID () is of, and no total of no rows."""
    select = group.parent
    assert isinstance(select, exp.Select)
    found = grouping_sets(group, Report(""))
    for name in BEHIND:
        for part in group.args.get(name) or ():
            if not part.expressions:
                part.set("expressions", group.expressions)
            group.set("expressions", [part])
            group.set(name, None)
    if found is not None and not found.is_total:
        for call in select.find_all(exp.GroupingId):
            if not call.expressions and call.parent_select is select:
                call.set("expressions", [key.copy() for key in dict.fromkeys(found.nodes)])
        rows = exp.Count(this=exp.Star())
        select.having(exp.GT(this=rows, expression=exp.Literal.number(0)), copy=False)


_AGGREGATES = {"every": exp.LogicalAnd, "some": exp.LogicalOr, "std": exp.Stddev}
_CASTS = ("bigint", "smallint", "tinyint")


def _known(node: exp.Expr) -> exp.Expr | None:
    """The node as sqlglot and DuckDB know it, where it is of Spark alone, else None."""
    match node:
        case exp.Anonymous() if node.expressions:
            return _known_call(node.name.lower(), node.expressions)
        case exp.Any(this=exp.Paren()) if not isinstance(node.parent, (exp.Like, exp.ILike)):
            return exp.LogicalOr(this=node.this.this)
        case exp.ApproxDistinct():
            return exact_count(node)
        case exp.RegrCount() | exp.RegrAvgx() | exp.RegrAvgy():
            return _of_pairs(node, node.this, node.expression)
        case exp.Negative():
            return exp.paren(exp.Neg(this=exp.paren(node.this, copy=False)), copy=False)
        case exp.Replace() if node.args.get("replacement") is None:
            node.set("replacement", exp.Literal.string(""))
            return None
        case exp.Extract():
            return _field(node.name, node.expression)
        case exp.Interval(unit=exp.IntervalSpan()):
            return _interval(node)
        case exp.Group():
            _group_as_standard(node)
            return None
        case _:
            return None


def _of_pairs(node: exp.Expr, y: exp.Expr, x: exp.Expr) -> exp.Expr:
    """COUNT and AVG of the rows where neither is NULL."""
    value = x if isinstance(node, exp.RegrAvgx) else y
    there = exp.and_(
        *(exp.Not(this=exp.Is(this=exp.paren(v.copy()), expression=exp.Null())) for v in (y, x))
    )
    counted = exp.Case(ifs=[exp.If(this=there, true=value.copy())])
    return exp.Count(this=counted) if isinstance(node, exp.RegrCount) else exp.Avg(this=counted)


def _known_call(name: str, args: list[exp.Expr]) -> exp.Expr | None:
    """What the call is that sqlglot does not know by its name."""
    first = args[0]
    match name:
        case _ if name in _AGGREGATES:
            return _AGGREGATES[name](this=first)
        case _ if name in _CASTS:
            return exp.cast(first, name, copy=False, dialect="databricks")
        case "btrim":
            return exp.Trim(this=first, expression=args[1] if len(args) > 1 else None)
        case "regexp" if len(args) == 2:
            return exp.RegexpLike(this=first, expression=args[1])
        case "nullifzero":
            return exp.Nullif(this=first, expression=exp.Literal.number(0))
        case "zeroifnull":
            return exp.Coalesce(this=first, expressions=[exp.Literal.number(0)])
        case "positive":
            return exp.paren(first, copy=False)
        case "isnull" | "isnotnull":
            missing: exp.Expr = exp.Is(this=exp.paren(first, copy=False), expression=exp.Null())
            return exp.paren(missing if name == "isnull" else exp.Not(this=missing), copy=False)
        case "weekday":
            monday = exp.DayOfWeekIso(this=exp.TsOrDsToDate(this=first))
            return exp.paren(exp.Sub(this=monday, expression=exp.Literal.number(1)), copy=False)
        case "date_part" if len(args) == 2 and isinstance(first, exp.Literal):
            unit, value = first.name.upper(), args[1]
            return _field(unit, value) or exp.Extract(this=exp.var(unit), expression=value)
        case _:
            return None


def _field(unit: str, value: exp.Expr) -> exp.Expr | None:
    """EXTRACT of a unit that has another meaning or name in DuckDB, else None."""
    match unit.upper():
        case "DAYOFWEEK" | "DOW":
            return exp.DayOfWeek(this=exp.TsOrDsToDate(this=value))
        case "M" | "MIN" | "MINS":
            return exp.Extract(this=exp.var("MINUTE"), expression=value)
        case _:
            return None


_MICROSECONDS = {"DAY": 86_400_000_000, "HOUR": 3_600_000_000, "MINUTE": 60_000_000}


def _interval(node: exp.Interval) -> exp.Expr | None:
    """An interval from one unit TO another: months, or microseconds without a unit of the node, as
    a date plus these is no date."""
    negated = isinstance(node.this, exp.Neg)
    literal = node.this.this if negated else node.this
    found = re.fullmatch(r"([+-]?)([\d .:-]+)", literal.name.strip())
    if found is None:
        return None
    sign = "-" if negated != (found[1] == "-") else ""
    numbers = re.split(r"[ :-]", found[2])
    unit = node.args["unit"].name.upper()
    if unit == "YEAR" and len(numbers) == 2:
        months = 12 * int(numbers[0]) + int(numbers[1])
        return exp.Interval(this=exp.Literal.string(f"{sign}{months}"), unit=exp.var("MONTH"))
    units = [*_MICROSECONDS, "SECOND"]
    if unit not in units:
        return None
    total = 0
    for name, number in zip(units[units.index(unit) :], numbers, strict=False):
        whole, _, fraction = number.partition(".")
        total += int(whole) * _MICROSECONDS.get(name, 1_000_000) + int(fraction.ljust(6, "0"))
    return exp.Interval(this=exp.Literal.string(f"{sign}{total} microseconds"))
