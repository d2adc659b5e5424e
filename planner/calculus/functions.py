"""Typed construction of expressions: result types and nullability of operators and functions.

Each function takes bound operands and returns a bound expression whose implicit casts are explicit,
or raises `TypeMismatch`, to which the binder adds the place in the text. Arithmetic on decimals
follows the precision rules of each operator.

Source: Spark SQL, DecimalPrecisionTypeCoercion and the functions' own input types;
tests/planner/spark_types.tsv has the types that Spark gives.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import replace

from planner.calculus import types
from planner.calculus.coercion import (
    TypeMismatch,
    as_decimal,
    cast,
    common_type,
    unify,
)
from planner.calculus.datetime_patterns import check_readable, pattern_parts
from planner.calculus.expr import Call, Column, Expr, Literal, conjunction, disjunction
from planner.calculus.session_zone import zone_argument
from planner.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FloatType,
    IntegerType,
    NullType,
    SqlType,
    StringType,
    TimestampType,
    adjusted_decimal,
    bounded_decimal,
)

# --- operators ---------------------------------------------------------------------------------

SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "integral_divide": "DIV",
    "remainder": "%",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq_null_safe": "<=>",
}
#: The comparison that holds where the one before it does not.
INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def literal_as_decimal(expr: Expr) -> Expr:
    """An integer literal as a decimal of its own digits, as Spark takes it beside a decimal."""
    match expr:
        case Literal(value=int(value), type=IntegerType(bits=16 | 32 | 64)):
            return cast(expr, DecimalType(len(str(abs(value))), 0))
        case _:
            return expr


def _decimal_operands(left: Expr, right: Expr) -> tuple[Expr, Expr] | None:
    """Both as decimals, if one is a decimal and the other is exact."""
    if isinstance(left.type, DecimalType):
        right = literal_as_decimal(right)
    if isinstance(right.type, DecimalType):
        left = literal_as_decimal(left)
    match left.type, right.type:
        case ((IntegerType() | DecimalType()), DecimalType()):
            return cast(left, as_decimal(left.type)), right
        case DecimalType(), IntegerType():
            return left, cast(right, as_decimal(right.type))
        case _:
            return None


def arithmetic(function: str, left: Expr, right: Expr) -> Expr:
    """a + b, a - b, a * b, a / b, a DIV b, a % b on numbers."""
    nullable = left.nullable or right.nullable
    decimals = _decimal_operands(left, right)
    if decimals is not None:
        first, second = decimals[0].type, decimals[1].type
        assert isinstance(first, DecimalType) and isinstance(second, DecimalType)
        return Call(function, decimals, _decimal_result(function, first, second), nullable)
    kind = common_type(left.type, right.type)
    texts = isinstance(left.type, StringType) and isinstance(right.type, (StringType, NullType))
    if isinstance(kind, NullType):
        kind = BIGINT if function == "integral_divide" else DOUBLE
    if kind is None or texts or not types.is_numeric(kind):
        raise TypeMismatch(
            f"operator {SYMBOLS[function]} does not take {left.type} and {right.type}"
        )
    if function == "integral_divide":
        if not isinstance(kind, (IntegerType, DecimalType)):
            raise TypeMismatch(f"operator DIV does not take {left.type} and {right.type}")
        kind = BIGINT
    elif function == "divide":
        kind = DOUBLE
    return Call(function, (cast(left, kind), cast(right, kind)), kind, nullable)


def _decimal_result(function: str, left: DecimalType, right: DecimalType) -> SqlType:
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match function:
        case "add" | "subtract":
            scale = max(s1, s2)
            return adjusted_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "multiply":
            return adjusted_decimal(p1 + p2 + 1, s1 + s2)
        case "divide":
            scale = max(types.MIN_ADJUSTED_SCALE, s1 + p2 + 1)
            return adjusted_decimal(p1 - s1 + s2 + scale, scale)
        case "integral_divide":
            return BIGINT
        case _:
            scale = max(s1, s2)
            return adjusted_decimal(min(p1 - s1, p2 - s2) + scale, scale)


def compare(function: str, left: Expr, right: Expr) -> Expr:
    """=, <>, <, <=, >, >=, <=>."""
    left, right = _filled_up((left, right))
    if isinstance(left.type, DecimalType):
        right = literal_as_decimal(right)
    if isinstance(right.type, DecimalType):
        left = literal_as_decimal(left)
    kind = common_type(left.type, right.type)
    if kind is None:
        raise TypeMismatch(
            f"operator {SYMBOLS[function]} does not take {left.type} and {right.type}",
            hint="Cast one of them.",
        )
    nullable = function != "eq_null_safe" and (left.nullable or right.nullable)
    refuse_maps(kind, f"operator {SYMBOLS[function]}")
    if isinstance(kind, NullType):
        kind = BOOLEAN
    return Call(function, (cast(left, kind), cast(right, kind)), BOOLEAN, nullable)


def _filled_up(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Values that are compared: where columns of type CHAR are beside literals, or beside others,
    all are as long as the longest. Source: Spark SQL, ApplyCharTypePadding."""
    lengths = [_characters(v) for v in values]
    some = any(isinstance(v, Column) and v.chars is not None for v in values)
    if not some or None in lengths:
        return values
    longest = max(n for n in lengths if n is not None)
    return tuple(_of_length(v, longest) for v in values)


