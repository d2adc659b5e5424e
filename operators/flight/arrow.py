"""Between Arrow tables and columns in flight.

Data comes in strictly: a value is taken only if the column's type holds it exactly. Types convert
where every value could (int32 to BIGINT, string_view to STRING, seconds to TIMESTAMP) or where
each value is checked (int64 to INT, a decimal of more digits to one of fewer); anything else is a
DataError that names the column, and the first row at fault, counted from 0. Numbers are never
rounded and text is never parsed. Text must be UTF-8, as everything later takes it to be.

Buffers are shared with Arrow wherever the layouts agree and there are no NULLs. Where every value
converts, by its type alone, it is converted when it is first read (`column.Unread`); all checks are
made at once. A timestamp without a zone is taken for a TIMESTAMP as what clocks of the session's
time zone show (`operators.naive`).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight import nested_arrow
from operators.flight.casting import castable, decoded, fitted, is_text
from operators.flight.column import Bools, Column, Unread, Values, combined, narrow, widen
from operators.flight.few import FewRows
from operators.flight.limits import within
from operators.flight.misfits import Misfit, listed, merged, null_misfit
from operators.flight.utf8 import first_invalid, refuse_invalid
from operators.kernels import batches
from operators.naive import instants_of
from operators.scalar import decimals
from operators.slabs import ROWS
from planner.calculus import types as t
from planner.calculus.zones import UTC, Zone
from planner.errors import DataError, suggestion
from planner.names import folded

_MICROS_PER_UNIT = {"s": 1_000_000, "ms": 1000, "us": 1}
_INTEGERS = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
#: Integers by Arrow type: dtype, and the fewest bits of a signed integer that hold them.
_INTEGER_LAYOUTS: dict[int, tuple[np.dtype[Any], int]] = {
    kind.id: (np.dtype(kind.to_pandas_dtype()), bits)
    for kind, bits in (
        (pa.int8(), 8),
        (pa.int16(), 16),
        (pa.int32(), 32),
        (pa.int64(), 64),
        (pa.uint8(), 16),
        (pa.uint16(), 32),
        (pa.uint32(), 64),
    )
}
#: How kernels.batches takes values of an Arrow type.
_FORMS = {
    pa.int8().id: batches.INT8,
    pa.int16().id: batches.INT16,
    pa.int32().id: batches.INT32,
    pa.int64().id: batches.INT64S,
    pa.uint8().id: batches.UINT8,
    pa.uint16().id: batches.UINT16,
    pa.uint32().id: batches.UINT32,
    pa.date32().id: batches.INT32,
    pa.decimal128(1).id: batches.DECIMAL,
    pa.string().id: batches.TEXT,
}
#: As many rows are copied as they come, all columns by one kernel: to look at each column costs
#: more.
_FEW_ROWS = 4096
#: A batch as Arrow's C data interface hands it out, and what lets it go.
_STRUCT = ctypes.c_int64 * batches.STRUCT_WORDS
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_DATE32, _DECIMAL128 = pa.date32().id, pa.decimal128(1).id
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_INTEGER_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}


def arrow_type(kind: t.SqlType) -> pa.DataType:
    """The Arrow type that columns of `kind` leave as."""
    match kind:
        case t.NullType():
            return pa.null()
        case t.BooleanType():
            return pa.bool_()
        case t.IntegerType():
            return _INTEGERS[kind.bits]
        case t.FloatType():
            return pa.float32() if kind.bits == 32 else pa.float64()
        case t.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case t.StringType():
            return pa.string()
        case t.BinaryType():
            return pa.binary()
        case t.DateType():
            return pa.date32()
        case t.TimestampType():
            return pa.timestamp("us", None if kind.local else "UTC")
        case t.IntervalType():
            return pa.int32() if kind.unit == "month" else pa.duration("us")
        case t.ArrayType(element=element):
            return pa.list_(pa.field("element", arrow_type(element)))
        case t.MapType(key=key, value=value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case t.StructType(fields=fields):
            return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in fields])
        case _:
            raise TypeError(f"{kind} has no Arrow type")


def arrow_schema(schema: t.Schema) -> pa.Schema:
    return pa.schema([_arrow_field(f) for f in schema])


#: Of a field in Arrow's metadata: the characters of CHAR(n).
CHARS = b"sqlview.chars"


#: The same: that the numbers are months, of an INTERVAL.
MONTHS = b"sqlview.months"


def months_of(field: pa.Field) -> t.IntervalType | None:
    """The INTERVAL whose months the numbers of this column are, if it says so."""
    said = (field.metadata or {}).get(MONTHS, b"").decode().removeprefix("INTERVAL ")
    first, _, last = said.partition(" TO ")
    return t.written_interval(first, last or first)


def _arrow_field(field: t.Field) -> pa.Field:
    said = None if field.chars is None else {CHARS: str(field.chars).encode()}
    if isinstance(field.type, t.IntervalType) and field.type.unit == "month":
        said = {MONTHS: str(field.type).encode()}
    return pa.field(field.name, arrow_type(field.type), field.nullable, said)


def sql_type(kind: pa.DataType) -> t.SqlType:
    """The SQL type that holds every value of an Arrow type.

    Raises: DataError if there is none (unions, times of day …).
    """
    if pa.types.is_nested(kind) and (found := nested_arrow.sql_type(kind, sql_type)) is not None:
        return found
    if pa.types.is_dictionary(kind):
        return sql_type(kind.value_type)
    if pa.types.is_null(kind):
        return t.NULL
    if pa.types.is_boolean(kind):
        return t.BOOLEAN
    if pa.types.is_signed_integer(kind):
        return t.IntegerType(kind.bit_width)
    if pa.types.is_unsigned_integer(kind):
        return t.IntegerType(2 * kind.bit_width) if kind.bit_width < 64 else t.DecimalType(20, 0)
    if pa.types.is_floating(kind):
        return t.DOUBLE if kind.bit_width == 64 else t.FLOAT
    if pa.types.is_decimal(kind) and kind.precision <= t.MAX_PRECISION and kind.scale >= 0:
        if kind.scale <= kind.precision:
            return t.DecimalType(kind.precision, kind.scale)
    if is_text(kind):
        return t.STRING
    if _is_bytes(kind):
        return t.BINARY
    if pa.types.is_date(kind):
        return t.DATE
    if pa.types.is_timestamp(kind):
        return t.TIMESTAMP_NTZ if kind.tz is None else t.TIMESTAMP
    if pa.types.is_duration(kind):
        return t.INTERVAL_MICROSECONDS
    raise DataError(f"no SQL type for Arrow type {kind}")


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


# --------------------------------------------------------------------------------------- inward


def to_columns(
    table: pa.Table | pa.RecordBatch,
    schema: t.Schema,
    exact: bool = True,
    cast: bool = False,
    first: int = 0,
) -> Sequence[Column]:
    """See TableReader, of which this makes one."""
    return TableReader(schema, exact).columns(table, cast, first)


class TableReader:
    """Takes Arrow tables to the columns of `schema`, in its order: tables that have exactly those,
    or more of them where it need not be `exact`.

    Columns are found by name, without regard to case and order; by position if the names are the
    schema's own in order (a schema may repeat names). What depends on the types alone is decided
    once for all tables of one Arrow schema that come after each other.
    """

    def __init__(self, schema: t.Schema, exact: bool = True) -> None:
        self._schema = schema
        self._exact = exact
        self._decided: _Decided | None = None

    def columns(
        self, table: pa.Table | pa.RecordBatch, cast: bool = False, first: int = 0
    ) -> Sequence[Column]:
        """The columns. `cast`: whether values are converted as far as that loses nothing
        (`operators.flight.casting`). `first`: how many rows precede these.

        Raises: DataError for missing, unknown or repeated columns, types that do not convert,
        values out of range, NULL in a NOT NULL column: for all that there is of this at once.
        Cost: O(1) for a column whose layout agrees, or that is converted when it is read; else one
        copy.
        """
        given, decided = table.schema, self._decided
        if decided is None or not decided.given.equals(given):
            self._decided = decided = _decide(given, self._schema, self._exact)
        errors = list(decided.errors)
        columns: list[Column] = []
        few = None if errors else few_of(table)
        if few is not None:
            rows = decided.few.taken(few)
            for i in rows.left:
                column = decided.column(i, few, cast, first, errors)
                if column is not None:
                    rows.give(i, column)
            if errors:
                raise merged(errors)
            return rows
        arrays = _arrays(table)
        for i in range(len(decided.columns)):
            column = decided.column(i, arrays, cast, first, errors)
            if column is not None:
                columns.append(column)
        if errors:
            raise merged(errors)
        return columns


#: An array as a column; None where more has to be looked at.
_Take = Callable[[Any], Column | None]


@dataclass(frozen=True, slots=True)
class _Decided:
    """How tables of the Arrow schema `given` are read: the place of each column that there is, its
    field, and how it is taken where the types show that all values fit; and what is wrong."""

    given: pa.Schema
    columns: list[tuple[int, t.Field, _Take | None]]
    errors: list[DataError]
    few: _FewTaker

    def column(
        self, i: int, arrays: Any, cast: bool, first: int, errors: list[DataError]
    ) -> Column | None:
        """Column number `i`; if it cannot be taken, why goes to `errors`."""
        place, field, take = self.columns[i]
        array = arrays[place]
        column = None if take is None else take(array)
        if column is not None:
            return column
        try:
            return to_column(array, field, cast)
        except Misfit as misfit:
            errors.append(misfit.after(first))
        except DataError as error:
            errors.append(error)
        return None


def _decide(given: pa.Schema, schema: t.Schema, exact: bool) -> _Decided:
    places, errors = places_of(given.names, schema, exact)
    columns = [
        (place, field, _take_of(given.types[place], field.type) if field.limit is None else None)
        for place, field in zip(places, schema, strict=True)
        if place is not None
    ]
    return _Decided(given, columns, errors, _FewTaker(given, columns))


class _FewTaker:
    """Takes batches of few rows by one kernel: the columns whose types show that all values but
    NULLs fit."""

    def __init__(self, given: pa.Schema, columns: list[tuple[int, t.Field, _Take | None]]) -> None:
        self._kinds: list[tuple[int, t.SqlType, bool]] = []
        forms: list[tuple[int, int]] = []
        for place, field, take in columns:
            form = batches.OTHER
            if take is not None:
                form = _FORMS.get(given.types[place].id, batches.OTHER)
            self._kinds.append((place, field.type, form == batches.TEXT))
            forms.append((place, form))
        self._forms = np.array(forms, np.int64).reshape(-1, 2)
        self._has_texts = any(textual for _, _, textual in self._kinds)

    def taken(self, batch: pa.RecordBatch) -> FewRows:
        """The columns, copied; those that have to be looked at are left."""
        n, width = batch.num_rows, len(self._kinds)
        values = np.empty((width, n), np.int64)
        heads = np.empty((width, batches.HEAD_WORDS), np.int64)
        struct = _STRUCT()
        at = ctypes.addressof(struct)
        batch._export_to_c(at)
        try:
            some = batches.take(at, self._forms, n, values, heads)
        finally:
            _RELEASE(struct[batches.RELEASE])(at)
        left = heads[:, 0].nonzero()[0].tolist() if some else ()
        return FewRows(batch if self._has_texts else None, self._kinds, values, heads, left)


def few_of(table: pa.Table | pa.RecordBatch) -> pa.RecordBatch | None:
    """The one batch of a table of few rows; None for others, and for none."""
    if table.num_rows > _FEW_ROWS or table.num_rows == 0:
        return None
    if isinstance(table, pa.RecordBatch):
        return table
    pieces = table.to_batches()
    return pieces[0] if len(pieces) == 1 else None


def _arrays(table: pa.Table | pa.RecordBatch) -> list[pa.Array | pa.ChunkedArray]:
    """The columns, as arrays where each is in one piece."""
    batches = table.to_batches() if isinstance(table, pa.Table) else [table]
    arrays: list[Any] = (batches[0] if len(batches) == 1 else table).columns
    return arrays


def places_of(
    names: Sequence[str], schema: t.Schema, exact: bool
) -> tuple[list[int | None], list[DataError]]:
    """Which of the columns `names` is that of each field, and what is wrong with them."""
    wanted = [f.name for f in schema]
    if list(names) == wanted:
        return list(range(len(names))), []
    found: dict[str, int] = {}
    twice: list[str] = []
    for i, name in enumerate(names):
        if found.setdefault(folded(name), i) != i:
            twice.append(name)
    known = {folded(name) for name in wanted}
    missing = [name for name in wanted if folded(name) not in found]
    unknown = [n for n in names if folded(n) not in known and not is_pandas_index(n)]
    errors = [DataError(f"the data has {listed([name])} twice") for name in twice]
    near = next((hint for n in unknown if (hint := suggestion(n, missing or wanted))), None)
    if missing:
        given = listed(names) if names else "no columns"
        lacks = f"the data lacks {listed(missing)}"
        errors.append(DataError(lacks, detail=f"It has {given}.", hint=near))
    if exact and unknown:
        has = f"the data has {listed(unknown)}, which the table lacks"
        errors.append(DataError(has, hint=near or "Select the table's columns."))
    return [found.get(folded(name)) for name in wanted], errors


def is_pandas_index(name: str) -> bool:
    """Whether Arrow data from pandas has this beside its columns, where rows were selected."""
    return _PANDAS_INDEX.fullmatch(name) is not None


def to_column(array: pa.Array | pa.ChunkedArray, field: t.Field, cast: bool = False) -> Column:
    """One column; see `TableReader.columns`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else _one(array, field)
    take = _take_of(array.type, field.type) if field.limit is None else None
    if take is not None and (taken := take(array)) is not None:
        return taken
    if cast and not isinstance(field.type, t.NestedType):
        array = fitted(array, field, arrow_type(field.type))
    elif pa.types.is_dictionary(array.type):
        array = decoded(array)
    if field.limit is not None and is_text(array.type):
        array = within(array, field)
    valid: Bools | None = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        if not field.nullable:
            raise null_misfit(field, int(np.argmin(valid)))
    if pa.types.is_null(array.type) and not isinstance(field.type, t.NullType):
        if not field.nullable and len(array):
            raise _type_error(field, array.type)
        array = pa.nulls(len(array), arrow_type(field.type))
    if isinstance(field.type, t.NestedType):
        if not nested_arrow.fits(array.type, field.type):
            raise _type_error(field, array.type)
        return nested_arrow.column_of(array, field, valid, lambda a, f: to_column(a, f, cast))
    values = _values(array, field, valid)
    column = Column(field.type, values, valid)
    if column.wide:
        return narrow(column) or column
    return column


