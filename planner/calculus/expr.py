"""Scalar expressions: bound, typed, immutable, compared by structure.

Columns are positions in the input's schema, never names. There are three nodes: `Column`,
`Literal`, and `Call` of a function from the closed list `FUNCTIONS`, whose meaning is given there.
Two more occur inside of others: `Outer` in subqueries, `Parameter` in the bodies of lambdas, which
are arguments of the calls that run them.
Implicit casts are already explicit here: unless `FUNCTIONS` says otherwise the arguments of a
function have one common type, and `Call.type` is the result type by Spark's rules.

Invariant: `nullable` False is a proof that the value is never NULL; True claims nothing.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from dataclasses import field
from operator import is_
from typing import TypeAlias

from planner.calculus.library import LIBRARY
from planner.calculus.node import node
from planner.calculus.types import BOOLEAN, DecimalType, FloatType, IntegerType, SqlType

Scalar = bool | int | float | str | bytes | decimal.Decimal | datetime.date | None


@node
class Column:
    """The input's column at `index`. `name` is for display and takes no part in equality; nor do
    `chars`, which the binder alone reads: of a CHAR column the characters that each value has."""

    index: int
    type: SqlType
    nullable: bool
    name: str
    chars: int | None = None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Column)
            and self.index == other.index
            and self.nullable == other.nullable
            and self.type == other.type
        )

    def __hash__(self) -> int:
        return hash(self.index)


@node
class Literal:
    """A constant.

    `value` by type: bool; int for integers; decimal.Decimal for decimals (exactly `type.scale`
    digits after the point); float; str; bytes; datetime.date; for timestamps an int of
    microseconds since 1970-01-01 (UTC for TIMESTAMP); for intervals an int of months or of
    microseconds; None for NULL of any type.
    """

    value: Scalar
    type: SqlType

    @property
    def nullable(self) -> bool:
        return self.value is None

    def __eq__(self, other: object) -> bool:
        # True == 1 == 1.0 and -0.0 == 0.0 in Python, but not here.
        return (
            isinstance(other, Literal)
            and self.type == other.type
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash(repr(self.value))


@node
class Call:
    """A function of `FUNCTIONS` applied to `args`."""

    function: str
    args: tuple[Expr, ...]
    type: SqlType = field(hash=False)
    nullable: bool = field(hash=False)
    #: Of `columns_used`, once somebody has asked.
    _columns: frozenset[int] | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ValueError(f"no such function: {self.function!r}")


@node
class Outer:
    """A column of an enclosing query: of the input of the `depth`-th Apply around the subquery (1
    is the nearest). Occurs inside the subquery of an algebra.Apply only; decorrelation removes it.
    `name` is for display and takes no part in equality."""

    depth: int
    index: int
    type: SqlType
    nullable: bool
    name: str = field(compare=False)


@node
class Parameter:
    """A variable of a lambda, in whose body alone it occurs. The call that runs the body has the
    literal `base` as its last argument, and its variables are numbered from there on, so that those
    of lambdas in each other differ, and equal calls are equal."""

    number: int
    type: SqlType
    nullable: bool


Expr: TypeAlias = Column | Literal | Call | Outer | Parameter

#: Operators of which there is one that gives NULL where they fail.
_TRIED = ("add", "subtract", "multiply", "divide", "remainder")

#: name -> meaning. "fails" lists what puts the row in error under Spark's ANSI rules.
#: (*): of a TIMESTAMP, or to it, with one more argument: the literal id of the time zone whose
#: clocks it is about (planner.calculus.session_zone); without it, UTC.
FUNCTIONS: dict[str, str] = {
    # arithmetic: both args of the same type, except decimals, where each keeps its own precision
    # and scale and `type` is Spark's result type (round half up to its scale).
    "add": "a + b; fails on overflow (integers, decimals)",
    "subtract": "a - b; fails on overflow",
    "multiply": "a * b; fails on overflow",
    "divide": "a / b, doubles or decimals; fails on division by zero and on overflow",
    "integral_divide": "a DIV b -> BIGINT; fails on zero and on overflow",
    "remainder": "a % b, sign of a; fails on zero",
    "negate": "-a; fails on overflow",
    "abs": "|a|; fails on overflow",
    # comparison: args of one common type -> BOOLEAN. NaN = NaN and NaN is greatest, -0.0 = 0.0.
    "eq": "a = b",
    "ne": "a <> b",
    "lt": "a < b",
    "le": "a <= b",
    "gt": "a > b",
    "ge": "a >= b",
    "eq_null_safe": "a <=> b, never NULL",
    "in": "a IN (literals b...): args are (a, b1, b2, ...) of one type, SQL's NULL rules",
    # logic: three-valued; the right side is evaluated (may fail) only where the left leaves it open
    "and": "a AND b (exactly two args)",
    "or": "a OR b (exactly two args)",
    "not": "NOT a",
    "is_null": "a IS NULL, never NULL; any type",
    # conditionals: only the branch taken may fail
    "case": "(when1, then1, when2, then2, ..., else); all branches of `type`",
    "coalesce": "first arg that is not NULL; args of `type`",
    # casts
    "cast": "ANSI cast of the first arg to `type` (*); fails where Spark's would",
    "try_cast": "cast that gives NULL instead of failing",
    # strings (code points, positions from 1)
    "like": "(a, pattern, escape literal) -> BOOLEAN; fails where the pattern has a stray escape",
    "rlike": "(a, regex literal) -> BOOLEAN: found anywhere",
    "substring": "(a, start, length): Spark's substring, also for start <= 0",
    "upper": "upper case",
    "lower": "lower case",
    "trim": "(a[, characters]): strip those characters, or spaces, on both sides",
    "ltrim": "(a[, characters]): strip leading ones",
    "rtrim": "(a[, characters]): strip trailing ones",
    "length": "number of characters -> INT",
    "concat": "all args joined; NULL if any is NULL",
    "replace": "(a, search, replacement)",
    "split_part": "(a, delimiter, part INT); fails on part 0",
    "starts_with": "(a, prefix) -> BOOLEAN",
    "ends_with": "(a, suffix) -> BOOLEAN",
    "contains": "(a, infix) -> BOOLEAN",
    "lpad": "(a, length INT, padding): filled on the left, or cut, to the length",
    "user": "(name, id, arguments …): a function of the user, see operators.scalar.user",
    "rpad": "(a, length INT, padding): filled on the right, or cut, to the length",
    "repeat": "(a, times INT)",
    "reverse": "characters in reverse",
    "initcap": "the first letter of each word in upper case, all others in lower",
    "locate": "(a, part, start INT) -> INT: first position of the part from the start, or 0",
    "translate": "(a, characters, replacements): character by character; dropped where none is",
    "ascii": "code point of the first character -> INT; 0 if there is none",
    "chr": "character of a BIGINT modulo 256; empty if it is negative",
    "concat_ws": "(separator, parts...): the parts that are not NULL; NULL if the separator is",
    "substring_index": "(a, delimiter, count INT): before that delimiter, counted from the end if "
    "negative: after it",
    # numbers
    "round": "(a, digits INT literal), half up",
    "floor": "decimal or double -> `type`",
    "ceil": "decimal or double -> `type`",
    "sqrt": "double; NaN for negatives",
    "power": "doubles",
    "exp": "double",
    "expm1": "double: exp(a) - 1",
    "ln": "double; NULL where a <= 0",
    "log10": "double; NULL where a <= 0",
    "log2": "double; NULL where a <= 0",
    "log1p": "double: ln(1 + a); NULL where a <= -1",
    "log": "(base, a), doubles; NULL where one of them is <= 0",
    "cbrt": "double: cube root",
    "rint": "double: the nearest whole number, the even one of two",
    "greatest": "greatest arg that is not NULL; args of `type`",
    "least": "least arg that is not NULL; args of `type`",
    # dates: a DATE or TIMESTAMP_NTZ -> INT
    "year": "calendar year",
    "quarter": "1 to 4",
    "month": "1 to 12",
    "day": "1 to 31",
    "day_of_week": "1 = Sunday to 7 = Saturday",
    "day_of_year": "1 to 366",
    "week": "ISO week",
    "hour": "of a TIMESTAMP (*) -> INT",
    "minute": "of a TIMESTAMP (*) -> INT",
    "second": "of a TIMESTAMP (*) -> INT",
    "second_fraction": "of a TIMESTAMP (*) -> DECIMAL(8,6)",
    "date_add": "(DATE, INT or BIGINT days) -> DATE, wrapping around in 32 bits",
    "last_day": "of a DATE's month -> DATE, wrapping around in 32 bits",
    "next_day": "(DATE, weekday INT literal, 1 = Sunday) -> DATE: the first such day after it",
    "date_diff": "(end DATE, start DATE) -> INT days, wrapping around in 32 bits",
    "add_months": "(DATE or TIMESTAMP, INT months) (*) -> same type, clipped to the month's end",
    "add_microseconds": "(TIMESTAMP, INTERVAL or BIGINT of microseconds) (*) -> TIMESTAMP; whole "
    "days are added to what the zone's clocks show",
    "date_trunc": "(unit literal, TIMESTAMP or DATE) (*) -> same type",
    "interval_of": "(INT or BIGINT months, or BIGINT microseconds) -> INTERVAL; fails beyond it",
    "units_of": "(INTERVAL) -> INT months or BIGINT microseconds",
    "clock_of": "(DATE or TIMESTAMP_NTZ) -> BIGINT: days or microseconds since 1970-01-01",
    "rounded_quotient": "(a BIGINT, b BIGINT) -> BIGINT: a / b half up; fails on zero",
    "period_edge": "(TIMESTAMP ts, BIGINT literals slide and offset, BIGINT back): "
    "ts - (ts - offset) mod slide - back, in microseconds",
    "make_date": "(year INT, month INT, day INT) -> DATE; fails where there is no such day",
    "date_format": "(DATE or TIMESTAMP, literal of datetime_patterns) (*) -> STRING",
    "parse_date": "(STRING, literal of datetime_patterns) -> DATE; fails on other text",
    # like those without "try_", and NULL where they would fail
    **{f"try_{f}": f"{f}, and NULL where that fails" for f in _TRIED},
    # integers of one type, as Java has them
    "bit_and": "a & b",
    "bit_or": "a | b",
    "bit_xor": "a ^ b",
    "bit_not": "~a",
    "shift_left": "a << (b INT modulo the bits of a, an INT or BIGINT)",
    "shift_right": "a >> b, as shift_left",
    "shift_right_unsigned": "a >>> b, as shift_left",
    "bit_count": "bits that are set in an integer as a BIGINT, or in a BOOLEAN -> INT",
    "bit_get": "(a, position INT) -> TINYINT: that bit; fails where there is none",
    "bround": "(a, digits INT literal), half to even",
    "elt": "(n INT, a, b...): the n-th of the others; fails where there is none",
    **{f.name: f.meaning for f in LIBRARY.values()},
    "hash": "Murmur3 of all args -> INT, never NULL",
    "xxhash64": "xxHash of all args -> BIGINT, never NULL",
    # arrays, maps and structs, beside those of the library
    "array": "elements of one type",
    "struct": "a value for each field of `type`",
    "map": "(key, value, ...): fails on a key that is NULL or there twice",
    "field": "(STRUCT, position INT literal): a field",
    "element_fields": "(ARRAY of STRUCTs, position INT literal): that field of each",
    "concat_arrays": "all elements; NULL if any array is",
    "map_concat": "all entries; NULL if any map is; fails on a key that is there twice",
    "arrays_zip": "(ARRAY, ...) -> ARRAY of STRUCTs, as long as the longest; NULL if any array is",
    "sequence": "(from, to[, step]), integers of one type -> ARRAY; fails where it would not end",
    # lambdas: `body`s are over the row's columns and the variables from `base`, an INT literal, on
    "transform": "(ARRAY, body of element and position, base) -> ARRAY of the body's values",
    "filter": "(ARRAY, BOOLEAN body of element and position, base): the elements where it is TRUE",
    "exists": "(ARRAY, BOOLEAN body of element, base): whether it is TRUE of one, as OR has it",
    "forall": "(ARRAY, BOOLEAN body of element, base): whether it is TRUE of all, as AND has it",
    "aggregate": "(ARRAY, start, body of value so far and element, body of the last value, base)",
    "zip_with": "(ARRAY, ARRAY, body of two elements, base) -> ARRAY, the shorter filled with NULL",
    "array_sort": "(ARRAY[, INT body of two elements, base]): sorted, NULLs last; by a body below, "
    "of or above 0, stably; fails where it is NULL or contradicts itself",
    "map_filter": "(MAP, BOOLEAN body of key and value, base): the entries where it is TRUE",
    "transform_keys": "(MAP, body of key and value, base): keys replaced; fails as map",
    "transform_values": "(MAP, body of key and value, base): values replaced",
    "map_zip_with": "(MAP, MAP, body of key and two values, base): of the keys of either",
    # internal, made by the planner only
    "magnitude": "(integer) (*) -> BIGINT: the bits of what is above 0, 0 of others",
    "exact_sum_to_double": "BINARY state of an exact floating-point sum -> DOUBLE, rounded once",
    "checked_sum": "(sum DECIMAL, its top word BIGINT if kept) -> `type`; fails beyond its range",
    "single_value": "(count BIGINT, value): value; fails where count > 1 (a scalar subquery)",
    "variance": "(count BIGINT, sum, sum of squares, divisor's reduction INT literal 0 or 1, top "
    "word of the sum of squares BIGINT if kept) -> DOUBLE, rounded once; sums are decimals, or "
    "BINARY states of exact sums; NULL where the divisor is not positive",
}


def column(index: int, type: SqlType, nullable: bool = True, name: str = "") -> Column:
    return Column(index, type, nullable, name or f"#{index}")


def children(expr: Expr) -> tuple[Expr, ...]:
    return expr.args if isinstance(expr, Call) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything under it, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def columns_used(*exprs: Expr) -> frozenset[int]:
    """Positions of the input columns that the expressions read."""
    if len(exprs) == 1:
        return _columns_of(exprs[0])
    return _NO_COLUMNS.union(*map(_columns_of, exprs))


_NO_COLUMNS: frozenset[int] = frozenset()


def _columns_of(expr: Expr) -> frozenset[int]:
    if isinstance(expr, Column):
        return frozenset((expr.index,))
    if not isinstance(expr, Call):
        return _NO_COLUMNS
    known = expr._columns
    if known is None:
        known = _NO_COLUMNS.union(*map(_columns_of, expr.args))
        object.__setattr__(expr, "_columns", known)
    return known


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up; returns the same object where `change` changed nothing."""
    if isinstance(expr, Call):
        args = tuple([transform(a, change) for a in expr.args])
        if not all(map(is_, args, expr.args)):
            expr = Call(expr.function, args, expr.type, expr.nullable)
    return change(expr)


