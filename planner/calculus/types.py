"""SQL types, as Spark SQL defines them, and the rules that combine them.

Every expression and column of a plan carries one of these types. They are small frozen values, so
plans that hold them compare and hash structurally. Physical layout is no concern of this module:
`operators.flight.column` says how each type lies in memory.

Source: Spark SQL, "Data Types" and "ANSI Compliance" (decimal precision, type precedence list).
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_PRECISION = 38
MIN_ADJUSTED_SCALE = 6


#: Of every DECIMAL, for messages.
DECIMAL_SIZES = "The precision is 1 to 38, and the scale 0 to the precision."


@dataclass(frozen=True, slots=True)
class SqlType:
    """Base of all SQL types. `str(t)` is the name Spark SQL prints, in upper case."""

    def __str__(self) -> str:
        return type(self).__name__.removesuffix("Type").upper()


@dataclass(frozen=True, slots=True)
class NullType(SqlType):
    """The type of an untyped NULL literal; the binder casts it away wherever a type is known."""

    def __str__(self) -> str:
        return "VOID"


@dataclass(frozen=True, slots=True)
class BooleanType(SqlType):
    pass


@dataclass(frozen=True, slots=True)
class IntegerType(SqlType):
    """A signed integer of `bits` 8, 16, 32 or 64."""

    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (8, 16, 32, 64):
            raise ValueError(f"an integer has 8, 16, 32 or 64 bits, not {self.bits}")

    def __str__(self) -> str:
        return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[self.bits]

    @property
    def min(self) -> int:
        return -(1 << (self.bits - 1))

    @property
    def max(self) -> int:
        return (1 << (self.bits - 1)) - 1


@dataclass(frozen=True, slots=True)
class FloatType(SqlType):
    """IEEE 754 of `bits` 32 (FLOAT) or 64 (DOUBLE)."""

    bits: int

    def __str__(self) -> str:
        return "FLOAT" if self.bits == 32 else "DOUBLE"


@dataclass(frozen=True, slots=True)
class DecimalType(SqlType):
    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not (0 < self.precision <= MAX_PRECISION and 0 <= self.scale <= self.precision):
            raise ValueError(f"no such type: DECIMAL({self.precision},{self.scale})")

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"

    @property
    def narrow(self) -> bool:
        """Whether every value, unscaled, fits a signed 64-bit integer."""
        return self.precision <= 18


@dataclass(frozen=True, slots=True)
class StringType(SqlType):
    pass


@dataclass(frozen=True, slots=True)
class BinaryType(SqlType):
    pass


@dataclass(frozen=True, slots=True)
class DateType(SqlType):
    pass


@dataclass(frozen=True, slots=True)
class TimestampType(SqlType):
    """TIMESTAMP (an instant, `local` False) or TIMESTAMP_NTZ (`local` True), in microseconds."""

    local: bool = False

    def __str__(self) -> str:
        return "TIMESTAMP_NTZ" if self.local else "TIMESTAMP"


#: Of intervals, the longest first.
MONTH_UNITS = ("YEAR", "MONTH")
TIME_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


@dataclass(frozen=True, slots=True)
class IntervalType(SqlType):
    """An interval of the units `first` to `last`, both of YEAR and MONTH or of DAY to SECOND.

    Values are numbers of months, or of microseconds; the units tell how they are shown.
    """

    first: str
    last: str

    def __post_init__(self) -> None:
        if not (self.units and self.first in self.units and self.last in self.units):
            raise ValueError(f"no such type: {self}")

    def __str__(self) -> str:
        return f"INTERVAL {self.first}" + (f" TO {self.last}" if self.last != self.first else "")

    @property
    def unit(self) -> str:
        """What its values count: "month" or "microsecond"."""
        return "month" if self.first in MONTH_UNITS else "microsecond"

    @property
    def units(self) -> tuple[str, ...]:
        """The units that intervals of its kind may have, the longest first."""
        return MONTH_UNITS if self.unit == "month" else TIME_UNITS

    @property
    def number(self) -> IntegerType:
        """The type of the number that a value is."""
        return INT if self.unit == "month" else BIGINT

    def widened(self, other: IntervalType) -> IntervalType | None:
        """The type of both, or None: months have no fixed length."""
        if self.unit != other.unit:
            return None
        at = self.units.index
        first, last = min(self.first, other.first, key=at), max(self.last, other.last, key=at)
        return IntervalType(first, last)


@dataclass(frozen=True, slots=True)
class NestedType(SqlType):
    """Base of the types whose values hold others. What is inside may be NULL, always."""


@dataclass(frozen=True, slots=True)
class ArrayType(NestedType):
    element: SqlType

    def __str__(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType(NestedType):
    """Keys are not NULL, and differ; the order of entries is kept, and no two maps are compared."""

    key: SqlType
    value: SqlType

    def __str__(self) -> str:
        return f"MAP<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructType(NestedType):
    """`fields`: one at least."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        return f"STRUCT<{','.join(f'{f.name}:{f.type}' for f in self.fields)}>"


