"""Rows of Python values as columns in flight; a value is taken only if its column holds it.

Values are Python's own for the type: bool, int, float (or int), decimal.Decimal (or int), str,
bytes, datetime.date, datetime.datetime, datetime.timedelta (int for months), and NumPy's scalars of
those; None, and the NaT and NA of pandas, are NULL. A float is rounded to a FLOAT, of which Python
has none; nothing else is. A datetime without a time zone is, for a TIMESTAMP, what the session's
clocks show (`operators.naive`); its `fold` says which of two.

What depends on the schema alone is made once a table (`RowReader`): a transaction of one row costs
some ten microseconds. There is no Arrow in between but for texts, which lie in Arrow arrays.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from operators.flight import nested_rows
from operators.flight.arrow import TableReader, from_column, to_column
from operators.flight.column import Bools, Column, Values, concat, flight_dtype, joined
from operators.flight.misfits import Misfit, listed, merged, null_misfit
from operators.flight.rendering import shortened
from operators.naive import instant_of
from planner.calculus import types as t
from planner.errors import DataError, suggestion
from planner.names import folded

#: Tuples and lists in the order of the columns; dicts, named tuples and dataclasses by their names.
Row: TypeAlias = Any

#: So many rows are turned into columns at a time, so that what a generator yields is held once.
PIECE_ROWS = 1 << 16
#: Of one value, in a message.
_SHOWN_CHARACTERS = 60

_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_LOCAL_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_REFUSALS = (TypeError, ValueError, OverflowError, decimal.DecimalException)


class RowReader:
    """Takes rows to columns of `schema`, in its order; `tables` does that to Arrow tables.

    `whole`: the schema of the table of which `schema` has the key: rows may be whole ones, of which
    the key counts; None: rows have exactly the columns of `schema`.
    """

    def __init__(self, schema: t.Schema, whole: t.Schema | None = None) -> None:
        self.schema = schema
        self._columns = [ColumnReader(field) for field in schema]
        self._count = len(schema)
        self._places = {folded(f.name): i for i, f in enumerate(schema)}
        self._whole_count = -1 if whole is None else len(whole)
        by_name = {folded(f.name): i for i, f in enumerate(whole or ())}
        self._key = [by_name[folded(f.name)] for f in schema] if whole else []
        self._exact = whole is None
        self.tables = TableReader(schema, self._exact)

    def columns(self, rows: Iterable[Row], cast: bool = False) -> Sequence[Column]:
        """The columns of all rows. `cast`: whether values are converted as far as that loses
        nothing. Raises: DataError for rows of the wrong shape, and for the first value of each
        column that does not fit."""
        if isinstance(rows, list) and len(rows) <= PIECE_ROWS:
            return self._piece(rows, cast, 0)
        pieces: list[Sequence[Column]] = []
        first, source = 0, iter(rows)
        while piece := list(islice(source, PIECE_ROWS)):
            pieces.append(self._piece(piece, cast, first))
            first += len(piece)
        if not pieces:
            return self._piece([], cast, 0)
        return joined(pieces)

    def column(self, place: int, values: Sequence[Any], cast: bool = False) -> Column:
        """One column; the `place` of its field in the schema."""
        return self._columns[place].column(values, cast)

    def _piece(self, rows: list[Row], cast: bool, first: int) -> Sequence[Column]:
        """`first`: how many rows precede these."""
        if not rows:
            return [reader.column(()) for reader in self._columns]
        plain = all(type(row) is tuple and len(row) == self._count for row in rows)
        if not plain:
            rows = [self._ordered(row, first + i) for i, row in enumerate(rows)]
        columns: list[Column] = []
        errors: list[DataError] = []
        for reader, values in zip(self._columns, zip(*rows, strict=True), strict=True):
            try:
                columns.append(reader.column(values, cast, first))
            except DataError as error:
                errors.append(error)
        if errors:
            raise merged(errors)
        return columns

    def _ordered(self, row: Row, number: int) -> Sequence[Any]:
        named = by_name(row)
        if named is not None:
            return self._by_name(named, number)
        if not isinstance(row, (tuple, list)):
            raise DataError(
                f"row {number} is neither a tuple nor a dict",
                detail=f"It is {represented(row)}.",
                hint="Give a list of rows, [(1, 'a'), (2, 'b')], also for one row: [(1, 'a')].",
            )
        if len(row) == self._whole_count and not self._exact:
            return [row[k] for k in self._key]
        if len(row) != self._count:
            raise DataError(
                f"row {number} has {len(row)} values, but there are {self._count} columns",
                detail=f"The columns are {', '.join(map(str, self.schema))}.",
            )
        return row

    def _by_name(self, row: Mapping[Any, Any], number: int) -> list[Any]:
        values: list[Any] = [None] * self._count
        seen: set[int] = set()
        unknown: list[str] = []
        for name, value in row.items():
            place = self._places.get(folded(str(name)))
            if place is None:
                if self._exact:
                    unknown.append(str(name))
                continue
            if place in seen:
                raise DataError(f"row {number} has {listed([str(name)])} twice")
            values[place] = value
            seen.add(place)
        missing = [f.name for i, f in enumerate(self.schema) if i not in seen]
        if unknown or missing:
            raise self._misnamed(number, unknown, missing)
        return values

    def _misnamed(self, number: int, unknown: list[str], missing: list[str]) -> DataError:
        errors = []
        if unknown:
            near = suggestion(unknown[0], [f.name for f in self.schema])
            errors.append(DataError(f"row {number} has an unknown {listed(unknown)}", hint=near))
        if missing:
            hint = "Write None for a NULL." if not unknown else None
            errors.append(DataError(f"row {number} has no value for {listed(missing)}", hint=hint))
        return merged(errors)


def by_name(row: Row) -> Mapping[Any, Any] | None:
    """The row's values by name, if it has names."""
    if isinstance(row, Mapping):
        return row
    if isinstance(row, tuple):
        # Of named tuples; of Spark's rows.
        names = getattr(row, "_fields", None) or getattr(row, "__fields__", None)
        return None if names is None else dict(zip(names, row, strict=True))
    if dataclasses.is_dataclass(row) and not isinstance(row, type):
        return {f.name: getattr(row, f.name) for f in dataclasses.fields(row)}
    return None