def remap(expr: Expr, positions: dict[int, int]) -> Expr:
    """The same expression over another schema: column i becomes column positions[i]."""
    if isinstance(expr, Column):
        place = positions[expr.index]
        if place != expr.index:
            return Column(place, expr.type, expr.nullable, expr.name)
    elif isinstance(expr, Call):
        if any(positions[c] != c for c in _columns_of(expr)):
            args = tuple(remap(a, positions) for a in expr.args)
            return Call(expr.function, args, expr.type, expr.nullable)
    return expr


def substitute(expr: Expr, replacements: tuple[Expr, ...]) -> Expr:
    """Column i replaced by replacements[i] (used to merge projections)."""
    return transform(expr, lambda e: replacements[e.index] if isinstance(e, Column) else e)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Operands of nested ANDs, left to right."""
    if isinstance(expr, Call) and expr.function == "and":
        return tuple(c for arg in expr.args for c in conjuncts(arg))
    return (expr,)


def conjunction(exprs: tuple[Expr, ...]) -> Expr:
    """The AND of one or more predicates, left to right."""
    return _chain("and", exprs)


def disjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Operands of nested ORs, left to right."""
    if isinstance(expr, Call) and expr.function == "or":
        return tuple(d for arg in expr.args for d in disjuncts(arg))
    return (expr,)


