"""Aggregates that are recomputed for a group (algebra.RECOMPUTED): how they are written, and typed.

Their forms are many: `percentile(x, p)`, `percentile_cont(p) WITHIN GROUP (ORDER BY x)`, `mode()
WITHIN GROUP (ORDER BY x)`, `listagg(x, ',') WITHIN GROUP (ORDER BY y)`, `max_by(x, y)`. `written`
takes each apart into arguments, an order and a parameter; `group_aggregate` makes the call of bound
ones. Where Spark's result would depend on the order in which rows arrive, it is refused, or defined
by the values (see RECOMPUTED).

Source: Spark SQL, the aggregates' own input and result types; tests/planner/spark_types.tsv.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.bind.aggregates import Keep, aggregate, when
from planner.bind.report import Refusal, Report
from planner.calculus.algebra import BITMAP_BYTES, RECOMPUTED, AggregateCall, SortKey
from planner.calculus.coercion import TypeMismatch, cast, explicit_cast
from planner.calculus.expr import Call, Expr, Literal
from planner.calculus.functions import coalesce, is_null, negation
from planner.calculus.types import (
    BIGINT,
    BINARY,
    DOUBLE,
    INT,
    NULL,
    STRING,
    ArrayType,
    BinaryType,
    DecimalType,
    FloatType,
    IntegerType,
    NullType,
    SqlType,
    StringType,
)

_PERCENTILES = ("median", "percentile", "percentile_cont", "percentile_disc")
_COLLECTED = ("collect_list", "collect_set")
_COUNTS_OF_PAIRS = ("regr_count", "regr_avgx", "regr_avgy")
#: Names of the aggregates of this module.
GROUP_AGGREGATES = RECOMPUTED | {
    *_PERCENTILES,
    *_COUNTS_OF_PAIRS,
    *_COLLECTED,
    "percentile_approx",
}

_BITS = ("bit_and", "bit_or", "bit_xor")
#: Of bitmaps: what there is of no row, byte for byte.
BITMAPS = {"bitmap_construct_agg": b"\0", "bitmap_or_agg": b"\0", "bitmap_and_agg": b"\xff"}
#: Which do not care for copies of a row.
_WHATEVER_COPIES = ("bit_and", "bit_or", "max_by", "min_by", *BITMAPS, "collect_union")


@dataclass(frozen=True, slots=True)
class Written:
    """An aggregate's parts in the text: arguments, ORDER BY, and what must be a constant."""

    args: tuple[exp.Expression, ...]
    order: tuple[exp.Ordered, ...]
    parameter: exp.Expression | None
    distinct: bool


@dataclass(frozen=True, slots=True)
class Ordered:
    """A bound key of WITHIN GROUP (ORDER BY …)."""

    value: Expr
    descending: bool
    nulls_first: bool


def written(
    name: str, call: exp.Expression, within: exp.Expression | None, report: Report
) -> Written:
    """Take a call apart; `within` is its WITHIN GROUP (ORDER BY …), None without."""
    if isinstance(call, exp.Anonymous):
        return _by_name(name, call, report)
    first: exp.Expression | None = call.args.get("this")
    order = () if within is None else _order_of(within, report)
    if isinstance(first, exp.Order):  # of LISTAGG
        order = _order_of(first, report)
        first = first.this
    distinct = isinstance(first, exp.Distinct)
    if first is not None and isinstance(first, exp.Distinct):
        report.check(first)
        first = first.expressions[0]
    second = call.args.get("expression")
    args = tuple(a for a in (first, second) if a is not None)
    if name in ("percentile_cont", "percentile_disc", "mode"):
        return _of_ordered(name, call, Written(args, order, None, distinct), report)
    if name == "listagg":
        if not order:
            report.refuse(call, _UNORDERED)
        return Written(args, order, call.args.get("separator"), distinct)
    if order:
        report.fail(call, f"{name.upper()} takes no WITHIN GROUP")
    if len(args) < 1 + _takes_two(name):
        report.fail(call, f"{name.upper()} has too few arguments")
    return Written(args, (), _one_fraction(call.args.get("quantile"), report), distinct)


def _by_name(name: str, call: exp.Anonymous, report: Report) -> Written:
    """One that the parser leaves by its name."""
    args = list(call.expressions)
    distinct = bool(args) and isinstance(args[0], exp.Distinct)
    if distinct:
        report.check(args[0])
        args[:1] = args[0].expressions
    least, most = (2, 3) if name == "percentile_approx" else (1, 1)
    if not least <= len(args) <= most:
        shown = f"{least} or {most} arguments" if most > least else "one argument"
        report.fail(call, f"{name.upper()} takes {shown}, not {len(args)}")
    if len(args) == most > 1:
        accuracy = args.pop()
        if not (isinstance(accuracy, exp.Literal) and accuracy.name.isdigit()) or (
            not 0 < int(accuracy.name) <= INT.max
        ):
            report.fail(accuracy, f"{name.upper()} needs a literal INT of at least 1 here")
    return Written(tuple(args[:1]), (), args[1] if len(args) > 1 else None, distinct)


