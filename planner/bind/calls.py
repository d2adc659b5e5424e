"""Function calls: one function per kind of node, found in a table.

What sqlglot makes of a call is read back here as the call that Spark has;
`planner.calculus.functions` knows the types. Functions that are built from others (RIGHT, LAST_DAY,
WEEKDAY) are built here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from planner.bind import library, nested, user
from planner.bind.clock import CLOCK_NAMES
from planner.bind.literals import interval_value
from planner.bind.named import NAMED, Binder, bind_named, field_of, locate
from planner.bind.nodes import PeriodEdge, generator_name
from planner.bind.refused import BY_NAME
from planner.bind.report import CHANGING_FUNCTIONS, Refusal, refusal_of
from planner.bind.tables import (
    NAMED_AGGREGATES,
    TO_THE_END,
    TRUNC_DATE,
    TRUNC_TIMESTAMP,
)
from planner.calculus import coercion, functions, intervals
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.types import (
    BIGINT,
    DATE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TimestampType,
)
from planner.errors import suggestion
from planner.parse import written_name
from planner.parse.shifts import SIGN
from planner.parse.tokens import shortened


def _extract(binder: Binder, node: exp.Expression) -> Expr:
    return field_of(binder, node, str(node.this.this).upper(), node.expression)


def _ts_or_ds_add(binder: Binder, node: exp.Expression) -> Expr:
    """date_add, and date_sub, which sqlglot turns into the addition of days * -1."""
    if str(node.args["unit"].this).upper() != "DAY":
        binder.report.fail(node, "date_add adds days")
    day, days = binder.bind(node.this), node.expression
    if isinstance(days, exp.Mul) and isinstance(days.expression, exp.Neg):
        return functions.subtract_days(day, binder.bind(days.this))
    return functions.add_days(day, binder.bind(days))


#: What TIMESTAMPADD and TIMESTAMPDIFF count; DAYOFYEAR is a DAY.
_UNITS_OF_TIME = (
    "MICROSECOND MILLISECOND SECOND MINUTE HOUR DAY DAYOFYEAR WEEK MONTH QUARTER YEAR".split()
)


def _unit_of_time(binder: Binder, node: exp.Expression) -> str:
    unit = str(node.args["unit"].this).upper()
    if unit not in _UNITS_OF_TIME:
        binder.report.fail(
            node, f"unknown unit {unit}", hint=f"The units are {', '.join(_UNITS_OF_TIME)}."
        )
    return "DAY" if unit == "DAYOFYEAR" else unit


def _moment(binder: Binder, node: exp.Expression) -> Expr:
    """A TIMESTAMP, or one without a zone, as sqlglot has it in calls with a unit."""
    written = node.this if isinstance(node, exp.TsOrDsToDate) else node
    value = binder.bind(written)
    return value if isinstance(value.type, TimestampType) else coercion.cast(value, TIMESTAMP)


def _timestamp_add(binder: Binder, node: exp.Expression) -> Expr:
    """TIMESTAMPADD, and DATE_ADD and DATEADD with a unit: days and longer ones are added to what
    clocks show, shorter ones to the moment."""
    unit, count = _unit_of_time(binder, node), binder.bind(node.expression)
    count = coercion.explicit_cast(count, BIGINT, False)
    if unit == "QUARTER":
        unit, count = "MONTH", functions.arithmetic("multiply", count, Literal(3, BIGINT))
    one = interval_value("1", exp.var(unit))
    assert one is not None
    moment, interval = _moment(binder, node.this), intervals.times(one, count)
    if unit in ("DAY", "WEEK", "MONTH", "YEAR"):
        return intervals.moved(moment, interval)
    number = intervals.units_of(interval)
    nullable = moment.nullable or number.nullable
    return Call("add_microseconds", (moment, number), moment.type, nullable)


def _date_diff(binder: Binder, node: exp.Expression) -> Expr:
    """DATEDIFF; with a unit, as TIMESTAMPDIFF, how many whole ones lie between what clocks show."""
    if node.args.get("unit") is None:
        return functions.scalar("date_diff", [binder.bind(node.this), binder.bind(node.expression)])
    unit = Literal(_unit_of_time(binder, node), STRING)
    end, start = (
        coercion.cast(_moment(binder, n), TIMESTAMP_NTZ) for n in (node.this, node.expression)
    )
    nullable = start.nullable or end.nullable
    return Call("units_between", (start, end, unit), BIGINT, nullable)


def _date_trunc(binder: Binder, node: exp.Expression) -> Expr:
    """date_trunc gives a TIMESTAMP, trunc (exp.DateTrunc) a DATE."""
    to_date = isinstance(node, exp.DateTrunc)
    units = TRUNC_DATE if to_date else TRUNC_TIMESTAMP
    unit = str(node.args["unit"].this).upper()
    if unit not in units:
        binder.report.fail(
            node,
            f"unknown unit {unit} of {'trunc' if to_date else 'date_trunc'}",
            hint=f"The units are {', '.join(dict.fromkeys(units.values()))}.",
        )
    value = binder.bind(node.this)
    return functions.date_trunc(
        units[unit], functions.instant(value, DATE if to_date else TIMESTAMP)
    )


def _substring(binder: Binder, node: exp.Expression) -> Expr:
    length = node.args.get("length")
    last = binder.bind(length) if length is not None else TO_THE_END
    args = [binder.bind(node.this), binder.argument(node, "start"), last]
    return functions.scalar("substring", args)


def _left(binder: Binder, node: exp.Expression) -> Expr:
    args = [binder.bind(node.this), Literal(1, INT), binder.bind(node.expression)]
    return functions.scalar("substring", args)


def _right(binder: Binder, node: exp.Expression) -> Expr:
    return functions.last_characters(binder.bind(node.this), binder.bind(node.expression))


def _trim(binder: Binder, node: exp.Expression) -> Expr:
    characters = node.args.get("expression")
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position")), "trim")
    args = [node.this] if characters is None else [node.this, characters]
    return functions.scalar(name, [binder.bind(a) for a in args])


def _concat(binder: Binder, node: exp.Expression) -> Expr:
    if all(isinstance(e, exp.Literal) and e.is_string for e in node.expressions):
        for part in node.expressions:
            binder.report.check(part)
        return Literal("".join(str(e.this) for e in node.expressions), STRING)
    return _joined([binder.bind(e) for e in node.expressions])


def _joined(args: list[Expr]) -> Expr:
    arrays = nested.concat(args)
    return functions.scalar("concat", args) if arrays is None else arrays


def _dpipe(binder: Binder, node: exp.Expression) -> Expr:
    """A chain of them is one concatenation."""
    parts: list[exp.Expression] = []
    rest = node
    while type(rest) is exp.DPipe:
        binder.report.check(rest)
        if isinstance(rest.expression, (exp.Add, exp.Sub)):
            binder.report.fail(rest, "|| and + or - cannot follow each other without parentheses")
        parts.append(rest.expression)
        rest = rest.this
    parts.append(rest)
    return _joined([binder.bind(p) for p in reversed(parts)])


def _replace(binder: Binder, node: exp.Expression) -> Expr:
    replacement = node.args.get("replacement")
    last = binder.bind(replacement) if replacement is not None else Literal("", STRING)
    return functions.scalar("replace", [binder.bind(node.this), binder.bind(node.expression), last])


def _round(binder: Binder, node: exp.Expression) -> Expr:
    decimals = node.args.get("decimals")
    digits = binder.bind(decimals) if decimals is not None else Literal(0, INT)
    return functions.scalar("round", [binder.bind(node.this), digits])


def _up_or_down(binder: Binder, node: exp.Expression) -> Expr:
    """CEIL and FLOOR; with a number of digits, of the number as a DECIMAL."""
    name = "floor" if isinstance(node, exp.Floor) else "ceil"
    value, decimals = binder.bind(node.this), node.args.get("decimals")
    if decimals is None:
        return functions.scalar(name, [value])
    return library.rounded_to(name, value, binder.bind(decimals))


def _extreme(binder: Binder, node: exp.Expression) -> Expr:
    name = "greatest" if isinstance(node, exp.Greatest) else "least"
    args = [binder.bind(a) for a in (node.this, *node.expressions)]
    if len(args) < 2:
        binder.report.fail(node, f"{name.upper()} has too few arguments")
    return functions.scalar(name, args)


def _sign(binder: Binder, node: exp.Expression) -> Expr:
    return intervals.sign(binder.bind(node.this))


def _abs(binder: Binder, node: exp.Expression) -> Expr:
    return intervals.magnitude(binder.bind(node.this))


def _negative(binder: Binder, node: exp.Expression) -> Expr:
    return intervals.negative(binder.bind(node.this))


def _last_day(binder: Binder, node: exp.Expression) -> Expr:
    return functions.scalar("last_day", [binder.bind(node.this)])


def _is_nan(binder: Binder, node: exp.Expression) -> Expr:
    return functions.is_nan(binder.bind(node.this))


def _chr(binder: Binder, node: exp.Expression) -> Expr:
    if len(node.expressions) != 1:
        binder.report.fail(node, f"CHR takes 1 argument, not {len(node.expressions)}")
    return functions.scalar("chr", [binder.bind(node.expressions[0])])


def _initcap(binder: Binder, node: exp.Expression) -> Expr:
    """The parser gives it the characters that part words, which Spark does not take."""
    if node.expression != exp.Literal.string(" "):
        binder.report.fail(node, "INITCAP takes 1 argument, not 2")
    return functions.scalar("initcap", [binder.bind(node.this)])


def _position(binder: Binder, node: exp.Expression) -> Expr:
    """POSITION(part IN text) and position(part, text[, start])."""
    return locate(binder.bind(node.this), binder.argument(node, "substr"), _start_of(binder, node))


def _start_of(binder: Binder, node: exp.Expression) -> Expr:
    start = node.args.get("position")
    return Literal(1, INT) if start is None else binder.bind(start)


_BITS: dict[type[exp.Expression], str] = {
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    exp.BitwiseLeftShift: "shift_left",
    exp.BitwiseRightShift: "shift_right",
}


def _check_bits(binder: Binder, node: exp.Expression, sides: Sequence[exp.Expression]) -> None:
    """The parser takes all of them to bind alike, which in Spark <<, &, ^ and | in turn do not."""
    for side in sides:
        bits = isinstance(side, (*_BITS, exp.DPipe)) or written_name(side) == SIGN
        if bits and type(side) is not type(node):
            binder.report.fail(
                node,
                "operators of bits cannot follow each other without parentheses",
                hint="Put parentheses around the one that comes first.",
            )


def _bits(binder: Binder, node: exp.Expression) -> Expr:
    _check_bits(binder, node, (node.this, node.expression))
    left, right = binder.bind(node.this), binder.bind(node.expression)
    name = _BITS[type(node)]
    if name.startswith("shift"):
        return library.shifted(name, left, right)
    return library.bits(name, left, right)


def _bitwise_not(binder: Binder, node: exp.Expression) -> Expr:
    return library.inverted(binder.bind(node.this))


def _overlay(binder: Binder, node: exp.Expression) -> Expr:
    parts = (node.this, node.expression, node.args["from_"], node.args.get("for_"))
    return library.call("overlay", [binder.bind(p) for p in parts if p is not None])


def _decode(binder: Binder, node: exp.Expression) -> Expr:
    """Of bytes and a charset, or of a value and what it may be."""
    charset = node.args.get("charset")
    parts = node.expressions if charset is None else [node.this, charset]
    return library.decoded([binder.bind(p) for p in parts])


def is_taken(name: str) -> bool:
    """Whether Spark has a function of the name, which no user's can have."""
    name = name.lower()
    known = (*PARSED, *NAMED, *NAMED_AGGREGATES, *BY_NAME, *CLOCK_NAMES, *CHANGING_FUNCTIONS)
    return name in known or name.upper() in exp.FUNCTION_BY_NAME