NULL = NullType()
BOOLEAN = BooleanType()
TINYINT = IntegerType(8)
SMALLINT = IntegerType(16)
INT = IntegerType(32)
BIGINT = IntegerType(64)
FLOAT = FloatType(32)
DOUBLE = FloatType(64)
STRING = StringType()
BINARY = BinaryType()
DATE = DateType()
TIMESTAMP = TimestampType()
TIMESTAMP_NTZ = TimestampType(local=True)
INTERVAL_MONTHS = IntervalType("YEAR", "MONTH")
INTERVAL_MICROSECONDS = IntervalType("DAY", "SECOND")


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a schema. `name` is for display and binding only; plans use positions.

    `limit`: of a column of a table that is VARCHAR(limit), or CHAR(limit) if `padded`, the most
    characters that are written; the type is STRING.
    """

    name: str
    type: SqlType
    nullable: bool = True
    limit: int | None = field(default=None, compare=False)
    padded: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.name} {self.declared}{'' if self.nullable else ' NOT NULL'}"

    @property
    def declared(self) -> str:
        """The type as CREATE TABLE says it."""
        if self.limit is None:
            return str(self.type)
        return f"{'CHAR' if self.padded else 'VARCHAR'}({self.limit})"

    @property
    def chars(self) -> int | None:
        """How many characters each value has, where blanks fill it up."""
        return self.limit if self.padded else None


Schema = tuple[Field, ...]


def written_decimal(precision: str = "10", scale: str = "0") -> DecimalType | None:
    """DECIMAL(precision, scale) as the text has them; None if there is no such type."""
    for size in (precision, scale):
        if not (size.isascii() and size.isdigit() and len(size) <= 2):
            return None
    digits, after = int(precision), int(scale)
    return DecimalType(digits, after) if 0 < digits <= MAX_PRECISION and after <= digits else None


def written_interval(first: str, last: str) -> IntervalType | None:
    """INTERVAL first TO last; None if there is no such type."""
    for units in (MONTH_UNITS, TIME_UNITS):
        if first in units and last in units[units.index(first) :]:
            return IntervalType(first, last)
    return None


def bounded_decimal(precision: int, scale: int) -> DecimalType:
    """Clamp to 38 digits, both parts alike (Spark's DecimalType.bounded)."""
    return DecimalType(min(precision, MAX_PRECISION), min(scale, MAX_PRECISION))


def adjusted_decimal(precision: int, scale: int) -> DecimalType:
    """Clamp to 38 digits, giving up fraction digits down to 6 before integral ones.

    Source: Spark DecimalType.adjustPrecisionScale (allowPrecisionLoss, the default).
    """
    if precision <= MAX_PRECISION:
        return DecimalType(precision, scale)
    integral = precision - scale
    kept = max(MAX_PRECISION - integral, min(scale, MIN_ADJUSTED_SCALE))
    return DecimalType(MAX_PRECISION, kept)


def integer_as_decimal(kind: IntegerType) -> DecimalType:
    """The decimal that holds every value of an integer type (Spark's DecimalType.forType)."""
    return DecimalType({8: 3, 16: 5, 32: 10, 64: 20}[kind.bits], 0)


def is_numeric(kind: SqlType) -> bool:
    return isinstance(kind, (IntegerType, FloatType, DecimalType))


def parts_of(kind: SqlType) -> tuple[SqlType, ...]:
    """The types of what values of a nested type hold; none for others."""
    match kind:
        case ArrayType(element=element):
            return (element,)
        case MapType(key=key, value=value):
            return (key, value)
        case StructType(fields=fields):
            return tuple(f.type for f in fields)
        case _:
            return ()


def holds(kind: SqlType, base: type[SqlType]) -> bool:
    """Whether the type is of that class, or values of it hold others of it."""
    return isinstance(kind, base) or any(holds(part, base) for part in parts_of(kind))
