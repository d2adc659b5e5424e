"""Rows of extremes: a column for each type, two where a function takes two of them."""

# ruff: noqa: E501 - a table of data

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

_NAN, _INF = float("nan"), float("inf")
_DAY = 86_400_000_000


def _integers(bits: int) -> tuple[int, ...]:
    top = 1 << (bits - 1)
    small = (0, 1, -1, 2, -2, 3, 7, 10, 12, 28, 31, 60, 100)
    return (*small, top - 1, -top, top - 2, -top + 1, top >> 1, -(top >> 1) - 1)


def _decimals(precision: int, scale: int) -> tuple[Decimal, ...]:
    nines = 10**precision - 1
    unscaled = {0, 1, -1, 5, -5, nines, -nines, nines // 2, nines - 1, 10**scale, -(10**scale)}
    unscaled |= {5 * 10 ** max(scale - 1, 0), 15 * 10 ** max(scale - 1, 0), 10 ** (precision - 1)}
    exact = Context(prec=100)
    return tuple(Decimal(v).scaleb(-scale, exact) for v in sorted(unscaled) if abs(v) <= nines)


_TINY_DOUBLE = 5e-324
_DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.1, 1e-5, 1e7, 123456.789, _NAN, _INF, -_INF,
    1.7976931348623157e308, -1.7976931348623157e308, 2.2250738585072014e-308, _TINY_DOUBLE, -_TINY_DOUBLE,
    2.0**31, -(2.0**31) - 1, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e19, 1e22, 1e38, 1e39,
    16777217.0, 3.4028234663852886e38, 1.401298464324817e-45, 127.5, 32767.5, 0.49999999999999994,
)  # fmt: skip
_FLOATS = (
    0.0, -0.0, 1.0, -1.5, 0.5, 2.5, 0.1, 1.1, _NAN, _INF, -_INF, 3.4028234663852886e38, -3.4028234663852886e38,
    1.401298464324817e-45, 1.1754943508222875e-38, 16777216.0, 2147483648.0, -2147483648.0, 9.223372036854776e18,
    1e10, 1e-5, 1.0e7, 127.9,
)  # fmt: skip
_TEXTS = (
    "", " ", "a", "abc", "ABCabc", "  ab ", "a,b,,c", "\x00", "a\x00b", "é", "ß", "İi", "ŉ", "ΑΣ", "日本語",
    "😀x😀", "e\u0301", "\ufeff", "\uffff", "\U0010ffff", "a\u2028b", "%_\\", "\\", "a\\%", "x" * 300, "é" * 150,
    "\t\n", "null", "ǆ ﬁ", "a b  c", "\u00a0a\u3000", "O'Neil \"x\"", "ab\nab", "\u1e9e", "K\u212a", "aaa",
)  # fmt: skip
#: Texts that are, or nearly are, values of other types.
_WORDS = (
    "0", "-0", "1", "+7", " 12\t", "1.5", ".5", "1.", "1e3", "-1E-2", "1e400", "-1e400", "1e-400", "0x1p3", "1.5d",
    "2F", "NaN", "inf", "-Infinity", "true", "T", " no ", "maybe", "127", "128", "-129", "32768", "2147483648",
    "9223372036854775807", "9223372036854775808", "-9223372036854775809", "9" * 38, "9" * 39, "1e37", "1e38",
    "0." + "9" * 39, "1e-38", "5e-39", "1" + "0" * 400, "9" * 5000, "1e99999999999999999999", "0x1p99999", "1." + "0" * 5000 + "1", "-1e-99999999999999999999", "1e2147483648", "1e-2147483649", "1_000", "abc", "", " ",
    "2020", "2020-2", "2020-2-29", "2021-02-29", "2020-01-05 x", "2020-01-05T12:03:04Z", "9999-12-31",
    "10000-01-01", "+10000-01-01", "-0001-12-31", "0000-01-01", "0001-01-01", "-290308-12-21", "294247-01-10",
    "+294247-01-10 04:00:54.775807", "+294247-01-10 04:00:54.775808", "-290308-12-21 19:59:05.224192",
    "-290308-12-21 19:59:05.224191", "5881580-07-11", "5881580-07-12", "+5881580-07-11", "-5877641-06-23",
    "-5877641-06-22", "999999-12-31 23:59:59", "2020-01-05 24:00:00", "2020-13-01", "2020-01-05 12:03:04.1234567",
    "2020-01-05 12:03:04+01:00", "2020-01-05 12:03:04 -18:00", "2020-01-05 12:03:04 +18:01",
    "9999-12-31 23:59:59.999999 -01:00", "0001-01-01 00:00:00 +14:00", "2020-07-05 12:03:04 Europe/Paris",
    "10000-01-01 00:00:00 Europe/Paris", "0000-01-01 00:00:00 America/New_York", "\x00", "1\x00", "１２", "é",
    "2020-01-05\x00", "1970-01-01 00:00:00 UTC+1", "20200105", "29/02/2020", "31/12/9999", "+12345-01-02",
)  # fmt: skip
_BYTES = (
    b"", b"\x00", b"a", b"abc", b"\xff", b"\xc3(", "é😀".encode(), b"\x00\xff\x80", b"\x80" * 40, b"1", b"2020-01-05",
)  # fmt: skip
_DAYS = (
    0, 1, -1, 59, 18_321, 18_322, 11_016, -719_162, -719_163, -719_528, -719_529, 2_932_896, 2_932_897, 2_933_000,
    106_751_991, 106_751_992, -106_751_991, -106_751_992, -106_751_993, 2**31 - 1, -(2**31), 2**31 - 2, -(2**31) + 1,
    2**31 - 30, -(2**31) + 31, 2**31 - 400, -(2**31) + 400, 10_957, -141_428, 19_722,
)  # fmt: skip
_MOMENTS = (
    0, 1, -1, 1_000_000, -1_000_000, 1_582_979_696_789_000, _DAY - 1, _DAY, -_DAY - 1, 253_402_300_799_999_999,
    253_402_300_800_000_000, -62_135_596_800_000_000, -62_135_596_800_000_001, -62_167_219_200_000_001,
    2**63 - 1, -(2**63), 2**63 - 2, -(2**63) + 1, 2**63 - _DAY, -(2**63) + _DAY, 2**62, -(2**62),
    2**63 - 40 * _DAY, -(2**63) + 400 * _DAY, 2_147_483_647_000_000, -12_219_292_800_000_000,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Extremes:
    """A column: its name, SQL type, Arrow type, and values; NULL is among them everywhere."""

    name: str
    sql: str
    arrow: pa.DataType
    values: tuple[Any, ...]


def _twice(name: str, sql: str, arrow: pa.DataType, values: Sequence[Any]) -> tuple[Extremes, ...]:
    listed = (*values, None)
    return (Extremes(name, sql, arrow, listed), Extremes(f"{name}2", sql, arrow, listed))


COLUMNS: tuple[Extremes, ...] = (
    Extremes("o", "BOOLEAN", pa.bool_(), (True, False, None)),
    *_twice("ti", "TINYINT", pa.int8(), _integers(8)),
    *_twice("si", "SMALLINT", pa.int16(), _integers(16)),
    *_twice("i", "INT", pa.int32(), _integers(32)),
    *_twice("b", "BIGINT", pa.int64(), _integers(64)),
    *_twice("f", "FLOAT", pa.float32(), _FLOATS),
    *_twice("d", "DOUBLE", pa.float64(), _DOUBLES),
    *_twice("n9", "DECIMAL(9,2)", pa.decimal128(9, 2), _decimals(9, 2)),
    *_twice("n18", "DECIMAL(18,0)", pa.decimal128(18, 0), _decimals(18, 0)),
    *_twice("n38", "DECIMAL(38,0)", pa.decimal128(38, 0), _decimals(38, 0)),
    *_twice("m38", "DECIMAL(38,18)", pa.decimal128(38, 18), _decimals(38, 18)),
    *_twice("z38", "DECIMAL(38,38)", pa.decimal128(38, 38), _decimals(38, 38)),
    *_twice("s", "STRING", pa.string(), _TEXTS),
    *_twice("w", "STRING", pa.string(), _WORDS),
    *_twice("y", "BINARY", pa.binary(), _BYTES),
    *_twice("day", "DATE", pa.date32(), _DAYS),
    *_twice("at", "TIMESTAMP", pa.timestamp("us", "UTC"), _MOMENTS),
    *_twice("lt", "TIMESTAMP_NTZ", pa.timestamp("us"), _MOMENTS),
)
DDL = ", ".join(["id INT", *(f"{c.name} {c.sql}" for c in COLUMNS)])


def rows(count: int, seed: int) -> pa.Table:
    """Rows with every value of every column as often as `count` allows, beside others at random."""
    drawn = random.Random(seed)
    arrays = {"id": pa.array(range(count), pa.int32())}
    for column in COLUMNS:
        values: list[Any] = []
        while len(values) < count:
            order = sorted(column.values, key=lambda _: drawn.random())
            values += order
        arrays[column.name] = _array(values[:count], column.arrow)
    return pa.table(arrays)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """By what is stored, since Python lacks some dates."""
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        integers = pa.int32() if pa.types.is_date(kind) else pa.int64()
        return pa.array(values, integers).view(kind)
    if pa.types.is_float32(kind):
        return pa.array([None if v is None else np.float32(v) for v in values], kind)
    return pa.array(values, kind)
