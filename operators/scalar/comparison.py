"""Comparisons, IN, GREATEST and LEAST: one total order per type.

Numbers, dates and booleans compare as their NumPy values; NaN equals itself and is greater than
all else, and -0.0 equals 0.0; texts compare as UTF-8 bytes; decimals as unscaled integers of one
scale.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight.column import Bools, Column, Values, is_textual, widen
from operators.kernels import scalar as kernels
from operators.scalar.value import (
    Builder,
    Fetch,
    Node,
    Result,
    Run,
    binary,
    first_of,
    scalar_of,
    unary,
)
from planner.calculus import types as t
from planner.calculus.expr import Call

Compare: TypeAlias = Callable[[Any, Any], Any]

_PLAIN: dict[str, Compare] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_ARROW = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def bools(mask: pa.BooleanArray) -> Bools:
    """An Arrow mask without NULLs as a NumPy one."""
    result: Bools = mask.to_numpy(zero_copy_only=False)
    return result


def compare(function: str, kind: t.SqlType) -> Compare:
    """`function` (eq … ge) over two arrays, or an array and a scalar, of physical values."""
    match kind:
        case t.FloatType():
            return _floats(function)
        case t.DecimalType():
            return _decimals(function)
        case t.StringType() | t.BinaryType() | t.NestedType():
            call = pc.get_function(_ARROW[function])
            return lambda a, b: bools(call.call([a, b]))
        case _:
            return _PLAIN[function]


def _floats(function: str) -> Compare:
    def eq(a: Any, b: Any) -> Any:
        return (a == b) | ((a != a) & (b != b))  # noqa: PLR0124 - only NaN differs from itself

    def lt(a: Any, b: Any) -> Any:
        return (a < b) | ((b != b) & (a == a))  # noqa: PLR0124

    match function:
        case "eq":
            return eq
        case "ne":
            return lambda a, b: ~eq(a, b)
        case "lt":
            return lt
        case "le":
            return lambda a, b: ~lt(b, a)
        case "gt":
            return lambda a, b: lt(b, a)
        case _:
            return lambda a, b: ~lt(a, b)


def _decimals(function: str) -> Compare:
    plain = _PLAIN[function]

    def op(a: Any, b: Any) -> Any:
        if np.ndim(a) < 2 and np.ndim(b) < 2:
            return plain(a, b)
        a_low, a_high = _words(a)
        b_low, b_high = _words(b)
        same = a_high == b_high
        if function == "eq":
            return same & (a_low == b_low)
        if function == "ne":
            return ~(same & (a_low == b_low))
        strict = operator.lt if function in ("lt", "le") else operator.gt
        return strict(a_high, b_high) | (same & plain(a_low, b_low))

    return op


def _words(values: Any) -> tuple[Any, Any]:
    """Low words, unsigned, and high words."""
    if np.ndim(values) == 2:
        return np.ascontiguousarray(values[:, 0]).view(np.uint64), values[:, 1]
    return np.asarray(values).view(np.uint64), values >> 63


def _check(call: Call, args: tuple[Node, ...]) -> t.SqlType:
    kind = args[0].type
    for other in args[1:]:
        if other.type == kind:
            continue
        if isinstance(kind, t.DecimalType) and isinstance(other.type, t.DecimalType):
            if kind.scale == other.type.scale:
                continue
        raise ValueError(f"{call.function} compares {kind} with {other.type}")
    return kind


def _comparison(call: Call, args: tuple[Node, ...]) -> Run:
    kind = _check(call, args)
    left, right = args
    function = call.function
    if isinstance(kind, t.FloatType):
        if right.literal and right.value == right.value:
            return binary(left, right, _floats_with_number(function))
        if left.literal and left.value == left.value:
            return binary(right, left, _floats_with_number(_MIRRORED[function]))
    if is_textual(kind):
        if left.literal and not right.literal:
            left, right, function = right, left, _MIRRORED[function]
        if right.literal and right.value is not None:
            return _text_with_literal(function, left, right)
    return binary(left, right, compare(function, kind))


def _floats_with_number(function: str) -> Compare:
    """The right side is a number or NULL, not NaN: NaN on the left is greater."""
    match function:
        case "gt":
            return lambda a, b: ~(a <= b)
        case "ge":
            return lambda a, b: ~(a < b)
        case _:
            return _PLAIN[function]


def _text_with_literal(function: str, arg: Node, literal: Node) -> Run:
    if function in ("eq", "ne"):
        equals = among([literal.value])
        return unary(arg, equals if function == "eq" else lambda a: ~equals(a))
    call = pc.get_function(_ARROW[function])
    scalar = pa.scalar(literal.value, pa.string() if arg.type == t.STRING else pa.binary())
    return unary(arg, lambda a: bools(call.call([a, scalar])))


def text_buffers(texts: pa.Array) -> tuple[Any, Any]:
    """Offsets int32[n + 1] and bytes of a string or binary array, as kernels take them."""
    _, offsets, data = texts.buffers()
    n = len(texts)
    if offsets is None or offsets.size == 0:
        return np.zeros(n + 1, np.int32), np.zeros(0, np.uint8)
    starts = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + n + 1]
    if data is None:
        return starts, np.zeros(0, np.uint8)
    return starts, np.frombuffer(data, np.uint8)


def among(needles: list[Any]) -> Callable[[Any], Bools]:
    """Whether each text equals one of the needles (str or bytes). Up to 32 needles are tried in
    turn; more go through Arrow's hash table."""
    encoded = [s.encode() if isinstance(s, str) else s for s in needles]
    if len(encoded) > 32:
        lookup = pc.get_function("is_in")
        options = pc.SetLookupOptions(pa.array(encoded, pa.binary()))
        return lambda a: bools(lookup.call([a.cast(pa.binary())], options=options))
    offsets = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    data = np.frombuffer(b"".join(encoded), np.uint8)

    def op(a: pa.Array) -> Bools:
        out = np.empty(len(a), np.bool_)
        kernels.is_in_texts(*text_buffers(a), offsets, data, out)
        return out

    return op


