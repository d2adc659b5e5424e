"""Values of CSV as structs of SQL types, and back: FROM_CSV, TO_CSV, SCHEMA_OF_CSV.

A value that is not of its field's type is NULL, the others are there; what is left out is NULL, and
what is too many is dropped, as in Spark's PERMISSIVE mode.

Cost: each text of a changed row is read in Python, about a microsecond for each value.
Source: Spark `UnivocityParser`, `UnivocityGenerator`, `CSVInferSchema`.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight import nested
from operators.flight.column import Bools, Column
from operators.scalar import csv_texts, decimals, text
from operators.scalar.json_values import clock_texts, column_of, printed
from operators.scalar.lists import strict
from operators.scalar.strings import rowwise
from operators.scalar.value import Builder, Node, Run
from operators.scalar.zones import call_zone
from planner.calculus import types as t
from planner.calculus.expr import Call
from planner.calculus.zones import Zone

#: The value of a text that is not empty; None where it has none.
_Reader = Callable[[str], Any]


# --- reading -----------------------------------------------------------------------------------


def _from_csv(call: Call, args: tuple[Node, ...]) -> Run:
    kind = call.type
    assert isinstance(kind, t.StructType)
    zone = call_zone(args, 1)
    readers = [_reader(f.type, zone) for f in kind.fields]

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        lines = zip(given[0].values.to_pylist(), valid.tolist(), strict=True)
        rows = [_values(readers, line) if there else [None] * len(readers) for line, there in lines]
        parts = [column_of(f.type, [row[i] for row in rows]) for i, f in enumerate(kind.fields)]
        return nested.from_fields(kind, parts, None), None

    return strict(args[:1], op)


def _values(readers: list[_Reader], line: str) -> list[Any]:
    words = csv_texts.values(line)[: len(readers)] if line else []
    words += [""] * (len(readers) - len(words))
    return [read(word) if word else None for read, word in zip(readers, words, strict=True)]


def _reader(kind: t.SqlType, zone: Zone) -> _Reader:
    match kind:
        case t.StringType():
            return lambda word: word
        case t.BinaryType():
            return str.encode
        case t.BooleanType():
            return lambda word: {"true": True, "false": False}.get(word.lower())
        case t.IntegerType():
            return lambda word: _integer(word, kind)
        case t.FloatType(bits=bits):
            return lambda word: _float(word, bits)
        case t.DecimalType():
            return lambda word: _decimal(word, kind)
        case t.DateType():
            return text.parse_date
        case t.TimestampType(local=False):
            return lambda word: text.parse_timestamp(word, zone)
        case t.TimestampType():
            return _local
        case _:
            raise NotImplementedError(kind)


#: Java's digits are of any script, but of 16 bits.
_INTEGER = re.compile(r"[+-]?\d{1,400}")
_FLOAT = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
    r"|0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)
_INFINITE = {"Inf": np.inf, "-Inf": -np.inf}


def _integer(word: str, kind: t.IntegerType) -> int | None:
    if not _INTEGER.fullmatch(word) or max(word) > "\uffff":
        return None
    whole = int(word)
    return whole if kind.min <= whole <= kind.max else None


def _float(word: str, bits: int) -> float | None:
    found = _INFINITE.get(word)
    if found is None:
        word = word.strip(csv_texts.BLANKS)
        if not _FLOAT.fullmatch(word):
            return None
        found = text.parse_double(word)
    return None if found is None else float(np.float32(found)) if bits == 32 else found


def _decimal(word: str, kind: t.DecimalType) -> decimal.Decimal | None:
    number = None if word[0] <= " " or word[-1] <= " " else text.parse_decimal(word)
    if number is None or (number and number.adjusted() > t.MAX_PRECISION):
        return None
    context = decimal.Context(prec=10_000, rounding=decimal.ROUND_HALF_UP)
    if number.adjusted() < -kind.scale - 1:
        number = decimal.Decimal(0)
    scaled = number.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=context)
    fits = abs(scaled.scaleb(kind.scale, context)) < decimal.Decimal(10) ** kind.precision
    return scaled if fits else None


def _local(word: str) -> int | None:
    """What clocks show; a text that says of which zone has none."""
    return None if text.has_zone(word) else text.parse_timestamp(word, None)


# --- writing -----------------------------------------------------------------------------------


def _to_csv(call: Call, args: tuple[Node, ...]) -> Run:
    zone = call_zone(args, 1)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        kind = given[0].type
        assert isinstance(kind, t.StructType)
        parts = [_texts(nested.field(given[0], i), zone) for i in range(len(kind.fields))]
        lines = [csv_texts.line(list(row)) for row in zip(*parts, strict=True)]
        there = np.array([line is not None for line in lines], np.bool_)
        return Column(t.STRING, pa.array([s or "" for s in lines], pa.string()), there), None

    return strict(args[:1], op)


def _texts(column: Column, zone: Zone) -> list[str | None]:
    """Each value as it is written; None for NULL."""
    n = len(column)
    valid = [True] * n if column.valid is None else column.valid.tolist()
    found: list[str]
    match column.type:
        case t.NullType():
            return [None] * n
        case t.StringType():
            found = [s or "" for s in column.values.to_pylist()]
        case t.BinaryType():
            found = [f"[{(b or b'').hex(' ').upper()}]" for b in column.values.to_pylist()]
        case t.TimestampType(local=local):
            found = clock_texts(column.values, local, zone)
        case t.DecimalType(scale=scale):
            whole = decimals.objects(column.values)
            exact = decimal.Context(prec=100)
            found = [str(decimal.Decimal(int(v)).scaleb(-scale, exact)) for v in whole]
        case _:
            found = printed(column)
    return [s if v else None for s, v in zip(found, valid, strict=True)]


# --- schemas -----------------------------------------------------------------------------------


def _schema(call: Call, args: tuple[Node, ...]) -> Run:
    zone = call_zone(args, 1)

    def schema(line: str) -> str:
        if not line:
            raise ValueError("[MALFORMED_CSV] the text is empty")
        words = csv_texts.values(line)
        return f"STRUCT<{', '.join(f'_c{i}: {_type(w, zone)}' for i, w in enumerate(words))}>"

    return rowwise(args[:1], schema, pa.string())


#: Days of a form that is read as such, where others are instants.
_DAY = re.compile(r"(?:-?\d{4}|[+-]\d{5,6})-\d\d-\d\d", re.ASCII)


def _type(word: str, zone: Zone) -> str:
    if not word:
        return "STRING"
    for kind in (t.INT, t.BIGINT):
        if _integer(word, kind) is not None:
            return str(kind)
    number = None if word != word.strip(csv_texts.BLANKS) else text.parse_decimal(word)
    if number is not None and number.as_tuple().exponent == 0:
        digits = len(number.as_tuple().digits)
        if digits <= t.MAX_PRECISION:
            return f"DECIMAL({digits},0)"
    if _float(word, 64) is not None:
        return "DOUBLE"
    if _DAY.fullmatch(word) and text.parse_date(word) is not None:
        return "DATE"
    clock = f"2000-01-01T{word.strip(csv_texts.BLANKS).removeprefix('T')}"
    if any(text.parse_timestamp(w, zone) is not None for w in (word, clock)):
        return "TIMESTAMP"
    return "BOOLEAN" if word.lower() in ("true", "false") else "STRING"


BUILDERS: dict[str, Builder] = {
    "from_csv": _from_csv,
    "to_csv": _to_csv,
    "schema_of_csv": _schema,
}