def _one(array: pa.ChunkedArray, field: t.Field) -> pa.Array:
    try:
        return combined(array)
    except pa.ArrowException as error:
        raise DataError(
            f'the data of column "{field.name}" is not valid Arrow',
            detail=f"{str(error).rstrip('.')}.",
            hint="See the array's validate(full=True).",
        ) from None


def _take_of(given: pa.DataType, kind: t.SqlType) -> _Take | None:
    """How arrays of a type are taken, where the types alone show that all values but NULLs fit."""
    if kind == t.STRING and given.equals(pa.string()):
        return _taken_text
    words = 1
    match kind:
        case t.IntegerType():
            dtype, bits = _INTEGER_LAYOUTS.get(given.id, (_INT64, 65))
            if bits > kind.bits:
                return None
            stored = _INT32 if kind.bits < 64 else _INT64
        case t.DateType():
            if given.id != _DATE32:
                return None
            dtype = stored = _INT32
        case t.DecimalType():
            if given.id != _DECIMAL128 or given.scale != kind.scale or not kind.narrow:
                return None
            if given.precision > kind.precision:
                return None
            dtype, stored, words = _INT64, _INT64, 2
        case _:
            return None
    return partial(_unread, kind, dtype, stored, words)


def _unread(
    kind: t.SqlType, dtype: np.dtype[Any], stored: np.dtype[Any], words: int, array: pa.Array
) -> Column | None:
    """An array without NULLs as a column that is converted when it is read; None for others. What
    somebody may write to is copied, as stored."""
    if isinstance(array, pa.ChunkedArray) or array.null_count:
        return None
    buffer = array.buffers()[1]
    if buffer is None:
        return None
    n = len(array)
    raw: Any = np.frombuffer(buffer, dtype, words * n, words * dtype.itemsize * array.offset)
    if words == 2:
        raw = raw[::2]
    elif dtype == _INT64:
        return Column(kind, raw)
    return Unread(kind, ROWS.copy(raw, stored) if raw.flags.writeable else raw)