def _characters(value: Expr) -> int | None:
    """How many there are in each value of a CHAR column, or in a literal; 0 for NULL."""
    if isinstance(value, Column):
        return value.chars
    if isinstance(value, Literal) and isinstance(value.type, (StringType, NullType)):
        return 0 if value.value is None else len(str(value.value))
    return None


def _of_length(value: Expr, length: int) -> Expr:
    if isinstance(value, Literal):
        text = value.value
        return value if text is None else replace(value, value=str(text).ljust(length))
    if _characters(value) == length:
        return value
    args = (value, Literal(length, INT), Literal(" ", STRING))
    return Call("rpad", args, STRING, value.nullable)


def refuse_maps(kind: SqlType, what: str) -> None:
    """Raises: TypeMismatch where values of the type cannot be compared, as they hold maps."""
    if types.holds(kind, types.MapType):
        raise TypeMismatch(
            f"{what} compares values, and {kind} has maps",
            "Two maps are never compared, as in Spark.",
            "Compare sort_array(map_entries(m)), or the values of some keys.",
        )


def is_in(value: Expr, options: Sequence[Expr]) -> Expr:
    """value IN (options…): a call of "in" where all options are constants, else a chain of =."""
    unified = unify(_filled_up((value, *options)), "IN")
    refuse_maps(unified[0].type, "IN")
    if all(isinstance(o, Literal) for o in unified[1:]):
        return Call("in", unified, BOOLEAN, any(e.nullable for e in unified))
    return chain("or", [compare("eq", unified[0], option) for option in unified[1:]])


def boolean(expr: Expr, what: str) -> Expr:
    """A predicate; a bare NULL and, as Spark does for operands of AND, OR and NOT, text is cast."""
    if isinstance(expr.type, (BooleanType, NullType, StringType)):
        return cast(expr, BOOLEAN)
    raise TypeMismatch(f"{what} needs BOOLEAN, not {expr.type}")


def logic(function: str, left: Expr, right: Expr) -> Expr:
    args = (boolean(left, function.upper()), boolean(right, function.upper()))
    return Call(function, args, BOOLEAN, args[0].nullable or args[1].nullable)


def chain(function: str, operands: Sequence[Expr]) -> Expr:
    """AND or OR of one or more operands, evaluated from left to right."""
    if len(operands) == 1:
        return operands[0]
    args = tuple(boolean(o, function.upper()) for o in operands)
    return conjunction(args) if function == "and" else disjunction(args)


def negation(expr: Expr) -> Expr:
    arg = boolean(expr, "NOT")
    return Call("not", (arg,), BOOLEAN, arg.nullable)


def is_null(expr: Expr) -> Expr:
    return Call("is_null", (expr,), BOOLEAN, False)


