"""Any value of any Arrow type as text for people, and as Python's own value where it has one.

Messages, tables on a screen and logs show values through `texts`, which never raises: dates and
timestamps go by integer arithmetic over all that Arrow holds (Python has the years 1 to 9999 only),
and text that is no UTF-8 shows its bytes as escapes. A value that Python has reads as `str` of it.
`python_values` refuses what Python lacks: a column of dates with texts among them would go wrong
later, far from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from operators.scalar.text import MICROS_PER_DAY, format_date, shortened
from planner.calculus.zones import UTC, Zone, find
from planner.errors import DataError

__all__ = ["python_values", "shortened", "texts"]

#: What pyarrow raises for a value that Python cannot hold.
_LACKING = (OverflowError, ValueError, pa.ArrowException)
#: Parts of a microsecond's multiple, by unit of a timestamp: (times, divided by).
_MICROS = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


def texts(array: pa.Array | pa.ChunkedArray, quoted: bool = False) -> list[str]:
    """Each value as text, NULL as "NULL"; strings as Python writes them in a program if `quoted`.

    Never raises, whatever the array holds. Cost: about 1 µs a value.
    """
    if isinstance(array, pa.ChunkedArray):
        return [text for chunk in array.chunks for text in texts(chunk, quoted)]
    kind = array.type
    if pa.types.is_date32(kind):
        return _each(array, np.int32, format_date)
    if pa.types.is_timestamp(kind):
        times, divisor = _MICROS[kind.unit]
        zone = None if kind.tz is None else find(kind.tz) or UTC
        return _each(array, np.int64, lambda v: _moment(v * times // divisor, zone))
    try:
        values = array.to_pylist()
    except _LACKING:
        if pa.types.is_string(kind):
            values = [
                None if data is None else data.decode("utf-8", "backslashreplace")
                for data in array.view(pa.binary()).to_pylist()
            ]
        else:  # dates or texts inside others
            values = [str(array.slice(i, 1)) for i in range(len(array))]
    return [_shown(value, quoted) for value in values]


def python_values(column: pa.ChunkedArray, name: str) -> list[Any]:
    """The values as Python's own.

    Raises: DataError for a date or timestamp outside the years that Python has.
    """
    try:
        values: list[Any] = column.to_pylist()
    except _LACKING:
        raise DataError(
            f'column "{name}" has a value that Python cannot hold',
            detail=_first_lacking(column),
            hint="Read the rows with .to_arrow(), or cast the column to STRING in the view.",
        ) from None
    return values


def _first_lacking(column: pa.ChunkedArray) -> str | None:
    for row in range(len(column)):
        part = column.slice(row, 1)
        try:
            part.to_pylist()
        except _LACKING:
            return f"Row {row} has {texts(part)[0]}; dates of Python are from year 1 to year 9999."
    return None


def _each(array: pa.Array, width: Any, show: Any) -> list[str]:
    """The stored integers, shown one by one."""
    buffer = array.buffers()[1]
    if buffer is None:
        return ["NULL"] * len(array)
    stored = np.frombuffer(buffer, width)[array.offset : array.offset + len(array)].tolist()
    valid = array.is_valid().to_pylist()
    return [show(v) if there else "NULL" for v, there in zip(stored, valid, strict=True)]


def _moment(micros: int, zone: Zone | None) -> str:
    """A local time, or what clocks of a zone show at an instant, and how far they are from UTC."""
    end = ""
    if zone is not None:
        ahead = zone.offset_at(micros // 1_000_000)
        micros += ahead * 1_000_000
        hours, seconds = divmod(abs(ahead), 3600)
        end = f"{'-' if ahead < 0 else '+'}{hours:02d}:{seconds // 60:02d}"
        end += f":{seconds % 60:02d}" if seconds % 60 else ""
    days, rest = divmod(micros, MICROS_PER_DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{format_date(days)} {clock}" + (f".{fraction:06d}" if fraction else "") + end


def _shown(value: Any, quoted: bool) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return repr(value) if quoted else value
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
