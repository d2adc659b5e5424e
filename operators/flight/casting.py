"""Casts that lose nothing, for data whose columns have other types than the table's.

A value is converted only if what comes out says the same: text that reads as a value of the type
(spaces around it aside), a float whose digits, as they are printed, are those of the decimal, a
number that the narrower type holds, a timestamp at midnight as a date. The first that does not is a
`Misfit` with its row. What a column takes anyway (`operators.flight.arrow`) is left as it is.
Between instants and dates or text without a zone the session's clocks count (`operators.naive`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from operators import naive
from operators.flight.misfits import Misfit
from operators.flight.rendering import shortened, texts
from planner.calculus import types as t

_SHOWN_CHARACTERS = 60
#: Wide enough for every integer that is written with a fraction of zeros or an exponent.
_INTEGER_TEXT = pa.decimal128(38, 9)
_ZONED = r"(?i)([+-]\d\d(:?\d\d)?|Z)$"
_REFUSALS = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
#: Ids of the types of texts.
_TEXTS = frozenset(k.id for k in (pa.string(), pa.large_string(), pa.string_view()))
_Cast = Callable[[pa.Array], pa.Array]


def fitted(array: pa.Array, field: t.Field, target: pa.DataType) -> pa.Array:
    """The values as a type that a column of `field` takes: `target`, or the array's own if there is
    nothing to convert or no way to.

    Raises: Misfit for the first value that would lose something.
    Cost: O(n), some passes; half as much again to find the value at fault.
    """
    if pa.types.is_dictionary(array.type):
        array = decoded(array)
    cast = _cast(array.type, field.type, target)
    if cast is None:
        return array
    try:
        return cast(array)
    except _REFUSALS:
        row = _first_refused(cast, array)
    shown = shortened(texts(array.slice(row, 1), quoted=True)[0], _SHOWN_CHARACTERS)
    fault, hint = f"which {field.type} does not hold exactly", None
    if is_text(array.type):
        fault = f"which does not read as {field.type}"
        if shown == "''":
            hint = "Write NULL where there is no value: an empty text is none."
    raise Misfit(
        f'column "{field.name}" is {field.type}, but the data has a {array.type} that is not',
        row,
        f"has {shown}, {fault}",
        hint,
    )


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """The values of a dictionary array, one for each index."""
    words = array.dictionary
    if pa.types.is_string_view(words.type) or pa.types.is_binary_view(words.type):
        # Views have no kernels.
        text = pa.types.is_string_view(words.type)
        words = words.cast(pa.large_string() if text else pa.large_binary())
        array = pa.DictionaryArray.from_arrays(array.indices, words)
    return array.dictionary_decode()


def castable(given: pa.DataType, kind: t.SqlType, target: pa.DataType) -> bool:
    """Whether values of an Arrow type convert to a column's as far as nothing is lost."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    return _cast(given, kind, target) is not None


def _first_refused(cast: _Cast, array: pa.Array) -> int:
    start, stop = 0, len(array)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            cast(array.slice(start, middle - start))
            start = middle
        except _REFUSALS:
            stop = middle
    return start


def _cast(given: pa.DataType, kind: t.SqlType, target: pa.DataType) -> _Cast | None:
    if is_text(given):
        return _of_text(kind, target)
    is_integer, is_float = pa.types.is_integer(given), pa.types.is_floating(given)
    is_decimal = pa.types.is_decimal(given)
    match kind:
        case t.IntegerType() if is_float or is_decimal:
            return lambda a: a.cast(target)
        case t.FloatType() if is_integer:
            return lambda a: _returning(a, a.cast(target, safe=False))
        case t.FloatType(bits=bits) if is_float and given.bit_width > bits:
            return lambda a: _returning(a, a.cast(target))
        case t.FloatType() if is_decimal:
            return lambda a: _same_digits(a, a.cast(target))
        case t.DecimalType() if is_float:
            return lambda a: _decimals(a.cast(pa.string()), target)
        case t.DecimalType(scale=scale) if is_decimal and given.scale > scale:
            return lambda a: a.cast(target)
        case t.StringType() if (
            is_integer or is_decimal or pa.types.is_boolean(given) or pa.types.is_date(given)
        ):
            return lambda a: a.cast(pa.string())
        case t.StringType() if pa.types.is_binary(given) or pa.types.is_large_binary(given):
            return lambda a: a.cast(pa.string())
        case t.DateType() if pa.types.is_timestamp(given):
            return lambda a: _days(a if given.tz is None else naive.shown(a), target)
        case t.TimestampType(local=False) if pa.types.is_date(given):
            return naive.starts_of
        case t.TimestampType() if pa.types.is_date(given):
            return lambda a: a.cast(target)
        case _:
            return None


