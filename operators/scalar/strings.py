"""Functions of strings: matching, cutting, joining. Positions count code points, from 1.

Literal arguments (a pattern, a length) are compiled once; arguments that vary by row, and case
mapping beyond ASCII, take a path through Python, row by row. `edits` has more functions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight.column import Bools, Values
from operators.kernels.texts import has_parts
from operators.scalar.comparison import among, bools, text_buffers
from operators.scalar.text import shortened
from operators.scalar.value import (
    Builder,
    Errors,
    Fetch,
    Node,
    Result,
    Run,
    both_valid,
    failures,
    first_of,
    only_where,
    unary,
)
from planner.calculus.expr import Call
from planner.errors import BindError, UnsupportedError

_MAX_INT = (1 << 31) - 1


_BLANKS: dict[pa.DataType, Any] = {
    pa.string(): "",
    pa.binary(): b"",
    pa.int64(): 0,
    pa.float32(): 0.0,
    pa.float64(): 0.0,
}
_TEXTS = (pa.string(), pa.binary())


def rowwise(
    args: tuple[Node, ...], function: Callable[..., Any], kind: pa.DataType | None = None
) -> Run:
    """`function` called with the Python values of each row on which no argument is NULL.

    A ValueError it raises is the row's error; where it returns None, the result is NULL. `kind`:
    the results are of that type, one of _BLANKS; None: booleans.
    """
    blank: Any = False if kind is None else _BLANKS[kind]

    def run(columns: Fetch, n: int) -> Result:
        valid: Bools | None = None
        errors: Errors | None = None
        inputs = []
        for arg in args:
            values, own_valid, own = arg.run(columns, n)
            errors = first_of(errors, only_where(own, valid))
            valid = both_valid(valid, own_valid)
            inputs.append(values.tolist() if isinstance(values, np.ndarray) else values.to_pylist())
        rows = zip(*inputs, strict=True)
        out: list[Any] = [blank] * n
        failed: dict[int, str] = {}
        for i, row in enumerate(rows):
            if valid is None or valid[i]:
                try:
                    out[i] = function(*row)
                except ValueError as error:
                    failed[i] = str(error)
        errors = first_of(errors, failures(n, failed, failed.values()))
        if None in out:
            there = np.array([value is not None for value in out])
            valid = both_valid(valid, there)
            out = [blank if value is None else value for value in out]
        if kind in _TEXTS:
            return pa.array(out, kind), valid, errors
        return np.array(out, np.bool_ if kind is None else kind.to_pandas_dtype()), valid, errors

    return run


def text_of(node: Node) -> str | None:
    """The value of a literal string argument, None if it is not a literal or is NULL."""
    return node.value if node.literal and isinstance(node.value, str) else None


#: Of a pattern that is looked for byte by byte: what one byte of a text may cost.
_MOST_BYTES = 32


def _has_parts(parts: list[str], open_start: bool, open_end: bool) -> Callable[[Any], Bools]:
    """Whether a text is the parts in order, none of them empty; see kernels.texts.has_parts."""
    encoded = [part.encode() for part in parts]
    data = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum([len(part) for part in encoded], dtype=np.int64)
    skips = np.empty((len(parts), 256), np.int64)
    for part, row in zip(encoded, skips, strict=True):
        row[:] = len(part)
        for place, byte in enumerate(part[:-1]):
            row[byte] = len(part) - 1 - place
    flat = skips.reshape(-1)

    def op(a: pa.Array) -> Bools:
        out = np.empty(len(a), np.bool_)
        offsets, text = text_buffers(a)
        has_parts(offsets, text, data, ends, flat, int(open_start), int(open_end), out)
        return out

    return op


def _has_prefix(needle: str) -> Callable[[Any], Bools]:
    return _has_parts([needle] * bool(needle), False, True)


def _has_suffix(needle: str) -> Callable[[Any], Bools]:
    return _has_parts([needle] * bool(needle), True, False)


def _contains(needle: str) -> Callable[[Any], Bools]:
    if len(needle.encode()) <= _MOST_BYTES:
        return _has_parts([needle] * bool(needle), True, True)
    call = pc.get_function("match_substring")
    options = pc.MatchSubstringOptions(needle)
    return lambda a: bools(call.call([a], options=options))


def _matches(regex: str) -> Callable[[Any], Bools]:
    call = pc.get_function("match_substring_regex")
    options = pc.MatchSubstringOptions(regex)
    try:
        call.call([pa.array([""])], options=options)
    except pa.ArrowInvalid as error:
        raise UnsupportedError(
            f"cannot evaluate the regular expression '{regex}'",
            detail=f"{str(error).splitlines()[0]}.",
            hint="Write it without look-around and back references.",
        ) from None
    return lambda a: bools(call.call([a], options=options))


_MATCHERS = {
    "starts_with": (_has_prefix, str.startswith),
    "ends_with": (_has_suffix, str.endswith),
    "contains": (_contains, str.__contains__),
}


def _match(call: Call, args: tuple[Node, ...]) -> Run:
    compiled, plain = _MATCHERS[call.function]
    needle = text_of(args[1])
    return rowwise(args, plain) if needle is None else unary(args[0], compiled(needle))


def like_tokens(pattern: str, escape: str) -> list[str | None]:
    """The pattern as literal texts, "_" as "" and "%" as None, in order.

    Raises: BindError if the escape character is misplaced.
    """
    tokens: list[str | None] = []
    literal = ""
    i = 0
    while i < len(pattern):
        c = pattern[i]
        if c == escape:
            i += 1
            if i == len(pattern):
                raise BindError(
                    f"invalid LIKE pattern '{pattern}'",
                    detail="The escape character ends the pattern.",
                    hint="Double it to match the character itself.",
                )
            if pattern[i] not in ("_", "%", escape):
                raise BindError(
                    f"invalid LIKE pattern '{pattern}'",
                    detail=f"The escape character precedes '{pattern[i]}'.",
                    hint=f"It may precede '_', '%' and '{escape}' only.",
                )
            literal += pattern[i]
        elif c in "_%":
            if literal:
                tokens.append(literal)
                literal = ""
            if c == "_":
                tokens.append("")
            elif not tokens or tokens[-1] is not None:
                tokens.append(None)
        else:
            literal += c
        i += 1
    if literal:
        tokens.append(literal)
    return tokens


def _like(call: Call, args: tuple[Node, ...]) -> Run:
    arg = args[0]
    if any(node.literal and node.value is None for node in args[1:]):
        return rowwise(args, lambda *_: False)
    pattern = text_of(args[1])
    escape = text_of(args[2]) if len(args) > 2 else "\\"
    if escape is None:
        raise ValueError("LIKE takes a literal escape character")
    if pattern is None:
        return rowwise(args[:2], _like_by_row(escape))
    match like_tokens(pattern, escape):
        case []:
            op = among([""])
        case [str(text)] if text:
            op = among([text])
        case tokens if _is_short(tokens):
            parts = [text for text in tokens if text is not None]
            op = _has_parts(parts, tokens[0] is None, tokens[-1] is None)
        case tokens:
            op = _matches(_like_regex(tokens))
    return unary(arg, op)


def _is_short(tokens: list[str | None]) -> bool:
    """Whether a pattern has no "_", and little to look for but at its ends."""
    inner = tokens[tokens[0] is not None : -1 if tokens[-1] is not None else None]
    return "" not in tokens and all(len(x.encode()) <= _MOST_BYTES for x in inner if x is not None)


#: Patterns of one expression that are kept compiled.
_PATTERNS = 4096


def _like_by_row(escape: str) -> Callable[[str, str], bool]:
    """LIKE with patterns that vary: those seen lately are compiled once."""

    @functools.lru_cache(maxsize=_PATTERNS)
    def compiled(pattern: str) -> re.Pattern[str]:
        try:
            tokens = like_tokens(pattern, escape)
        except BindError as error:
            where = "AT_THE_END" if "ends" in str(error.detail) else "IN_THE_MIDDLE"
            raise ValueError(f"[INVALID_FORMAT.ESC_{where}] {shortened(error.message)}") from None
        parts = [".*" if x is None else re.escape(x) if x else "." for x in tokens]
        return re.compile("".join(parts), re.DOTALL)

    return lambda text, pattern: compiled(pattern).fullmatch(text) is not None


def _like_regex(tokens: list[str | None]) -> str:
    parts = [".*" if x is None else _quoted(x) if x else "." for x in tokens]
    return "(?s)\\A" + "".join(parts) + "\\z"


def _quoted(text: str) -> str:
    return re.sub(r"([\\.^$|?*+()\[\]{}])", r"\\\1", text)


def _rlike(call: Call, args: tuple[Node, ...]) -> Run:
    if args[1].literal and args[1].value is None:
        return rowwise(args, lambda *_: False)
    regex = text_of(args[1])
    if regex is None:
        raise ValueError("RLIKE takes a literal regular expression")
    return unary(args[0], _matches(regex))


def _substring(call: Call, args: tuple[Node, ...]) -> Run:
    arg, start, length = args
    if start.literal and length.literal and None not in (start.value, length.value):
        first, count = int(start.value or 0), int(length.value or 0)
        if first >= 0:
            begin = max(first - 1, 0)
            end = min(begin + max(count, 0), _MAX_INT)
            slicing = pc.get_function("utf8_slice_codeunits")
            options = pc.SliceOptions(begin, end)
            return unary(arg, lambda a: slicing.call([a], options=options))
    return rowwise(args, substring, pa.string())


def substring(text: str, start: int, length: int) -> str:
    """Spark's substring: 0 counts as 1, negative positions from the end, cut off at the front."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = max(min(begin + length, _MAX_INT), -_MAX_INT - 1)
    return text[max(begin, 0) : max(end, 0)] if end > begin else ""