def _taken_text(array: pa.Array) -> Column | None:
    """Texts without NULLs as they came, where all are UTF-8; None for others."""
    if isinstance(array, pa.ChunkedArray) or array.null_count or first_invalid(array) is not None:
        return None
    return Column(t.STRING, array)


def _type_error(field: t.Field, given: pa.DataType) -> DataError:
    detail: str | None = None
    hint = f"Convert it first, as it is meant: column.cast({_spelled(arrow_type(field.type))})."
    if isinstance(field.type, t.NestedType):
        hint = f"Give it as {arrow_type(field.type)}."
    elif pa.types.is_nested(given):
        detail = "A column of this type holds one plain value a row."
        hint = "Take its fields, or flatten it, first."
    elif castable(given, field.type, arrow_type(field.type)):
        detail = "Not every value of that type is one of the column's."
        hint = f"Pass cast=True, which converts where nothing is lost; or c{hint[1:]}"
    elif not _has_sql_type(given):
        detail = "There is no SQL type for it."
    elif isinstance(field.type, t.TimestampType) and pa.types.is_timestamp(given):
        detail = "An instant has no time of day until a zone is named."
        hint = "Name one: pyarrow.compute.local_timestamp(column), of a column in that zone."
    return DataError(
        f'column "{field.name}" is {field.type}, but the data has {given}', detail=detail, hint=hint
    )


