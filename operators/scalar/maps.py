"""Maps, which are arrays of structs of a key and a value (operators.flight.nested).

Source: Spark `collectionOperations`, `ArrayBasedMapBuilder` (a key is there once, and not NULL).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight import nested
from operators.flight.column import Bools, Column, Ints
from operators.flight.nested import Lists, Pieces
from operators.scalar.lists import codes, is_null, merged, picked, strict, together, where
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
)
from planner.calculus import types as t
from planner.calculus.expr import Call

_ENTRY = pa.scalar(b"\x02", pa.binary())


def _map_type(kind: t.SqlType) -> t.MapType:
    assert isinstance(kind, t.MapType)
    return kind


def checked(
    kind: t.MapType, offsets: Ints, entries: Pieces, n: int
) -> tuple[Column, Errors | None]:
    """Maps of entries; errors of rows with a key that is NULL, or there twice."""
    column = nested.from_pieces(kind, offsets, entries, None)
    keys, _ = nested.keys_and_values(kind, entries)
    rows = Lists(offsets, entries).rows
    missing = np.zeros(n, np.bool_)
    if keys.valid is not None:
        missing[rows[~keys.valid]] = True
    (numbers,) = codes(nested.pieces_of(nested.marked(keys)))
    order = np.lexsort((numbers, rows))
    same = (np.diff(rows[order]) == 0) & (np.diff(numbers[order]) == 0)
    twice = np.zeros(n, np.bool_)
    twice[rows[order][1:][same]] = True
    if keys.valid is not None and (missing & twice).any():
        missing &= ~(twice & ~_null_first(rows, keys.valid, order[1:][same], n))
    bad = np.flatnonzero(missing | twice).tolist()
    said = [
        "[NULL_MAP_KEY] a key of a map is NULL"
        if missing[i]
        else "[DUPLICATED_MAP_KEY] a map has a key twice"
        for i in bad
    ]
    return column, failures(n, bad, said)


def _null_first(rows: Ints, valid: Bools, repeated: Ints, n: int) -> Bools:
    """In which rows a NULL is before the first key that was there."""
    end = len(rows)
    first_null, first_twice = np.full(n, end), np.full(n, end)
    missing = np.flatnonzero(~valid)
    np.minimum.at(first_null, rows[missing], missing)
    np.minimum.at(first_twice, rows[repeated], repeated)
    earlier: Bools = first_null < first_twice
    return earlier


def _map(call: Call, args: tuple[Node, ...]) -> Run:
    kind = _map_type(call.type)

    def run(columns: Fetch, n: int) -> Result:
        given, errors = together(args, columns, n)
        marks = [nested.marked(column) for column in given]
        parts = []
        for key, value in zip(marks[::2], marks[1::2], strict=True):
            parts.append(pc.binary_join_element_wise(_ENTRY, key, value, b""))
        count = len(parts)
        every = nested.joined([nested.pieces_of(p) for p in parts]) if parts else _NOTHING
        order = np.arange(count * n).reshape(count, n).T.reshape(-1) if parts else _NONE
        column, own = checked(kind, np.arange(n + 1) * count, every.take(order), n)
        return column.values, None, first_of(errors, own)

    return run


_NONE = np.zeros(0, np.int64)
_NOTHING = Pieces(np.zeros(0, np.uint8), _NONE, _NONE)


def _parts(column: Column) -> tuple[Lists, Column, Column]:
    """The entries of maps, their keys and their values."""
    found = nested.lists(column)
    return found, *nested.keys_and_values(_map_type(column.type), found.pieces)


def _keys(call: Call, args: tuple[Node, ...]) -> Run:
    """MAP_KEYS, MAP_VALUES."""
    position = 0 if call.function == "map_keys" else 1

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found, *parts = _parts(given[0])
        return nested.from_lists(call.type, found.offsets, parts[position], None), None

    return strict(args, op)


def _entries(call: Call, args: tuple[Node, ...]) -> Run:
    """MAP_ENTRIES: the same bytes."""
    return args[0].run


def _value(call: Call, args: tuple[Node, ...]) -> Run:
    """The value of a key, or whether it is there."""
    asks = call.function == "map_contains_key"

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found, keys, _ = _parts(given[0])
        have, want = (nested.pieces_of(nested.marked(k)) for k in (keys, given[1]))
        numbers, wanted = codes(have, want)
        rows = found.rows
        hit = np.flatnonzero(numbers == wanted[rows])
        inside, at = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        inside[rows[hit]] = True
        if asks:
            return Column(t.BOOLEAN, inside), None
        at[rows[hit]] = hit - found.offsets[rows[hit]]
        entry = nested.element_type(given[0].type)
        pairs = picked(entry, found, at, inside)
        value = nested.field(pairs, 1)
        return Column(call.type, value.values, both_valid(pairs.valid, value.valid)), None

    return strict(args, op)


_LENGTHS = "The key array and value array of MapData must have the same length."


def _from_arrays(call: Call, args: tuple[Node, ...]) -> Run:
    kind = _map_type(call.type)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        keys, values = (nested.lists(column) for column in given)
        counts = np.diff(keys.offsets)
        unequal = (counts != np.diff(values.offsets)) & valid
        fits = ~unequal & valid
        kept = [np.flatnonzero(fits[part.rows]) for part in (keys, values)]
        both = [p.pieces.take(k).binaries() for p, k in zip((keys, values), kept, strict=True)]
        entries = pc.binary_join_element_wise(_ENTRY, *both, b"")
        offsets = nested.offsets_of(np.where(fits, counts, 0))
        column, errors = checked(kind, offsets, nested.pieces_of(entries), n)
        rows = np.flatnonzero(unequal).tolist()
        said = [_LENGTHS] * len(rows)
        return column, first_of(failures(n, rows, said), errors)

    return strict(args, op)


def _from_entries(call: Call, args: tuple[Node, ...]) -> Run:
    kind = _map_type(call.type)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        found = nested.lists(given[0])
        missing = np.zeros(n, np.bool_)
        missing[found.rows[is_null(found.pieces)]] = True
        rows = found.rows
        kept = np.flatnonzero(~missing[rows] & valid[rows])
        offsets = np.searchsorted(rows[kept], np.arange(n + 1))
        column, errors = checked(kind, offsets, found.pieces.take(kept), n)
        if not missing.any():
            return column, errors
        return Column(kind, column.values, ~missing), errors

    return strict(args, op)


def _concat(call: Call, args: tuple[Node, ...]) -> Run:
    kind = _map_type(call.type)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        rows, entries = merged([nested.lists(column) for column in given])
        column, errors = checked(kind, np.searchsorted(rows, np.arange(n + 1)), entries, n)
        return column, None if errors is None else where(errors, valid)

    return strict(args, op)


BUILDERS: dict[str, Builder] = {
    "map": _map,
    **dict.fromkeys(("map_keys", "map_values"), _keys),
    "map_entries": _entries,
    **dict.fromkeys(("map_value", "map_contains_key"), _value),
    "map_from_arrays": _from_arrays,
    "map_from_entries": _from_entries,
    "map_concat": _concat,
}
