"""What a `Window` computes: a value for each row of sorted partitions, for many at once.

Rows come in order, partition after partition. Ranks and shifts are arithmetic on positions; sums
over frames are differences of exact prefix sums, extremes are followed along the frames, and what
else there is of a frame is computed once for each distinct one (`group_values`).

Invariant: a value depends on the partition's rows alone, and on their order as far as the query
tells it; doubles are added up exactly (operators.scalar.exact_sum).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from operators.flight.column import Bools, Column, Ints, concat, null_column, take_or_null, widen
from operators.kernels import windows as kernels
from operators.nodes.group_values import _signs, group_value
from operators.nodes.partitions import sort_rows
from operators.nodes.runs import CHUNK_ROWS, chunks, elements
from operators.scalar import exact_sum
from operators.state import encode
from planner import dataflow as ir
from planner.calculus.algebra import RECOMPUTED, FrameEnd, SortKey
from planner.calculus.types import BIGINT, DOUBLE, INT, DecimalType, SqlType

_ALL_VALID = np.empty(0, np.bool_)


class Rows:
    """n rows, of which partition p is rows starts[p] to starts[p + 1], in order.

    `column` gives the values of a column of the relation for all of them; `order`: its sort keys.
    """

    def __init__(
        self, starts: Ints, column: Callable[[int], Column], order: tuple[SortKey, ...]
    ) -> None:
        self.starts = starts
        self.column = column
        self.order = order
        self.place = np.arange(starts[-1])
        partition = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        #: Of each row the first row of its partition, and the one behind the last.
        self.first: Ints = starts[:-1][partition]
        self.end: Ints = starts[1:][partition]
        begins = np.ones(len(self.place), np.bool_)
        if order and len(self.place):
            words = encode.local_words([column(k.column) for k in order])
            begins[1:] = (words[:, 1:] != words[:, :-1]).any(axis=0)
        elif len(self.place):
            begins[:] = False
        begins[starts[:-1][np.diff(starts) > 0]] = True
        #: Whether a row is the first of its peers.
        self.begins = begins
        edges = np.append(np.flatnonzero(begins), len(self.place))
        peers = np.cumsum(begins) - 1
        self.first_peer: Ints = edges[peers]
        self.end_peer: Ints = edges[peers + 1]

    def first_of_session(self, time: Ints, gap: int) -> Ints:
        """Of each row the first one of those that follow each other by at most `gap`; times
        int64[n] ascend in each partition."""
        begins = self.first == self.place
        begins[1:] |= np.diff(time.view(np.uint64)) > gap
        found: Ints = np.flatnonzero(begins)[np.cumsum(begins) - 1]
        return found

    def frame(self, value: ir.WindowValue) -> tuple[Ints, Ints]:
        """The frame of each row: rows [low, high), int64[n] each."""
        low = self._end(value.frame.start, False)
        high = self._end(value.frame.end, True)
        return low, np.maximum(low, high)

    def _end(self, end: FrameEnd, is_end: bool) -> Ints:
        match end.kind:
            case "edge":
                return self.end if is_end else self.first
            case "peers":
                return self.end_peer if is_end else self.first_peer
            case "rows":
                return (self.place + end.offset + is_end).clip(self.first, self.end)
            case _:
                (key,) = self.order
                keys = encode.order_words([self.column(key.column)], (key,))
                bounds = encode.order_words([self.column(end.offset)], (key,))
                out = np.empty(len(self.place), np.int64)
                kernels.seek(keys, bounds, self.first, self.end, is_end, out)
                return out


def window_value(value: ir.WindowValue, kind: SqlType, rows: Rows) -> Column:
    """The value of each row."""
    match value.function:
        case "row_number" | "rank" | "dense_rank" | "ntile" | "percent_rank" | "cume_dist":
            return _ranked(value, rows)
        case "shift":
            return _shifted(value, rows)
        case "session_start":
            time = rows.column(value.args[0])
            return time.take(rows.first_of_session(time.values, _parameter(value)))
        case "first_value" | "last_value" | "nth_value":
            return _valued(value, rows)
        case _:
            return _aggregated(value, kind, rows)


def _ranked(value: ir.WindowValue, rows: Rows) -> Column:
    place, count = rows.place - rows.first, rows.end - rows.first
    match value.function:
        case "row_number":
            return Column(INT, place + 1)
        case "rank":
            return Column(INT, rows.first_peer - rows.first + 1)
        case "dense_rank":
            number = np.cumsum(rows.begins)
            return Column(INT, number - number[rows.first] + 1)
        case "ntile":
            return Column(INT, _tile(place, count, _parameter(value)))
        case "percent_rank":
            return Column(DOUBLE, (rows.first_peer - rows.first) / np.maximum(count - 1, 1))
        case _:
            return Column(DOUBLE, (rows.end_peer - rows.first) / count)


def _tile(place: Ints, count: Ints, tiles: int) -> Ints:
    """The first count % tiles tiles have a row more than the others."""
    size, larger = count // tiles, count % tiles
    within = larger * (size + 1)
    inside = place // (size + 1)
    rest = larger + (place - within) // np.maximum(size, 1)
    return np.where(place < within, inside, rest) + 1


def _parameter(value: ir.WindowValue) -> int:
    number = value.parameters[0].value
    assert isinstance(number, int)
    return number


def _counted(valid: Bools | None, n: int) -> Ints:
    """How many rows before each position are valid, int64[n + 1]."""
    return np.append(0, np.cumsum(np.ones(n, np.int64) if valid is None else valid))


def _shifted(value: ir.WindowValue, rows: Rows) -> Column:
    column, by = rows.column(value.args[0]), _parameter(value)
    at, low, high = rows.place, rows.first, rows.end
    if by and value.ignore_nulls and column.valid is not None:
        there, before = np.flatnonzero(column.valid), _counted(column.valid, len(at))
        number = before[at + 1] + by - 1 if by > 0 else before[at] + by
        is_there = (number >= before[low]) & (number < before[high])
        found = np.append(there, -1)[np.where(is_there, number, -1)]
    else:
        number = at + by
        is_there = (number >= low) & (number < high)
        found = np.where(is_there, number, -1)
    if len(value.args) == 1:
        return take_or_null(column, found)
    both = concat([column, rows.column(value.args[1])])
    return both.take(np.where(is_there, found, len(at) + rows.place))


def _valued(value: ir.WindowValue, rows: Rows) -> Column:
    column = rows.column(value.args[0])
    low, high = rows.frame(value)
    there: Ints | None = None
    if value.ignore_nulls and column.valid is not None:
        there, before = np.flatnonzero(column.valid), _counted(column.valid, len(low))
        low, high = before[low], before[high]
    match value.function:
        case "first_value":
            found = low
        case "last_value":
            found = high - 1
        case _:
            found = low + _parameter(value) - 1
    found = np.where((found >= low) & (found < high), found, -1)
    return take_or_null(column, found if there is None else np.append(there, -1)[found])


def _aggregated(value: ir.WindowValue, kind: SqlType, rows: Rows) -> Column:
    low, high = rows.frame(value)
    columns = [rows.column(c) for c in value.args]
    match value.function:
        case "count_rows":
            return Column(BIGINT, high - low)
        case "count":
            before = _counted(columns[0].valid, len(low))
            return Column(BIGINT, before[high] - before[low])
        case "sum" | "sum_top":
            out = np.empty((3, len(low)), np.int64)
            kernels.sums(_words(columns[0]), _mask(columns[0]), low, high, out)
            if value.function == "sum_top":
                return Column(BIGINT, out[2])
            return Column(kind, np.ascontiguousarray(out[:2].T))
        case "sum_double" | "sum_square_double":
            return Column(kind, _exact(columns[0], value.function != "sum_double", rows, low, high))
        case "min" | "max":
            key = SortKey(0, value.function == "max")
            signs = _signs(columns[0])
            ranked = sort_rows([columns[0], *signs], (key, *(SortKey(0) for _ in signs)))
            rank, found = np.empty(len(low), np.int64), np.empty(len(low), np.int64)
            rank[ranked] = np.arange(len(low))
            kernels.least(rank, _mask(columns[0]), rows.starts, low, high, found)
            return take_or_null(columns[0], found)
        case function:
            assert function in RECOMPUTED
            return _of_frames(value, kind, columns, low, high)


def _words(column: Column) -> Ints:
    """Integers or decimals in two words."""
    if isinstance(column.type, DecimalType):
        return np.ascontiguousarray(widen(column).values)
    values = np.asarray(column.values)
    return np.stack([values, values >> 63], axis=1)


def _mask(column: Column) -> Bools:
    return _ALL_VALID if column.valid is None else column.valid


def _exact(column: Column, square: bool, rows: Rows, low: Ints, high: Ints) -> pa.Array:
    """States of the exact sums of doubles over frames: what there is up to the end of each, less
    what there is before it begins."""
    n = len(low)
    each, number = np.arange(n + 1), np.arange(n)
    prior = np.where(rows.place == rows.first, -1, -2 - (number - 1))
    sums = []
    for sign in (1, -1):
        signs = np.full(n, sign, np.int64)
        own = exact_sum.of_values(column.values, column.valid, signs, number, each, square)
        sums.append(exact_sum.successive(number, prior, own, exact_sum.nothing(0)))
    parts = pa.concat_arrays([*sums, exact_sum.nothing(1)])
    some = high > low
    order = np.empty(2 * n, np.int64)
    order[::2] = np.where(some, high - 1, 2 * n)
    order[1::2] = np.where(some & (low > rows.first), n + low - 1, 2 * n)
    return exact_sum.added_up(parts, order, np.arange(0, 2 * n + 1, 2))


def _of_frames(
    value: ir.WindowValue, kind: SqlType, columns: list[Column], low: Ints, high: Ints
) -> Column:
    """An aggregate that reads all rows, of each distinct frame."""
    frames, of = np.unique(np.stack([low, high]), axis=1, return_inverse=True)
    made = ir.GroupValue(value.function, tuple(range(len(columns))), value.order, value.parameters)
    parts = [null_column(kind, 0)]
    sizes = frames[1] - frames[0]
    for begin, end in chunks(sizes, CHUNK_ROWS):
        group, inside = elements(sizes[begin:end])
        place = frames[0, begin:end][group] + inside
        args = [c.take(place) for c in columns]
        parts.append(group_value(made, kind, args, group, end - begin))
    return concat(parts[1:] or parts).take(of.ravel())