def _spelled(kind: pa.DataType) -> str:
    """How a program makes the type."""
    if pa.types.is_decimal(kind):
        return f"pa.decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return 'pa.timestamp("us")' if kind.tz is None else 'pa.timestamp("us", "UTC")'
    if pa.types.is_duration(kind):
        return 'pa.duration("us")'
    names = {"date32[day]": "date32", "double": "float64", "float": "float32", "bool": "bool_"}
    return f"pa.{names.get(str(kind), str(kind))}()"


def _has_sql_type(given: pa.DataType) -> bool:
    try:
        sql_type(given)
    except DataError:
        return False
    return True


def _range_error(field: t.Field, array: pa.Array, bad: Any) -> Misfit:
    row = int(np.argmax(bad))
    return Misfit(
        f'value out of range for column "{field.name}" of type {field.type}',
        row,
        f"has {array[row]} of type {array.type}",
    )


def _fixed(array: pa.Array, dtype: Any, valid: Bools | None) -> Any:
    """The value buffer as NumPy, zeros under NULLs."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    values = np.frombuffer(buffer, dtype, count=array.offset + len(array))[array.offset :]
    return values if valid is None else np.where(valid, values, np.zeros((), dtype))


def _values(array: pa.Array, field: t.Field, valid: Bools | None) -> Values:
    given = array.type
    match field.type:
        case t.NullType() if pa.types.is_null(given):
            return np.zeros(len(array), np.bool_)
        case t.BooleanType() if pa.types.is_boolean(given):
            filled = array if valid is None else array.fill_null(False)
            return filled.to_numpy(zero_copy_only=False)
        case t.IntegerType() if pa.types.is_integer(given):
            return _integers(array, field, field.type.min, field.type.max, valid)
        case t.IntervalType(unit="month") if pa.types.is_integer(given):
            return _integers(array, field, t.INT.min, t.INT.max, valid)
        case t.FloatType(bits=bits) if pa.types.is_floating(given) and given.bit_width <= bits:
            dtype = np.dtype(f"f{given.bit_width // 8}")
            return _fixed(array, dtype, valid).astype(f"f{bits // 8}", copy=False)
        case t.DecimalType():
            return _decimals(array, field, field.type, valid)
        case t.StringType() if is_text(given):
            return _texts(array, field, valid)
        case t.BinaryType() if _is_bytes(given):
            return _bytes(array, field, valid)
        case t.DateType() if pa.types.is_date32(given):
            return _fixed(array, np.int32, valid).astype(np.int64)
        case t.DateType() if pa.types.is_date64(given):
            return _whole(_fixed(array, np.int64, valid), 86_400_000, field, array)
        case t.TimestampType(local=local) if pa.types.is_timestamp(given):
            if given.tz is None and not local:
                return _instants(array, field, valid)
            if given.tz is None or not local:
                return _micros(array, field, valid)
        case t.IntervalType(unit="microsecond") if pa.types.is_duration(given):
            return _micros(array, field, valid)
        case _:
            pass
    raise _type_error(field, given)


def _integers(array: pa.Array, field: t.Field, low: int, high: int, valid: Bools | None) -> Values:
    given = array.type
    sign = "i" if pa.types.is_signed_integer(given) else "u"
    values = _fixed(array, np.dtype(f"{sign}{given.bit_width // 8}"), valid)
    if given.bit_width == 64 and sign == "u":
        if (values > np.uint64(high)).any():
            raise _range_error(field, array, values > np.uint64(high))
        return values.view(np.int64)
    wide: Any = values.astype(np.int64, copy=False)
    given_high = (1 << (given.bit_width - (sign == "i"))) - 1
    if given_high > high and len(wide) and (wide.min() < low or wide.max() > high):
        raise _range_error(field, array, (wide < low) | (wide > high))
    return wide


def _decimals(
    array: pa.Array, field: t.Field, target: t.DecimalType, valid: Bools | None
) -> Values:
    given = array.type
    if pa.types.is_integer(given):
        source = t.DecimalType(_INTEGER_DIGITS[given.bit_width], 0)
        if pa.types.is_uint64(given):
            array = array.cast(pa.decimal128(20, 0))
    elif pa.types.is_decimal(given) and 0 <= given.scale <= target.scale:
        source = t.DecimalType(min(given.precision, t.MAX_PRECISION), given.scale)
        if not pa.types.is_decimal128(given):
            array = _cast(array, pa.decimal128(source.precision, source.scale), field)
    else:
        raise _type_error(field, given)
    if pa.types.is_integer(array.type):
        values: Any = _integers(array, field, t.BIGINT.min, t.BIGINT.max, valid)
    else:
        words = _words(array)
        if valid is not None:
            words = np.where(valid[:, None], words, 0)
        if target.narrow and source.narrow:
            values = ROWS.copy(words[:, 0], np.int64)
        else:
            column = Column(source, words)
            values = (narrow(column) or column).values
    result, errors = decimals.rescaled(values, source, target, None, len(array))
    if errors is not None:
        raise _range_error(field, array, errors.mask)
    return result


def _words(array: pa.Array) -> Any:
    """Decimals of 128 bits as int64[n, 2]."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros((len(array), 2), np.int64)
    words = np.frombuffer(buffer, np.int64, count=2 * (array.offset + len(array)))
    return words.reshape(-1, 2)[array.offset :]