def represented(value: Any) -> str:
    """`repr` that is short, and there for whatever a caller passes."""
    try:
        text = repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return shortened(text, _SHOWN_CHARACTERS)


class ColumnReader:
    """Takes Python's values to one column."""

    def __init__(self, field: t.Field) -> None:
        self.field = field
        if isinstance(field.type, t.NestedType):
            return
        self._means = means = _means(field.type)
        self._plain = {means.plain}

    def column(self, values: Sequence[Any], cast: bool = False, first: int = 0) -> Column:
        """`cast`: whether values are converted as far as that loses nothing; `first`: how many rows
        precede these. Raises: DataError for the first value that does not fit."""
        if isinstance(self.field.type, t.NestedType):

            def inner(field: t.Field, inside: Sequence[Any]) -> Column:
                return ColumnReader(field).column(inside, cast)

            return nested_rows.column_of(self.field, values, first, inner, by_name)
        means, valid = self._means, None
        if set(map(type, values)) != self._plain or (
            means.bounds is not None
            and (min(values) < means.bounds[0] or max(values) > means.bounds[1])
        ):
            try:
                values, valid = self._taken(values, first)
            except DataError as refused:
                if not cast or isinstance(refused, Misfit):
                    raise
                return self._cast(values, first, refused)
        try:
            column = Column(self.field.type, means.store(values), valid)
        except UnicodeEncodeError as error:
            raise self._surrogate(values, first, error) from None
        return column if self.field.limit is None else self._within(column, first)

    def _within(self, column: Column, first: int) -> Column:
        try:
            return to_column(from_column(column, self.field.type), self.field)
        except Misfit as misfit:
            raise misfit.after(first) from None

    def _cast(self, values: Sequence[Any], first: int, refused: DataError) -> Column:
        given = [None if _is_missing(v) else v for v in values]
        try:
            array = inferred(given)
        except (*_REFUSALS, pa.ArrowException):
            if len(given) == 1:
                raise refused from None
            # Of several types: each for itself.
            return concat([self.column([v], True, first + i) for i, v in enumerate(given)])
        try:
            return to_column(array, self.field, cast=True)
        except Misfit as misfit:
            raise misfit.after(first) from None
        except DataError:
            raise refused from None

    def _taken(self, values: Sequence[Any], first: int) -> tuple[list[Any], Bools | None]:
        """The values as they are to be stored, zeros for NULLs; which are not NULL."""
        take, zero, exact = self._means.take, self._means.zero, self._means.exact
        if set(map(type, values)) == {exact}:  # most are: no NULL is among them
            with suppress(*_REFUSALS):  # which one is refused is seen below
                return list(map(take, values)), None
        taken: list[Any] = []
        nulls: list[int] = []
        for row, value in enumerate(values):
            if value is None or _is_missing(value):
                nulls.append(row)
                taken.append(zero)
                continue
            try:
                taken.append(take(value))
            except _REFUSALS as error:
                raise self._refused(value, first + row, error) from None
        if not nulls:
            return taken, None
        if not self.field.nullable:
            raise null_misfit(self.field, first + nulls[0])
        valid = np.ones(len(taken), np.bool_)
        valid[nulls] = False
        return taken, valid

    def _refused(self, value: Any, row: int, error: Exception) -> DataError:
        kind, means = self.field.type, self._means
        name = type(value).__name__
        fault = means.fault
        if isinstance(error, TypeError):
            fault = f"That is a Python {name}, and a column of type {kind} takes {means.takes}."
        return DataError(
            f'column "{self.field.name}" is {kind}, but row {row} has {represented(value)}',
            detail=fault,
            hint=_remedy(value, kind),
        )

    def _surrogate(self, texts: Sequence[str], first: int, error: UnicodeEncodeError) -> DataError:
        row = next(i for i, text in enumerate(texts) if text == error.object)
        return DataError(
            f'text in column "{self.field.name}" has no UTF-8',
            detail=f"Row {first + row} has the lone surrogate {error.object[error.start]!a}, half "
            "a character of UTF-16.",
            hint="Join the halves: text.encode('utf-16', 'surrogatepass').decode('utf-16').",
        )