def conditional(branches: Sequence[tuple[Expr, Expr]], otherwise: Expr | None, what: str) -> Expr:
    """CASE WHEN when THEN then … ELSE otherwise END."""
    last = otherwise if otherwise is not None else Literal(None, types.NULL)
    thens = unify([then for _, then in branches] + [last], what)
    args: list[Expr] = []
    for (when, _), then in zip(branches, thens, strict=False):
        if not isinstance(when.type, (BooleanType, NullType)):
            raise TypeMismatch(f"a condition of {what} needs BOOLEAN, not {when.type}")
        args += (cast(when, BOOLEAN), then)
    nullable = any(t.nullable for t in thens)
    return Call("case", (*args, thens[-1]), thens[-1].type, nullable)


def coalesce(args: Sequence[Expr]) -> Expr:
    unified = unify(args, "COALESCE")
    if len(unified) == 1:
        return unified[0]
    return Call("coalesce", unified, unified[0].type, all(e.nullable for e in unified))


def null_if(left: Expr, right: Expr) -> Expr:
    condition = compare("eq", left, right)
    return Call("case", (condition, Literal(None, left.type), left), left.type, True)


def negative(expr: Expr) -> Expr:
    """-a. Not done here for literals: Spark takes only signed digits for one beside a decimal."""
    expr = _number(expr, "-")
    return Call("negate", (expr,), expr.type, expr.nullable)


def positive(expr: Expr) -> Expr:
    return _number(expr, "POSITIVE")


#: The DOUBLE that is not a number; it equals itself, and is greater than any other.
NAN = Literal(float("nan"), DOUBLE)


def sign(expr: Expr) -> Expr:
    """-1.0, 0.0 or 1.0; -0.0 and NaN are their own sign."""
    value = _double(expr, "SIGN")
    zero = Literal(0.0, DOUBLE)
    args: list[Expr] = []
    if isinstance(expr.type, (FloatType, StringType, NullType)):
        args += (compare("eq", value, NAN), value)
    args += (compare("gt", value, zero), Literal(1.0, DOUBLE))
    args += (compare("lt", value, zero), Literal(-1.0, DOUBLE))
    return Call("case", (*args, value), DOUBLE, value.nullable)


def is_nan(expr: Expr) -> Expr:
    """Whether the value is NaN; never NULL."""
    return compare("eq_null_safe", _double(expr, "ISNAN"), NAN)


def last_characters(text: Expr, wanted: Expr) -> Expr:
    """RIGHT: none where the number is not positive."""
    number = _integer(wanted, "RIGHT")
    if isinstance(number, Literal) and isinstance(number.value, int):
        count = max(number.value, 0)
        return scalar("substring", (text, Literal(-count, INT), Literal(count, INT)))
    zero = Literal(0, INT)
    length = conditional([(compare("lt", number, zero), zero)], number, "RIGHT")
    return scalar("substring", (text, negative(length), length))


def zone_of(value: Expr) -> tuple[Literal, ...]:
    """The last argument of a call that depends on what clocks show at a value."""
    return zone_argument() if value.type == TIMESTAMP else ()


def add_days(day: Expr, days: Expr) -> Expr:
    """DATE plus a number of days."""
    return _moved(_day(day, "DATE_ADD"), _days(days, "DATE_ADD"))


def subtract_days(day: Expr, days: Expr) -> Expr:
    """DATE minus a number of days, which is negated as a BIGINT, where none overflows."""
    number = _days(days, "DATE_SUB")
    if isinstance(number, Literal) and isinstance(number.value, int):
        return _moved(_day(day, "DATE_SUB"), Literal(-number.value, BIGINT))
    return _moved(_day(day, "DATE_SUB"), negative(cast(number, BIGINT)))


def _moved(day: Expr, days: Expr) -> Expr:
    match day, days:
        case Literal(value=datetime.date() as start), Literal(value=int(count)):
            folded = shift_date(start, 0, count)
            if folded is not None:
                return Literal(folded, DATE)
    return Call("date_add", (day, days), DATE, day.nullable or days.nullable)


