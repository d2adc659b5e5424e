"""Functions of regular expressions, which are written as Java has them.

A pattern is taken to Python's form, whose search and groups are the same; what would mean something
else there, or is not known to mean the same, is refused when the view is created.

Source: Java's `Pattern` and `Matcher.replaceAll`; Spark `regexpExpressions`.
"""

from __future__ import annotations

import re
from typing import NoReturn

import pyarrow as pa

from operators.flight import nested
from operators.flight.column import Column
from operators.scalar.strings import rowwise, text_of
from operators.scalar.value import Builder, Fetch, Node, Result, Run
from planner.calculus import types as t
from planner.calculus.expr import Call
from planner.errors import BindError, UnsupportedError

#: What "." is not, and what "$" may stand before.
_LINE_ENDS = "\\n\\r\\u0085\\u2028\\u2029"
_LAST = "(?=(?:\\r\\n|[" + _LINE_ENDS + "])?\\Z)(?!(?<=\\r)\\n\\Z)"
#: Escapes of both languages with one meaning, and those that Python writes otherwise.
_SAME = frozenset("dDsSwWtnrf\\.[]{}()*+?^$|/-&~#\"'`!@%_=:;<>, ")
_OTHER = {"e": "\\x1b", "a": "\\x07", "z": "\\Z"}
_FLAGS = "ims"


def translated(pattern: str, function: str) -> re.Pattern[str]:
    """The pattern in Python's form. Raises: UnsupportedError for what is not the same there."""
    dotall = False
    out: list[str] = []
    i = 0
    flags = re.match(rf"\(\?([{_FLAGS}]+)\)", pattern)
    options = re.ASCII
    if flags is not None:
        for flag in flags[1]:
            options |= {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}[flag]
        dotall, i = "s" in flags[1], flags.end()
        if "m" in flags[1]:
            _refuse(pattern, "the flag m", function)
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            piece, i = _escape(pattern, i, function)
            out.append(piece)
        elif c == "[":
            piece, i = _class(pattern, i, function)
            out.append(piece)
        elif c == "(" and pattern[i : i + 2] == "(?":
            piece, i = _group(pattern, i, function)
            out.append(piece)
        else:
            out.append(_LAST if c == "$" else f"[^{_LINE_ENDS}]" if c == "." and not dotall else c)
            i += 1
            if c == "{" and not re.match(r"\d+(,\d*)?\}", pattern[i:]):
                _refuse(pattern, "this brace", function)
    try:
        return re.compile("".join(out), options)
    except (re.error, OverflowError) as error:
        raise UnsupportedError(
            f"{function.upper()} cannot evaluate the regular expression '{pattern}'",
            detail=f"{error}.",
            hint="Write it without what is said there.",
        ) from None


def _escape(pattern: str, at: int, function: str) -> tuple[str, int]:
    """The escape at the position, and where it ends."""
    c = pattern[at + 1 : at + 2]
    if c == "Q":
        end = pattern.find("\\E", at)
        end = len(pattern) if end < 0 else end
        return re.escape(pattern[at + 2 : end]), end + 2
    if c in _OTHER:
        return _OTHER[c], at + 2
    if c.isdecimal() and c != "0":
        return f"\\{c}", at + 2
    found = re.match(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}", pattern[at + 1 :])
    if found is not None:
        return f"\\{found[0]}", at + 1 + found.end()
    if c not in _SAME or not c:
        _refuse(pattern, f"\\{c}", function)
    return f"\\{c}", at + 2


def _class(pattern: str, at: int, function: str) -> tuple[str, int]:
    """The class of characters that begins at the position, and where it ends."""
    out, i = ["["], at + 1
    if pattern[i : i + 1] == "^":
        out.append("^")
        i += 1
    first = i
    while i < len(pattern) and (pattern[i] != "]" or i == first):
        c = pattern[i]
        if c == "[" or pattern[i : i + 2] == "&&" or (c == "]" and i == first):
            _refuse(pattern, f"'{c}' in a class of characters", function)
        if c == "\\":
            if pattern[i + 1 : i + 2] in ("z", "Q") or pattern[i + 1 : i + 2].isdecimal():
                _refuse(pattern, f"{pattern[i : i + 2]} in a class of characters", function)
            piece, i = _escape(pattern, i, function)
            out.append(piece)
            continue
        out.append("\\" + c if c in "~|&" else c)  # Python keeps doubled ones for later use
        i += 1
    if i >= len(pattern):
        _refuse(pattern, "a class of characters without an end", function)
    return "".join([*out, "]"]), i + 1


def _group(pattern: str, at: int, function: str) -> tuple[str, int]:
    """The begin of a group that is no plain one, and where that ends."""
    for begin in ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"):
        if pattern.startswith(begin, at):
            return begin, at + len(begin)
    named = re.match(r"\(\?<([a-zA-Z][a-zA-Z0-9]*)>", pattern[at:])
    if named is None:
        _refuse(pattern, pattern[at : at + 4], function)
    return f"(?P<{named[1]}>", at + named.end()