def _case_mapping(name: str, plain: Callable[[str], str]) -> Builder:
    ascii_only = pc.get_function(name)

    def op(a: pa.Array) -> Values:
        _, data = text_buffers(a)
        if len(data) == 0 or data.max() < 128:
            return ascii_only.call([a])
        return pa.array([plain(s) for s in a.to_pylist()], pa.string())

    return lambda call, args: unary(args[0], op)


def _length(call: Call, args: tuple[Node, ...]) -> Run:
    counting = pc.get_function("utf8_length")
    return unary(args[0], lambda a: counting.call([a]).to_numpy().astype(np.int64))


def _concat(call: Call, args: tuple[Node, ...]) -> Run:
    joining = pc.get_function("binary_join_element_wise")

    def run(columns: Fetch, n: int) -> Result:
        valid: Bools | None = None
        errors: Errors | None = None
        parts = []
        for arg in args:
            values, own_valid, own = arg.run(columns, n)
            errors = first_of(errors, only_where(own, valid))
            valid = both_valid(valid, own_valid)
            parts.append(values)
        if not parts:
            return pa.repeat(pa.scalar(""), n), None, None
        return joining.call([*parts, pa.scalar("")]), valid, errors

    return run


def _replace(call: Call, args: tuple[Node, ...]) -> Run:
    arg, search, replacement = args
    pattern, by = text_of(search), text_of(replacement)
    if pattern and by is not None:
        replacing = pc.get_function("replace_substring")
        options = pc.ReplaceSubstringOptions(pattern, by)
        return unary(arg, lambda a: replacing.call([a], options=options))
    return rowwise(args, lambda s, old, new: s.replace(old, new) if old else s, pa.string())


def _split_part(call: Call, args: tuple[Node, ...]) -> Run:
    return rowwise(args, split_part, pa.string())


def split_part(text: str, delimiter: str, part: int) -> str:
    """The part'th piece, from the end if negative, "" if there are fewer."""
    if part == 0:
        raise ValueError("[INVALID_INDEX_OF_ZERO] the index 0 is invalid")
    pieces = text.split(delimiter) if delimiter else [text]
    at = part - 1 if part > 0 else len(pieces) + part
    return pieces[at] if 0 <= at < len(pieces) else ""


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_MATCHERS, _match),
    "like": _like,
    "rlike": _rlike,
    "substring": _substring,
    "upper": _case_mapping("ascii_upper", str.upper),
    "lower": _case_mapping("ascii_lower", str.lower),
    "length": _length,
    "concat": _concat,
    "replace": _replace,
    "split_part": _split_part,
}