def disjunction(exprs: tuple[Expr, ...]) -> Expr:
    """The OR of one or more predicates, left to right."""
    return _chain("or", exprs)


#: Operands up to which a chain nests to the left. Longer ones are balanced, so that their depth
#: stays far below what recursion over expressions can take.
_LEFT_OPERANDS = 16


def _chain(function: str, exprs: tuple[Expr, ...]) -> Expr:
    if len(exprs) > _LEFT_OPERANDS:
        middle = len(exprs) // 2
        exprs = (_chain(function, exprs[:middle]), _chain(function, exprs[middle:]))
    result = exprs[0]
    for right in exprs[1:]:
        result = Call(function, (result, right), BOOLEAN, result.nullable or right.nullable)
    return result


def size(expr: Expr) -> int:
    """Number of nodes."""
    return sum(1 for _ in walk(expr))


#: Nodes up to which substitution may always go, and by which it may grow beyond that.
_SMALL, _GROWTH = 256, 24


def substitution_grows(exprs: tuple[Expr, ...], replacements: tuple[Expr, ...]) -> bool:
    """Whether `substitute` would copy so much that the work should stay shared instead.

    The bound is absolute: a tower of projections that each use a column twice would grow
    exponentially under any factor.
    """
    sizes = [size(r) for r in replacements]
    before = sum(map(size, exprs)) + sum(sizes)
    after = sum(
        sizes[e.index] if isinstance(e, Column) else 1 for expr in exprs for e in walk(expr)
    )
    return after > max(_SMALL, before + _GROWTH)