_UNORDERED = Refusal(
    "LISTAGG without an order",
    "depends on the order of the rows, and a table has none",
    "Write WITHIN GROUP (ORDER BY …) behind it.",
)


def _takes_two(name: str) -> bool:
    return name.startswith(("covar", "regr")) or name in ("corr", "max_by", "min_by")


def _order_of(order: exp.Expression, report: Report) -> tuple[exp.Ordered, ...]:
    report.check(order)
    for key in order.expressions:
        report.check(key)
    return tuple(order.expressions)


def _of_ordered(name: str, call: exp.Expression, parts: Written, report: Report) -> Written:
    """PERCENTILE_CONT, PERCENTILE_DISC and MODE are of what WITHIN GROUP orders by."""
    shown = name.upper()
    if name == "mode" and not parts.order and parts.args:
        if parts.distinct:
            report.fail(call, "MODE does not take DISTINCT")
        return parts
    if parts.distinct:
        report.fail(call, f"{shown} does not take DISTINCT")
    if len(parts.order) != 1:
        report.fail(
            call,
            f"{shown} needs one expression to order by",
            hint=f"Write {shown}(…) WITHIN GROUP (ORDER BY x).",
        )
    if name == "mode":
        if parts.args:
            report.fail(call, "MODE has an argument or a WITHIN GROUP, not both")
        return Written((parts.order[0].this,), parts.order, None, False)
    if not parts.args:
        report.fail(call, f"{shown} has too few arguments")
    fraction = _one_fraction(parts.args[0], report)
    return Written((parts.order[0].this,), parts.order, fraction, False)


def _one_fraction(node: exp.Expression | None, report: Report) -> exp.Expression | None:
    if isinstance(node, exp.Anonymous) and node.name.lower() == "array":
        report.refuse(
            node,
            Refusal(
                "several percentages at once",
                "are not computed together",
                "Call the function once for each.",
            ),
        )
    return node


def group_aggregate(
    name: str,
    args: Sequence[Expr],
    order: Sequence[Ordered],
    parameter: Expr | None,
    distinct: bool,
    condition: Expr | None,
    grouped: bool,
    keep: Keep,
) -> Expr:
    """The value of an aggregate of GROUP_AGGREGATES, whose arguments and order are bound.

    `condition`: of its FILTER clause. `grouped`: no group is empty.
    """
    if name in _COUNTS_OF_PAIRS:
        return _of_pairs(name, args, distinct, condition, grouped, keep)
    if name == "percentile_approx":
        return _nearly(args[0], parameter, distinct, condition, keep)
    kind: SqlType
    further: list[Expr] = []
    sort: tuple[SortKey, ...] = ()
    parameters: tuple[Literal, ...] = ()
    descending = bool(order) and order[0].descending
    if name in _PERCENTILES:
        fraction = Literal(0.5, DOUBLE) if name == "median" else _fraction(name, parameter)
        first, kind = _number(name, args[0]), DOUBLE
        name = name if name == "percentile_disc" else "percentile_cont"
        sort, parameters = (SortKey(0, descending),), (fraction,)
    elif name == "mode":
        first, kind = args[0], _known(name, args[0])
        sort = (SortKey(0, descending),)
    elif name in ("max_by", "min_by"):
        by = args[1]
        first, kind = args[0], _known(name, args[0])
        further = [cast(by, INT) if isinstance(by.type, NullType) else by]
    elif name == "listagg":
        first = args[0] if isinstance(args[0].type, BinaryType) else cast(args[0], STRING)
        kind = first.type
        parameters = (_separator(parameter, kind),)
        keys = [k for k in order if not isinstance(k.value, Literal)]
        if distinct and [k.value for k in order] != [args[0]]:
            raise TypeMismatch(
                "LISTAGG(DISTINCT …) is ordered by its argument alone",
                hint="Order by the very same expression.",
            )
        further = [k.value for k in keys]
        sort = tuple(SortKey(i + 1, k.descending, k.nulls_first) for i, k in enumerate(keys))
    elif name in _COLLECTED:
        first, kind = args[0], ArrayType(args[0].type)
        distinct |= name == "collect_set"
        name = "collect_list"
    elif name == "collect_union":
        if not isinstance(args[0].type, ArrayType):
            raise TypeMismatch(f"COLLECT_UNION needs an ARRAY, not {args[0].type}")
        first, kind = args[0], args[0].type
    elif name == "bitmap_construct_agg":
        place = cast(args[0], BIGINT)
        first, kind = Call("bitmap_place", (place,), BIGINT, place.nullable), BINARY
    elif name in BITMAPS:
        if not isinstance(args[0].type, (BinaryType, NullType)):
            raise TypeMismatch(f"{name.upper()} needs BINARY, not {args[0].type}")
        first, kind = cast(args[0], BINARY), BINARY
    elif name in _BITS:
        first, kind = _integer(name, args[0]), _integer(name, args[0]).type
    else:
        first, kind = _number(name, args[0]), DOUBLE
        further = [_number(name, a) for a in args[1:]]
    if condition is not None:
        first, further = when(condition, first), [when(condition, e) for e in further]
    copies_count = distinct and name not in _WHATEVER_COPIES
    value = keep(
        AggregateCall(name, first, kind, True, copies_count, tuple(further), sort, parameters)
    )
    if name in BITMAPS:
        return coalesce([value, Literal(BITMAPS[name] * BITMAP_BYTES, BINARY)])
    if name in ("collect_list", "collect_union"):  # of nothing it is empty
        return coalesce([value, cast(Call("array", (), ArrayType(NULL), False), kind)])
    return value


