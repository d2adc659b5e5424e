"""Plans in a plain form: JSON that says nothing but classes, numbers and texts.

A `Format` is a closed set of dataclasses with a name and a version. It writes a graph of their
instances as a list of entries, one for each distinct object: the name of its class and its fields,
in which another object stands as the number of an earlier entry. So subplans that are shared stay
shared, depth costs no recursion, and whoever reads it makes nothing but instances of those classes,
with fields of the declared types. Nothing in the text is executed or looked up by name elsewhere.

Law: read(write(x)) equals x, in the names of columns too, which equality leaves out.
Fields may be bool, int, float, str, bytes, Decimal, date, None, a class of the format (or a base of
some), unions of these, and tuples and frozensets of them. Of what JSON lacks there is
{"bytes": base64}, {"decimal": digits}, {"date": ISO}, {"float": "nan", "inf" or "-inf"}.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from planner import dataflow as ir
from planner.calculus import algebra, expr
from planner.calculus import types as t
from planner.errors import FormatError

T = TypeVar("T")

#: What dataflow plans are made of.
PLAN_CLASSES: tuple[type, ...] = (
    *(t.NullType, t.BooleanType, t.IntegerType, t.FloatType, t.DecimalType, t.StringType),
    *(t.BinaryType, t.DateType, t.TimestampType, t.IntervalType, t.Field),
    *(t.ArrayType, t.MapType, t.StructType),
    *(expr.Column, expr.Literal, expr.Call, expr.Outer, expr.Parameter, algebra.SortKey),
    *(
        ir.Source,
        ir.Stream,
        ir.Map,
        ir.Union,
        ir.Repeat,
        ir.Explode,
        ir.Constant,
        ir.Threshold,
        ir.Store,
    ),
    *(ir.Accumulator, ir.Reduce, ir.GroupValue, ir.Recompute, ir.DeltaJoin, ir.DeltaPath, ir.TopK),
    *(
        ir.Variable,
        ir.Timeline,
        ir.Loop,
        ir.Window,
        ir.WindowValue,
        algebra.Frame,
        algebra.FrameEnd,
    ),
    *(ir.JoinInput, ir.HalfJoin, ir.RangeEnd, ir.RangeJoin, ir.CountedJoin),
    *(ir.Arrangement, ir.HashArrangement, ir.OrderedArrangement),
)

_PLAIN = (bool, int, float, str, bytes, decimal.Decimal, datetime.date, type(None))
_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False)


class _Shape:
    """What a field may hold, by its declared type; `refers`: whether that may be objects of the
    format."""

    refers: bool

    def references(self, value: Any) -> Iterable[object]:
        """The objects of the format that are directly in `value`."""
        return ()

    def write(self, value: Any, numbers: dict[int, int]) -> Any:
        raise NotImplementedError

    def read(self, value: Any, made: list[Any]) -> Any:
        """Raises: ValueError, TypeError or ArithmeticError for what does not fit."""
        raise NotImplementedError


class _OneOf(_Shape):
    """A plain value of one of some types, or an object of one of some classes."""

    def __init__(self, plain: frozenset[type], classes: frozenset[type]) -> None:
        self._plain = plain
        self._classes = classes
        self.refers = bool(classes)

    def references(self, value: Any) -> Iterable[object]:
        return (value,) if type(value) in self._classes else ()

    def write(self, value: Any, numbers: dict[int, int]) -> Any:
        kind = type(value)
        if kind in self._classes:
            return numbers[id(value)]
        if kind not in self._plain:
            raise TypeError(f"{kind.__qualname__} where there is to be {self}")
        writer = _WRITERS.get(kind)
        return value if writer is None else writer(value)

    def read(self, value: Any, made: list[Any]) -> Any:
        allowed = self._plain
        if type(value) is int and self._classes:
            if not 0 <= value < len(made):
                raise ValueError(f"there is no earlier entry {value}")
            value, allowed = made[value], self._classes
        elif type(value) is dict:
            value = _plain_value(value)
        if type(value) not in allowed:
            raise ValueError(f"{type(value).__qualname__} where there is to be {self}")
        return value

    def __str__(self) -> str:
        return " or ".join(sorted(c.__qualname__ for c in self._plain | self._classes))


class _ManyOf(_Shape):
    """A tuple or frozenset of any length."""

    def __init__(self, container: type, item: _Shape) -> None:
        self._container = container
        self._item = item
        self.refers = item.refers

    def references(self, value: Any) -> Iterable[object]:
        return (r for v in value for r in self._item.references(v))

    def write(self, value: Any, numbers: dict[int, int]) -> Any:
        if type(value) is not self._container:
            raise TypeError(f"{type(value).__qualname__} where there is to be {self}")
        values: Any = value
        if self._container is frozenset:
            values = sorted(values)
        return [self._item.write(v, numbers) for v in values]

    def read(self, value: Any, made: list[Any]) -> Any:
        if type(value) is not list:
            raise ValueError(f"{type(value).__qualname__} where there is to be {self}")
        return self._container([self._item.read(v, made) for v in value])

    def __str__(self) -> str:
        return f"{self._container.__name__} of {self._item}"


class _Row(_Shape):
    """A tuple of fixed length."""

    def __init__(self, items: tuple[_Shape, ...]) -> None:
        self._items = items
        self.refers = any(i.refers for i in items)

    def references(self, value: Any) -> Iterable[object]:
        pairs = zip(self._items, value, strict=True)
        return (r for item, v in pairs for r in item.references(v))

    def write(self, value: Any, numbers: dict[int, int]) -> Any:
        if type(value) is not tuple:
            raise TypeError(f"{type(value).__qualname__} where there is to be {self}")
        return [i.write(v, numbers) for i, v in zip(self._items, value, strict=True)]

    def read(self, value: Any, made: list[Any]) -> Any:
        if type(value) is not list or len(value) != len(self._items):
            raise ValueError(f"no {self}")
        return tuple([i.read(v, made) for i, v in zip(self._items, value, strict=True)])

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self._items)) + ")"


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    """A class of a format, and the fields that its constructor takes; `refers`: those of them that
    may hold objects of the format."""

    made: Callable[..., Any]
    tag: str
    fields: tuple[tuple[str, _Shape], ...]
    refers: tuple[tuple[str, _Shape], ...]


class Format:
    """`classes` in a plain form, called `name`, as of `version`. They are looked at when something
    is first written or read: most processes do neither.

    Raises: TypeError then for a class with a field that has no plain form.
    """

    def __init__(self, name: str, version: int, classes: Iterable[type]) -> None:
        self._name = name
        self._version = version
        self._classes = tuple(classes)

    @functools.cached_property
    def _entries(self) -> dict[type, _Entry]:
        return {c: _entry(c, self._classes) for c in self._classes}

    @functools.cached_property
    def _by_tag(self) -> dict[str, _Entry]:
        found = {e.tag: e for e in self._entries.values()}
        if len(found) < len(self._classes):
            raise TypeError("two classes of one name")
        return found

    @functools.cached_property
    def _digest(self) -> str:
        """Of what the classes are made of: another one means another version of this library."""
        described = [[e.tag, [[n, str(s)] for n, s in e.fields]] for e in self._by_tag.values()]
        return hashlib.sha256(_JSON.encode(described).encode()).hexdigest()[:16]

    def write(self, root: object) -> str:
        """ASCII text. Raises: TypeError for an object of a class that is not in the format, or
        with a field that is not of its declared type. Cost: O(distinct objects)."""
        numbers: dict[int, int] = {}
        known: dict[str, int] = {}
        rows: list[tuple[Any, ...]] = []
        waiting: list[tuple[Any, bool]] = [(root, False)]
        while waiting:
            value, inner_written = waiting.pop()
            if id(value) in numbers:
                continue
            entry = self._entries.get(type(value))
            if entry is None:
                raise TypeError(f"{type(value).__qualname__} is not in a {self._name}")
            if entry.refers and not inner_written:
                waiting.append((value, True))
                for name, shape in entry.refers:
                    waiting += [(r, False) for r in shape.references(getattr(value, name))]
                continue
            row = (entry.tag, *[s.write(getattr(value, n), numbers) for n, s in entry.fields])
            # repr, since 1, True and 1.0 are equal.
            number = numbers[id(value)] = known.setdefault(repr(row), len(rows))
            if number == len(rows):
                rows.append(row)
        return _JSON.encode(
            {
                "format": self._name,
                "version": self._version,
                "by": self._digest,
                "root": numbers[id(root)],
                "entries": rows,
            }
        )

    def read(self, text: str | bytes, kind: type[T]) -> T:
        """What `write` was given, which is to be a `kind`.

        Raises: FormatError for anything that `write` of this version did not make.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._refusal(f"It is no JSON: {error}") from None
        entries = self._checked(document)
        made: list[Any] = []
        for number, row in enumerate(entries):
            try:
                made.append(self._made(row, made))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise self._refusal(f"Entry {number} is wrong: {error}") from None
        root = document.get("root")
        if type(root) is not int or not 0 <= root < len(made) or not isinstance(made[root], kind):
            raise self._refusal(f"Its root is no {kind.__name__}.")
        result: T = made[root]
        return result

    def _checked(self, document: Any) -> list[Any]:
        """The entries, if the head is right."""
        if not isinstance(document, dict) or document.get("format") != self._name:
            raise self._refusal("It does not begin as one does.")
        version = document.get("version")
        if version != self._version or document.get("by") != self._digest:
            raise FormatError(
                f"this {self._name} was written by another version of sqlview",
                detail=f"It has version {version!r}, by {document.get('by')!r}; this library reads "
                f"version {self._version}, by {self._digest!r}.",
                hint="Use one version of sqlview in all processes.",
            )
        entries = document.get("entries")
        if type(entries) is not list:
            raise self._refusal("It has no list of entries.")
        return entries

    def _refusal(self, detail: str) -> FormatError:
        return FormatError(f"this is no {self._name}", detail=detail)

    def _made(self, row: Any, made: list[Any]) -> Any:
        entry = self._by_tag.get(row[0]) if type(row) is list and row[:1] != [] else None
        if entry is None:
            raise ValueError("no class of the format")
        values = row[1:]
        if len(values) != len(entry.fields):
            raise ValueError(f"{len(values)} fields instead of {len(entry.fields)}")
        pairs = zip(entry.fields, values, strict=True)
        return entry.made(*[shape.read(value, made) for (_, shape), value in pairs])


