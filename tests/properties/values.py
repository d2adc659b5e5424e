"""What random queries are made of: typed pieces of text, relations to select from, literals.

So that no difference can be an accident of rounding, each column carries a bound of its integers
and how exact its doubles are: sums of doubles that are not dyadic depend on the order of addition,
and such columns are only ever passed on, never compared, grouped, ordered or joined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from planner.calculus import types as t

#: No view over the small tables has more rows than this; it bounds sums.
MAX_ROWS = 10_000
#: A view whose relations' sizes multiply to more is left: joining them may take DuckDB long.
MAX_WORK = 1 << 25

#: The one type of decimals that are only stored and compared: their sums and products leave it.
WIDE = t.DecimalType(38, 2)
_NARROW_DIGITS = 34

DYADIC, ROUNDED, INEXACT = 0, 1, 2
#: The bound of ordinary columns, and of those that hold the extremes of their types (and infinities
#: or the ends of the calendar): with these nothing is computed that could leave the type.
SMALL, EXTREME = 5, 1 << 63
#: Integers below this are summed and averaged exactly.
_SUMMABLE = 1 << 40


@dataclass(frozen=True, slots=True)
class Value:
    """An expression or column: its text, its type, a bound of |value|, how exact a double is.

    `constant`: a column that is the same in every row; to join on it is to have a cross join.
    """

    text: str
    type: t.SqlType
    bound: int = SMALL
    exactness: int = DYADIC
    constant: bool = False

    @property
    def kind(self) -> str:
        match self.type:
            case t.IntegerType():
                return "int"
            case t.DecimalType():
                return "wide" if self.type.precision > _NARROW_DIGITS else "decimal"
            case t.FloatType():
                return "float" if self.type.bits == 32 else "double"
            case t.BooleanType():
                return "boolean"
            case t.DateType():
                return "date"
            case t.TimestampType():
                return "timestamp"
            case t.BinaryType():
                return "binary"
            case _:
                return "string"

    @property
    def summable(self) -> bool:
        """Whether sums of it are exact and fit."""
        return self.bound < _SUMMABLE


@dataclass(frozen=True, slots=True)
class Relation:
    """Something with a name to select from; the values' texts are column names, as SQL has them.

    `key`: the column that is a key by itself, if any. `view`: whether it is one.
    """

    name: str
    columns: tuple[Value, ...]
    key: Value | None = None
    view: bool = False


Scope = list[Value]

#: An item of a select list: the expression's text, and the column that it makes.
Output = tuple[str, Value]

LITERALS = {
    "int": ("0", "1", "2", "3", "-1"),
    "decimal": ("0.05", "1.00", "2.5", "-1.05"),
    "double": ("5e-1", "2.25e0", "-1e0"),
    "string": ("'a'", "'b'", "''", "'ab'", "'A'"),
    "date": ("DATE '1996-01-31'", "DATE '1996-02-29'", "DATE '1997-06-30'"),
    "boolean": ("TRUE", "FALSE"),
    "wide": (
        "CAST('1234567890123456789012345678901234.25' AS DECIMAL(38,2))",
        "CAST(0.05 AS DECIMAL(38,2))",
    ),
    "float": ("CAST(0.5 AS FLOAT)", "CAST(-1.5 AS FLOAT)"),
    "timestamp": ("TIMESTAMP '2024-02-29 23:59:59.999999'", "TIMESTAMP '1969-12-31 00:00:00'"),
    "binary": ("CAST('ab' AS BINARY)", "CAST('' AS BINARY)", "CAST('é' AS BINARY)"),
}
BOUNDS = {
    "int": ("0", "2"),
    "decimal": ("-1.05", "5"),
    "double": ("-2e0", "1e0"),
    "string": ("'a'", "'b'"),
    "date": ("DATE '1996-01-01'", "DATE '1997-01-01'"),
    "wide": ("CAST(0 AS DECIMAL(38,2))", "CAST('9e33' AS DECIMAL(38,2))"),
    "float": ("CAST(-2 AS FLOAT)", "CAST(1 AS FLOAT)"),
    "timestamp": ("TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2024-12-31 00:00:00'"),
    "binary": ("CAST('' AS BINARY)", "CAST('b' AS BINARY)"),
}
LITERAL_TYPES: dict[str, t.SqlType] = {
    "int": t.INT,
    "decimal": t.DecimalType(3, 2),
    "double": t.DOUBLE,
    "string": t.STRING,
    "date": t.DATE,
    "boolean": t.BOOLEAN,
    "wide": WIDE,
    "float": t.FLOAT,
    "timestamp": t.TIMESTAMP,
    "binary": t.BINARY,
}
PATTERNS = ("'a%'", "'%b'", "'_'", "'%!_%' ESCAPE '!'", "'a'", "''", "'%'")
OPERATORS = ("=", "<>", "<>", "<", "<=", "<=", ">", ">=", ">=", "<=>")
COLUMN = re.compile(r"\br\d+\.(?:\w+|`[^`]*`)")
_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"[^"]*"|`[^`]*`)""")
AGGREGATE = re.compile(
    r"\b(count|sum|avg|min|max|any_value|count_if|stddev|stddev_pop|var_samp|var_pop|bool_and|bool_or"
    r"|median|percentile\w*|mode|max_by|min_by|listagg|bit_\w+|corr|covar_\w+|regr_\w+|skewness"
    r"|kurtosis)\("
)
KINDS = ("int", "int", "decimal", "double", "string", "date")


def lowered(text: str) -> str:
    """The text with everything in lower case that is not quoted."""
    return "".join(p if i % 2 else p.lower() for i, p in enumerate(_QUOTED.split(text)))


def listed(outputs: Sequence[Output]) -> str:
    return ", ".join(f"{text} AS {column.text}" for text, column in outputs)


def columns(outputs: Sequence[Output]) -> tuple[Value, ...]:
    return tuple(column for _, column in outputs)


def operand(value: Value) -> str:
    return f"({value.text})" if value.text.startswith("-") else value.text


def merge(a: Value, b: Value) -> Value:
    """A value that may be either, under the name of the first."""
    return Value(
        a.text,
        wider(a.type, b.type),
        max(a.bound, b.bound),
        max(a.exactness, b.exactness),
        a.constant and b.constant,
    )


def wider(a: t.SqlType, b: t.SqlType) -> t.SqlType:
    match a, b:
        case t.IntegerType(), t.IntegerType():
            return a if a.bits >= b.bits else b
        case t.DecimalType(), t.DecimalType():
            scale = max(a.scale, b.scale)
            whole = max(a.precision - a.scale, b.precision - b.scale)
            return t.bounded_decimal(whole + scale, scale)
        case _:
            return a
