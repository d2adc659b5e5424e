"""Functions that cut, fill, search and join strings, as Spark's UTF8_BINARY collation does.

Positions and lengths count code points. Literal arguments take Arrow's kernels where they mean the
same; all else goes row by row through Python.

Source: Spark `UTF8String` (trim, lpad, rpad, repeat, reverse, indexOf, translate, subStringIndex,
concatWs), `StringExpressions` (ascii, chr, locate), `CollationAwareUTF8String.toTitleCaseICU`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from operators.flight.column import Bools
from operators.scalar.strings import rowwise, text_of
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    first_of,
    unary,
)
from planner.calculus.expr import Call
from planner.calculus.failing import FEW_COPIES, LONGEST_TEXT

_TRIMS = {
    "trim": ("utf8_trim", str.strip),
    "ltrim": ("utf8_ltrim", str.lstrip),
    "rtrim": ("utf8_rtrim", str.rstrip),
}


def _trim(call: Call, args: tuple[Node, ...]) -> Run:
    name, plain = _TRIMS[call.function]
    characters = " " if len(args) == 1 else text_of(args[1])
    if characters:
        trimming, options = pc.get_function(name), pc.TrimOptions(characters)
        return unary(args[0], lambda a: trimming.call([a], options=options))
    return rowwise(args, lambda s, these: plain(s, these) if these else s, pa.string())


def _pad(call: Call, args: tuple[Node, ...]) -> Run:
    left = call.function == "lpad"

    def padded(text: str, length: int, padding: str) -> str:
        missing = length - len(text)
        _check_length(length)
        if missing <= 0 or not padding:
            return text[: max(length, 0)]
        fill = (padding * (missing // len(padding) + 1))[:missing]
        return fill + text if left else text + fill

    return rowwise(args, padded, pa.string())


def _repeat(call: Call, args: tuple[Node, ...]) -> Run:
    def repeated(text: str, times: int) -> str:
        if times > FEW_COPIES:
            _check_length(len(text) * times)
        return text * max(times, 0)

    return rowwise(args, repeated, pa.string())


def _check_length(length: int) -> None:
    """One row must not take the memory of all."""
    if length > LONGEST_TEXT:
        raise ValueError(
            f"[TEXT_TOO_LONG] the text would have {length:,} characters, more than {LONGEST_TEXT:,}"
        )


def _reverse(call: Call, args: tuple[Node, ...]) -> Run:
    reversing = pc.get_function("utf8_reverse")
    return unary(args[0], lambda a: reversing.call([a]))


def _titled(word: str) -> str:
    """The first letter as a title has it, the others in lower case."""
    first = word[:1]
    return first.title() + word.lower()[len(first.lower()) :]


def _initcap(call: Call, args: tuple[Node, ...]) -> Run:
    def capitalised(text: str) -> str:
        return " ".join(map(_titled, text.split(" ")))

    return rowwise(args, capitalised, pa.string())


def locate(text: str, part: str, start: int) -> int:
    """The first position of `part` at or after `start`, else 0. The empty string is at 1."""
    if start < 1:
        return 0
    return 1 if not part else text.find(part, start - 1) + 1


def _locate(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, locate, pa.int64())


def _translate(call: Call, args: tuple[Node, ...]) -> Run:
    def table(characters: str, by: str) -> dict[int, str]:
        known: dict[int, str] = {}
        for i, c in enumerate(characters):
            known.setdefault(ord(c), by[i : i + 1])
        return known

    characters, by = text_of(args[1]), text_of(args[2])
    if characters is None or by is None:
        return rowwise(args, lambda s, old, new: s.translate(table(old, new)), pa.string())
    fixed = table(characters, by)
    return rowwise(args[:1], lambda s: s.translate(fixed), pa.string())


def _ascii(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda s: ord(s[0]) if s else 0, pa.int64())


def _chr(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, lambda n: chr(n & 0xFF) if n >= 0 else "", pa.string())


def _concat_ws(call: Call, args: tuple[Node, ...]) -> Run:
    """NULL where the separator is; parts that are NULL are left out."""

    def run(columns: Fetch, n: int) -> Result:
        errors: Errors | None = None
        inputs: list[Any] = []
        validity: Bools | None = None
        for i, arg in enumerate(args):
            values, valid, own = arg.run(columns, n)
            errors = first_of(errors, own)
            texts = values.to_pylist()
            if i == 0:
                validity = valid
            elif valid is not None:
                texts = [s if there else None for s, there in zip(texts, valid, strict=True)]
            inputs.append(texts)
        joined = [
            separator.join([part for part in parts if part is not None])
            for separator, *parts in zip(*inputs, strict=True)
        ]
        return pa.array(joined, pa.string()), validity, errors

    return run


def substring_index(text: str, delimiter: str, count: int) -> str:
    """What comes before the count'th delimiter, or after the count'th from the end if negative."""
    if not delimiter or count == 0:
        return ""
    at = -1 if count > 0 else len(text)
    for _ in range(abs(count)):
        at = text.find(delimiter, at + 1) if count > 0 else _last(text, delimiter, at - 1)
        if at < 0:
            return text
    return text[:at] if count > 0 else text[at + len(delimiter) :]


def _last(text: str, delimiter: str, latest: int) -> int:
    """The last place of `delimiter` at or before `latest`, -1 if there is none."""
    return text.rfind(delimiter, 0, latest + len(delimiter)) if latest >= 0 else -1


def _substring_index(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, substring_index, pa.string())


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_TRIMS, _trim),
    "lpad": _pad,
    "rpad": _pad,
    "repeat": _repeat,
    "reverse": _reverse,
    "initcap": _initcap,
    "locate": _locate,
    "translate": _translate,
    "ascii": _ascii,
    "chr": _chr,
    "concat_ws": _concat_ws,
    "substring_index": _substring_index,
}
