"""Functions of lambdas, each run over the elements of all rows at once.

A body is a compiled expression whose variables are columns of numbers below 0: `-1 - number`. What
it reads of the row is taken once for each element. Elements in a fold are taken one position at a
time, of all rows that are as long; a sort by a lambda has all pairs of elements compared.

Source: Spark `higherOrderFunctions`. Deviation: in arrays of 32 elements or more a comparison that
contradicts itself, or fails, puts the row in error, where Java's sort may not come to compare them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from operators.flight import nested
from operators.flight.column import (
    Bools,
    Column,
    Ints,
    concat,
    null_column,
    passing,
    take_or_null,
)
from operators.flight.nested import Lists
from operators.scalar.lists import (
    arguments,
    grouped,
    merged,
    of_rows,
    ranks,
    strict,
)
from operators.scalar.lists import is_null as null_pieces
from operators.scalar.maps import checked
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
    only_where,
)
from planner.calculus import types as t
from planner.calculus.expr import Call


def _within(columns: Fetch, rows: Ints, variables: Mapping[int, Column]) -> Fetch:
    """What a body reads: its variables, and all else as of the row of each element."""
    given = {-1 - number: column for number, column in variables.items()}

    def fetch(index: int) -> Column:
        if index not in given:
            given[index] = columns(index).take(rows)
        return given[index]

    return fetch


def _computed(body: Node, fetch: Fetch, n: int) -> tuple[Column, Errors | None]:
    if n == 0:
        return null_column(body.type, 0), None
    values, valid, errors = body.run(fetch, n)
    return Column(body.type, values, valid), errors


def _base(args: tuple[Node, ...]) -> int:
    return int(args[-1].value or 0)


def _positions(found: Lists) -> Column:
    rows = found.rows
    return Column(t.INT, np.arange(len(rows)) - found.offsets[rows])


def _elements(kind: t.SqlType, found: Lists) -> Column:
    return nested.values(nested.element_type(kind), found.pieces)


def _failed(
    errors: Errors | None, own: Errors | None, rows: Ints, n: int, valid: Bools | None
) -> Errors | None:
    """Errors of arguments, then those of elements, where the arguments are not NULL."""
    if own is None:
        return errors
    return first_of(errors, only_where(of_rows(own, rows, n), valid))


def _transform(call: Call, args: tuple[Node, ...]) -> Run:
    array, body, base = args[0], args[1], _base(args)

    def run(columns: Fetch, n: int) -> Result:
        (given,), valid, errors = arguments((array,), columns, n)
        found = nested.lists(given)
        rows = found.rows
        variables = {base: _elements(array.type, found), base + 1: _positions(found)}
        made, own = _computed(body, _within(columns, rows, variables), len(rows))
        out = nested.from_lists(call.type, found.offsets, made, None)
        return out.values, valid, _failed(errors, own, rows, n, valid)

    return run


def _filter(call: Call, args: tuple[Node, ...]) -> Run:
    array, body, base = args[0], args[1], _base(args)

    def run(columns: Fetch, n: int) -> Result:
        (given,), valid, errors = arguments((array,), columns, n)
        found = nested.lists(given)
        rows = found.rows
        if call.function == "map_filter":
            variables = _entry(base, array.type, found)
        else:
            variables = {base: _elements(array.type, found), base + 1: _positions(found)}
        made, own = _computed(body, _within(columns, rows, variables), len(rows))
        kept = np.flatnonzero(passing(made))
        out = grouped(call.type, rows[kept], found.pieces.take(kept), n)
        return out.values, valid, _failed(errors, own, rows, n, valid)

    return run


def _quantified(call: Call, args: tuple[Node, ...]) -> Run:
    """EXISTS and FORALL: elements behind the one that decides are not looked at."""
    array, body, base = args[0], args[1], _base(args)
    some = call.function == "exists"

    def run(columns: Fetch, n: int) -> Result:
        (given,), valid, errors = arguments((array,), columns, n)
        found = nested.lists(given)
        rows, total = found.rows, len(found.pieces)
        variables = {base: _elements(array.type, found)}
        made, own = _computed(body, _within(columns, rows, variables), total)
        there = np.ones(total, np.bool_) if made.valid is None else made.valid
        decides = there & (made.values == some)
        if own is not None:
            decides = decides & ~own.mask
        first = np.full(n, total)
        np.minimum.at(first, rows[decides], np.flatnonzero(decides))
        decided = first < total
        if own is not None:
            own = only_where(own, np.arange(total) < first[rows])
        unknown = np.zeros(n, np.bool_)
        unknown[rows[~there]] = True
        known = ~unknown | decided
        answer = decided if some else ~decided
        return answer, both_valid(valid, known), _failed(errors, own, rows, n, valid)

    return run


def _aggregate(call: Call, args: tuple[Node, ...]) -> Run:
    array, start, merge, finish, base = args[0], args[1], args[2], args[3], _base(args)

    def run(columns: Fetch, n: int) -> Result:
        (given,), valid, errors = arguments((array,), columns, n)
        value, own = _computed(start, columns, n)
        errors = first_of(errors, only_where(own, valid))
        found = nested.lists(given)
        counts = np.diff(found.offsets)
        if valid is not None:
            counts = np.where(valid, counts, 0)
        order = np.argsort(-counts, kind="stable")
        elements, sizes = _elements(array.type, found), -counts[order]
        value, done = value.take(order), []
        codes: npt.NDArray[np.int32] = np.zeros(n, np.int32)
        messages: list[str] = []
        for k in range(int(counts.max(initial=0))):
            alive = int(np.searchsorted(sizes, -k))
            done.append(value.take(np.arange(alive, len(value))))
            rows = order[:alive]
            variables = {
                base: value.take(np.arange(alive)),
                base + 1: elements.take(found.offsets[rows] + k),
            }
            value, own = _computed(merge, _within(columns, rows, variables), alive)
            if own is not None:
                shifted = np.where(own.codes != 0, own.codes + len(messages), 0)
                codes[rows] = np.where(codes[rows] != 0, codes[rows], shifted)
                messages += own.messages
        # Those that were done first are last in the order.
        last = concat([value, *reversed(done)]).take(np.argsort(order))
        if messages:
            errors = first_of(errors, only_where(Errors(codes, tuple(messages)), valid))
        out, own = _computed(finish, _within(columns, np.arange(n), {base: last}), n)
        errors = first_of(errors, only_where(own, valid))
        return out.values, both_valid(valid, out.valid), errors

    return run


def _zip_with(call: Call, args: tuple[Node, ...]) -> Run:
    arrays, body, base = args[:2], args[2], _base(args)

    def run(columns: Fetch, n: int) -> Result:
        given, valid, errors = arguments(arrays, columns, n)
        offsets, rows, parts = _side_by_side(given, valid)
        variables = {base + i: part for i, part in enumerate(parts)}
        made, own = _computed(body, _within(columns, rows, variables), len(rows))
        out = nested.from_lists(call.type, offsets, made, None)
        return out.values, valid, _failed(errors, own, rows, n, valid)

    return run


def _side_by_side(given: list[Column], valid: Bools | None) -> tuple[Ints, Ints, list[Column]]:
    """Arrays made as long as the longest: where each row begins, the row of each element, and
    the elements of each array, NULL where it is shorter."""
    lists = [nested.lists(column) for column in given]
    counts = np.max([np.diff(found.offsets) for found in lists], axis=0)
    if valid is not None:
        counts = np.where(valid, counts, 0)
    offsets = nested.offsets_of(counts)
    rows = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(rows)) - offsets[rows]
    parts = []
    for column, found in zip(given, lists, strict=True):
        inside = place < np.diff(found.offsets)[rows]
        at = np.where(inside, found.offsets[rows] + place, -1)
        parts.append(take_or_null(_elements(column.type, found), at))
    return offsets, rows, parts


def _zipped(call: Call, args: tuple[Node, ...]) -> Run:
    """ARRAYS_ZIP."""
    kind = call.type
    assert isinstance(kind, t.ArrayType) and isinstance(kind.element, t.StructType)
    entry = kind.element

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        if not given:
            return nested.from_lists(
                kind, np.zeros(n + 1, np.int64), null_column(entry, 0), None
            ), None
        offsets, _, parts = _side_by_side(given, valid)
        return nested.from_lists(kind, offsets, nested.from_fields(entry, parts, None), None), None

    return strict(args, op)


# --- sorted ------------------------------------------------------------------------------------


def _sorted(call: Call, args: tuple[Node, ...]) -> Run:
    if len(args) > 1:
        return _sorted_by(call, args)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        order = np.lexsort((ranks(found.pieces)[0], null_pieces(found.pieces), found.rows))
        return nested.from_pieces(call.type, found.offsets, found.pieces.take(order), None), None

    return strict(args, op)


#: Elements up to which Java's sort inserts one after the other, and which are sorted at all.
_INSERTED, _MOST_SORTED = 32, 1024
#: Pairs of elements that are compared in one call.
_PAIRS = 1 << 20


def _sorted_by(call: Call, args: tuple[Node, ...]) -> Run:
    array, body, base = args[0], args[1], _base(args)

    def run(columns: Fetch, n: int) -> Result:
        (given,), valid, errors = arguments((array,), columns, n)
        found = nested.lists(given)
        counts, elements = np.diff(found.offsets), _elements(array.type, found)
        order = np.arange(len(elements))
        failed: dict[int, str] = {}
        for some in _portions(counts):
            sizes = np.where(counts[some] > _MOST_SORTED, 0, counts[some])
            squares = nested.offsets_of(sizes * sizes)
            of = np.repeat(np.arange(len(some)), sizes * sizes)
            pair = np.arange(len(of)) - squares[of]
            start = found.offsets[some[of]]
            left, right = start + pair // sizes[of], start + pair % sizes[of]
            variables = {base: elements.take(left), base + 1: elements.take(right)}
            made, own = _computed(body, _within(columns, some[of], variables), len(of))
            for i, row in enumerate(some.tolist()):
                size, cells = int(counts[row]), slice(squares[i], squares[i + 1])
                if size > _MOST_SORTED:
                    failed[row] = f"ARRAY_SORT by a lambda of more than {_MOST_SORTED} elements"
                    continue
                signs = made.values[cells].reshape(size, size)
                wrong = _unsaid(made, own, cells, size)
                first = int(found.offsets[row])
                sort = _inserted if size < _INSERTED else _ranked
                try:
                    order[first : first + size] = first + np.asarray(sort(signs, wrong))
                except _Failure as failure:
                    failed[row] = failure.message
        if failed:
            own = failures(n, failed.keys(), failed.values())
            errors = first_of(errors, only_where(own, valid))
        out = nested.from_pieces(call.type, found.offsets, found.pieces.take(order), None)
        return out.values, valid, errors

    return run


def _portions(counts: Ints) -> list[Ints]:
    """Rows of two elements or more, as many at a time as pairs are compared at a time."""
    rows = np.flatnonzero(counts > 1)
    sizes = np.minimum(counts[rows], _MOST_SORTED)
    part = np.cumsum(sizes * sizes) // _PAIRS
    return np.split(rows, np.flatnonzero(np.diff(part)) + 1) if len(rows) else []


class _Failure(Exception):
    def __init__(self, message: str) -> None:
        self.message = message


def _unsaid(
    made: Column, own: Errors | None, cells: slice, size: int
) -> dict[tuple[int, int], str]:
    """The pairs whose comparison fails or is NULL."""
    said: dict[tuple[int, int], str] = {}
    if made.valid is not None:
        for k in np.flatnonzero(~made.valid[cells]).tolist():
            said[divmod(k, size)] = "[COMPARATOR_RETURNS_NULL] the lambda of ARRAY_SORT is NULL"
    if own is not None:
        for k in np.flatnonzero(own.codes[cells]).tolist():
            said[divmod(k, size)] = own.messages[own.codes[cells][k] - 1]
    return said


def _inserted(signs: Ints, wrong: dict[tuple[int, int], str]) -> list[int]:
    """As Java sorts short arrays, comparison by comparison."""

    def compared(i: int, j: int) -> int:
        if (i, j) in wrong:
            raise _Failure(wrong[i, j])
        return int(signs[i, j])

    size = len(signs)
    run, falling = 2, compared(1, 0) < 0
    while run < size and (compared(run, run - 1) < 0) == falling:
        run += 1
    order = list(range(run))
    if falling:
        order.reverse()
    for pivot in range(run, size):
        low, high = 0, pivot
        while low < high:
            middle = (low + high) // 2
            if compared(pivot, order[middle]) < 0:
                high = middle
            else:
                low = middle + 1
        order.insert(low, pivot)
    return order


def _ranked(signs: Ints, wrong: dict[tuple[int, int], str]) -> Ints:
    """In the one stable order that all comparisons agree on."""
    for pair, message in sorted(wrong.items()):
        if pair[0] != pair[1]:
            raise _Failure(message)
    rank = (signs > 0).sum(axis=1)
    if (np.sign(signs) != np.sign(rank[:, None] - rank[None, :])).any():
        raise _Failure("the lambda of ARRAY_SORT contradicts itself")
    return np.argsort(rank, kind="stable")


# --- maps --------------------------------------------------------------------------------------


def _entry(base: int, kind: t.SqlType, found: Lists) -> dict[int, Column]:
    assert isinstance(kind, t.MapType)
    key, value = nested.keys_and_values(kind, found.pieces)
    return {base: key, base + 1: value}


def _transform_map(call: Call, args: tuple[Node, ...]) -> Run:
    """TRANSFORM_KEYS, TRANSFORM_VALUES."""
    value, body, base = args[0], args[1], _base(args)
    kind = call.type
    assert isinstance(kind, t.MapType)
    entry = nested.entry_type(kind)

    def run(columns: Fetch, n: int) -> Result:
        (given,), valid, errors = arguments((value,), columns, n)
        found = nested.lists(given)
        rows, variables = found.rows, _entry(base, value.type, found)
        made, own = _computed(body, _within(columns, rows, variables), len(rows))
        errors = _failed(errors, own, rows, n, valid)
        if call.function == "transform_values":
            pairs = nested.from_fields(entry, [variables[base], made], None)
            out = nested.from_lists(kind, found.offsets, pairs, None)
            return out.values, valid, errors
        marks = nested.marked(nested.from_fields(entry, [made, variables[base + 1]], None))
        out, bad = checked(kind, found.offsets, nested.pieces_of(marks), n)
        return out.values, valid, first_of(errors, only_where(bad, valid))

    return run


def _map_zip_with(call: Call, args: tuple[Node, ...]) -> Run:
    maps, body, base = args[:2], args[2], _base(args)
    kind = call.type
    assert isinstance(kind, t.MapType)

    def run(columns: Fetch, n: int) -> Result:
        given, valid, errors = arguments(maps, columns, n)
        lists = [nested.lists(column) for column in given]
        keys, values = [], []
        for column, found in zip(given, lists, strict=True):
            assert isinstance(column.type, t.MapType)
            key, value = nested.keys_and_values(column.type, found.pieces)
            marks = nested.pieces_of(nested.marked(key))
            keys.append(Lists(found.offsets, marks))
            values.append(value)
        rows, pieces, at = _union_of_keys(keys)
        variables = {base: nested.values(kind.key, pieces)}
        for i, (value, places) in enumerate(zip(values, at, strict=True)):
            variables[base + 1 + i] = take_or_null(value, places)
        made, own = _computed(body, _within(columns, rows, variables), len(rows))
        pairs = nested.from_fields(nested.entry_type(kind), [variables[base], made], None)
        offsets = np.searchsorted(rows, np.arange(n + 1))
        out = nested.from_lists(kind, offsets, pairs, None)
        return out.values, valid, _failed(errors, own, rows, n, valid)

    return run


def _union_of_keys(keys: list[Lists]) -> tuple[Ints, nested.Pieces, list[Ints]]:
    """The keys of either map of each row, once: their rows, and where they are in each map (-1)."""
    rows, pieces = merged(keys)
    both = np.concatenate([k.rows for k in keys])
    side = np.repeat([0, 1], [len(k.pieces) for k in keys])
    order = np.argsort(both, kind="stable")
    place = np.concatenate([np.arange(len(k.pieces)) for k in keys])[order]
    side = side[order]
    binaries = pieces.binaries().dictionary_encode()
    numbers = binaries.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, first, group = np.unique(rows << 32 | numbers, return_index=True, return_inverse=True)
    at = [np.full(len(first), -1), np.full(len(first), -1)]
    for i in (0, 1):
        of = side == i
        at[i][group[of]] = place[of]
    kept = np.argsort(first)
    chosen = first[kept]
    return rows[chosen], pieces.take(chosen), [a[kept] for a in at]


BUILDERS: dict[str, Builder] = {
    "transform": _transform,
    **dict.fromkeys(("filter", "map_filter"), _filter),
    **dict.fromkeys(("exists", "forall"), _quantified),
    "aggregate": _aggregate,
    "zip_with": _zip_with,
    "arrays_zip": _zipped,
    "array_sort": _sorted,
    **dict.fromkeys(("transform_keys", "transform_values"), _transform_map),
    "map_zip_with": _map_zip_with,
}