def _is_missing(value: Any) -> bool:
    """Whether this is NaT or NA of pandas, which is not imported for it."""
    kind = type(value)
    return kind.__name__ in ("NaTType", "NAType") and kind.__module__.startswith("pandas.")


# ----------------------------------------------------------------------------------------- types


@dataclasses.dataclass(frozen=True, slots=True)
class _Means:
    """How values of a type are taken and stored.

    `take`: a value as it is stored, or raises: TypeError for one of another type, else what
    `_REFUSALS` has. `plain`: values of exactly this type are stored as they are, if they are within
    `bounds`; None: of no type. `exact`: the type that most values have. `zero`: what lies under a
    NULL. `takes` and `fault`: for messages, what Python types there are and why a value of those is
    refused.
    """

    take: Callable[[Any], Any]
    plain: type | None
    exact: type
    zero: Any
    store: Callable[[Sequence[Any]], Values]
    takes: str
    fault: str = ""
    bounds: tuple[int, int] | None = None


def _means(kind: t.SqlType) -> _Means:
    store = _array(kind)
    match kind:
        case t.BooleanType():
            return _Means(_instance((bool, np.bool_), bool), bool, bool, False, store, "bool")
        case t.IntegerType():
            bounds = (kind.min, kind.max)
            fault = f"A column of type {kind} holds {kind.min:,} to {kind.max:,}."
            return _Means(_integer(*bounds), int, int, 0, store, "int", fault, bounds)
        case t.FloatType(bits=bits):
            fault = f"A column of type {kind} does not hold it."
            plain = float if bits == 64 else None
            number = _float64 if plain else _float32
            return _Means(number, plain, float, 0.0, store, "float", fault)
        case t.DecimalType():
            digits = f"{kind.precision - kind.scale} digits before the point and {kind.scale} after"
            fault = f"A column of type {kind} holds {digits} it."
            takes = "decimal.Decimal and int"
            return _Means(_decimal(kind), None, decimal.Decimal, 0, store, takes, fault)
        case t.StringType():
            return _Means(_instance(str, str), str, str, "", store, "str")
        case t.BinaryType():
            take = _instance((bytes, bytearray, memoryview), bytes)
            return _Means(take, bytes, bytes, b"", store, "bytes")
        case t.DateType():
            return _Means(_date, None, datetime.date, 0, store, "datetime.date")
        case t.TimestampType(local=local):
            takes = "datetime.datetime without a zone" if local else "datetime.datetime"
            fault = "A column of this type holds microseconds, and nothing finer."
            taken = _local if local else _instant
            return _Means(taken, None, datetime.datetime, 0, store, takes, fault)
        case t.IntervalType(unit="month"):
            fault = "It is out of range."
            return _Means(_integer(t.INT.min, t.INT.max), None, int, 0, store, "int", fault)
        case t.IntervalType():
            fault = "It is beyond 64 bits of microseconds."
            return _Means(_span, None, datetime.timedelta, 0, store, "datetime.timedelta", fault)
        case _:
            raise TypeError(f"no Python values of {kind}")