def shift_date(day: datetime.date, months: int, days: int) -> datetime.date | None:
    """Clipped to the month's end; None outside the years 1 to 9999."""
    month = day.year * 12 + day.month - 1 + months
    first = (month // 12, month % 12 + 1)
    following = (first[0] + first[1] // 12, first[1] % 12 + 1)
    try:
        last = (datetime.date(*following, 1) - datetime.timedelta(days=1)).day
        return datetime.date(*first, min(day.day, last)) + datetime.timedelta(days=days)
    except (ValueError, OverflowError):
        return None


# --- implicit casts of arguments ---------------------------------------------------------------


def _number(expr: Expr, what: str) -> Expr:
    if types.is_numeric(expr.type):
        return expr
    if isinstance(expr.type, (StringType, NullType)):
        return cast(expr, DOUBLE)
    raise TypeMismatch(f"{what} needs a number, not {expr.type}")


def _double(expr: Expr, what: str) -> Expr:
    return cast(_number(expr, what), DOUBLE)


def _integer(expr: Expr, what: str) -> Expr:
    return cast(_number(expr, what), INT)


def _text(expr: Expr, what: str) -> Expr:
    return cast(expr, STRING)


def _text_only(expr: Expr, what: str) -> Expr:
    if isinstance(expr.type, BinaryType):
        raise TypeMismatch(f"{what} of BINARY is not among the functions", hint="Cast to STRING.")
    return cast(expr, STRING)


def _day(expr: Expr, what: str) -> Expr:
    if isinstance(expr.type, (DateType, TimestampType, StringType, NullType)):
        return cast(expr, DATE)
    raise TypeMismatch(f"{what} needs DATE, not {expr.type}")


def _days(expr: Expr, what: str) -> Expr:
    match expr.type:
        case IntegerType(bits=bits) if bits <= 32:
            return cast(expr, INT)
        case StringType() | NullType():
            return cast(expr, INT)
        case other:
            raise TypeMismatch(f"{what} needs INT, not {other}", hint="Cast it to INT.")


def _long(expr: Expr, what: str) -> Expr:
    return cast(_number(expr, what), BIGINT)


def _instant(expr: Expr, what: str) -> Expr:
    match expr.type:
        case TimestampType():
            return expr
        case DateType() | StringType() | NullType():
            return cast(expr, TIMESTAMP)
        case other:
            raise TypeMismatch(f"{what} needs TIMESTAMP, not {other}")


def instant(expr: Expr, target: SqlType) -> Expr:
    """A date, timestamp or text as `target`, DATE or TIMESTAMP."""
    if isinstance(expr.type, (DateType, TimestampType, StringType, NullType)):
        return cast(expr, target)
    raise TypeMismatch(f"a date or timestamp is needed, not {expr.type}")


_Coercion = Callable[[Expr, str], Expr]

#: name -> (coercion per argument, result type): functions of a fixed shape, NULL if any arg is.
_FIXED: dict[str, tuple[tuple[_Coercion, ...], SqlType]] = {
    "like": ((_text, _text, _text), BOOLEAN),
    "rlike": ((_text, _text), BOOLEAN),
    "substring": ((_text_only, _integer, _integer), STRING),
    "upper": ((_text,), STRING),
    "lower": ((_text,), STRING),
    "length": ((_text_only,), INT),
    "replace": ((_text, _text, _text), STRING),
    "split_part": ((_text, _text, _integer), STRING),
    "starts_with": ((_text, _text), BOOLEAN),
    "ends_with": ((_text, _text), BOOLEAN),
    "contains": ((_text, _text), BOOLEAN),
    "lpad": ((_text_only, _integer, _text_only), STRING),
    "rpad": ((_text_only, _integer, _text_only), STRING),
    "repeat": ((_text, _integer), STRING),
    "reverse": ((_text,), STRING),
    "initcap": ((_text,), STRING),
    "locate": ((_text, _text, _integer), INT),
    "translate": ((_text, _text, _text), STRING),
    "ascii": ((_text,), INT),
    "chr": ((_long,), STRING),
    "substring_index": ((_text, _text, _integer), STRING),
    "sqrt": ((_double,), DOUBLE),
    "power": ((_double, _double), DOUBLE),
    "exp": ((_double,), DOUBLE),
    "expm1": ((_double,), DOUBLE),
    "cbrt": ((_double,), DOUBLE),
    "rint": ((_double,), DOUBLE),
    "year": ((_day,), INT),
    "quarter": ((_day,), INT),
    "month": ((_day,), INT),
    "day": ((_day,), INT),
    "day_of_week": ((_day,), INT),
    "day_of_year": ((_day,), INT),
    "week": ((_day,), INT),
    "hour": ((_instant,), INT),
    "minute": ((_instant,), INT),
    "second": ((_instant,), INT),
    "second_fraction": ((_instant,), DecimalType(8, 6)),
    "make_date": ((_integer, _integer, _integer), DATE),
    "date_add": ((_day, _days), DATE),
    "date_diff": ((_day, _day), INT),
    "last_day": ((_day,), DATE),
    "add_months": ((_day, _days), DATE),
}
#: Those of them that say what a clock shows.
_CLOCK = frozenset(("hour", "minute", "second", "second_fraction"))


def scalar(name: str, args: Sequence[Expr]) -> Expr:
    """A function of `primitives.FUNCTIONS` with coerced arguments. The count of args is right."""
    shown = name.upper()
    if name in _FIXED:
        coercions, kind = _FIXED[name]
        coerced = tuple(c(a, shown) for c, a in zip(coercions, args, strict=True))
        nullable = any(a.nullable for a in coerced)
        if name in _CLOCK:
            coerced += zone_of(coerced[0])
        return Call(name, coerced, kind, nullable)
    match name:
        case "concat":
            texts = tuple(_text_only(a, shown) for a in args)
            if len(texts) == 1:
                return texts[0]
            return Call(name, texts, STRING, any(a.nullable for a in texts))
        case "trim" | "ltrim" | "rtrim":
            texts = tuple(_text(a, shown) for a in args)
            return Call(name, texts, STRING, any(a.nullable for a in texts))
        case "concat_ws":
            texts = tuple(_text_only(a, shown) for a in args)
            return Call(name, texts, STRING, texts[0].nullable)
        case "ln" | "log10" | "log2" | "log1p" | "log":
            return Call(name, tuple(_double(a, shown) for a in args), DOUBLE, True)
        case "greatest" | "least":
            unified = unify(args, shown)
            return Call(name, unified, unified[0].type, all(a.nullable for a in unified))
        case "abs":
            number = _number(args[0], shown)
            return Call(name, (number,), number.type, number.nullable)
        case "floor" | "ceil":
            return _whole(name, _number(args[0], shown))
        case "round":
            return _round(_number(args[0], shown), args[1])
        case _:
            raise AssertionError(name)


def _whole(name: str, number: Expr) -> Expr:
    match number.type:
        case IntegerType():
            return cast(number, BIGINT)
        case DecimalType(precision=precision, scale=scale):
            kind = number.type if scale == 0 else bounded_decimal(precision - scale + 1, 0)
            return Call(name, (number,), kind, number.nullable)
        case _:
            return Call(name, (cast(number, DOUBLE),), BIGINT, number.nullable)


def _round(number: Expr, digits: Expr) -> Expr:
    if not (isinstance(digits, Literal) and isinstance(digits.value, int)):
        raise TypeMismatch("ROUND needs a literal number of digits")
    kind = number.type
    if isinstance(kind, DecimalType):
        integral = kind.precision - kind.scale + 1
        if digits.value < 0:
            kind = bounded_decimal(max(integral, -digits.value + 1), 0)
        else:
            scale = min(kind.scale, digits.value)
            kind = bounded_decimal(integral + scale, scale)
    return Call("round", (number, cast(digits, INT)), kind, number.nullable)


def positive_remainder(left: Expr, right: Expr) -> Expr:
    """PMOD: the remainder, with the divisor added where it is negative."""
    rest = arithmetic("remainder", left, right)
    again = arithmetic("remainder", arithmetic("add", rest, right), right)
    if isinstance(rest.type, FloatType):
        # As Spark computes it, which can round.
        return conditional([(compare("lt", rest, Literal(0, INT)), again)], rest, "PMOD")
    # A remainder and a divisor below zero have a sum between the divisor's double and it, of which
    # the remainder is the first again; left alone, it cannot overflow.
    assert isinstance(rest, Call)
    divisor = rest.args[1]
    negative_rest = compare("lt", rest, cast(Literal(0, INT), rest.type))
    apart = logic("and", negative_rest, compare("gt", divisor, cast(Literal(0, INT), divisor.type)))
    shifted = Call("add", (rest, divisor), rest.type, rest.nullable)
    branches = [(apart, shifted)]
    kind = rest.type
    if isinstance(kind, IntegerType) and kind.bits >= 32 and _may_be_below(divisor, kind.min // 2):
        # In Spark their sum wraps around: it is (rest - least) + (divisor - least) then.
        least = Literal(kind.min, kind)
        above = [Call("subtract", (x, least), kind, x.nullable) for x in (rest, divisor)]
        wraps = compare("lt", rest, Call("subtract", (least, divisor), kind, divisor.nullable))
        wraps = logic("and", compare("lt", divisor, cast(Literal(0, INT), kind)), wraps)
        around = Call("add", (above[0], above[1]), kind, rest.nullable)
        branches.append((wraps, Call("remainder", (around, divisor), kind, rest.nullable)))
    return conditional(branches, rest, "PMOD")


def _may_be_below(value: Expr, bound: int) -> bool:
    return not (isinstance(value, Literal) and isinstance(value.value, int)) or value.value < bound


_WEEKDAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")


def next_day(day: Expr, weekday: str) -> Expr:
    """The first such day of the week after `day`. Raises: TypeMismatch if there is no such day."""
    name = weekday.strip().upper()
    found = [i for i, whole in enumerate(_WEEKDAYS) if name in (whole, whole[:3], whole[:2])]
    if not found:
        raise TypeMismatch(
            f"NEXT_DAY does not know the day '{weekday}'", hint="Write it as 'MON' or 'Monday'."
        )
    date = _day(day, "NEXT_DAY")
    return Call("next_day", (date, Literal(found[0] + 1, INT)), DATE, date.nullable)


def date_format(value: Expr, pattern: str) -> Expr:
    """Raises: ValueError, which names the part, for letters of the pattern that are not known."""
    pattern_parts(pattern)
    moment = cast(_instant(value, "DATE_FORMAT"), TIMESTAMP)
    args = (moment, Literal(pattern, STRING), *zone_of(moment))
    return Call("date_format", args, STRING, moment.nullable)


def day_format(value: Expr, pattern: str, what: str) -> Expr:
    """A part of a DATE as text; `pattern` has letters of days alone."""
    day = _day(value, what)
    return Call("date_format", (day, Literal(pattern, STRING)), STRING, day.nullable)


def parse_timestamp(value: Expr, pattern: str, tried: bool) -> Expr:
    """What clocks show, read from a text by a pattern: a TIMESTAMP_NTZ. `tried`: NULL where it is
    not of it. Raises: ValueError as `date_format`."""
    check_readable(pattern)
    name = "try_parse_timestamp" if tried else "parse_timestamp"
    args = (value, Literal(pattern, STRING))
    return Call(name, args, TIMESTAMP_NTZ, value.nullable or tried)


def period_edge(value: Expr, slide: int, offset: int, back: Expr) -> Expr:
    """The start of the last period that has begun, less `back`; all in microseconds."""
    if isinstance(value.type, DateType):
        value = cast(value, TIMESTAMP)
    if not isinstance(value.type, TimestampType):
        raise TypeMismatch(f"a window is of a TIMESTAMP, not {value.type}")
    numbers = (Literal(slide, BIGINT), Literal(offset, BIGINT), cast(back, BIGINT))
    nullable = value.nullable or back.nullable
    return Call("period_edge", (value, *numbers), value.type, nullable)


def date_trunc(unit: str, value: Expr) -> Expr:
    """date_trunc (of a TIMESTAMP) and trunc (of a DATE, cast by the caller)."""
    # Offsets are whole seconds.
    zone = () if unit == "second" else zone_of(value)
    return Call("date_trunc", (Literal(unit, STRING), value, *zone), value.type, value.nullable)
