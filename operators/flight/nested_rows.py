"""Python's values for nested columns: lists, dicts (of maps and structs), and rows of structs.

What is inside is taken as values of whole columns are, all at once for each type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from operators.flight import nested
from operators.flight.column import Bools, Column
from operators.flight.misfits import Misfit, null_misfit
from operators.flight.nested_arrow import repeated_key
from planner.calculus import types as t
from planner.errors import DataError
from planner.names import folded

#: What takes values to a column: field, values.
_Inner = Callable[[t.Field, Sequence[Any]], Column]
_ByName = Callable[[Any], Mapping[Any, Any] | None]

_TAKES = {t.ArrayType: "a list", t.MapType: "a dict", t.StructType: "a dict or a tuple"}


def column_of(
    field: t.Field, values: Sequence[Any], first: int, inner: _Inner, by_name: _ByName
) -> Column:
    """The column of values, of which `first` rows precede these.

    Raises: DataError for the first that does not fit, and what `inner` raises.
    """
    kind, valid = field.type, _there(field, values, first)
    there = [v for v in values if v is not None]
    if isinstance(kind, t.StructType):
        rows = [_struct(kind, v, by_name) for v in there]
        if None in rows:
            raise _refused(
                field, there[rows.index(None)], first + _row_of(values, rows.index(None))
            )
        given = [r for r in rows if r is not None]
        nothing = (None,) * len(kind.fields)
        filled = _spread(valid, given, nothing)
        parts = [
            inner(t.Field(f"{field.name}.{f.name}", f.type), [row[i] for row in filled])
            for i, f in enumerate(kind.fields)
        ]
        return nested.from_fields(kind, parts, valid)
    lists: list[Sequence[Any]] = []
    for at, value in enumerate(there):
        found = _list(kind, value)
        if found is None:
            raise _refused(field, value, first + _row_of(values, at))
        lists.append(found)
    lists = _spread(valid, lists, ())
    offsets = nested.offsets_of([len(x) for x in lists])
    every = [element for some in lists for element in some]
    try:
        if isinstance(kind, t.ArrayType):
            elements = inner(t.Field(f"{field.name}.element", kind.element), every)
        else:
            assert isinstance(kind, t.MapType)
            key = t.Field(f"{field.name}.key", kind.key, False)
            value_field = t.Field(f"{field.name}.value", kind.value)
            pairs = [inner(key, [k for k, _ in every]), inner(value_field, [v for _, v in every])]
            elements = nested.from_fields(nested.entry_type(kind), pairs, None)
    except Misfit as misfit:
        row = int(np.searchsorted(offsets, misfit.row, side="right")) - 1
        raise Misfit(misfit.message, first + row, misfit.says, misfit.hint) from None
    column = nested.from_lists(kind, offsets, elements, valid)
    if isinstance(kind, t.MapType):
        entries = nested.lists(column)
        row_of_twice = repeated_key(entries, nested.keys_and_values(kind, entries.pieces)[0])
        if row_of_twice is not None:
            twice = f'a map in column "{field.name}" has a key twice'
            raise Misfit(twice, first + row_of_twice, "has it first")
    return column


def _there(field: t.Field, values: Sequence[Any], first: int) -> Bools | None:
    valid = np.array([v is not None for v in values], np.bool_)
    if valid.all():
        return None
    if not field.nullable:
        raise null_misfit(field, first + int(np.argmin(valid)))
    return valid


def _spread(valid: Bools | None, given: list[Any], nothing: Any) -> list[Any]:
    """One for each row, `nothing` for NULLs."""
    if valid is None:
        return given
    following = iter(given)
    return [next(following) if there else nothing for there in valid.tolist()]


def _row_of(values: Sequence[Any], position: int) -> int:
    """The row of the value at a position among those that are not NULL."""
    return [i for i, v in enumerate(values) if v is not None][position]


def _list(kind: t.SqlType, value: Any) -> Sequence[Any] | None:
    """The elements of an array, or entries of a map."""
    if isinstance(kind, t.MapType):
        if isinstance(value, Mapping):
            return list(value.items())
        pairs = isinstance(value, (list, tuple)) and all(
            isinstance(p, (list, tuple)) and len(p) == 2 for p in value
        )
        return value if pairs else None
    if isinstance(value, np.ndarray):
        return value.tolist() if value.ndim else None
    return value if isinstance(value, (list, tuple)) else None


def _struct(kind: t.StructType, value: Any, by_name: _ByName) -> tuple[Any, ...] | None:
    """The fields' values."""
    named = by_name(value)
    if named is not None:
        given = {folded(str(name)): v for name, v in named.items()}
        wanted = [folded(f.name) for f in kind.fields]
        if set(given) != set(wanted) or len(given) != len(named):
            return None
        return tuple(given[name] for name in wanted)
    fits = isinstance(value, (tuple, list)) and len(value) == len(kind.fields)
    return tuple(value) if fits else None


def _refused(field: t.Field, value: Any, row: int) -> DataError:
    name = type(value).__name__
    takes = _TAKES[type(field.type)]
    return DataError(
        f'column "{field.name}" is {field.type}, but row {row} has a Python {name}',
        detail=f"A column of this type takes {takes}, with all that is inside, in each row.",
    )
