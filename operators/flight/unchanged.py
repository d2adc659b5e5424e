"""Updates that change nothing which a reader reads: they are cancelled before anything is computed.

Source: DESIGN §6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from operators.flight.column import Bools, Column
from operators.flight.delta import Delta, Pairs

#: So many pairs are compared as quickly as a part of them.
_FEW_PAIRS = 1024


def without_unchanged(delta: Delta, used: tuple[int, ...]) -> Delta:
    """Drop each update of a row, its -/+ pair, that changes none of the columns `used`.

    Readers that are left with the same updates get the same object. Cost: a gather and a
    comparison of those columns for the rows in pairs, once for all who read the delta.
    """
    pairs = delta.pairs
    if pairs is None or len(pairs.old) == 0:
        return delta
    if len(used) == len(delta.schema) and not pairs.may_be_equal:
        return delta
    same = _unchanged(delta, pairs, used)
    if not same.any():
        return delta
    mask = same.tobytes()
    left = pairs.without.get(mask)
    if left is None:
        keep = np.ones(len(delta), np.bool_)
        keep[pairs.old[same]] = False
        keep[pairs.new[same]] = False
        left = pairs.without[mask] = delta.select(keep.nonzero()[0])
    return left


def _unchanged(delta: Delta, pairs: Pairs, used: tuple[int, ...]) -> Bools:
    """The pairs whose versions agree in all columns `used`, bool[pairs]."""
    known = pairs.same
    same = np.ones(len(pairs.old), np.bool_)
    fresh: list[int] = []
    for column in used:
        found = known.get(column)
        if found is None:
            fresh.append(column)
        else:
            same &= found
    for column in fresh:
        at = same.nonzero()[0]
        if len(at) and (len(same) <= _FEW_PAIRS or 2 * len(at) >= len(same)):
            found = equal_rows(delta.peek(column, pairs.old), delta.peek(column, pairs.new))
            known[column] = found
            same &= found
        elif len(at):  # what is left is not worth comparing the rest
            old, new = pairs.old[at], pairs.new[at]
            same[at] = equal_rows(delta.peek(column, old), delta.peek(column, new))
    return same


def equal_rows(left: Column, right: Column) -> Bools:
    """Whether values are the same, NULL with NULL (bytes of doubles, so that -0.0 is not 0.0)."""
    if isinstance(left.values, np.ndarray):
        a, b = left.values, right.values
        if a.dtype.kind == "f":
            whole = np.int64 if a.dtype.itemsize == 8 else np.int32
            a, b = a.view(whole), b.view(whole)
        same: Any = a == b
        if same.ndim == 2:
            same = same.all(axis=1)
    else:
        same = pc.equal(left.values, right.values).to_numpy(zero_copy_only=False)
    if left.valid is None and right.valid is None:
        both: Bools = same
        return both
    ones = np.ones(len(left), np.bool_)
    left_valid = ones if left.valid is None else left.valid
    right_valid = ones if right.valid is None else right.valid
    equal: Bools = (left_valid == right_valid) & (same | ~left_valid)
    return equal