def _cast(array: pa.Array, kind: pa.DataType, field: t.Field) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as error:
        raise DataError(
            f'column "{field.name}" of type {field.type} cannot take the data of type {array.type}',
            detail=f"{str(error).splitlines()[0].rstrip('.')}.",
        ) from None


def _texts(array: pa.Array, field: t.Field, valid: Bools | None) -> Values:
    if array.type != pa.string():
        array = _cast(array, pa.string(), field)
    if valid is not None:
        array = array.fill_null("")
    refuse_invalid(array, field)
    return array


def _bytes(array: pa.Array, field: t.Field, valid: Bools | None) -> Values:
    if array.type != pa.binary():
        array = _cast(array, pa.binary(), field)
    return array if valid is None else array.fill_null(b"")


def _micros(array: pa.Array, field: t.Field, valid: Bools | None) -> Values:
    values = _fixed(array, np.int64, valid)
    unit = array.type.unit
    if unit == "ns":
        return _whole(values, 1000, field, array)
    factor = _MICROS_PER_UNIT[unit]
    if factor != 1:
        limit = t.BIGINT.max // factor
        bad = (values > limit) | (values < -limit)
        if bad.any():
            raise Misfit(
                f'value out of range for column "{field.name}" of type {field.type}',
                int(np.argmax(bad)),
                "is beyond 64 bits of microseconds",
            )
        values = values * factor
    return values