#: Spark's functions that the parser has nodes of their own for, to be suggested.
PARSED = tuple(
    "abs add_months any_value avg bit_and bit_or bit_xor bool_and bool_or ceil ceiling char "
    "char_length character_length chr coalesce concat contains corr count count_if covar_pop "
    "covar_samp date date_add date_diff date_sub date_trunc dateadd datediff day dayofmonth "
    "dayofweek dayofyear endswith extract floor greatest hour if ifnull initcap instr isnan "
    "kurtosis last_day lcase least left len length locate lower ltrim max max_by median min min_by "
    "minute mod mode month negative nullif nvl nvl2 percentile percentile_cont percentile_disc pow "
    "power quarter regexp_like regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope "
    "regr_sxx regr_sxy regr_syy replace right rlike round rtrim second sign signum skewness "
    "split_part sqrt startswith stddev stddev_pop stddev_samp substr substring sum timestamp "
    "to_date to_timestamp trim trunc ucase upper var_pop var_samp variance weekofyear year".split()
)


def _anonymous(binder: Binder, node: exp.Expression) -> Expr:
    name = str(node.this).lower()
    if written_name(node) == SIGN:
        _check_bits(binder, node, node.expressions)
    if name in CLOCK_NAMES and not node.expressions:
        return binder.clock(node)
    if name in CHANGING_FUNCTIONS:
        changing = CHANGING_FUNCTIONS[name]
        binder.report.refuse(node, Refusal(name.upper(), changing.why, changing.hint))
    if generator_name(node) is not None:
        binder.report.fail(
            node,
            f"{name.upper()} makes rows, and is no value",
            hint="Write it as an item of a select list, by itself, or in LATERAL VIEW.",
        )
    if name in BY_NAME:
        binder.report.refuse(node, refusal_of(node))
    if name not in NAMED and (function := user.find(name)) is not None:
        return user.call(function, [binder.bind(e) for e in node.expressions])
    if name not in NAMED:
        known = (*PARSED, *NAMED, *NAMED_AGGREGATES)
        binder.report.fail(
            node, f'unknown function "{shortened(name)}"', hint=suggestion(name, known)
        )
    return bind_named(binder, node)


