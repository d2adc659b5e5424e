"""Arithmetic and casts of Spark SQL, as DuckDB SQL with Spark's types, digits and failures.

- Division of decimals, which is DOUBLE in DuckDB, becomes exact integer arithmetic with Spark's
  result scale, rounded half up (the macros here).
- Decimal products and sums get room for all the digits that Spark gives them, and are rounded where
  Spark gives them fewer fraction digits (more than 38 digits wanted).
- A DATE plus or minus days or months is a TIMESTAMP in DuckDB: cast back.
- Division by zero fails as under Spark's ANSI rules; a cast of a fraction to an integer truncates,
  where DuckDB rounds; dates and times are written as Spark writes them.

The functions give Spark's type of a node, and what stands for it in DuckDB (None: the node itself),
made of the node's own children.
"""

from __future__ import annotations

import re

from sqlglot import exp

from planner.calculus import types as t
from sqlview.oracle.kinds import MaybeType, as_decimal, common_type, named_type
from sqlview.oracle.protocol import CannotSay
from sqlview.oracle.trees import call, cast

Typed = tuple[MaybeType, exp.Expr | None]

#: `checked` fails as Spark does: on a zero divisor, unless the dividend is NULL. `unscaled` drops
#: the point of a decimal, whose scale the caller knows. `ratio` is n * power / d rounded half away
#: from zero; by long division, so that n * power need not fit 128 bits. `written` are dates and
#: times as texts, whose years Spark writes otherwise before 1 and after 9999; `digits` are doubles
#: as texts, which DuckDB writes otherwise where they have an exponent.
ARITHMETIC_MACROS = (
    """CREATE MACRO sqlview_checked(n, d, result) AS
       CASE WHEN d = 0 AND n IS NOT NULL THEN error('division by zero') ELSE result END""",
    "CREATE MACRO sqlview_unscaled(x) AS CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    """CREATE MACRO sqlview_ratio(n, d, power) AS CAST(sign(n) * sign(d) AS HUGEINT) * (
       abs(n) // abs(d) * power
       + (2 * (abs(n) % abs(d)) * power + abs(d)) // (2 * CAST(abs(d) AS HUGEINT)))""",
    """CREATE MACRO sqlview_written(moment) AS
       CASE WHEN year(moment) BETWEEN 1 AND 9999 THEN CAST(moment AS VARCHAR)
       WHEN moment IS NOT NULL THEN error('cannot say: a year beyond 1 to 9999 as text') END""",
    """CREATE MACRO sqlview_digits(x) AS CASE
       WHEN isnan(x) THEN 'NaN' WHEN isinf(x) AND x > 0 THEN 'Infinity'
       WHEN isinf(x) THEN '-Infinity'
       WHEN x = 0 OR (abs(x) >= 0.001 AND abs(x) < 10000000) THEN CAST(x AS VARCHAR)
       WHEN x IS NOT NULL THEN error('cannot say: a number with an exponent as text') END""",
)

_DUCKDB_NARROW_DIGITS = 18


def checked(result: exp.Expr, dividend: exp.Expr, divisor: exp.Expr) -> exp.Expr:
    """`result` of a division, whose divisor must not be zero. Takes copies of the other two."""
    if isinstance(divisor, exp.Literal) and float(divisor.name):
        return result
    return call("sqlview_checked", dividend.copy(), divisor.copy(), exp.paren(result, copy=False))


#: A text that ends with a time and what may be its zone.
_ZONED = re.compile(r":\d+(?:\.\d*)?\s*[^\s\d:.]\S*\s*$")


def converted(node: exp.Cast, source: MaybeType) -> Typed:
    """A cast."""
    kind = named_type(node.to)
    if "TIMESTAMP" in str(node.to.this) and _ZONED.search(str(node.this.name)):
        raise CannotSay("times with a zone are read by Spark alone")
    if isinstance(source, (t.DecimalType, t.FloatType)) and isinstance(kind, t.IntegerType):
        node.set("this", call("trunc", node.this))
    elif kind == t.STRING and isinstance(source, t.FloatType):
        return kind, call("sqlview_digits", node.this)
    elif kind == t.STRING and isinstance(source, (t.DateType, t.TimestampType)):
        # A TIMESTAMP as the session's zone has it, and not with its offset.
        moment = node.this if source == t.DATE else cast(node.this, t.TIMESTAMP_NTZ)
        return kind, call("sqlview_written", moment)
    elif kind == t.BINARY and source == t.STRING:
        return kind, call("encode", node.this)  # DuckDB's cast reads \x41 as one byte
    elif kind == t.STRING and source == t.BINARY:
        return kind, call("decode", node.this)
    return kind, None


def arithmetic(node: exp.Binary, left: MaybeType, right: MaybeType) -> Typed:
    """+, -, * and %; % by zero fails, as a division does."""
    dividend, divisor = node.this, node.expression
    kind, replacement = _computed(node, left, right)
    if isinstance(node, exp.Mod) and kind is not None:
        return kind, checked(replacement or node, dividend, divisor)
    return kind, replacement


def positive_remainder(node: exp.Expr, left: MaybeType, right: MaybeType) -> Typed:
    """pmod, of two arguments."""
    dividend, divisor = node.expressions
    division = exp.Mod(this=dividend.copy(), expression=divisor.copy())
    kind, _ = _computed(division, left, right)
    return kind, checked(call("sqlview_pmod", dividend, divisor), dividend, divisor)


def _computed(node: exp.Binary, left: MaybeType, right: MaybeType) -> Typed:
    if t.DATE in (left, right) and any(_whole_days(s) for s in (node.this, node.expression)):
        return t.DATE, cast(node, t.DATE)
    if left is None or right is None or not (t.is_numeric(left) and t.is_numeric(right)):
        return None, None
    if not any(isinstance(k, t.DecimalType) for k in (left, right)):
        return common_type((left, right)), None
    a, b = as_decimal(left), as_decimal(right)
    if a is None or b is None:
        return t.DOUBLE, None
    match node:
        case exp.Mul():
            exact = (a.precision + b.precision + 1, a.scale + b.scale)
        case exp.Mod():
            scale = max(a.scale, b.scale)
            exact = (min(a.precision - a.scale, b.precision - b.scale) + scale, scale)
        case _:
            scale = max(a.scale, b.scale)
            exact = (max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)
    kind = t.adjusted_decimal(*exact)
    if exact[0] <= _DUCKDB_NARROW_DIGITS:
        return kind, None
    # DuckDB keeps 18 digits, and overflows, where neither operand has more.
    wide = t.DecimalType(max(a.precision, _DUCKDB_NARROW_DIGITS + 1), a.scale)
    node.set("this", cast(node.this, wide))
    return kind, None if kind.scale == exact[1] else cast(node, kind)


def _whole_days(node: exp.Expr) -> bool:
    if not isinstance(node, exp.Interval) or node.unit is None:
        return False
    return node.unit.name.upper().rstrip("S") in ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def divided(node: exp.Div, left: MaybeType, right: MaybeType) -> Typed:
    if left is None or right is None or not (t.is_numeric(left) and t.is_numeric(right)):
        return None, None
    a, b = as_decimal(left), as_decimal(right)
    integers = isinstance(left, t.IntegerType) and isinstance(right, t.IntegerType)
    if a is None or b is None or integers:
        return t.DOUBLE, checked(node, node.this, node.expression)
    scale = max(t.MIN_ADJUSTED_SCALE, a.scale + b.precision + 1)
    kind = t.adjusted_decimal(a.precision - a.scale + b.scale + scale, scale)
    n, d = node.this, node.expression
    dividend, divisor = unscaled(cast(n, a)), unscaled(cast(d, b))
    return kind, checked(quotient(dividend, divisor, kind.scale - a.scale + b.scale, kind), n, d)


def unscaled(node: exp.Expr) -> exp.Expr:
    """The digits of a decimal as an integer."""
    return call("sqlview_unscaled", node)


def quotient(dividend: exp.Expr, divisor: exp.Expr, shift: int, kind: t.DecimalType) -> exp.Expr:
    """Unscaled dividend * 10^shift / unscaled divisor, as a decimal of the given type."""
    if shift < 0:
        divisor = exp.Paren(this=exp.Mul(this=divisor, expression=_power(-shift)))
    whole = call("sqlview_ratio", dividend, divisor, _power(max(shift, 0)))
    unit = exp.Literal.string("0." + "1".rjust(kind.scale, "0") if kind.scale else "1")
    scaled = exp.Mul(
        this=cast(whole, t.DecimalType(t.MAX_PRECISION, 0)),
        expression=cast(unit, t.DecimalType(max(kind.scale, 1), kind.scale)),
    )
    return cast(exp.Paren(this=scaled), kind)


def _power(digits: int) -> exp.Expr:
    return exp.cast(exp.Literal.number(10**digits), "HUGEINT", dialect="duckdb")
