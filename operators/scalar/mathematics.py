"""Functions of angles, and others of numbers that have no operator.

Source: Spark `mathExpressions` (Conv, WidthBucket), `NumberConverter`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight.column import Values
from operators.scalar.strings import rowwise
from operators.scalar.value import (
    Builder,
    Node,
    Run,
    binary,
    unary,
)
from planner.calculus.expr import Call

_LONG = (1 << 64) - 1
_MAX_LONG = (1 << 63) - 1


_OF_ONE: dict[str, Callable[[Any], Values]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "cot": lambda a: 1.0 / np.tan(a),
    "sec": lambda a: 1.0 / np.cos(a),
    "csc": lambda a: 1.0 / np.sin(a),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}
_OF_TWO: dict[str, Callable[[Any, Any], Values]] = {
    "atan2": lambda y, x: np.arctan2(y + 0.0, x + 0.0),  # there is no -0.0
    "hypot": np.hypot,
}


def _one(call: Call, args: tuple[Node, ...]) -> Run:
    return unary(args[0], _OF_ONE[call.function])


def _two(call: Call, args: tuple[Node, ...]) -> Run:
    return binary(args[0], args[1], _OF_TWO[call.function])


_FACTORIALS = tuple(map(math.factorial, range(21)))


def _factorial(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda n: _FACTORIALS[n] if 0 <= n <= 20 else None, pa.int64())


def _bin(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda n: f"{n & _LONG:b}", pa.string())


def _conv(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, converted, pa.string())


def converted(text: str, source: int, target: int) -> str | None:
    """The digits of a number, up to the first that is none, in another base; if that is negative,
    as a signed number."""
    text = text.strip(" ")
    if not (2 <= source <= 36 and 2 <= abs(target) <= 36) or not text:
        return None
    negative = text[0] == "-"
    value = 0
    for c in text[negative:]:
        digit = int(c, 36) if c.isascii() and c.isalnum() else 36
        if digit >= source:
            break
        value = value * source + digit
        if value > _LONG:
            raise ValueError("[ARITHMETIC_OVERFLOW] Overflow in function conv()")
    if negative and target > 0:
        # As two's complement; what is above a BIGINT stands for the greatest.
        value = _LONG if value > _MAX_LONG else -value & _LONG
    if target < 0 and value > _MAX_LONG:
        value, negative = -value & _LONG, True
    digits = _digits(value, abs(target))
    return f"-{digits}" if negative and target < 0 else digits


def _digits(value: int, base: int) -> str:
    out = ""
    while value or not out:
        value, digit = divmod(value, base)
        out = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + out
    return out


def _width_bucket(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, bucket, pa.int64())


def bucket(value: float, low: float, high: float, count: int) -> int | None:
    """The number of the range from 1; 0 before all of them, count + 1 behind."""
    ends = math.isfinite(low) and math.isfinite(high) and low != high
    if not ends or math.isnan(value) or not 0 < count < _MAX_LONG:
        return None
    first, last = min(low, high), max(low, high)
    if low < high:
        if value < first:
            return 0
        if value >= last:
            return count + 1
        return int(count * (value - first) / (last - first)) + 1
    if value > last:
        return 0
    if value <= first:
        return count + 1
    return int(count * (last - value) / (last - first)) + 1


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_OF_ONE, _one),
    **dict.fromkeys(_OF_TWO, _two),
    "factorial": _factorial,
    "bin": _bin,
    "conv": _conv,
    "width_bucket": _width_bucket,
}
