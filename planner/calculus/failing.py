"""Whether evaluating an expression can put a row in error."""

from __future__ import annotations

from planner.calculus.expr import Call, Expr, Literal, walk
from planner.calculus.primitives import FUNCTIONS
from planner.calculus.types import DecimalType, FloatType, IntegerType

#: Characters of the texts that lpad and rpad make, at most, and repeat of more than a few copies.
LONGEST_TEXT = 1 << 24
FEW_COPIES = 1 << 8
#: Spark rounds a decimal of more digits when it changes its sign, and that may be beyond its type.
NEGATED_DIGITS = 34


def may_fail(expr: Expr) -> bool:
    """Whether evaluating the expression can put a row in error.

    False is a proof. It allows evaluating the expression on rows that the query might never have
    reached (a filter below a join, a shared bitmap).
    """
    return any(
        isinstance(e, Call) and FUNCTIONS[e.function].fails and _fails(e) for e in walk(expr)
    )


def _fails(call: Call) -> bool:
    target = call.type
    if call.function == "like":
        return not isinstance(call.args[1], Literal)
    if call.function in ("repeat", "lpad", "rpad"):
        count = call.args[1]
        few = FEW_COPIES if call.function == "repeat" else LONGEST_TEXT
        if not isinstance(count, Literal):
            return True
        return isinstance(count.value, int) and count.value > few
    if call.function in ("add", "subtract", "multiply", "negate", "abs"):
        if isinstance(target, FloatType):
            return False
        if isinstance(target, DecimalType):
            return _decimal_may_overflow(call, target)
        return True
    if call.function == "cast":
        source = call.args[0].type
        match source, target:
            case IntegerType(), IntegerType():
                return source.bits > target.bits
            case IntegerType(), FloatType():
                return False
            case DecimalType(), FloatType():
                return False
            case FloatType(), FloatType():
                return False
            case DecimalType(), DecimalType():
                grown = target.precision - target.scale < source.precision - source.scale
                rounds_up = target.scale < source.scale
                same = target.precision - target.scale == source.precision - source.scale
                return grown or (rounds_up and same)
            case IntegerType(), DecimalType():
                return target.precision - target.scale < {8: 3, 16: 5, 32: 10, 64: 19}[source.bits]
            case _:
                return True
    return True


def _decimal_may_overflow(call: Call, target: DecimalType) -> bool:
    kinds = [a.type for a in call.args if isinstance(a.type, DecimalType)]
    if len(kinds) < len(call.args):
        return True
    integral = [k.precision - k.scale for k in kinds]
    if call.function == "abs":
        return False
    if call.function == "negate":
        return target.precision > NEGATED_DIGITS
    if call.function == "multiply":
        exact = (sum(k.precision for k in kinds) + 1, sum(k.scale for k in kinds))
    else:
        scale = max(k.scale for k in kinds)
        exact = (max(integral) + scale + 1, scale)
    return (target.precision, target.scale) != exact and exact[0] - exact[1] > (
        target.precision - target.scale
    )