def _entry(cls: type, classes: tuple[type, ...]) -> _Entry:
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls) if f.init]
    fields = tuple([(name, _shape(hints[name], classes)) for name in names])
    return _Entry(cls, cls.__name__, fields, tuple([f for f in fields if f[1].refers]))


def _shape(hint: Any, classes: tuple[type, ...]) -> _Shape:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple and args[-1:] == (Ellipsis,):
        return _ManyOf(tuple, _shape(args[0], classes))
    if origin is tuple:
        return _Row(tuple(_shape(a, classes) for a in args))
    if origin is frozenset:
        return _ManyOf(frozenset, _shape(args[0], classes))
    choices = args if origin in (typing.Union, types.UnionType) else (hint,)
    plain = frozenset(c for c in choices if c in _PLAIN)
    named = [c for c in choices if c not in _PLAIN]
    found = [[c for c in classes if isinstance(n, type) and issubclass(c, n)] for n in named]
    if not all(found) or (named and int in plain):
        raise TypeError(f"no plain form of {hint}")
    return _OneOf(plain, frozenset(c for some in found for c in some))


#: Of the types that JSON lacks.
_WRITERS: dict[type, Callable[[Any], Any]] = {
    float: lambda value: value if math.isfinite(value) else {"float": str(value)},
    bytes: lambda value: {"bytes": base64.b64encode(value).decode()},
    decimal.Decimal: lambda value: {"decimal": str(value)},
    datetime.date: lambda value: {"date": value.isoformat()},
}
_READERS: dict[str, Callable[[str], Any]] = {
    "float": float,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "decimal": decimal.Decimal,
    "date": datetime.date.fromisoformat,
}


def _plain_value(value: dict[str, Any]) -> Any:
    ((kind, text),) = value.items()
    reader = _READERS.get(kind)
    if reader is None or type(text) is not str:
        raise ValueError(f"no value is written as {kind!r}")
    return reader(text)


PLAN = Format("sqlview plan", 1, PLAN_CLASSES)
