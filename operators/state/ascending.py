"""Keys that are seen to ascend without being made into words: integers, as they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.flight.column import Column, Ints, Unread
from operators.kernels import encoding
from planner.calculus import types as t


def can_be_seen(kinds: Sequence[t.SqlType]) -> bool:
    """Whether keys of columns of these types may be seen to ascend."""
    return bool(kinds) and all(map(_is_integral, kinds))


def ends(keys: Sequence[Column]) -> Ints | None:
    """The first key and the last, int64[2, w]: the words that an index has of them. None if they
    cannot be seen, or where there are none."""
    n = len(keys[0]) if keys else 0
    if n == 0 or not all(_is_integral(k.type) and k.valid is None for k in keys):
        return None
    out = np.empty((2, len(keys)), np.int64)
    for place, key in enumerate(keys):
        values = _as_it_lies(key)
        out[0, place], out[1, place] = values[0], values[-1]
    return out


def ascend(keys: Sequence[Column]) -> bool:
    """Whether keys that have `ends` ascend, all of them. Cost: a pass over the columns as they
    lie."""
    equal = np.ones(len(keys[0]) - 1, np.uint8)
    for column in keys:
        if encoding.falls(_as_it_lies(column), equal):
            return False
    return not equal.any()


def falls(keys: Sequence[Ints], before: Sequence[int]) -> Ints:
    """Positions of keys, whose columns are int64[n] each, that are not greater than the one before
    them; `before`: the key before the first, if there is one."""
    greater, equal = np.zeros(len(keys[0]), np.bool_), np.ones(len(keys[0]), np.bool_)
    for place, values in enumerate(keys):
        earlier = np.concatenate((before[place : place + 1] or values[:1], values[:-1]))
        greater |= equal & (values > earlier)
        equal &= values == earlier
    if not before:
        greater[:1] = True
    return np.flatnonzero(~greater)


def _is_integral(kind: t.SqlType) -> bool:
    match kind:
        case t.IntegerType() | t.DateType() | t.TimestampType() | t.IntervalType():
            return True
        case t.DecimalType():
            return kind.narrow
        case _:
            return False


def _as_it_lies(column: Column) -> np.ndarray[Any, Any]:
    if isinstance(column, Unread) and column.raw.dtype == np.int32:
        return column.raw
    values: np.ndarray[Any, Any] = column.values
    return values
