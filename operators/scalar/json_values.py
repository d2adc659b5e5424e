"""Values of JSON as values of SQL types, and back: FROM_JSON, TO_JSON, JSON_TUPLE, SCHEMA_OF_JSON.

A text that is no JSON, or not of the schema, gives what Spark's PERMISSIVE mode gives: a struct of
NULLs, else NULL. A field whose value is not of its type is NULL, the others are there.

Cost: FROM_JSON reads each text of a changed row in Python, about a microsecond for each byte.
Source: Spark `JacksonParser`, `JacksonGenerator`, `JsonInferSchema`, `JsonTuple`.
"""

from __future__ import annotations

import base64
import decimal
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight import arrow, nested
from operators.flight.column import Bools, Column
from operators.scalar import text
from operators.scalar.casts import conversion
from operators.scalar.codes import from_base64
from operators.scalar.json_texts import Bad, Number, Object, Parser, quoted, written
from operators.scalar.lists import strict
from operators.scalar.strings import rowwise, text_of
from operators.scalar.value import Builder, Errors, Node, Run, failures
from operators.scalar.zones import MICROS_PER_DAY, MICROS_PER_SECOND, call_zone, clocks_of
from planner.calculus import types as t
from planner.calculus.expr import Call
from planner.calculus.zones import Zone

_Reader = Callable[[Any], Any]


class _Unfit(Exception):
    """The value is not of the type."""


# --- reading -----------------------------------------------------------------------------------


def column_of(kind: t.SqlType, values: list[Any]) -> Column:
    """A column of Python values; dates are days, times microseconds, structs dicts, maps pairs."""
    return arrow.to_column(pa.array(values, arrow.arrow_type(kind)), t.Field("", kind))


def _from_json(call: Call, args: tuple[Node, ...]) -> Run:
    root = _root(call.type, call_zone(args, 1))

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        found: list[Any] = [None] * n
        failed: dict[int, str] = {}
        for i, (s, there) in enumerate(_pairs(given[0], valid)):
            if there:
                try:
                    found[i] = root(s)
                except ValueError as error:
                    failed[i] = str(error)
        return column_of(call.type, found), failures(n, failed, failed.values())

    return strict(args[:1], op)


def _pairs(column: Column, valid: Bools) -> Any:
    return zip(column.values.to_pylist(), valid.tolist(), strict=True)


def _root(kind: t.SqlType, zone: Zone) -> Callable[[str], Any]:
    read = _reader(kind, zone)
    nothing: Any = None
    if isinstance(kind, t.StructType):
        nothing = {f.name: None for f in kind.fields}
    of_structs = isinstance(kind, t.ArrayType) and isinstance(kind.element, t.StructType)

    def value(json_text: str) -> Any:
        if not json_text.strip(" \t\r\n"):
            return None
        try:
            found = Parser(json_text, names=True).root()
            if of_structs and isinstance(found, Object):
                found = [found]
            return nothing if found is None else read(found)
        except (Bad, _Unfit):
            return nothing

    return value


def _reader(kind: t.SqlType, zone: Zone) -> _Reader:
    """What makes a value of the type, or raises _Unfit."""
    match kind:
        case t.StructType(fields=fields):
            return _struct_reader({f.name: _or_null(_reader(f.type, zone)) for f in fields})
        case t.ArrayType(element=element):
            item = _value_or_null(_reader(element, zone))
            return lambda v: [item(e) for e in _listed(v)]
        case t.MapType(value=value):
            entry = _value_or_null(_reader(value, zone))
            return lambda v: _entries(v, entry)
        case t.StringType():
            return lambda v: v if isinstance(v, str) else written(v)
        case t.BooleanType():
            return _boolean
        case t.IntegerType(bits=bits):
            return _integer(bits)
        case t.FloatType(bits=bits):
            return _float(bits)
        case t.DecimalType():
            return _decimal(kind)
        case t.DateType():
            return lambda v: _moment(v, text.parse_date)
        case t.TimestampType(local=local):
            session = None if local else zone
            return _instant(lambda s: text.parse_timestamp(s, session), local)
        case t.BinaryType():
            return lambda v: _moment(v, _bytes)
        case _:
            raise NotImplementedError(kind)