def _nearly(
    arg: Expr, parameter: Expr | None, distinct: bool, condition: Expr | None, keep: Keep
) -> Expr:
    """PERCENTILE_APPROX, as near as any: the very value at the rank, found as a DOUBLE and cast
    back, as Spark does; of an ARRAY of percentages an ARRAY."""
    name = "percentile_approx"
    several = isinstance(parameter, Call) and parameter.function == "array"
    asked: tuple[Expr | None, ...] = (parameter,)
    if isinstance(parameter, Call) and several:  # each is cast to the type that all have
        asked = tuple(
            a.args[0] if isinstance(a, Call) and a.function == "cast" else a for a in parameter.args
        )
    number = _number(name, arg)
    first = cast(number, DOUBLE)
    if condition is not None:
        first = when(condition, first)
    found = []
    for fraction in asked:
        at = (_fraction(name, fraction),)
        order = (SortKey(0),)
        call = AggregateCall("percentile_disc", first, DOUBLE, True, distinct, (), order, at)
        found.append(explicit_cast(keep(call), number.type, False))
    if not several:
        return found[0]
    kind = ArrayType(number.type)
    whole = Call("array", tuple(found), kind, False)
    return Call("case", (is_null(found[0]), Literal(None, kind), whole), kind, True)


def _of_pairs(
    name: str,
    args: Sequence[Expr],
    distinct: bool,
    condition: Expr | None,
    grouped: bool,
    keep: Keep,
) -> Expr:
    """REGR_COUNT, REGR_AVGX and REGR_AVGY of (y, x): COUNT and AVG of the pairs without NULL."""
    y, x = (_number(name, a) for a in args)
    if name == "regr_count":
        return aggregate("count", (y, x), distinct, condition, grouped, keep)
    other, value = (y, x) if name == "regr_avgx" else (x, y)
    if other.nullable:
        value = when(negation(is_null(other)), value)
    return aggregate("avg", (value,), distinct, condition, grouped, keep)


def _fraction(name: str, parameter: Expr | None) -> Literal:
    shown = name.upper()
    value = None if parameter is None else cast(parameter, DOUBLE)
    if not isinstance(value, Literal) or not isinstance(value.value, float):
        raise TypeMismatch(f"{shown} needs a literal percentage between 0 and 1")
    if not 0 <= value.value <= 1:
        raise TypeMismatch(f"the percentage of {shown} must be between 0 and 1")
    return value


def _separator(parameter: Expr | None, kind: SqlType) -> Literal:
    if parameter is None or isinstance(parameter.type, NullType):
        return Literal(b"" if isinstance(kind, BinaryType) else "", kind)
    value = cast(parameter, STRING) if isinstance(kind, StringType) else parameter
    if not isinstance(value, Literal) or value.type != kind:
        raise TypeMismatch(f"LISTAGG of {kind} needs a literal {kind} as a separator")
    return value


def _number(name: str, arg: Expr) -> Expr:
    match arg.type:
        case IntegerType() | DecimalType() | FloatType():
            return arg
        case StringType() | NullType():
            return cast(arg, DOUBLE)
        case other:
            raise TypeMismatch(f"{name.upper()} needs a number, not {other}")


def _integer(name: str, arg: Expr) -> Expr:
    match arg.type:
        case IntegerType():
            return arg
        case NullType():
            return cast(arg, INT)
        case other:
            raise TypeMismatch(f"{name.upper()} needs an integer, not {other}")


def _known(name: str, arg: Expr) -> SqlType:
    if isinstance(arg.type, NullType):
        raise TypeMismatch(f"{name.upper()} of NULL has no type", hint="Cast NULL to a type.")
    return arg.type
