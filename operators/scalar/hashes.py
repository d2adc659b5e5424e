"""HASH and XXHASH64: the hash of each value is the seed of the next; NULL leaves it as it is.

Source: Spark `hash` (Murmur3Hash, XxHash64 of seed 42), `Murmur3_x86_32` (which takes the bytes
behind the last four one by one, each as a whole number), `XXH64`.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from operators.flight.column import widen
from operators.scalar.lists import together
from operators.scalar.value import Builder, Fetch, Node, Result, Run, element
from planner.calculus import types as t
from planner.calculus.expr import Call

_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_SEED = 42

_Hash: TypeAlias = Callable[[int, int], int]
_HashBytes: TypeAlias = Callable[[bytes, int], int]


def _rotated(value: int, by: int, bits: int) -> int:
    mask = (1 << bits) - 1
    return ((value << by) | (value >> (bits - by))) & mask


def _mixed(seed: int, word: int) -> int:
    word = _rotated(word * 0xCC9E2D51 & _U32, 15, 32) * 0x1B873593 & _U32
    return (_rotated(seed ^ word, 13, 32) * 5 + 0xE6546B64) & _U32


def _finished(value: int, length: int) -> int:
    value ^= length
    value = (value ^ value >> 16) * 0x85EBCA6B & _U32
    value = (value ^ value >> 13) * 0xC2B2AE35 & _U32
    return value ^ value >> 16


def _murmur_int(value: int, seed: int) -> int:
    return _finished(_mixed(seed, value & _U32), 4)


def _murmur_long(value: int, seed: int) -> int:
    return _finished(_mixed(_mixed(seed, value & _U32), value >> 32 & _U32), 8)


def _murmur_bytes(data: bytes, seed: int) -> int:
    whole = len(data) - len(data) % 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        seed = _mixed(seed, word)
    for byte in data[whole:]:
        seed = _mixed(seed, (byte - 256 if byte > 127 else byte) & _U32)
    return _finished(seed, len(data))


def _xx_round(seed: int, word: int) -> int:
    return _rotated((seed + word * _P2) & _U64, 31, 64) * _P1 & _U64


def _xx_finished(value: int) -> int:
    value = (value ^ value >> 33) * _P2 & _U64
    value = (value ^ value >> 29) * _P3 & _U64
    return value ^ value >> 32


def _xx_long_mixed(value: int, word: int) -> int:
    return (_rotated(value ^ _xx_round(0, word), 27, 64) * _P1 + _P4) & _U64


def _xx_int_mixed(value: int, word: int) -> int:
    return (_rotated(value ^ (word * _P1 & _U64), 23, 64) * _P2 + _P3) & _U64


def _xx_int(value: int, seed: int) -> int:
    return _xx_finished(_xx_int_mixed((seed + _P5 + 4) & _U64, value & _U32))


def _xx_long(value: int, seed: int) -> int:
    return _xx_finished(_xx_long_mixed((seed + _P5 + 8) & _U64, value & _U64))


def _xx_bytes(data: bytes, seed: int) -> int:
    length, at = len(data), 0
    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        lanes = [lane & _U64 for lane in lanes]
        while at <= length - 32:
            words = struct.unpack_from("<4Q", data, at)
            lanes = [_xx_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            at += 32
        turns = (1, 7, 12, 18)
        value = sum(_rotated(x, by, 64) for x, by in zip(lanes, turns, strict=True)) & _U64
        for lane in lanes:
            value = ((value ^ _xx_round(0, lane)) * _P1 + _P4) & _U64
    else:
        value = (seed + _P5) & _U64
    value = (value + length) & _U64
    while at <= length - 8:
        value = _xx_long_mixed(value, struct.unpack_from("<Q", data, at)[0])
        at += 8
    if at <= length - 4:
        value = _xx_int_mixed(value, struct.unpack_from("<I", data, at)[0])
        at += 4
    for byte in data[at:]:
        value = _rotated(value ^ (byte * _P5 & _U64), 11, 64) * _P1 & _U64
    return _xx_finished(value)


def _hashed(
    kind: t.SqlType, of_int: _Hash, of_long: _Hash, of_bytes: _HashBytes
) -> Callable[[Any, int], int]:
    """The hash of a value in physical form, by its type."""
    match kind:
        case t.BooleanType() | t.DateType() | t.IntervalType(unit="month"):
            return of_int
        case t.IntegerType(bits=bits):
            return of_long if bits == 64 else of_int
        case t.FloatType(bits=32):
            return lambda x, seed: of_int(_bits(x, "<f", "<i"), seed)
        case t.FloatType():
            return lambda x, seed: of_long(_bits(x, "<d", "<q"), seed)
        case t.DecimalType(precision=precision):
            return of_long if precision <= 18 else lambda x, seed: of_bytes(_digits(x), seed)
        case t.StringType():
            return lambda x, seed: of_bytes(x.encode(), seed)
        case t.BinaryType():
            return of_bytes
        case _:
            return of_long


def _bits(value: float, form: str, number: str) -> int:
    """The bits of a float, of one zero and one NaN."""
    if math.isnan(value):
        value = math.nan
    (bits,) = struct.unpack(number, struct.pack(form, value + 0.0))
    return int(bits)


def _digits(value: int) -> bytes:
    """The bytes of Java's BigInteger."""
    magnitude = value if value >= 0 else ~value
    return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _hash(call: Call, args: tuple[Node, ...]) -> Run:
    wide = call.function == "xxhash64"
    functions = (
        (_xx_int, _xx_long, _xx_bytes) if wide else (_murmur_int, _murmur_long, _murmur_bytes)
    )
    hashes = [_hashed(arg.type, *functions) for arg in args]
    bits = 64 if wide else 32

    def run(columns: Fetch, n: int) -> Result:
        given, errors = together(args, columns, n)
        seeds = [_SEED] * n
        for column, hashed in zip(given, hashes, strict=True):
            kind, valid = column.type, column.valid
            if isinstance(kind, t.NullType):
                continue
            values = widen(column).values if column.wide else column.values
            for i in range(n):
                if valid is None or valid[i]:
                    seeds[i] = hashed(element(kind, values, i), seeds[i])
        signed = [s - (1 << bits) if s >> (bits - 1) else s for s in seeds]
        return np.array(signed, np.int64), None, errors

    return run


BUILDERS: dict[str, Builder] = {"hash": _hash, "xxhash64": _hash}
