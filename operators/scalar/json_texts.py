"""Texts of JSON: a value by its path, the length of an array, the keys of an object.

A text is read as Spark's parser reads it: single quotes do too, and control characters; what stands
behind the value is not looked at. A value is written again without white space. A path reads the
objects on its way to their end, and takes the first field of a name whose value is there.

Source: Spark `jsonExpressions` (GetJsonObject), Jackson.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from operators.flight import nested
from operators.flight.column import Bools, Column
from operators.scalar.lists import strict
from operators.scalar.strings import rowwise, text_of
from operators.scalar.text import format_float
from operators.scalar.value import Builder, Node, Run
from planner.calculus import types as t
from planner.calculus.expr import Call
from planner.errors import UnsupportedError

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9A-Za-z_.])")
_WORD = re.compile(r"(?:true|false|null)(?![0-9A-Za-z_])")
_BEYOND = re.compile(r"(?:NaN|[+-]?INF(?:inity)?|[+-]?Infinity)(?![0-9A-Za-z_])")
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_STEP = re.compile(r"\.([^.\[*]+)|\['([^']+)'\]|\[([0-9]+)\]")
#: Arrays and objects in each other that Jackson reads.
_DEEPEST = 500


class Bad(Exception):
    """The text is no JSON."""


@dataclass(frozen=True, slots=True)
class Number:
    text: str


class Parser:
    """Values of one text: str, Number, True, False, None, lists, Objects."""

    def __init__(self, text: str, names: bool = False) -> None:
        """`names`: NaN, INF and Infinity are numbers."""
        self.text = text
        self.names = names
        self.at = 0
        self.depth = 0

    def root(self) -> Any:
        """The value that the text begins with; behind a number there is a space, or nothing."""
        found = self.value()
        if isinstance(found, Number) and self.text[self.at : self.at + 1].strip(" \t\r\n"):
            self._fail()
        return found

    def value(self) -> Any:
        self._space()
        mark = self.text[self.at : self.at + 1]
        if mark in ("{", "["):
            self.depth += 1
            if self.depth > _DEEPEST:
                self._fail()
            found = self._object() if mark == "{" else self._array()
            self.depth -= 1
            return found
        if mark and mark in "\"'":
            return self._string(mark)
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            return Number(number[0])
        beyond = _BEYOND.match(self.text, self.at) if self.names else None
        if beyond is not None:
            self.at = beyond.end()
            return Number(beyond[0])
        word = _WORD.match(self.text, self.at)
        if word is None:
            self._fail()
        self.at = word.end()
        return {"true": True, "false": False, "null": None}[word[0]]

    def _fail(self) -> NoReturn:
        raise Bad

    def _space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def _accept(self, mark: str) -> bool:
        self._space()
        if self.text.startswith(mark, self.at):
            self.at += 1
            return True
        return False

    def _object(self) -> Object:
        self.at += 1
        pairs: list[tuple[str, Any]] = []
        if self._accept("}"):
            return Object(pairs)
        while True:
            self._space()
            mark = self.text[self.at : self.at + 1]
            if not mark or mark not in "\"'":
                self._fail()
            name = self._string(mark)
            if not self._accept(":"):
                self._fail()
            pairs.append((name, self.value()))
            if self._accept("}"):
                return Object(pairs)
            if not self._accept(","):
                self._fail()

    def _array(self) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        if self._accept("]"):
            return found
        while True:
            found.append(self.value())
            if self._accept("]"):
                return found
            if not self._accept(","):
                self._fail()

    def _string(self, quote: str) -> str:
        self.at += 1
        parts = []
        while True:
            plain = _PLAIN[quote].match(self.text, self.at)
            assert plain is not None
            parts.append(plain[0])
            self.at = plain.end() + 1
            if plain.end() == len(self.text):
                self._fail()
            if self.text[plain.end()] == quote:
                return _paired("".join(parts))
            letter = self.text[self.at : self.at + 1]
            if letter == "u":
                digits = self.text[self.at + 1 : self.at + 5]
                if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                    self._fail()
                parts.append(chr(int(digits, 16)))
                self.at += 5
            elif letter in _ESCAPES or letter == "'":
                parts.append(_ESCAPES.get(letter, letter))
                self.at += 1
            else:
                self._fail()


@dataclass(frozen=True, slots=True)
class Object:
    pairs: list[tuple[str, Any]]


def _paired(text: str) -> str:
    """Halves of characters beyond 16 bits put together; one that is alone has no UTF-8."""
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\ufffd", "?")


def written(value: Any) -> str:
    match value:
        case Object(pairs=pairs):
            return f"{{{','.join(f'{written(k)}:{written(v)}' for k, v in pairs)}}}"
        case list():
            return f"[{','.join(map(written, value))}]"
        case str():
            return quoted(value)
        case Number(text=text):
            return _number(text)
        case _:
            return json.dumps(value)


def _number(text: str) -> str:
    """A whole number has all its digits, another one those of a DOUBLE."""
    if _BEYOND.fullmatch(text):
        return f'"{text}"'
    if text.removeprefix("-").isdigit():
        return str(int(text)) if len(text) < 1000 else text
    shown = format_float(float(text))
    return f'"{shown}"' if "Inf" in shown else shown


def quoted(text: str) -> str:
    """As Jackson escapes: quotes, backslashes and control characters, in capital digits."""
    if not re.search(r'["\\\x00-\x1f]', text):
        return f'"{text}"'
    shown = json.dumps(text, ensure_ascii=False)
    return re.sub(r"\\u([0-9a-f]{4})", lambda m: f"\\u{m[1].upper()}", shown)


def _steps(path: str) -> list[str | int]:
    """The names and places of a path. Raises: UnsupportedError for any other path."""
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            break
        steps.append(int(found[3]) if found[3] else (found[1] or found[2]))
        at = found.end()
    if not path.startswith("$") or at < len(path):
        raise UnsupportedError(
            f"cannot maintain GET_JSON_OBJECT by the path '{path}'",
            detail="A path is $, .name, ['name'] and [number]; wildcards are not among it.",
            hint="Take the array by its path, and its elements when reading the view.",
        )
    return steps


def _get(call: Call, args: tuple[Node, ...]) -> Run:
    path = text_of(args[1])
    assert path is not None, "a literal"
    steps = _steps(path)

    def found(text: str) -> str | None:
        try:
            value = _reached(Parser(text).root(), steps)
        except Bad:
            return None
        return value if value is None or isinstance(value, str) else written(value)

    return rowwise(args[:1], found, pa.string())


def _reached(value: Any, steps: list[str | int]) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    match value:
        case Object(pairs=pairs) if isinstance(step, str):
            for name, part in pairs:
                if name == step:
                    reached = _reached(part, rest)
                    if reached is not None:
                        return reached
        case list() if isinstance(step, int) and step < len(value):
            return _reached(value[step], rest)
    return None


def _array_length(call: Call, args: tuple[Node, ...]) -> Run:
    def length(text: str) -> int | None:
        value = _parsed(text)
        return len(value) if isinstance(value, list) else None

    return rowwise(args, length, pa.int64())


def _parsed(text: str) -> Any:
    try:
        return Parser(text).root()
    except Bad:
        return None


def _object_keys(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        values = [_parsed(text) for text in given[0].values.to_pylist()]
        keys = [[k for k, _ in v.pairs] if isinstance(v, Object) else [] for v in values]
        there = np.array([isinstance(v, Object) for v in values], np.bool_)
        words = pa.array([key for some in keys for key in some], pa.string())
        offsets = nested.offsets_of([len(some) for some in keys])
        out = nested.from_lists(call.type, offsets, Column(t.STRING, words), None)
        return Column(call.type, out.values, there), None

    return strict(args, op)


BUILDERS: dict[str, Builder] = {
    "get_json_object": _get,
    "json_array_length": _array_length,
    "json_object_keys": _object_keys,
}
