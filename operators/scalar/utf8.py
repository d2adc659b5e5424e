"""Texts and bytes by their codes: UTF-8, base 32, bitmaps, likeness of texts.

Source: Spark `IsValidUTF8` and its kin, `Base32` (commons-codec), `JaroWinkler`, `BitmapCount`.
"""

from __future__ import annotations

import base64

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools, Column
from operators.scalar.lists import strict
from operators.scalar.strings import rowwise
from operators.scalar.value import Builder, Node, Run, unary
from planner.calculus import types as t
from planner.calculus.algebra import BITMAP_BYTES
from planner.calculus.expr import Call


def _is_valid(call: Call, args: tuple[Node, ...]) -> Run:
    def valid(data: bytes) -> bool:
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
        return True

    return rowwise(args, valid)


def _validated(call: Call, args: tuple[Node, ...]) -> Run:
    def text(data: bytes) -> str | None:
        try:
            return data.decode()
        except UnicodeDecodeError:
            if call.function == "try_validate_utf8":
                return None
            if call.function == "make_valid_utf8":
                return data.decode(errors="replace")
            raise ValueError("[INVALID_UTF8_STRING] the bytes are no UTF-8") from None

    return rowwise(args, text, pa.string())


def _to_base32(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda b: base64.b32encode(b).decode(), pa.string())


_DIGITS = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")}
_DIGITS |= {c.lower(): i for c, i in _DIGITS.items()}


def _from_base32(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, from_base32, pa.binary())


def from_base32(text: str) -> bytes:
    """What is not of the alphabet is passed over, and bits that make no byte are left out."""
    digits = [_DIGITS[c] for c in text.partition("=")[0] if c in _DIGITS]
    bits = 0
    for digit in digits:
        bits = bits << 5 | digit
    count = 5 * len(digits)
    if count % 40 == 5:  # two bits of the last digit are dropped, as of two digits
        return (
            (bits >> 2).to_bytes(count // 8 + 1, "big")
            if count == 5
            else ((bits >> 5).to_bytes(count // 8, "big") + bytes([(bits & 31) >> 2]))
        )
    return (bits >> count % 8).to_bytes(count // 8, "big")


def _bitmap(call: Call, args: tuple[Node, ...]) -> Run:
    """The bucket of 32,768 numbers that one is in, from 1 on, or its place there."""
    number = call.function == "bitmap_bucket_number"

    def op(a: np.ndarray) -> np.ndarray:
        above = np.where(a > 0, a - 1, 0)
        if number:
            return np.where(a > 0, above // 32_768 + 1, -(-(a // 2) // 16_384))
        return np.where(a > 0, above % 32_768, -(np.where(a > 0, 0, a) % -32_768))

    return unary(args[0], op)


def _bitmap_place(call: Call, args: tuple[Node, ...]) -> Run:
    def place(number: int) -> int:
        if not 0 <= number < 8 * BITMAP_BYTES:
            raise ValueError(f"[INVALID_BITMAP_POSITION] a bitmap has no bit {number}")
        return number

    return rowwise(args, place, pa.int64())


def _bitmap_count(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        counts = [int.from_bytes(b or b"", "big").bit_count() for b in given[0].values.to_pylist()]
        return Column(t.BIGINT, np.array(counts, np.int64)), None

    return strict(args, op)


def _likeness(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, jaro_winkler, pa.float64())


def jaro_winkler(left: str, right: str) -> float:
    """Of the units of 16 bits. Cost: the product of the lengths."""
    if left == right:
        return 1.0
    a, b = (np.frombuffer(s.encode("utf-16-le"), np.uint16).tolist() for s in (left, right))
    if not a or not b:
        return 0.0
    reach = max(max(len(a), len(b)) // 2 - 1, 0)
    taken = [False] * len(b)
    mine = []
    for i, c in enumerate(a):
        for j in range(max(0, i - reach), min(len(b), i + reach + 1)):
            if not taken[j] and b[j] == c:
                taken[j] = True
                mine.append(c)
                break
    if not mine:
        return 0.0
    yours = [c for c, t in zip(b, taken, strict=True) if t]
    moved = sum(x != y for x, y in zip(mine, yours, strict=True)) / 2
    m = float(len(mine))
    jaro = (m / len(a) + m / len(b) + (m - moved) / m) / 3.0
    same = 0
    while same < min(4, len(a), len(b)) and a[same] == b[same]:
        same += 1
    return float(jaro + same * 0.1 * (1.0 - jaro))


BUILDERS: dict[str, Builder] = {
    "is_valid_utf8": _is_valid,
    "validate_utf8": _validated,
    "try_validate_utf8": _validated,
    "make_valid_utf8": _validated,
    "to_base32": _to_base32,
    "from_base32": _from_base32,
    "bitmap_bucket_number": _bitmap,
    "bitmap_bit_position": _bitmap,
    "bitmap_place": _bitmap_place,
    "bitmap_count": _bitmap_count,
    "jaro_winkler_similarity": _likeness,
}