def _value_or_null(read: _Reader) -> _Reader:
    return lambda v: None if v is None else read(v)


def _or_null(read: _Reader) -> _Reader:
    def value(v: Any) -> Any:
        if v is None:
            return None
        try:
            return read(v)
        except _Unfit:
            return None

    return value


def _struct_reader(readers: dict[str, _Reader]) -> _Reader:
    def value(v: Any) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(readers)
        for name, part in _fields(v):
            if name in readers:
                found[name] = readers[name](part)
        return found

    return value


def _entries(v: Any, entry: _Reader) -> list[tuple[str, Any]]:
    """Spark keeps a key that is there twice, of which its own functions then see one or both."""
    found = [(k, entry(e)) for k, e in _fields(v)]
    if len({k for k, _ in found}) < len(found):
        raise ValueError("[DUPLICATED_MAP_KEY] an object that is read as a map has a key twice")
    return found


def _fields(v: Any) -> list[tuple[str, Any]]:
    if not isinstance(v, Object):
        raise _Unfit
    return v.pairs


def _listed(v: Any) -> list[Any]:
    if not isinstance(v, list):
        raise _Unfit
    return v


def _boolean(v: Any) -> bool:
    if not isinstance(v, bool):
        raise _Unfit
    return v


def _integer(bits: int) -> _Reader:
    def value(v: Any) -> int:
        if not isinstance(v, Number) or not v.text.removeprefix("-").isdigit() or len(v.text) > 20:
            raise _Unfit
        whole = int(v.text)
        if not -(1 << bits - 1) <= whole < 1 << bits - 1:
            raise _Unfit
        return whole

    return value


#: Texts, and words without quotes, that stand for numbers beyond all.
_BEYOND = {"NaN": np.nan, **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), np.inf)} | {
    "-Infinity": -np.inf,
    "-INF": -np.inf,
}


def _float(bits: int) -> _Reader:
    def value(v: Any) -> float:
        if isinstance(v, Number):
            whole = float(_BEYOND.get(v.text, v.text))
        elif isinstance(v, str) and v in _BEYOND:
            whole = _BEYOND[v]
        else:
            raise _Unfit
        return float(np.float32(whole)) if bits == 32 else whole

    return value


def _decimal(kind: t.DecimalType) -> _Reader:
    context = decimal.Context(prec=100, rounding=decimal.ROUND_HALF_UP)
    most = decimal.Decimal(10) ** kind.precision

    def value(v: Any) -> decimal.Decimal:
        digits = (
            v.text if isinstance(v, Number) else v.replace(",", "") if isinstance(v, str) else ""
        )
        if not _DECIMAL.fullmatch(digits) or len(digits) > 90:
            raise _Unfit
        try:
            scaled = decimal.Decimal(digits).quantize(
                decimal.Decimal(1).scaleb(-kind.scale), context=context
            )
        except decimal.InvalidOperation:
            raise _Unfit from None
        if abs(scaled.scaleb(kind.scale, context)) >= most:
            raise _Unfit
        return scaled

    return value


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")


def _moment(v: Any, parse: Callable[[str], Any]) -> Any:
    found = parse(v) if isinstance(v, str) else None
    if found is None:
        raise _Unfit
    return found


def _instant(parse: Callable[[str], int | None], local: bool) -> _Reader:
    whole = _integer(64)

    def value(v: Any) -> Any:
        if isinstance(v, Number) and not local:
            micros = whole(v) * MICROS_PER_SECOND
            if not -(1 << 63) <= micros < 1 << 63:
                raise _Unfit
            return micros
        return _moment(v, parse)

    return value


def _bytes(v: str) -> bytes | None:
    try:
        return from_base64(v)
    except ValueError:
        return None