def _period_edge(binder: Binder, node: exp.Expression) -> Expr:
    time, back = binder.bind(node.this), binder.bind(node.args["back"])
    return functions.period_edge(time, node.args["slide"], node.args["offset"], back)


#: How each kind of node is bound.
CALLS: dict[type[exp.Expression], Callable[[Binder, exp.Expression], Expr]] = {
    exp.Extract: _extract,
    exp.TsOrDsAdd: _ts_or_ds_add,
    exp.DateDiff: _date_diff,
    exp.TimestampDiff: _date_diff,
    exp.TimestampAdd: _timestamp_add,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Trim: _trim,
    exp.Chr: _chr,
    exp.Initcap: _initcap,
    exp.StrPosition: _position,
    exp.Concat: _concat,
    exp.DPipe: _dpipe,
    exp.Replace: _replace,
    exp.Round: _round,
    exp.Floor: _up_or_down,
    exp.Ceil: _up_or_down,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
    exp.Anonymous: _anonymous,
    PeriodEdge: _period_edge,
    exp.Right: _right,
    exp.Abs: _abs,
    exp.Sign: _sign,
    exp.Negative: _negative,
    exp.LastDay: _last_day,
    exp.IsNan: _is_nan,
    **dict.fromkeys(_BITS, _bits),
    exp.BitwiseNot: _bitwise_not,
    exp.Overlay: _overlay,
    exp.Decode: _decode,
    exp.DecodeCase: _decode,
}
