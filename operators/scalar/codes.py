"""Texts and bytes in other forms: digests, digits, base 64, charsets, parts of URLs.

Source: Spark `misc` (Md5, Sha2, Crc32), `Base64`, `UnBase64` (Java's MIME decoder), `Encode`,
`StringDecode`, `urlExpressions`, `Hex`, `Unhex`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import urllib.parse
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from operators.scalar.strings import rowwise, text_of
from operators.scalar.value import Builder, Node, Run, unary
from planner.calculus.expr import Call
from planner.errors import UnsupportedError

_LONG = (1 << 64) - 1
_KEYED = re.compile(r"sha-?(1|224|256|384|512)|md5")
_SHA2 = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}


def _digest(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda b: hashlib.new(call.function, b).hexdigest(), pa.string())


def _sha2(call: Call, args: tuple[Node, ...]) -> Run:
    def digest(data: bytes, bits: int) -> str | None:
        return hashlib.new(_SHA2[bits], data).hexdigest() if bits in _SHA2 else None

    return rowwise(args, digest, pa.string())


def _hmac(call: Call, args: tuple[Node, ...]) -> Run:
    name = text_of(args[2]) or ""
    algorithm = name.lower().replace("-", "")
    if not _KEYED.fullmatch(name.lower()):
        raise UnsupportedError(
            f"HMAC does not know the algorithm '{name}'",
            hint="The algorithms are SHA-224, SHA-256, SHA-384, SHA-512, SHA-1 and MD5.",
        )

    def digest(key: bytes, message: bytes) -> bytes:
        if not key:
            raise ValueError("[INVALID_PARAMETER_VALUE.HMAC_CRYPTO_ERROR] the key is empty")
        return hmac.digest(key, message, algorithm)

    return rowwise(args[:2], digest, pa.binary())


def _crc32(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, zlib.crc32, pa.int64())


def _hex(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda b: b.hex().upper(), pa.string())


def _hex_of_number(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda n: f"{n & _LONG:X}", pa.string())


def _unhex(call: Call, args: tuple[Node, ...]) -> Run:
    def bytes_of(digits: str) -> bytes | None:
        try:
            return _from_hex(digits)
        except ValueError:
            return None

    return rowwise(args, bytes_of, pa.binary())


def _base64(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda b: base64.b64encode(b).decode(), pa.string())


_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _unbase64(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, from_base64, pa.binary())


def from_base64(text: str) -> bytes:
    """What is not of the alphabet is passed over; "=" ends the last group of four."""
    before, sign, behind = text.partition("=")
    digits = [c for c in before if c in _ALPHABET]
    rest = len(digits) % 4
    wrong = rest == 1 or (sign and rest == 0) or any(c in _ALPHABET for c in behind)
    if wrong or (sign and rest == 2 and not behind.startswith("=")):
        raise ValueError("[CONVERSION_INVALID_INPUT] the text is not in base 64")
    return base64.b64decode("".join(digits) + "=" * (-rest % 4))


def _length(call: Call, args: tuple[Node, ...]) -> Run:
    lengths, unit = pc.get_function("binary_length"), 8 if call.function == "bit_length" else 1
    return unary(args[0], lambda a: unit * lengths.call([a]).to_numpy().astype("int64"))


#: Charsets that Spark has, as Python writes them. UTF-16 and UTF-32 are big-endian; when it writes
#: UTF-16, Java puts a mark of the order before it.
_CHARSETS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16-be",
    "UTF-32": "utf-32-be",
}


def _charset(call: Call, arg: Node) -> tuple[str, str]:
    name = (text_of(arg) or "").upper()
    if name not in _CHARSETS:
        raise UnsupportedError(
            f"{call.function.upper()} does not know the charset '{text_of(arg)}'",
            hint=f"The charsets are {', '.join(_CHARSETS)}.",
        )
    return name, _CHARSETS[name]


def _encode(call: Call, args: tuple[Node, ...]) -> Run:
    name, codec = _charset(call, args[1])
    before = b"\xfe\xff" if name == "UTF-16" else b""

    def encoded(text: str) -> bytes:
        try:
            return (before if text else b"") + text.encode(codec)
        except UnicodeError:
            raise ValueError(_malformed("encode", name)) from None

    return rowwise(args[:1], encoded, pa.binary())


def _decode(call: Call, args: tuple[Node, ...]) -> Run:
    name, codec = _charset(call, args[1])

    def decoded(data: bytes) -> str:
        try:
            if name == "UTF-16" and data[:2] == b"\xff\xfe":
                return data[2:].decode("utf-16-le")
            if name == "UTF-16" and data[:2] == b"\xfe\xff":
                data = data[2:]
            return data.decode(codec)
        except UnicodeError:
            raise ValueError(_malformed("decode", name)) from None

    return rowwise(args[:1], decoded, pa.string())


def _malformed(function: str, charset: str) -> str:
    what = f"invalid value found when performing {function} with {charset}"
    return f"[MALFORMED_CHARACTER_CODING] {what}"


def _url_encode(call: Call, args: tuple[Node, ...]) -> Run:
    def encoded(text: str) -> str:
        return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")

    return rowwise(args, encoded, pa.string())


def _url_decode(call: Call, args: tuple[Node, ...]) -> Run:
    fails = call.function == "url_decode"

    def decoded(text: str) -> Any:
        try:
            return from_url(text)
        except ValueError:
            if fails:
                raise ValueError("[CANNOT_DECODE_URL] the text is no part of a URL") from None
            return None

    return rowwise(args, decoded, pa.string())


def from_url(text: str) -> str:
    """Raises: ValueError where two hexadecimal digits are missing behind a %."""
    pieces = text.replace("+", " ").split("%")
    out = bytearray(pieces[0].encode())
    for piece in pieces[1:]:
        digits = piece[:2]
        if len(digits) < 2 or not all(c in "0123456789abcdefABCDEF" for c in digits):
            raise ValueError(digits)
        out.append(int(digits, 16))
        out += piece[2:].encode()
    return out.decode(errors="replace")


def _bytes_in(call: Call, args: tuple[Node, ...]) -> Run:
    """TO_BINARY, by the name of the format."""
    name, fails = (text_of(args[1]) or "").lower(), call.function == "bytes_in"
    read: Callable[[str], bytes]
    match name:
        case "hex":
            read = _from_hex
        case "base64":
            read = _from_strict_base64
        case "utf-8" | "utf8":
            read = str.encode
        case _:
            raise UnsupportedError(
                f"TO_BINARY does not know the format '{name}'",
                hint="The formats are hex, base64 and utf-8.",
            )

    def value(text: str) -> bytes | None:
        try:
            return read(text)
        except ValueError:
            if fails:
                raise ValueError(f"[CONVERSION_INVALID_INPUT] the text is not {name}") from None
            return None

    return rowwise(args[:1], value, pa.binary())


def _from_strict_base64(text: str) -> bytes:
    if any(c not in _ALPHABET and c not in "= \t\r\n" for c in text):
        raise ValueError(text)
    return from_base64(text)


def _from_hex(digits: str) -> bytes:
    if not all(c in "0123456789abcdefABCDEF" for c in digits):
        raise ValueError(digits)
    return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")


BUILDERS: dict[str, Builder] = {
    "md5": _digest,
    "sha1": _digest,
    "sha2": _sha2,
    "hmac": _hmac,
    "crc32": _crc32,
    "hex": _hex,
    "hex_of_number": _hex_of_number,
    "unhex": _unhex,
    "base64": _base64,
    "unbase64": _unbase64,
    "octet_length": _length,
    "bit_length": _length,
    "encode": _encode,
    "bytes_in": _bytes_in,
    "bytes_in_or_null": _bytes_in,
    "decode": _decode,
    "url_encode": _url_encode,
    "url_decode": _url_decode,
    "try_url_decode": _url_decode,
}