def _of_text(kind: t.SqlType, target: pa.DataType) -> _Cast | None:
    match kind:
        case t.IntegerType():
            return lambda a: _trimmed(a).cast(_INTEGER_TEXT).cast(target)
        case t.FloatType():
            return lambda a: _finite(_trimmed(a), target)
        case t.DecimalType():
            return lambda a: _decimals(_trimmed(a), target)
        case t.DateType() | t.BooleanType():
            return lambda a: _trimmed(a).cast(target)
        case t.TimestampType(local=local):
            return lambda a: _timestamps(_trimmed(a), target, local)
        case t.BinaryType():
            return lambda a: a.cast(pa.binary())
        case _:
            return None


def is_text(kind: pa.DataType) -> bool:
    return kind.id in _TEXTS


def _trimmed(array: pa.Array) -> pa.Array:
    # string_view has no kernels.
    return pc.ascii_trim_whitespace(array.cast(pa.large_string()))


def _decimals(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Text as decimals. Of a number with an exponent Arrow may keep the low bits alone."""
    values = array.cast(target)
    about = pc.replace_substring_regex(array, r"^\+", "").cast(pa.float64())
    _require(pc.less_equal(pc.abs(about), float(10 ** (target.precision - target.scale))))
    return values


def _finite(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Text as floats, none of which became infinite."""
    values = array.cast(target)
    _require(pc.invert(pc.and_(pc.is_inf(values), pc.match_substring_regex(array, r"\d"))))
    return values


def _returning(array: pa.Array, values: pa.Array) -> pa.Array:
    """`values`, which `array` was cast to, if the way back gives it again. NaN is itself."""
    back = values.cast(array.type, safe=False)
    same = pc.equal(back, array)
    if pa.types.is_floating(array.type):
        same = pc.or_(same, pc.is_nan(array))
    _require(same)
    return values


def _days(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Timestamps without a zone, which are midnights, as dates."""
    return _returning(array, array.cast(target))


def _same_digits(array: pa.Array, values: pa.Array) -> pa.Array:
    """Decimals as floats that are printed with the same digits."""
    _require(pc.equal(values.cast(pa.string()).cast(array.type), array))
    return values


def _timestamps(array: pa.Array, target: pa.DataType, local: bool) -> pa.Array:
    """Text as timestamps, some of which may name their distance from UTC; those of a TIMESTAMP
    that do not are left without a zone, as far as none has one."""
    plain = pa.timestamp("us")
    if local:
        return array.cast(plain)
    zoned = pc.match_substring_regex(array, _ZONED)
    # A date ends like a zone: -31. One that has a time has a colon.
    zoned = pc.and_(zoned, pc.match_substring(array, ":"))
    if not pc.any(zoned).as_py():
        return array.cast(plain)
    none = pa.scalar(None, array.type)
    local = pc.if_else(zoned, none, array).cast(plain)
    return pc.coalesce(pc.if_else(zoned, array, none).cast(target), naive.instants(local))


def _require(holds: Any) -> None:
    if not pc.all(pc.fill_null(holds, True), min_count=0).as_py():
        raise pa.ArrowInvalid("a value would change")
