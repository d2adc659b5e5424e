"""What random queries are made of: typed pieces of text, relations to select from, literals.

So that no difference can be an accident of rounding, each column carries a bound of its integers
and how exact its doubles are: sums of doubles that are not dyadic depend on the order of addition,
and such columns are only ever passed on, never compared, grouped, ordered or joined.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from planner import types as t

#: No view over the small tables has more rows than this; it bounds sums.
MAX_ROWS = 10_000
#: A view whose relations' sizes multiply to more is left: joining them may take DuckDB minutes.
MAX_WORK = 1 << 30

DYADIC, ROUNDED, INEXACT = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Value:
    """An expression or column: its text, its type, a bound of |value|, how exact a double is.

    `constant`: a column that is the same in every row; to join on it is to have a cross join.
    """

    text: str
    type: t.SqlType
    bound: int = 5
    exactness: int = DYADIC
    constant: bool = False

    @property
    def kind(self) -> str:
        match self.type:
            case t.IntegerType():
                return "int"
            case t.DecimalType():
                return "decimal"
            case t.FloatType():
                return "double"
            case t.BooleanType():
                return "boolean"
            case t.DateType():
                return "date"
            case _:
                return "string"


@dataclass(frozen=True, slots=True)
class Relation:
    """Something with a name to select from; the values' texts are column names.

    `key`: the column that is a key by itself, or empty.
    """

    name: str
    columns: tuple[Value, ...]
    key: str = ""


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
}
BOUNDS = {
    "int": ("0", "2"),
    "decimal": ("-1.05", "5"),
    "double": ("-2e0", "1e0"),
    "string": ("'a'", "'b'"),
    "date": ("DATE '1996-01-01'", "DATE '1997-01-01'"),
}
LITERAL_TYPES: dict[str, t.SqlType] = {
    "int": t.INT,
    "decimal": t.DecimalType(3, 2),
    "double": t.DOUBLE,
    "string": t.STRING,
    "date": t.DATE,
    "boolean": t.BOOLEAN,
}
PATTERNS = ("'a%'", "'%b'", "'_'", "'%!_%' ESCAPE '!'", "'a'", "''", "'%'")
OPERATORS = ("=", "<>", "<>", "<", "<=", "<=", ">", ">=", ">=", "<=>")
COLUMN = re.compile(r"\br\d+\.\w+")
AGGREGATE = re.compile(
    r"\b(count|sum|avg|min|max|any_value|count_if|stddev|stddev_pop|var_samp|var_pop|bool_and|bool_or"
    r"|median|percentile\w*|mode|max_by|min_by|listagg|bit_\w+|corr|covar_\w+|regr_\w+|skewness"
    r"|kurtosis)\("
)
KINDS = ("int", "int", "decimal", "double", "string", "date")


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
