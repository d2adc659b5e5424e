"""Aggregates of Spark SQL that add up, count or compare, as DuckDB SQL with Spark's meaning.

AVG of decimals is a division of decimals (`arithmetic`). SUM beyond its type fails. ANY_VALUE is
the least value that is not NULL, so that it is deterministic. STDDEV and VARIANCE of infinities and
NaN are NaN, where DuckDB fails. The argument of an aggregate with FILTER is computed only where the
condition holds. Those that read a whole group are in `groups`.
"""

from __future__ import annotations

from sqlglot import exp

from planner.calculus import types as t
from sqlview.oracle.arithmetic import Typed, quotient, unscaled
from sqlview.oracle.kinds import MaybeType, sum_type
from sqlview.oracle.trees import call, cast, filtered, is_null, when


def aggregate(node: exp.Expr, kind: MaybeType, where: exp.Expr | None) -> Typed:
    """Spark's type of an aggregate of an argument of type `kind`, and what stands for it in DuckDB
    (None: it is not known). `where`: the condition of its FILTER."""
    match node:
        case exp.Count():
            several = [node.this, *node.expressions] if node.expressions else []
            counted = exp.Count(this=_all_there(several)) if several else node
            return t.BIGINT, filtered(_guarded(counted, where), where)
        case exp.CountIf():
            distinct = isinstance(node.this, exp.Distinct)
            condition = node.this.expressions[0] if distinct else node.this
            one = exp.If(this=condition, true=exp.Literal.number(1))
            held: exp.Expr = when(where, exp.Case(ifs=[one]))
            held = exp.Distinct(expressions=[held]) if distinct else held
            return t.BIGINT, exp.Count(this=held)
        case exp.AnyValue():
            return kind, exp.Min(this=when(where, node.this))
        case exp.Stddev() | exp.StddevSamp() | exp.StddevPop() | exp.Variance() | exp.VariancePop():
            return t.DOUBLE, _spread(node, where)
        case exp.Avg():
            return _average(_guarded(node, where), kind)
        case exp.Sum():
            result = sum_type(kind)
            total = _guarded(node, where)
            # DuckDB adds up in wider types; Spark fails beyond its own.
            exact = isinstance(result, (t.IntegerType, t.DecimalType))
            return result, cast(total, result) if exact and result is not None else total
        case exp.Min() | exp.Max():
            return kind, _guarded(node, where)
        case exp.LogicalAnd() | exp.LogicalOr():
            return t.BOOLEAN, _guarded(node, where)
        case _:
            return None, None


def _guarded(node: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    """The aggregate of its argument where `where` holds, else of NULL, which it ignores."""
    if where is None or isinstance(node.this, exp.Star):
        return node
    if isinstance(node.this, exp.Distinct):
        values = node.this.expressions
        if len(values) == 1:
            node.this.set("expressions", [when(where, values[0])])
        return node
    node.set("this", when(where, node.this))
    return node


def _all_there(values: list[exp.Expr]) -> exp.Expr:
    """1 where no value is NULL, else NULL."""
    missing = exp.or_(*(is_null(v) for v in values), copy=False)
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=exp.Literal.number(1))


def _spread(node: exp.Expr, where: exp.Expr | None) -> exp.Expr:
    """STDDEV or VARIANCE: NaN where a value is infinite or NaN, unless there are too few values."""
    distinct = isinstance(node.this, exp.Distinct)
    value = cast(node.this.expressions[0] if distinct else node.this, t.DOUBLE)
    value = when(where, value)
    finite = call("isfinite", value.copy())
    kept: exp.Expr = exp.Case(ifs=[exp.If(this=finite, true=value.copy())])
    counted: exp.Expr = value
    if distinct:
        kept, counted = exp.Distinct(expressions=[kept]), exp.Distinct(expressions=[counted])
    population = isinstance(node, (exp.StddevPop, exp.VariancePop))
    enough = exp.GT(
        this=exp.Count(this=counted), expression=exp.Literal.number(0 if population else 1)
    )
    odd = exp.LogicalOr(this=exp.Not(this=finite.copy()))
    nan = cast(exp.Literal.string("NaN"), t.DOUBLE)
    usual = type(node)(this=kept)
    inner = exp.Case(ifs=[exp.If(this=odd, true=nan)], default=usual)
    return exp.Case(ifs=[exp.If(this=enough, true=inner)])


def _average(node: exp.Expr, kind: MaybeType) -> Typed:
    if isinstance(kind, (t.IntegerType, t.FloatType)):
        return t.DOUBLE, node
    if not isinstance(kind, t.DecimalType):
        return None, node
    result = t.bounded_decimal(kind.precision + 4, kind.scale + 4)
    count: exp.Expr = exp.Count(this=node.this.copy())
    # DuckDB evaluates the division also where SUM is NULL for want of rows.
    count = exp.Nullif(this=count, expression=exp.Literal.number(0))
    total = unscaled(cast(exp.Sum(this=node.this), t.DecimalType(t.MAX_PRECISION, kind.scale)))
    return result, quotient(total, count, result.scale - kind.scale, result)