def _eq_null_safe(call: Call, args: tuple[Node, ...]) -> Run:
    left, right = args
    equal = compare("eq", _check(call, args))

    def run(columns: Fetch, n: int) -> Result:
        a, a_valid, a_errors = left.run(columns, n)
        b, b_valid, b_errors = right.run(columns, n)
        values = equal(a, b)
        if a_valid is not None or b_valid is not None:
            x = np.ones(n, np.bool_) if a_valid is None else a_valid
            y = np.ones(n, np.bool_) if b_valid is None else b_valid
            values = np.where(x & y, values, x == y)
        return values, None, first_of(a_errors, b_errors)

    return run


def _in(call: Call, args: tuple[Node, ...]) -> Run:
    kind = _check(call, args)
    arg, *listed = args
    if not all(node.literal for node in listed):
        raise ValueError("IN takes a list of literals")
    needles = [node for node in listed if node.value is not None]
    has_null = len(needles) < len(listed)
    member = _membership(kind, needles)

    def run(columns: Fetch, n: int) -> Result:
        a, valid, errors = arg.run(columns, n)
        values = member(a)
        if has_null:
            valid = values if valid is None else values & valid
        return values, valid, errors

    return run


def _membership(kind: t.SqlType, needles: list[Node]) -> Callable[[Any], Any]:
    if is_textual(kind):
        return among([node.value for node in needles])
    if isinstance(kind, (t.FloatType, t.BooleanType, t.NullType)):
        equal = compare("eq", kind)
        scalars = [scalar_of(node) for node in needles]

        def any_of(a: Any) -> Any:
            found = np.zeros(len(a), np.bool_)
            for scalar in scalars:
                found |= equal(a, scalar)
            return found

        return any_of
    numbers = sorted({int(node.value or 0) for node in needles})
    words = np.array([v for v in numbers if -(1 << 63) <= v < (1 << 63)], np.int64)
    wide = [(v & ((1 << 64) - 1), v >> 64) for v in numbers]

    def ints(a: Any) -> Any:
        if a.ndim == 2:
            low, high = _words(a)
            found = np.zeros(len(a), np.bool_)
            for lo, hi in wide:
                found |= (low == np.uint64(lo)) & (high == hi)
            return found
        out = np.empty(len(a), np.bool_)
        kernels.is_in_ints(np.ascontiguousarray(a), words, out)
        return out

    return ints


def select(choose: Bools, yes: Any, no: Any) -> Values:
    """Row by row `yes` where `choose` is set, else `no`; either may be a scalar or wide."""
    if isinstance(yes, (pa.Array, pa.Scalar)):
        return pc.if_else(pa.array(choose), yes, no)
    if np.ndim(yes) == 2 or np.ndim(no) == 2:
        return np.where(choose[:, None], _two_words(yes), _two_words(no))
    return np.where(choose, yes, no)


def _two_words(values: Any) -> Any:
    if np.ndim(values) == 2:
        return values
    if np.ndim(values) == 0:
        return np.array([values, values >> 63], np.int64)
    return widen(Column(t.DecimalType(38, 0), values)).values


def _extreme(call: Call, args: tuple[Node, ...]) -> Run:
    kind = _check(call, args)
    better = compare("gt" if call.function == "greatest" else "lt", kind)

    def run(columns: Fetch, n: int) -> Result:
        values, valid, errors = args[0].run(columns, n)
        for arg in args[1:]:
            other, other_valid, other_errors = arg.run(columns, n)
            errors = first_of(errors, other_errors)
            take = better(other, values)
            if other_valid is not None:
                take = take & other_valid
            if valid is not None:
                take = take | (~valid if other_valid is None else ~valid & other_valid)
                valid = None if other_valid is None else valid | other_valid
            values = select(take, other, values)
        return values, valid, errors

    return run


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_PLAIN, _comparison),
    "eq_null_safe": _eq_null_safe,
    "in": _in,
    "greatest": _extreme,
    "least": _extreme,
}
