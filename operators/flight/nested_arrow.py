"""Nested columns between Arrow's layout and that of columns in flight (operators.flight.nested).

What is inside converts as whole columns do, by the function that the caller passes, and an error of
it names the row that it is in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight import nested
from operators.flight.column import Bools, Column, Ints
from operators.flight.misfits import Misfit
from planner.calculus import types as t
from planner.names import folded

_Inward = Callable[[pa.Array, t.Field], Column]
_Outward = Callable[[Column, t.SqlType], pa.Array]


def sql_type(kind: pa.DataType, inner: Callable[[pa.DataType], t.SqlType]) -> t.SqlType | None:
    """The SQL type of a nested Arrow type; None if there is none."""
    if pa.types.is_map(kind):
        return t.MapType(inner(kind.key_type), inner(kind.item_type))
    if _is_list(kind):
        return t.ArrayType(inner(kind.value_type))
    if pa.types.is_struct(kind) and kind.num_fields:
        fields = (kind.field(i) for i in range(kind.num_fields))
        return t.StructType(tuple(t.Field(f.name, inner(f.type)) for f in fields))
    return None


def fits(given: pa.DataType, kind: t.NestedType) -> bool:
    """Whether an Arrow type has the form of a nested one; what is inside is looked at later."""
    match kind:
        case t.ArrayType():
            return _is_list(given)
        case t.MapType():
            return bool(pa.types.is_map(given))
        case t.StructType():
            return bool(pa.types.is_struct(given)) and _places(given, kind) is not None
        case _:
            return False


def column_of(array: pa.Array, field: t.Field, valid: Bools | None, inner: _Inward) -> Column:
    """An Arrow array that `fits`. Raises: what `inner` raises; Misfit for keys of a map that are
    NULL or there twice."""
    match field.type:
        case t.StructType():
            places = _places(array.type, field.type)
            assert places is not None
            parts = array.flatten()
            columns = [
                inner(parts[at], t.Field(f"{field.name}.{f.name}", f.type))
                for at, f in zip(places, field.type.fields, strict=True)
            ]
            return nested.from_fields(field.type, columns, valid)
        case t.MapType():
            pairs = pa.list_(
                pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
            )
            array = array.cast(pairs)
            name = f"{field.name}.entries"
        case _:
            name = f"{field.name}.element"
    # Where the array is a piece of another, or has something under NULLs, this leaves it out.
    offsets = _offsets(array)
    elements = _within(
        offsets, inner, array.flatten(), t.Field(name, nested.element_type(field.type))
    )
    column = nested.from_lists(field.type, offsets, elements, valid)
    if isinstance(field.type, t.MapType):
        _check_keys(column, field)
    return column


def _within(offsets: Ints, inner: _Inward, array: pa.Array, field: t.Field) -> Column:
    try:
        return inner(array, field)
    except Misfit as misfit:
        row = int(np.searchsorted(offsets, misfit.row, side="right")) - 1
        raise Misfit(misfit.message, row, misfit.says, misfit.hint) from None


def _check_keys(column: Column, field: t.Field) -> None:
    """Keys of a map are there, and once."""
    assert isinstance(field.type, t.MapType)
    found = nested.lists(column)
    keys, _ = nested.keys_and_values(field.type, found.pieces)
    if keys.valid is not None:
        row = int(found.rows[np.argmin(keys.valid)])
        raise Misfit(f'a map in column "{field.name}" has the key NULL', row, "has it first")
    twice = repeated_key(found, keys)
    if twice is not None:
        raise Misfit(f'a map in column "{field.name}" has a key twice', twice, "has it first")


def repeated_key(found: nested.Lists, keys: Column) -> int | None:
    """The first row with a key twice, of maps with these entries; None if there is none."""
    if len(keys) < 2:
        return None
    codes = nested.marked(keys).dictionary_encode().indices.to_numpy(zero_copy_only=False)
    rows = found.rows
    order = np.lexsort((codes, rows))
    same = (np.diff(rows[order]) == 0) & (np.diff(codes[order]) == 0)
    return int(rows[order][1:][same].min()) if same.any() else None


def array_of(column: Column, target: pa.DataType, inner: _Outward) -> pa.Array:
    """A nested column as an Arrow array of its type."""
    kind, valid = column.type, column.valid
    mask = None if valid is None else pa.array(~valid)
    if isinstance(kind, t.StructType):
        parts = [inner(nested.field(column, i), f.type) for i, f in enumerate(kind.fields)]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=mask)
    found = nested.lists(column)
    offsets = pa.array(found.offsets.astype(np.int32))
    if isinstance(kind, t.MapType):
        keys, values = nested.keys_and_values(kind, found.pieces)
        made = (inner(keys, kind.key), inner(values, kind.value))
        return pa.MapArray.from_arrays(offsets, *made, type=target, mask=mask)
    assert isinstance(kind, t.ArrayType)
    elements = inner(nested.values(kind.element, found.pieces), kind.element)
    return pa.ListArray.from_arrays(offsets, elements, type=target, mask=mask)


def _offsets(array: pa.Array) -> Ints:
    sizes = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return nested.offsets_of(sizes)


def _is_list(kind: pa.DataType) -> bool:
    tests: Any = pa.types
    return bool(tests.is_list(kind) or tests.is_large_list(kind) or tests.is_fixed_size_list(kind))


def _places(given: pa.DataType, kind: t.StructType) -> list[int] | None:
    """Which of the given fields each field is, by name; None unless they are the same."""
    named = {folded(given.field(i).name): i for i in range(given.num_fields)}
    wanted = [folded(f.name) for f in kind.fields]
    if given.num_fields != len(wanted) or set(named) != set(wanted):
        return None
    return [named[name] for name in wanted]