def _array(kind: t.SqlType) -> Callable[[Sequence[Any]], Values]:
    match kind:
        case t.StringType():
            return lambda values: pa.array(values, pa.string())
        case t.BinaryType():
            return lambda values: pa.array(values, pa.binary())
        case t.DecimalType() if not kind.narrow:
            return _words
        case _:
            dtype = flight_dtype(kind)
            return lambda values: np.array(values, dtype)


def _words(values: Sequence[int]) -> Values:
    """Unscaled decimals, of one word if all of them fit one."""
    try:
        return np.array(values, np.int64)
    except OverflowError:
        low = np.array([v & 0xFFFF_FFFF_FFFF_FFFF for v in values], np.uint64).view(np.int64)
        high = np.array([v >> 64 for v in values], np.int64)
        return np.stack([low, high], axis=1)


def _instance(kinds: Any, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise TypeError
        return convert(value)

    return take


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def take(value: Any) -> int:
        number = _index(value)
        if not low <= number <= high:
            raise ValueError
        return number

    return take


def _index(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    number: int = operator.index(value)
    return number


def _float64(value: Any) -> float:
    if isinstance(value, (float, np.floating)):
        return float(value)
    integer = _index(value)
    number = float(integer)
    if int(number) != integer:
        raise ValueError
    return number


def _float32(value: Any) -> float:
    """Rounded where it is a float, but not to infinity; exact where it is an int."""
    number = _float64(value)
    if math.isfinite(number):
        with np.errstate(over="ignore"):
            rounded = float(np.float32(number))
        if math.isinf(rounded) or not (isinstance(value, (float, np.floating)) or rounded == value):
            raise ValueError
    return number


def _decimal(kind: t.DecimalType) -> Callable[[Any], int]:
    """Unscaled."""
    unit = decimal.Decimal(1).scaleb(-kind.scale)
    traps = [decimal.Inexact, decimal.InvalidOperation]
    context = decimal.Context(prec=kind.precision, traps=traps)
    factor, limit = 10**kind.scale, 10**kind.precision
    shift = kind.scale

    def take(value: Any) -> int:
        if not isinstance(value, decimal.Decimal):
            unscaled: int = _index(value) * factor
            if not -limit < unscaled < limit:
                raise ValueError
            return unscaled
        if not value.is_finite():
            raise ValueError
        exact: decimal.Decimal = value.quantize(unit, context=context)
        return int(exact.scaleb(shift, context=context))

    return take


def _date(value: Any) -> int:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise TypeError
    return value.toordinal() - _EPOCH_DAY


def _instant(value: Any) -> int:
    if not isinstance(value, datetime.datetime):
        raise TypeError
    if getattr(value, "nanosecond", 0):  # pandas has finer ones
        raise ValueError
    if value.tzinfo is None:
        return instant_of((value - _LOCAL_EPOCH) // _MICROSECOND, bool(value.fold))
    micros: int = (value - _EPOCH) // _MICROSECOND
    return micros


def _local(value: Any) -> int:
    if not isinstance(value, datetime.datetime) or value.tzinfo is not None:
        raise TypeError
    if getattr(value, "nanosecond", 0):
        raise ValueError
    micros: int = (value - _LOCAL_EPOCH) // _MICROSECOND
    return micros


def _span(value: Any) -> int:
    if not isinstance(value, datetime.timedelta):
        raise TypeError
    micros = value // _MICROSECOND
    if not t.BIGINT.min <= micros <= t.BIGINT.max:
        raise ValueError
    return micros


def _remedy(value: Any, kind: t.SqlType) -> str | None:
    """What to write instead."""
    given = type(value)
    if isinstance(value, float) and isinstance(kind, t.DecimalType) and math.isfinite(value):
        return "Convert it by its digits: decimal.Decimal(str(value)); or pass cast=True."
    if isinstance(value, float) and math.isnan(value):
        return "Write None for a NULL."
    if isinstance(value, decimal.Decimal) and isinstance(kind, t.DecimalType):
        return f"Round it: round(value, {kind.scale})." if value.is_finite() else None
    if isinstance(value, datetime.datetime) and isinstance(kind, t.DateType):
        return "Take its day: value.date()."
    if isinstance(value, datetime.datetime) and isinstance(kind, t.TimestampType):
        if value.tzinfo is not None and kind.local:
            return "Take the time without its zone: value.replace(tzinfo=None)."
        return "Cut it: value.floor('us')." if hasattr(value, "nanosecond") else None
    if isinstance(kind, t.IntegerType) and kind != t.BIGINT and given is int:
        return "Declare the column with a wider type, BIGINT or DECIMAL."
    if isinstance(kind, t.StringType):
        if isinstance(value, (bytes, bytearray)):
            return "Decode it: value.decode()."
        return "Convert it: str(value)."
    if isinstance(value, str) and type(kind) in _PARSERS:
        return f"Convert it: {_PARSERS[type(kind)]}; or pass cast=True, which reads text."
    return None


_PARSERS: dict[type[t.SqlType], str] = {
    t.IntegerType: "int(value)",
    t.FloatType: "float(value)",
    t.DecimalType: "decimal.Decimal(value)",
    t.DateType: "datetime.date.fromisoformat(value)",
    t.TimestampType: "datetime.datetime.fromisoformat(value)",
    t.BinaryType: "value.encode()",
}


#: So many lists in one another at most are asked what they hold.
_MOST_LEVELS = 64


def inferred(values: Any) -> pa.Array:
    """Values of whatever type pyarrow finds. A list that holds itself, which takes the process
    along there, is refused first. Raises: what pyarrow raises."""
    if _is_endless(values, 0, {}):
        raise pa.ArrowInvalid("a list holds itself, or is nested too deeply")
    return pa.array(values)


def _is_endless(value: Any, level: int, known: dict[int, bool]) -> bool:
    """`known`: by identity, whether a value is one that this one is in, of those looked at."""
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner = list(value)
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        inner = list(value.flat)
    else:
        return False
    if level > _MOST_LEVELS or known.get(id(value)):
        return True
    if id(value) in known:
        return False
    known[id(value)] = True
    nested = (v for v in inner if isinstance(v, (dict, list, tuple, set, frozenset, np.ndarray)))
    endless = any(_is_endless(v, level + 1, known) for v in nested)
    known[id(value)] = False
    return endless
