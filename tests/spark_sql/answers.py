"""Rows as Spark's suite prints them."""

from __future__ import annotations

import datetime
import math
import zoneinfo
from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.scalar.text import format_float
from planner.calculus import types as t

#: The session's zone in the suite.
ZONE = zoneinfo.ZoneInfo("America/Los_Angeles")
_DAY, _HOUR, _MINUTE = 86_400_000_000, 3_600_000_000, 60_000_000


def lines(rows: Sequence[tuple[Any, ...]], kinds: Sequence[t.SqlType]) -> list[str]:
    """The rows, one text each, sorted as the suite compares them."""
    printed = ("\t".join(map(shown, row, kinds)) for row in rows)
    return sorted("\n".join(printed).split("\n")) if rows else []


def shown(value: Any, kind: t.SqlType) -> str:
    """A value as Hive shows it, as far as the suite does."""
    return "NULL" if value is None else _text(value, kind)


def _inner(value: Any, kind: t.SqlType) -> str:
    if value is None:
        return "null"
    return f'"{value}"' if isinstance(kind, t.StringType) else _text(value, kind)


def _text(value: Any, kind: t.SqlType) -> str:
    match kind:
        case t.ArrayType(element=element):
            return f"[{','.join(_inner(v, element) for v in value)}]"
        case t.StructType(fields=fields):
            parts = (f'"{f.name}":{_inner(value[f.name], f.type)}' for f in fields)
            return f"{{{','.join(parts)}}}"
        case t.MapType():
            pairs = (f"{_inner(k, kind.key)}:{_inner(v, kind.value)}" for k, v in value)
            return f"{{{','.join(sorted(pairs))}}}"
        case t.IntervalType():
            return _months(value) if kind.unit == "month" else _time(value)
        case t.FloatType(bits=bits):
            return str(format_float(np.float32(value) if bits == 32 else value))
        case t.BooleanType():
            return str(value).lower()
        case t.BinaryType():
            return bytes(value).decode(errors="replace")
        case t.DecimalType():
            return f"{value:f}"
        case t.TimestampType():
            local = value.astimezone(ZONE) if value.tzinfo else value
            moment = local.replace(tzinfo=None).isoformat(" ")
            return str(moment.rstrip("0") if value.microsecond else moment)
        case _:
            return str(value)


def _months(value: int) -> str:
    return f"{'-' if value < 0 else ''}{abs(value) // 12}-{abs(value) % 12}"


def _time(value: datetime.timedelta) -> str:
    number = value // datetime.timedelta(microseconds=1)
    left = abs(number)
    time = f"{left % _DAY // _HOUR:02}:{left % _HOUR // _MINUTE:02}:{left % _MINUTE / 1e6:012.9f}"
    return f"{'-' if number < 0 else ''}{left // _DAY} {time}"


def same(found: Sequence[str], wanted: Sequence[str]) -> bool:
    """Whether the lines are equal; numbers may differ in the last of their digits, which depend on
    the order in which Spark adds them up."""
    found, wanted = [sorted(x.rstrip() for x in some) or [""] for some in (found, wanted)]
    return len(found) == len(wanted) and all(map(_alike, found, wanted))


def _alike(found: str, wanted: str) -> bool:
    pairs = (found.split("\t"), wanted.split("\t"))
    return found == wanted or (
        len(pairs[0]) == len(pairs[1]) and all(map(_near, pairs[0], pairs[1]))
    )


def _near(found: str, wanted: str) -> bool:
    if found == wanted:
        return True
    try:
        return math.isclose(float(found), float(wanted), rel_tol=1e-12)
    except ValueError:
        return False