# --- writing -----------------------------------------------------------------------------------


def _to_json(call: Call, args: tuple[Node, ...]) -> Run:
    zone = call_zone(args, 1)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        out = [
            s if s is not None and v else ""
            for s, v in zip(_texts(given[0], zone), valid.tolist(), strict=True)
        ]
        return Column(t.STRING, pa.array(out, pa.string())), None

    return strict(args[:1], op)


def _texts(column: Column, zone: Zone) -> list[str | None]:
    """Each value in JSON; None for NULL."""
    n, kind = len(column), column.type
    valid = [True] * n if column.valid is None else column.valid.tolist()
    found: list[str]
    match kind:
        case t.StructType(fields=fields):
            parts = [_texts(_inside(column, i), zone) for i in range(len(fields))]
            heads = [f"{quoted(f.name)}:" for f in fields]
            rows = zip(*parts, strict=True) if parts else [()] * n
            found = [
                f"{{{','.join(h + p for h, p in zip(heads, row, strict=True) if p is not None)}}}"
                for row in rows
            ]
        case t.ArrayType(element=element):
            some = nested.lists(column)
            items = _texts(nested.values(element, some.pieces), zone)
            edges = some.offsets.tolist()
            found = [
                f"[{','.join('null' if e is None else e for e in items[edges[i] : edges[i + 1]])}]"
                for i in range(n)
            ]
        case t.MapType():
            some = nested.lists(column)
            keys, values = nested.keys_and_values(kind, some.pieces)
            names, items = _keys(keys), _texts(values, zone)
            edges = some.offsets.tolist()
            entries = [f"{k}:{v or 'null'}" for k, v in zip(names, items, strict=True)]
            found = [f"{{{','.join(entries[edges[i] : edges[i + 1]])}}}" for i in range(n)]
        case t.TimestampType(local=local):
            found = [f'"{s}"' for s in clock_texts(column.values, local, zone)]
        case t.NullType():
            return [None] * n
        case t.StringType():
            found = [quoted(s or "") for s in column.values.to_pylist()]
        case t.BinaryType():
            found = [f'"{base64.b64encode(b or b"").decode()}"' for b in column.values.to_pylist()]
        case _:
            found = printed(column)
            if isinstance(kind, (t.DateType, t.IntervalType)):
                found = [f'"{s}"' for s in found]
            elif isinstance(kind, t.FloatType):
                found = [f'"{s}"' if s[-1] in "Ny" else s for s in found]
    return [s if v else None for s, v in zip(found, valid, strict=True)]


def _inside(column: Column, position: int) -> Column:
    found = nested.field(column, position)
    if column.valid is None:
        return found
    there = column.valid if found.valid is None else column.valid & found.valid
    return Column(found.type, found.values, there)


def printed(column: Column) -> list[str]:
    texts, _, _ = conversion(column.type, t.STRING)(column.values, column.valid, len(column))
    return [s or "" for s in texts.to_pylist()]


def _keys(column: Column) -> list[str]:
    """Names of fields: dates and times are their numbers."""
    if isinstance(column.type, (t.DateType, t.TimestampType)):
        return [f'"{v}"' for v in column.values.tolist()]
    if isinstance(column.type, t.StringType):
        return [quoted(s or "") for s in column.values.to_pylist()]
    return [f'"{s}"' for s in printed(column)]