def _instants(array: pa.Array, field: t.Field, valid: Bools | None) -> Values:
    """Of timestamps without a zone."""
    local: Any = _micros(array, field, valid)
    instants, bad = instants_of(local)
    if bad is not None and bad.any():
        raise _range_error(field, array, bad)
    return instants


def _whole(values: Any, unit: int, field: t.Field, array: pa.Array) -> Values:
    """values / unit where that is exact."""
    quotient = values // unit
    bad = quotient * unit != values
    if bad.any():
        raise Misfit(
            f'column "{field.name}" is {field.type}, which cannot hold a value of {array.type}',
            int(np.argmax(bad)),
            f"would lose a part of {array.type}",
        )
    return quotient


# -------------------------------------------------------------------------------------- outward


def is_instant(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind)) and kind.tz is not None


def in_zone(table: pa.Table, zone: Zone) -> pa.Table:
    """The same instants, to be shown by clocks of the zone; of UTC where Arrow has no name for it
    (an offset of seconds)."""
    name = zone.id if zone.id.count(":") < 2 else UTC.id
    fields = [
        f.with_type(pa.timestamp(f.type.unit, name)) if is_instant(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields, table.schema.metadata))


def from_columns(columns: Sequence[Column], schema: t.Schema) -> pa.Table:
    """An Arrow table with the types of `arrow_schema(schema)`.

    Cost: O(1) for a column without NULLs whose layout agrees, else one copy.
    """
    arrays = [from_column(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def from_column(column: Column, kind: t.SqlType) -> pa.Array:
    """One Arrow array; `kind` is the column's type."""
    target = arrow_type(kind)
    values, valid = column.values, column.valid
    n = len(column)
    if isinstance(kind, t.NestedType):
        return nested_arrow.array_of(column, target, from_column)
    if not isinstance(values, np.ndarray):
        return values if valid is None else pc.if_else(pa.array(valid), values, None)
    mask = None if valid is None else pa.array(valid).buffers()[1]
    match kind:
        case t.NullType():
            return pa.nulls(n)
        case t.BooleanType():
            return pa.array(values, mask=None if valid is None else ~valid)
        case t.DecimalType():
            data = np.ascontiguousarray(widen(column).values)
        case t.FloatType():
            data = np.ascontiguousarray(values)
        case _:
            data = np.ascontiguousarray(values, np.dtype(f"i{target.bit_width // 8}"))
    return pa.Array.from_buffers(target, n, [mask, pa.py_buffer(data)])
