"""What a `Recompute` computes: each aggregate of all rows of a group, for many groups at once.

Rows come with the number of their group. Those that the aggregate ignores go first, then equal ones
if it is of distinct values; the rest is sorted once for all groups, or folded by group.

Invariant: the result depends on the multiset of a group's rows alone, never on their order: sorts
go on to the value itself, and moments are exact (operators.nodes.moments). 0.0 and -0.0 are equal,
and sort by their sign where nothing else tells them apart.
Source: planner.calculus.algebra.RECOMPUTED says what each is; Spark SQL, Percentile, Mode, MaxBy,
ListAgg.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from operators.flight import nested
from operators.flight.column import Bools, Column, Ints, null_column, take_or_null, text_type
from operators.nodes import moments
from operators.nodes.partitions import sort_rows
from operators.scalar.casts import conversion
from operators.state import encode
from planner import dataflow as ir
from planner.calculus.algebra import BITMAP_BYTES, SortKey
from planner.calculus.types import BINARY, BOOLEAN, DOUBLE, FloatType, SqlType

_BITS: dict[str, Any] = {
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
}


_BITMAPS = ("bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg")
_OF_ANY_TYPE = frozenset(
    ("mode", "max_by", "min_by", "listagg", "collect_list", "collect_union", *_BITS, *_BITMAPS)
)


def group_value(
    value: ir.GroupValue, kind: SqlType, args: list[Column], group: Ints, groups: int
) -> Column:
    """The aggregate's value of each of `groups` groups; NULL where it has no row.

    Shapes: args[i] of n rows, the columns value.args; group int64[n], ascending, below `groups`.
    """
    relevant = _relevant(value.function, args)
    if relevant is not None and not relevant.all():
        args, group = [a.filter(relevant) for a in args], group[relevant]
    if value.distinct and len(group):
        kept = _first_of_equals(args, group)
        args, group = [a.take(kept) for a in args], group[kept]
    if value.function not in _OF_ANY_TYPE:
        args = [_as_doubles(a) for a in args]
    match value.function:
        case "percentile_cont" | "percentile_disc":
            return _percentile(value, args[0], group, groups)
        case "mode":
            return _mode(args[0], value.order, group, groups)
        case "max_by" | "min_by":
            order = (SortKey(1, value.function == "max_by"), SortKey(0, nulls_first=False))
            return _fronts(args[0], _sorted(args, order, group), group, groups)
        case "listagg":
            return _texts(value, kind, args, group, groups)
        case "collect_list":
            return _collected(kind, args[0], group, groups)
        case "collect_union":
            return _union(kind, args[0], group, groups)
        case "bitmap_construct_agg" | "bitmap_or_agg" | "bitmap_and_agg":
            return _bitmaps(value.function, args[0], group, groups)
        case "bit_and" | "bit_or" | "bit_xor":
            return _bits(value.function, args[0], group, groups)
        case "skewness" | "kurtosis":
            return _moments(lambda x: moments.of_one(value.function, x), args, group, groups)
        case _:
            return _moments(lambda x, y: moments.of_two(value.function, x, y), args, group, groups)


def _as_doubles(column: Column) -> Column:
    """Numbers, none of them NULL, as DOUBLE, rounded to the nearest one; none fails."""
    convert = conversion(column.type, DOUBLE)
    values, _, errors = convert(column.values, None, len(column))
    assert errors is None
    return Column(DOUBLE, values)


def _relevant(function: str, args: list[Column]) -> Bools | None:
    """Rows that are not ignored for a NULL."""
    match function:
        case "max_by" | "min_by":
            return encode.not_null(args[1:])
        case "listagg":
            return encode.not_null(args[:1])
        case _:
            return encode.not_null(args)


def _first_of_equals(args: list[Column], group: Ints) -> Ints:
    """One position of each distinct row of a group, ascending by group."""
    signs = [c for a in args for c in _signs(a)]
    words = np.vstack((group, encode.local_words(args)))
    rest = encode.local_words(signs) if signs else words[:0]
    order = np.lexsort(np.vstack((words, rest))[::-1])
    kept: Ints = order[_run_starts(words[:, order])]
    return kept


def _run_starts(words: Ints) -> Ints:
    """Positions at which a run of equal columns of int64[w, n] begins."""
    new = np.ones(words.shape[1], np.bool_)
    new[1:] = (words[:, 1:] != words[:, :-1]).any(axis=0)
    return np.flatnonzero(new)


def _sorted(columns: list[Column], keys: tuple[SortKey, ...], group: Ints) -> Ints:
    """Positions by group, then by `keys`, whose columns are positions in `columns`."""
    ordered = [columns[k.column] for k in keys]
    signs = [c for o in ordered for c in _signs(o)]
    return sort_rows(ordered + signs, (*keys, *(SortKey(0) for _ in signs)), group)


def _signs(column: Column) -> list[Column]:
    """What tells 0.0 and -0.0 apart."""
    if not isinstance(column.type, FloatType):
        return []
    return [Column(BOOLEAN, ~np.signbit(column.values))]


def _bounds(group: Ints, groups: int) -> tuple[Ints, Ints]:
    """First position of each group in ascending group numbers, and its rows."""
    edges = np.searchsorted(group, np.arange(groups + 1))
    return edges[:-1], np.diff(edges)


def _fronts(column: Column, order: Ints, group: Ints, groups: int) -> Column:
    """The value of each group's first row in `order`, which keeps groups together."""
    if len(order) == 0:
        return null_column(column.type, groups)
    start, count = _bounds(group, groups)
    first = order[np.minimum(start, len(order) - 1)]
    return take_or_null(column, np.where(count > 0, first, -1))


