"""Bits of integers, as Java has them: 8 to 64 of them, shifts modulo their number.

Integers come as int64, whatever their type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from operators.flight.column import Bools, Values
from operators.scalar.value import (
    Builder,
    Errors,
    Node,
    Run,
    binary,
    binary_checked,
    failures,
    unary,
)
from planner.calculus import types as t
from planner.calculus.expr import Call

_BETWEEN: dict[str, Callable[[Any, Any], Values]] = {
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


def _between(call: Call, args: tuple[Node, ...]) -> Run:
    return binary(args[0], args[1], _BETWEEN[call.function])


def _not(call: Call, args: tuple[Node, ...]) -> Run:
    return unary(args[0], np.invert)


def _shift(call: Call, args: tuple[Node, ...]) -> Run:
    kind, function = call.type, call.function
    assert isinstance(kind, t.IntegerType)
    last = kind.bits - 1

    def op(a: Any, b: Any) -> Values:
        places = np.asarray(b) & last
        if kind.bits == 64:
            if function == "shift_right_unsigned":
                return (np.asarray(a).view(np.uint64) >> places.astype(np.uint64)).view(np.int64)
            return a << places if function == "shift_left" else a >> places
        if function == "shift_left":
            return (a << places).astype(np.int32).astype(np.int64)
        if function == "shift_right":
            return a >> places
        return ((a & 0xFFFF_FFFF) >> places).astype(np.int32).astype(np.int64)

    return binary(args[0], args[1], op, scalars=False)


def _count(call: Call, args: tuple[Node, ...]) -> Run:
    def op(a: Any) -> Values:
        if a.dtype == np.bool_:
            return a.astype(np.int64)
        return np.bitwise_count(a.astype(np.int64).view(np.uint64)).astype(np.int64)

    return unary(args[0], op)


def _magnitude(call: Call, args: tuple[Node, ...]) -> Run:
    def op(a: Any) -> Values:
        a = np.maximum(a, 0)
        high = a >> 32
        bits = np.frexp(np.where(high > 0, high, a).astype(np.float64))[1].astype(np.int64)
        bits[high > 0] += 32
        return bits

    return unary(args[0], op)


def _get(call: Call, args: tuple[Node, ...]) -> Run:
    kind = args[0].type
    assert isinstance(kind, t.IntegerType)
    size = kind.bits

    def op(a: Any, b: Any, valid: Bools | None, n: int) -> tuple[Values, Errors | None]:
        bad = (b < 0) | (b >= size)
        rows = np.flatnonzero(bad if valid is None else bad & valid)
        messages = [
            f"[INVALID_PARAMETER_VALUE.BIT_POSITION_RANGE] {size} bits have no position {b[i]}"
            for i in rows
        ]
        return (a >> np.where(bad, 0, b)) & 1, failures(n, rows, messages)

    return binary_checked(args[0], args[1], op)


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_BETWEEN, _between),
    "bit_not": _not,
    **dict.fromkeys(("shift_left", "shift_right", "shift_right_unsigned"), _shift),
    "bit_count": _count,
    "magnitude": _magnitude,
    "bit_get": _get,
}
