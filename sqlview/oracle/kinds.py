"""Spark's types of expressions, from the text and the types of the base tables only.

Invariant: nothing here comes from the planner's binder, so that the oracle checks the binder as
well. A type that these rules do not know is None; nothing is rewritten on a guess.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from sqlglot import exp

from planner.calculus import types as t

MaybeType = t.SqlType | None


def spark_type(kind: pa.DataType) -> MaybeType:
    """The Spark type of an Arrow type; None for one that the oracle has no rules for."""
    if pa.types.is_decimal(kind):
        return t.DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return t.TIMESTAMP_NTZ if kind.tz is None else t.TIMESTAMP
    if pa.types.is_map(kind):
        key, value = spark_type(kind.key_type), spark_type(kind.item_type)
        return None if key is None or value is None else t.MapType(key, value)
    if pa.types.is_list(kind):
        element = spark_type(kind.value_type)
        return None if element is None else t.ArrayType(element)
    if pa.types.is_struct(kind):
        inner = [
            (kind.field(i).name, spark_type(kind.field(i).type)) for i in range(kind.num_fields)
        ]
        fields = tuple(t.Field(name, part) for name, part in inner if part is not None)
        return t.StructType(fields) if len(fields) == len(inner) else None
    return {
        pa.bool_(): t.BOOLEAN,
        pa.int8(): t.TINYINT,
        pa.int16(): t.SMALLINT,
        pa.int32(): t.INT,
        pa.int64(): t.BIGINT,
        pa.float32(): t.FLOAT,
        pa.float64(): t.DOUBLE,
        pa.string(): t.STRING,
        pa.binary(): t.BINARY,
        pa.date32(): t.DATE,
    }.get(kind)


def common_type(kinds: Iterable[MaybeType]) -> MaybeType:
    """The least type that all are cast to in CASE, COALESCE and UNION ALL; None where unknown."""
    result: MaybeType = t.NULL
    for kind in kinds:
        result = _wider(result, kind)
    return result


def _wider(a: MaybeType, b: MaybeType) -> MaybeType:
    if a is None or b is None or a == b:
        return a if a == b else None
    if isinstance(a, t.NullType):
        return b
    if isinstance(b, t.NullType):
        return a
    if not (t.is_numeric(a) and t.is_numeric(b)):
        return None
    if isinstance(a, t.FloatType) or isinstance(b, t.FloatType):
        return t.DOUBLE
    if isinstance(a, t.IntegerType) and isinstance(b, t.IntegerType):
        return a if a.bits >= b.bits else b
    p, q = as_decimal(a), as_decimal(b)
    if p is None or q is None:
        return None
    # Beyond 38 digits, those of the fraction are given up.
    integral = max(p.precision - p.scale, q.precision - q.scale)
    scale = min(max(p.scale, q.scale), t.MAX_PRECISION - integral)
    return t.DecimalType(integral + scale, scale)


def as_decimal(kind: MaybeType) -> t.DecimalType | None:
    if isinstance(kind, t.IntegerType):
        return t.integer_as_decimal(kind)
    return kind if isinstance(kind, t.DecimalType) else None


def literal_type(node: exp.Literal) -> MaybeType:
    if node.is_string:
        return t.STRING
    text = node.name
    if "e" in text.lower():
        return t.DOUBLE
    if "." not in text:
        return t.INT if int(text) <= t.INT.max else t.BIGINT
    whole, fraction = text.split(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    return t.DecimalType(max(digits, len(fraction), 1), len(fraction))


def named_type(node: exp.DataType) -> MaybeType:
    if node.this == exp.DataType.Type.DECIMAL:
        sizes = [int(e.name) for e in node.expressions]
        return t.DecimalType(*(sizes + [10, 0][len(sizes) :]))
    if node.this in (exp.DataType.Type.ARRAY, exp.DataType.Type.MAP, exp.DataType.Type.STRUCT):
        return _nested_type(node)
    simple = {
        exp.DataType.Type.BOOLEAN: t.BOOLEAN,
        exp.DataType.Type.TINYINT: t.TINYINT,
        exp.DataType.Type.SMALLINT: t.SMALLINT,
        exp.DataType.Type.INT: t.INT,
        exp.DataType.Type.BIGINT: t.BIGINT,
        exp.DataType.Type.FLOAT: t.FLOAT,
        exp.DataType.Type.DOUBLE: t.DOUBLE,
        exp.DataType.Type.TEXT: t.STRING,
        exp.DataType.Type.VARCHAR: t.STRING,
        exp.DataType.Type.BINARY: t.BINARY,
        exp.DataType.Type.DATE: t.DATE,
    }
    return simple.get(node.this)


def _nested_type(node: exp.DataType) -> MaybeType:
    parts = [p.args["kind"] if isinstance(p, exp.ColumnDef) else p for p in node.expressions]
    kinds = [k for k in map(named_type, parts) if k is not None]
    if not kinds or len(kinds) < len(parts):
        return None
    if node.this == exp.DataType.Type.ARRAY:
        return t.ArrayType(kinds[0])
    if node.this == exp.DataType.Type.MAP:
        return t.MapType(kinds[0], kinds[1])
    names = [p.name for p in node.expressions]
    return t.StructType(tuple(t.Field(n, k) for n, k in zip(names, kinds, strict=True)))


def sum_type(kind: MaybeType) -> MaybeType:
    match kind:
        case t.IntegerType():
            return t.BIGINT
        case t.FloatType():
            return t.DOUBLE
        case t.DecimalType():
            return t.bounded_decimal(kind.precision + 10, kind.scale)
        case _:
            return None