def _percentile(value: ir.GroupValue, column: Column, group: Ints, groups: int) -> Column:
    fraction = value.parameters[0].value
    assert isinstance(fraction, float)
    start, count = _bounds(group, groups)
    some = np.flatnonzero(count)
    if len(some) == 0:
        return null_column(DOUBLE, groups)
    values = np.asarray(column.values)[_sorted([column], value.order, group)]
    start, count = start[some], count[some]
    if value.function == "percentile_disc":
        rank = np.ceil(count * fraction).astype(np.int64)
        found = values[start + np.clip(rank - 1, 0, count - 1)]
    else:
        position = (count - 1) * fraction
        low, high = np.floor(position), np.ceil(position)
        before, after = (values[start + p.astype(np.int64)] for p in (low, high))
        with np.errstate(invalid="ignore", over="ignore"):
            between = (high - position) * before + (position - low) * after
        found = np.where((low == high) | (before == after), before, between)
    out = np.zeros(groups, np.float64)
    out[some] = found
    present = np.zeros(groups, np.bool_)
    present[some] = True
    return Column(DOUBLE, out, None if len(some) == groups else present)


def _mode(column: Column, order: tuple[SortKey, ...], group: Ints, groups: int) -> Column:
    if len(group) == 0:
        return null_column(column.type, groups)
    by_value = _sorted([column], order, group)
    words = np.vstack((group, encode.local_words([column])))[:, by_value]
    starts = _run_starts(words)
    copies = np.diff(starts, append=len(group))
    runs = np.lexsort((-copies, words[0, starts]))  # stable: among as many copies the first
    return _fronts(column, by_value[starts[runs]], words[0, starts], groups)


def _texts(
    value: ir.GroupValue, kind: SqlType, args: list[Column], group: Ints, groups: int
) -> Column:
    order = _sorted(args, (*value.order, SortKey(0)), group)
    separator: Any = value.parameters[0].value
    texts = args[0].take(order).values.to_pylist()
    start, count = _bounds(group, groups)
    joined = [
        separator.join(texts[s : s + n])
        for s, n in zip(start.tolist(), count.tolist(), strict=True)
    ]
    return Column(kind, pa.array(joined, text_type(kind)), None if count.all() else count > 0)


def _collected(kind: SqlType, column: Column, group: Ints, groups: int) -> Column:
    """The values of each group, ascending."""
    order = _sorted([column], (SortKey(0),), group)
    offsets = np.searchsorted(group, np.arange(groups + 1))
    count = np.diff(offsets)
    return nested.from_lists(kind, offsets, column.take(order), None if count.all() else count > 0)


def _union(kind: SqlType, column: Column, group: Ints, groups: int) -> Column:
    """The distinct elements of each group's arrays, ascending, without NULLs."""
    found = nested.lists(column)
    elements = nested.values(nested.element_type(kind), found.pieces)
    owner = group[found.rows]
    if elements.valid is not None:
        owner, elements = owner[elements.valid], elements.filter(elements.valid)
    if len(owner):
        kept = _first_of_equals([elements], owner)
        owner, elements = owner[kept], elements.take(kept)
    order = _sorted([elements], (SortKey(0),), owner)
    offsets = np.searchsorted(owner, np.arange(groups + 1))
    there = _bounds(group, groups)[1] > 0
    return nested.from_lists(kind, offsets, elements.take(order), there)


def _bitmaps(function: str, column: Column, group: Ints, groups: int) -> Column:
    start, count = _bounds(group, groups)
    made: list[bytes] = []
    values: Any = column.values if function == "bitmap_construct_agg" else column.values.to_pylist()
    for first, rows in zip(start.tolist(), count.tolist(), strict=True):
        some = values[first : first + rows]
        if function == "bitmap_construct_agg":
            bits = np.zeros(8 * BITMAP_BYTES, np.bool_)
            bits[np.asarray(some, np.int64)] = True
            made.append(np.packbits(bits, bitorder="little").tobytes())
            continue
        total = np.full(BITMAP_BYTES, 0 if function == "bitmap_or_agg" else 0xFF, np.uint8)
        for data in some:
            whole = np.frombuffer(data[:BITMAP_BYTES].ljust(BITMAP_BYTES, b"\0"), np.uint8)
            total = total | whole if function == "bitmap_or_agg" else total & whole
        made.append(total.tobytes())
    return Column(BINARY, pa.array(made, pa.binary()), None if count.all() else count > 0)


def _bits(function: str, column: Column, group: Ints, groups: int) -> Column:
    start, count = _bounds(group, groups)
    some = np.flatnonzero(count)
    out = np.zeros(groups, np.int64)
    if len(some):
        out[some] = _BITS[function].reduceat(np.asarray(column.values), start[some])
    return Column(column.type, out, None if len(some) == groups else count > 0)


def _moments(
    moment: Callable[..., float | None], args: list[Column], group: Ints, groups: int
) -> Column:
    start, count = _bounds(group, groups)
    out, valid = np.zeros(groups, np.float64), np.zeros(groups, np.bool_)
    for g in np.flatnonzero(count).tolist():
        rows = slice(start[g], start[g] + count[g])
        found = moment(*(np.asarray(a.values)[rows] for a in args))
        if found is not None:
            out[g], valid[g] = found, True
    return Column(DOUBLE, out, None if valid.all() else valid)