_MAY_FAIL = frozenset(
    "add subtract multiply divide integral_divide remainder negate abs round floor ceil "
    "cast split_part date_trunc period_edge add_months add_microseconds exact_sum_to_double "
    "checked_sum single_value make_date parse_date like repeat lpad rpad bit_get elt bround map "
    "map_concat sequence array_sort transform_keys user".split()
) | {f.name for f in LIBRARY.values() if f.fails}
#: Characters of the texts that lpad and rpad make, at most, and repeat of more than a few copies.
LONGEST_TEXT = 1 << 24
FEW_COPIES = 1 << 8


def may_fail(expr: Expr) -> bool:
    """Whether evaluating the expression can put a row in error.

    False is a proof. It allows evaluating the expression on rows that the query might never have
    reached (a filter below a join, a shared bitmap).
    """
    return any(isinstance(e, Call) and e.function in _MAY_FAIL and _fails(e) for e in walk(expr))


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
    if call.function in ("negate", "abs"):
        return False
    if call.function == "multiply":
        exact = (sum(k.precision for k in kinds) + 1, sum(k.scale for k in kinds))
    else:
        scale = max(k.scale for k in kinds)
        exact = (max(integral) + scale + 1, scale)
    return (target.precision, target.scale) != exact and exact[0] - exact[1] > (
        target.precision - target.scale
    )