def _refuse(pattern: str, what: str, function: str) -> NoReturn:
    raise UnsupportedError(
        f"{function.upper()} cannot evaluate the regular expression '{pattern}'",
        detail=f"{what} is not read here, or may mean something else.",
        hint="Write it with characters, classes, groups and repetitions.",
    )


def template(replacement: str, pattern: re.Pattern[str]) -> list[str | int]:
    """Texts and groups of a replacement in turn: $1, $12 if there are so many groups, and a
    backslash before a character that stands for itself."""
    out: list[str | int] = []
    i = 0
    while i < len(replacement):
        c = replacement[i]
        if c == "\\":
            if i + 1 == len(replacement):
                _wrong(replacement, "ends with a backslash")
            out.append(replacement[i + 1])
            i += 2
        elif c == "$":
            digits = re.match(r"[0-9]+", replacement[i + 1 :])
            if digits is None:
                _wrong(replacement, "has a $ without a group")
            number, used = int(digits[0][0]), 1
            while used < digits.end() and int(digits[0][: used + 1]) <= pattern.groups:
                used += 1
                number = int(digits[0][:used])
            if number > pattern.groups:
                _wrong(replacement, f"has no group {number}")
            out.append(number)
            i += 1 + used
        else:
            out.append(c)
            i += 1
    return out


def _wrong(replacement: str, why: str) -> NoReturn:
    raise BindError(
        f"the replacement '{replacement}' {why}",
        hint="$1 is the first group; write a dollar sign as \\$.",
    )


def _pattern(call: Call, args: tuple[Node, ...]) -> re.Pattern[str]:
    text = text_of(args[1])
    assert text is not None
    return translated(text, call.function)


def _count(call: Call, args: tuple[Node, ...]) -> Run:
    pattern = _pattern(call, args)
    return rowwise(args[:1], lambda s: sum(1 for _ in pattern.finditer(s)), pa.int64())


def _extract(call: Call, args: tuple[Node, ...]) -> Run:
    pattern, group = _pattern(call, args), int(args[2].value or 0)
    if not 0 <= group <= pattern.groups:
        raise BindError(
            f"REGEXP_EXTRACT: the pattern has no group {group}",
            hint=f"It has {pattern.groups}; 0 is all that it matches.",
        )

    def extracted(text: str) -> str:
        found = pattern.search(text)
        return "" if found is None else found[group] or ""

    return rowwise(args[:1], extracted, pa.string())


def _extract_all(call: Call, args: tuple[Node, ...]) -> Run:
    pattern, group = _pattern(call, args), int(args[2].value or 0)
    if not 0 <= group <= pattern.groups:
        raise BindError(
            f"REGEXP_EXTRACT_ALL: the pattern has no group {group}",
            hint=f"It has {pattern.groups}; 0 is all that it matches.",
        )
    text = args[0]

    def run(columns: Fetch, n: int) -> Result:
        values, valid, errors = text.run(columns, n)
        found = [[m[group] or "" for m in pattern.finditer(s)] for s in values.to_pylist()]
        words = pa.array([word for some in found for word in some], pa.string())
        offsets = nested.offsets_of([len(some) for some in found])
        out = nested.from_lists(call.type, offsets, Column(t.STRING, words), None)
        return out.values, valid, errors

    return run


def _substring(call: Call, args: tuple[Node, ...]) -> Run:
    pattern = _pattern(call, args)

    def part(text: str) -> str | None:
        found = pattern.search(text)
        return None if found is None else found[0] or None

    return rowwise(args[:1], part, pa.string())


def _instr(call: Call, args: tuple[Node, ...]) -> Run:
    pattern = _pattern(call, args)

    def place(text: str) -> int:
        found = pattern.search(text)
        # Java counts the two halves of a character beyond 16 bits.
        return 0 if found is None else len(text[: found.start()].encode("utf-16-le")) // 2 + 1

    return rowwise(args[:1], place, pa.int64())


def _replace(call: Call, args: tuple[Node, ...]) -> Run:
    pattern, start = _pattern(call, args), int(args[3].value or 0)
    if start < 1:
        raise BindError("the position of REGEXP_REPLACE is 1 or more")
    parts = template(text_of(args[2]) or "", pattern)

    def by(found: re.Match[str]) -> str:
        return "".join(found[p] or "" if isinstance(p, int) else p for p in parts)

    def replaced(text: str) -> str:
        if start > max(len(text), 1):
            return text
        return text[: start - 1] + pattern.sub(by, text[start - 1 :])

    return rowwise(args[:1], replaced, pa.string())


BUILDERS: dict[str, Builder] = {
    "regexp_count": _count,
    "regexp_extract": _extract,
    "regexp_extract_all": _extract_all,
    "regexp_substr": _substring,
    "regexp_instr": _instr,
    "regexp_replace": _replace,
}