def clock_texts(values: Any, local: bool, zone: Zone) -> list[str]:
    """yyyy-MM-dd'T'HH:mm:ss.SSS, and the offset of an instant."""
    if local:
        days = values // MICROS_PER_DAY
        rest = values - days * MICROS_PER_DAY
    else:
        days, rest = clocks_of(zone).local(values)
    out = []
    for day, micros, instant in zip(days.tolist(), rest.tolist(), values.tolist(), strict=True):
        seconds, fraction = divmod(micros, MICROS_PER_SECOND)
        hour, minute = divmod(seconds // 60, 60)
        shown = f"{text.format_date(day)}T{hour:02}:{minute:02}:{seconds % 60:02}"
        offset = "" if local else _offset(day * MICROS_PER_DAY + micros - instant)
        out.append(f"{shown}.{fraction // 1000:03}{offset}")
    return out


def _offset(micros: int) -> str:
    minutes = abs(micros) // (60 * MICROS_PER_SECOND)
    if minutes == 0:
        return "Z"
    return f"{'-' if micros < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"


# --- parts and schemas -------------------------------------------------------------------------


def _tuple(call: Call, args: tuple[Node, ...]) -> Run:
    """The fields of JSON_TUPLE, as a struct."""
    names = [text_of(a) for a in args[1:]]
    kind = call.type
    assert isinstance(kind, t.StructType)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found: list[dict[str, Any] | None] = []
        for json_text in given[0].values.to_pylist():
            try:
                pairs = _fields(Parser(json_text or "").root())
            except (Bad, _Unfit):
                pairs = []
            there: dict[str, Any] = {}
            for name, value in pairs:
                if value is not None and there.get(name) is None:
                    there[name] = value if isinstance(value, str) else written(value)
            found.append(
                {f.name: there.get(n or "") for f, n in zip(kind.fields, names, strict=True)}
            )
        return column_of(kind, found), None

    return strict(args[:1], op)


def _schema(call: Call, args: tuple[Node, ...]) -> Run:
    def schema(json_text: str) -> str:
        try:
            return _shown(_inferred(Parser(json_text, names=True).root()))
        except Bad:
            raise ValueError("[MALFORMED_JSON] the text is no JSON") from None

    return rowwise(args, schema, pa.string())


#: A type as a text, a list of one for an array, a dict for a struct, None where all is NULL.
_Inferred = Any


def _inferred(value: Any) -> _Inferred:
    match value:
        case Object(pairs=pairs):
            return {name: _inferred(v) for name, v in sorted(pairs)}
        case list():
            kind: _Inferred = None
            for v in value:
                kind = _either(kind, _inferred(v))
            return [kind]
        case bool():
            return "BOOLEAN"
        case Number(text=digits):
            if not digits.removeprefix("-").isdigit():
                return "DOUBLE"
            whole = int(digits)
            if -(1 << 63) <= whole < 1 << 63:
                return "BIGINT"
            size = len(digits.removeprefix("-"))
            return f"DECIMAL({size},0)" if size <= 38 else "DOUBLE"
        case None:
            return None
        case _:
            return "STRING"


def _either(a: _Inferred, b: _Inferred) -> _Inferred:
    if a is None or b is None or a == b:
        return b if a is None else a
    match a, b:
        case dict(), dict():
            names = sorted({*a, *b})
            return {n: _either(a.get(n), b.get(n)) for n in names}
        case list(), list():
            return [_either(a[0], b[0])]
        case str(), str():
            return _wider(a, b)
        case _:
            return "STRING"


def _wider(a: str, b: str) -> str:
    numbers = [s for s in (a, b) if s in ("BIGINT", "DOUBLE") or s.startswith("DECIMAL")]
    if len(numbers) < 2:
        return "STRING"
    if "DOUBLE" in numbers:
        return "DOUBLE"
    sizes = [20 if s == "BIGINT" else int(s[8:-3]) for s in numbers]
    return f"DECIMAL({max(sizes)},0)"


def _shown(kind: _Inferred) -> str:
    match kind:
        case dict():
            fields = (f"{_name(n)}: {_shown(k)}" for n, k in kind.items())
            return f"STRUCT<{', '.join(fields)}>"
        case list():
            return f"ARRAY<{_shown(kind[0])}>"
        case None:
            return "STRING"
        case _:
            return str(kind)


def _name(name: str) -> str:
    if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    return f"`{name.replace('`', '``')}`"


BUILDERS: dict[str, Builder] = {
    "from_json": _from_json,
    "to_json": _to_json,
    "json_fields": _tuple,
    "schema_of_json": _schema,
}
