"""The functions that expressions are made of: one record each, and what all may be asked of it.

The library's (`planner.calculus.library`) are among them; those here have a form of their own in
SQL, or are made by the planner. Binder, optimizer and evaluator know a function by its name; what
they conclude from it is said here once: whether its NULLs come from its arguments, whether it
may put a row in error (`planner.calculus.failing` has for which arguments it cannot), and whether
it is dear.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from planner.calculus.library import LIBRARY, Function


class Nulls(Enum):
    """Where a function gives NULL."""

    STRICT = auto()  #: wherever an argument is NULL, without evaluating further
    OWN = auto()  #: by rules of its own
    NEVER = auto()


@dataclass(frozen=True, slots=True)
class Primitive:
    """`fails`: "fails" in `meaning` lists what puts the row in error under Spark's ANSI rules.
    `seeks`: looks for a pattern in a text, and is evaluated after what is cheap.

    (*) in `meaning`: of a TIMESTAMP, or to it, with one more argument: the literal id of the time
    zone whose clocks it is about (planner.calculus.session_zone); without it, UTC.
    """

    name: str
    meaning: str
    nulls: Nulls = Nulls.STRICT
    fails: bool = False
    seeks: bool = False


#: Operators of which there is one that gives NULL where they fail.
_TRIED = ("add", "subtract", "multiply", "divide", "remainder")

_OWN = (
    # arithmetic: both args of the same type, except decimals, where each keeps its own precision
    # and scale and `type` is Spark's result type (round half up to its scale).
    Primitive("add", "a + b; fails on overflow (integers, decimals)", fails=True),
    Primitive("subtract", "a - b; fails on overflow", fails=True),
    Primitive("multiply", "a * b; fails on overflow", fails=True),
    Primitive(
        "divide",
        "a / b, doubles or decimals; fails on division by zero and on overflow",
        fails=True,
    ),
    Primitive("integral_divide", "a DIV b -> BIGINT; fails on zero and on overflow", fails=True),
    Primitive("remainder", "a % b, sign of a; fails on zero", fails=True),
    Primitive("negate", "-a; fails on overflow", fails=True),
    Primitive("abs", "|a|; fails on overflow", fails=True),
    # comparison: args of one common type -> BOOLEAN. NaN = NaN and NaN is greatest, -0.0 = 0.0.
    Primitive("eq", "a = b"),
    Primitive("ne", "a <> b"),
    Primitive("lt", "a < b"),
    Primitive("le", "a <= b"),
    Primitive("gt", "a > b"),
    Primitive("ge", "a >= b"),
    Primitive("eq_null_safe", "a <=> b, never NULL", Nulls.NEVER),
    Primitive(
        "in",
        "a IN (literals b...): args are (a, b1, b2, ...) of one type, SQL's NULL rules",
        Nulls.OWN,
    ),
    # logic: three-valued; the right side is evaluated (may fail) only where the left leaves it open
    Primitive("and", "a AND b (exactly two args)", Nulls.OWN),
    Primitive("or", "a OR b (exactly two args)", Nulls.OWN),
    Primitive("not", "NOT a"),
    Primitive("is_null", "a IS NULL, never NULL; any type", Nulls.NEVER),
    # conditionals: only the branch taken may fail
    Primitive("case", "(when1, then1, when2, then2, ..., else); all branches of `type`", Nulls.OWN),
    Primitive("coalesce", "first arg that is not NULL; args of `type`", Nulls.OWN),
    # casts
    Primitive(
        "cast", "ANSI cast of the first arg to `type` (*); fails where Spark's would", fails=True
    ),
    Primitive("try_cast", "cast that gives NULL instead of failing"),
    # strings (code points, positions from 1)
    Primitive(
        "like",
        "(a, pattern, escape literal) -> BOOLEAN; fails where the pattern has a stray escape",
        fails=True,
        seeks=True,
    ),
    Primitive("rlike", "(a, regex literal) -> BOOLEAN: found anywhere", seeks=True),
    Primitive("substring", "(a, start, length): Spark's substring, also for start <= 0"),
    Primitive("upper", "upper case"),
    Primitive("lower", "lower case"),
    Primitive("trim", "(a[, characters]): strip those characters, or spaces, on both sides"),
    Primitive("ltrim", "(a[, characters]): strip leading ones"),
    Primitive("rtrim", "(a[, characters]): strip trailing ones"),
    Primitive("length", "number of characters -> INT"),
    Primitive("concat", "all args joined; NULL if any is NULL"),
    Primitive("replace", "(a, search, replacement)", seeks=True),
    Primitive("split_part", "(a, delimiter, part INT); fails on part 0", fails=True, seeks=True),
    Primitive("starts_with", "(a, prefix) -> BOOLEAN", seeks=True),
    Primitive("ends_with", "(a, suffix) -> BOOLEAN", seeks=True),
    Primitive("contains", "(a, infix) -> BOOLEAN", seeks=True),
    Primitive(
        "lpad", "(a, length INT, padding): filled on the left, or cut, to the length", fails=True
    ),
    Primitive(
        "user",
        "(name, id, arguments …): a function of the user, see operators.scalar.user",
        Nulls.OWN,
        fails=True,
    ),
    Primitive(
        "rpad", "(a, length INT, padding): filled on the right, or cut, to the length", fails=True
    ),
    Primitive("repeat", "(a, times INT)", fails=True),
    Primitive("reverse", "characters in reverse"),
    Primitive("initcap", "the first letter of each word in upper case, all others in lower"),
    Primitive(
        "locate", "(a, part, start INT) -> INT: first position of the part from the start, or 0"
    ),
    Primitive(
        "translate", "(a, characters, replacements): character by character; dropped where none is"
    ),
    Primitive("ascii", "code point of the first character -> INT; 0 if there is none"),
    Primitive("chr", "character of a BIGINT modulo 256; empty if it is negative"),
    Primitive(
        "concat_ws",
        "(separator, parts...): the parts that are not NULL; NULL if the separator is",
        Nulls.OWN,
    ),
    Primitive(
        "substring_index",
        "(a, delimiter, count INT): before that delimiter, counted from the end if "
        "negative: after it",
    ),
    # numbers
    Primitive("round", "(a, digits INT literal), half up", fails=True),
    Primitive("floor", "decimal or double -> `type`", fails=True),
    Primitive("ceil", "decimal or double -> `type`", fails=True),
    Primitive("sqrt", "double; NaN for negatives"),
    Primitive("power", "doubles"),
    Primitive("exp", "double"),
    Primitive("expm1", "double: exp(a) - 1"),
    Primitive("ln", "double; NULL where a <= 0"),
    Primitive("log10", "double; NULL where a <= 0"),
    Primitive("log2", "double; NULL where a <= 0"),
    Primitive("log1p", "double: ln(1 + a); NULL where a <= -1"),
    Primitive("log", "(base, a), doubles; NULL where one of them is <= 0"),
    Primitive("cbrt", "double: cube root"),
    Primitive("rint", "double: the nearest whole number, the even one of two"),
    Primitive("greatest", "greatest arg that is not NULL; args of `type`", Nulls.OWN),
    Primitive("least", "least arg that is not NULL; args of `type`", Nulls.OWN),
    # dates: a DATE or TIMESTAMP_NTZ -> INT
    Primitive("year", "calendar year"),
    Primitive("quarter", "1 to 4"),
    Primitive("month", "1 to 12"),
    Primitive("day", "1 to 31"),
    Primitive("day_of_week", "1 = Sunday to 7 = Saturday"),
    Primitive("day_of_year", "1 to 366"),
    Primitive("week", "ISO week"),
    Primitive("hour", "of a TIMESTAMP (*) -> INT"),
    Primitive("minute", "of a TIMESTAMP (*) -> INT"),
    Primitive("second", "of a TIMESTAMP (*) -> INT"),
    Primitive("second_fraction", "of a TIMESTAMP (*) -> DECIMAL(8,6)"),
    Primitive("date_add", "(DATE, INT or BIGINT days) -> DATE, wrapping around in 32 bits"),
    Primitive("last_day", "of a DATE's month -> DATE, wrapping around in 32 bits"),
    Primitive(
        "next_day", "(DATE, weekday INT literal, 1 = Sunday) -> DATE: the first such day after it"
    ),
    Primitive(
        "units_between",
        "(start TIMESTAMP_NTZ, end TIMESTAMP_NTZ, unit literal) -> BIGINT whole units, rounded "
        "towards zero",
    ),
    Primitive("date_diff", "(end DATE, start DATE) -> INT days, wrapping around in 32 bits"),
    Primitive(
        "add_months",
        "(DATE or TIMESTAMP, INT months) (*) -> same type, clipped to the month's end",
        fails=True,
    ),
    Primitive(
        "add_microseconds",
        "(TIMESTAMP, INTERVAL or BIGINT of microseconds) (*) -> TIMESTAMP; whole "
        "days are added to what the zone's clocks show",
        fails=True,
    ),
    Primitive("date_trunc", "(unit literal, TIMESTAMP or DATE) (*) -> same type", fails=True),
    Primitive(
        "interval_of",
        "(INT or BIGINT months, or BIGINT microseconds) -> INTERVAL; fails beyond it",
        fails=True,
    ),
    Primitive("units_of", "(INTERVAL) -> INT months or BIGINT microseconds"),
    Primitive(
        "clock_of", "(DATE or TIMESTAMP_NTZ) -> BIGINT: days or microseconds since 1970-01-01"
    ),
    Primitive(
        "rounded_quotient",
        "(a BIGINT, b BIGINT) -> BIGINT: a / b half up; fails on zero",
        fails=True,
    ),
    Primitive(
        "period_edge",
        "(TIMESTAMP ts, BIGINT literals slide and offset, BIGINT back): "
        "ts - (ts - offset) mod slide - back, in microseconds",
        fails=True,
    ),
    Primitive(
        "make_date",
        "(year INT, month INT, day INT) -> DATE; fails where there is no such day",
        fails=True,
    ),
    Primitive("date_format", "(DATE or TIMESTAMP, literal of datetime_patterns) (*) -> STRING"),
    Primitive(
        "parse_timestamp",
        "(STRING, literal of datetime_patterns) -> TIMESTAMP_NTZ; fails on other text",
        fails=True,
    ),
    # like those without "try_", and NULL where they would fail
    *(Primitive(f"try_{f}", f"{f}, and NULL instead of failing") for f in _TRIED),
    Primitive("try_parse_timestamp", "parse_timestamp, and NULL instead of failing"),
    Primitive(
        "raise_error",
        "(STRING): the row is in error, with that message, which is not NULL",
        Nulls.OWN,
        fails=True,
    ),
    # integers of one type, as Java has them
    Primitive("bit_and", "a & b"),
    Primitive("bit_or", "a | b"),
    Primitive("bit_xor", "a ^ b"),
    Primitive("bit_not", "~a"),
    Primitive("shift_left", "a << (b INT modulo the bits of a, an INT or BIGINT)"),
    Primitive("shift_right", "a >> b, as shift_left"),
    Primitive("shift_right_unsigned", "a >>> b, as shift_left"),
    Primitive("bit_count", "bits that are set in an integer as a BIGINT, or in a BOOLEAN -> INT"),
    Primitive(
        "bit_get", "(a, position INT) -> TINYINT: that bit; fails where there is none", fails=True
    ),
    Primitive("bround", "(a, digits INT literal), half to even", fails=True),
    Primitive("ceil_to", "(DECIMAL, digits INT literal), up", fails=True),
    Primitive("floor_to", "(DECIMAL, digits INT literal), down", fails=True),
    Primitive(
        "elt",
        "(n INT, a, b...): the n-th of the others; fails where there is none",
        Nulls.OWN,
        fails=True,
    ),
    Primitive("hash", "Murmur3 of all args -> INT, never NULL", Nulls.NEVER),
    Primitive("xxhash64", "xxHash of all args -> BIGINT, never NULL", Nulls.NEVER),
    # arrays, maps and structs, beside those of the library
    Primitive("array", "elements of one type", Nulls.OWN),
    Primitive("struct", "a value for each field of `type`", Nulls.OWN),
    Primitive(
        "map",
        "(key, value, ...): fails on a key that is NULL or there twice",
        Nulls.OWN,
        fails=True,
    ),
    Primitive("field", "(STRUCT, position INT literal): a field"),
    Primitive("element_fields", "(ARRAY of STRUCTs, position INT literal): that field of each"),
    Primitive("concat_arrays", "all elements; NULL if any array is"),
    Primitive(
        "map_concat",
        "all entries; NULL if any map is; fails on a key that is there twice",
        fails=True,
    ),
    Primitive(
        "arrays_zip",
        "(ARRAY, ...) -> ARRAY of STRUCTs, as long as the longest; NULL if any array is",
    ),
    Primitive(
        "sequence",
        "(from, to[, step]), integers of one type -> ARRAY; fails where it would not end",
        fails=True,
    ),
    # lambdas: `body`s are over the row's columns and the variables from `base`, an INT literal, on
    Primitive(
        "transform",
        "(ARRAY, body of element and position, base) -> ARRAY of the body's values",
        Nulls.OWN,
    ),
    Primitive(
        "filter",
        "(ARRAY, BOOLEAN body of element and position, base): the elements where it is TRUE",
        Nulls.OWN,
    ),
    Primitive(
        "exists",
        "(ARRAY, BOOLEAN body of element, base): whether it is TRUE of one, as OR has it",
        Nulls.OWN,
    ),
    Primitive(
        "forall",
        "(ARRAY, BOOLEAN body of element, base): whether it is TRUE of all, as AND has it",
        Nulls.OWN,
    ),
    Primitive(
        "aggregate",
        "(ARRAY, start, body of value so far and element, body of the last value, base)",
        Nulls.OWN,
    ),
    Primitive(
        "zip_with",
        "(ARRAY, ARRAY, body of two elements, base) -> ARRAY, the shorter filled with NULL",
        Nulls.OWN,
    ),
    Primitive(
        "array_sort",
        "(ARRAY[, INT body of two elements, base]): sorted, NULLs last; by a body below, "
        "of or above 0, stably; fails where it is NULL or contradicts itself",
        Nulls.OWN,
        fails=True,
    ),
    Primitive(
        "map_filter",
        "(MAP, BOOLEAN body of key and value, base): the entries where it is TRUE",
        Nulls.OWN,
    ),
    Primitive(
        "transform_keys",
        "(MAP, body of key and value, base): keys replaced; fails as map",
        Nulls.OWN,
        fails=True,
    ),
    Primitive("transform_values", "(MAP, body of key and value, base): values replaced", Nulls.OWN),
    Primitive(
        "map_zip_with",
        "(MAP, MAP, body of key and two values, base): of the keys of either",
        Nulls.OWN,
    ),
    # internal, made by the planner only
    Primitive("magnitude", "(integer) (*) -> BIGINT: the bits of what is above 0, 0 of others"),
    Primitive(
        "exact_sum_to_double",
        "BINARY state of an exact floating-point sum -> DOUBLE, rounded once",
        fails=True,
    ),
    Primitive(
        "checked_sum",
        "(sum DECIMAL, its top word BIGINT if kept) -> `type`; fails beyond its range",
        Nulls.OWN,
        fails=True,
    ),
    Primitive(
        "single_value",
        "(count BIGINT, value): value; fails where count > 1 (a scalar subquery)",
        Nulls.OWN,
        fails=True,
    ),
    Primitive(
        "variance",
        "(count BIGINT, sum, sum of squares, divisor's reduction INT literal 0 or 1, top "
        "word of the sum of squares BIGINT if kept) -> DOUBLE, rounded once; sums are decimals, or "
        "BINARY states of exact sums; NULL where the divisor is not positive",
        Nulls.OWN,
    ),
)


def _of_library(function: Function) -> Primitive:
    nulls = Nulls.OWN if function.shows_null else Nulls.STRICT
    return Primitive(function.name, function.meaning, nulls, fails=function.fails)


#: By name.
FUNCTIONS: dict[str, Primitive] = {
    **{f.name: f for f in _OWN},
    **{f.name: _of_library(f) for f in LIBRARY.values()},
}
#: Those that are NULL wherever an argument is.
STRICT = frozenset(f.name for f in FUNCTIONS.values() if f.nulls is Nulls.STRICT)
