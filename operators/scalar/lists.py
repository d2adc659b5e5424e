"""Arrays: made, taken apart, compared by the bytes of their elements (operators.flight.nested).

Elements are equal where their bytes are, NULLs with NULLs, and ordered as their bytes are: no
function here knows what an array is of. Source: Spark `collectionOperations`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from operators.flight import nested
from operators.flight.column import Bools, Column, Ints
from operators.flight.nested import Lists, Pieces
from operators.kernels.nested import NULL
from operators.scalar.regexps import translated
from operators.scalar.strings import text_of
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
    inherited,
)
from planner.calculus import types as t
from planner.calculus.expr import Call

#: Elements of an array that SEQUENCE and ARRAY_REPEAT make, at most.
_MOST_ELEMENTS = 1 << 24
_END = pa.scalar(b"\x00", pa.binary())

#: What a function makes of its arguments, of which no row is NULL that is valid (bool[n]): a
#: column, whose NULLs are more, and errors.
_Op = Callable[[list[Column], Bools, int], tuple[Column, Errors | None]]


def strict(args: Sequence[Node], op: _Op) -> Run:
    """NULL where an argument is; errors count where the result is not NULL for that."""

    def run(columns: Fetch, n: int) -> Result:
        given, valid, errors = arguments(args, columns, n)
        there = np.ones(n, np.bool_) if valid is None else valid
        column, own = op(given, there, n)
        if own is not None:
            errors = first_of(errors, where(own, there))
        return column.values, both_valid(valid, column.valid), errors

    return run


def arguments(
    args: Sequence[Node], columns: Fetch, n: int
) -> tuple[list[Column], Bools | None, Errors | None]:
    """The arguments; which rows have all; their errors, where Spark computes them."""
    given: list[Column] = []
    valid: Bools | None = None
    errors: Errors | None = None
    for arg in args:
        values, own_valid, own = arg.run(columns, n)
        errors = inherited(valid, errors, own)
        valid = both_valid(valid, own_valid)
        given.append(Column(arg.type, values, own_valid))
    return given, valid, errors


def where(errors: Errors, rows: Bools) -> Errors | None:
    codes = np.where(rows, errors.codes, 0).astype(np.int32)
    return Errors(codes, errors.messages) if codes.any() else None


# --- pieces ------------------------------------------------------------------------------------


def is_null(pieces: Pieces) -> Bools:
    """Which marked values are NULL."""
    if not len(pieces):
        return np.zeros(0, np.bool_)
    mask: Bools = pieces.data[pieces.first] == NULL
    return mask


def codes(*parts: Pieces) -> list[Ints]:
    """Numbers that are equal where marked values are."""
    numbers, _ = _encoded(parts)
    return numbers


def ranks(*parts: Pieces) -> list[Ints]:
    """Numbers that are ordered as marked values are."""
    numbers, words = _encoded(parts)
    order = pc.sort_indices(words).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return [rank[some] if len(some) else some for some in numbers]


def _encoded(parts: Sequence[Pieces]) -> tuple[list[Ints], pa.Array]:
    every = pa.concat_arrays([p.binaries() for p in parts]).dictionary_encode()
    numbers = every.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    cuts = np.cumsum([len(p) for p in parts])[:-1]
    return np.split(numbers, cuts), every.dictionary


def grouped(kind: t.SqlType, rows: Ints, pieces: Pieces, n: int) -> Column:
    """Arrays of pieces, each of a row; rows ascend."""
    return nested.from_pieces(kind, np.searchsorted(rows, np.arange(n + 1)), pieces, None)


def merged(parts: Sequence[Lists]) -> tuple[Ints, Pieces]:
    """The elements of several columns of arrays, those of a row in the order of the columns."""
    rows = np.concatenate([p.rows for p in parts])
    order = np.argsort(rows, kind="stable")
    return rows[order], nested.joined([p.pieces for p in parts]).take(order)


def _first(rows: Ints, numbers: Ints) -> Ints:
    """The positions of the first element of each number in each row, ascending."""
    if not len(rows):
        return rows
    _, found = np.unique(_pairs(rows, numbers), return_index=True)
    return np.sort(found)


def _pairs(rows: Ints, numbers: Ints) -> Ints:
    return rows << 32 | numbers


def _any(rows: Ints, hit: Bools, n: int) -> Bools:
    """In which rows an element is hit."""
    out = np.zeros(n, np.bool_)
    out[rows[hit]] = True
    return out


# --- made and taken apart ----------------------------------------------------------------------


def _array(call: Call, args: tuple[Node, ...]) -> Run:
    kind = call.type

    def run(columns: Fetch, n: int) -> Result:
        given, errors = together(args, columns, n)
        if not given:
            return pa.repeat(_END, n), None, errors
        return pc.binary_join_element_wise(*map(nested.marked, given), _END, b""), None, errors

    assert isinstance(kind, t.ArrayType)
    return run


def _struct(call: Call, args: tuple[Node, ...]) -> Run:
    kind = call.type
    assert isinstance(kind, t.StructType)

    def run(columns: Fetch, n: int) -> Result:
        given, errors = together(args, columns, n)
        return nested.from_fields(kind, given, None).values, None, errors

    return run


def together(args: Sequence[Node], columns: Fetch, n: int) -> tuple[list[Column], Errors | None]:
    """Arguments that are all computed, NULL or not."""
    given: list[Column] = []
    errors: Errors | None = None
    for arg in args:
        values, valid, own = arg.run(columns, n)
        errors = first_of(errors, own)
        given.append(Column(arg.type, values, valid))
    return given, errors


def _field(call: Call, args: tuple[Node, ...]) -> Run:
    value, position = args[0], int(args[1].value or 0)

    def run(columns: Fetch, n: int) -> Result:
        values, valid, errors = value.run(columns, n)
        found = nested.field(Column(value.type, values, valid), position)
        return found.values, both_valid(valid, found.valid), errors

    return run


def _element_fields(call: Call, args: tuple[Node, ...]) -> Run:
    position, kind = int(args[1].value or 0), args[0].type
    assert isinstance(kind, t.ArrayType)
    structs = kind.element

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        inner = nested.values(structs, found.pieces)
        part = nested.field(inner, position)
        part = Column(part.type, part.values, both_valid(inner.valid, part.valid))
        return nested.from_lists(call.type, found.offsets, part, None), None

    return strict(args[:1], op)


def _size(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        return Column(t.INT, nested.lengths(given[0])), None

    return strict(args, op)


def _at(call: Call, args: tuple[Node, ...]) -> Run:
    """GET and a[i] from 0 on; ELEMENT_AT from 1 on, or back from the end."""
    function = call.function
    from_one = function in ("element_of", "try_element_of")
    fails = function in ("item", "element_of")
    name = "INVALID_ARRAY_INDEX_IN_ELEMENT_AT" if from_one else "INVALID_ARRAY_INDEX"

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        found = nested.lists(given[0])
        wanted, counts = given[1].values, np.diff(found.offsets)
        at = np.where(wanted < 0, counts + wanted, wanted - 1) if from_one else wanted
        inside = (at >= 0) & (at < counts)
        zero = (wanted == 0) & valid if from_one else np.zeros(n, np.bool_)
        if from_one:
            inside &= wanted != 0
        column = picked(call.type, found, at, inside)
        bad = zero | (~inside & valid) if fails else zero
        if not bad.any():
            return column, None
        rows = np.flatnonzero(bad).tolist()
        said = [
            "[INVALID_INDEX_OF_ZERO] the index 0 is invalid"
            if zero[i]
            else f"[{name}] the index {wanted[i]} is out of bounds of {counts[i]} elements"
            for i in rows
        ]
        return column, failures(n, rows, said)

    return strict(args, op)


def picked(kind: t.SqlType, found: Lists, at: Ints, inside: Bools) -> Column:
    """The element of each row at a position from 0 on; NULL where it is not inside."""
    pieces = found.pieces
    if not len(pieces):
        pieces = Pieces(np.zeros(1, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64))
    place = np.where(inside, found.offsets[:-1] + at, 0)
    some = pieces.take(place)
    return nested.values(
        kind, Pieces(some.data, some.first, np.where(inside, some.last, some.first))
    )


# --- compared ----------------------------------------------------------------------------------


def _contains(call: Call, args: tuple[Node, ...]) -> Run:
    position = call.function == "array_position"

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found, rows, hit = _matching(given)
        if position:
            out = np.zeros(n, np.int64)
            at = np.flatnonzero(hit)[::-1]
            out[rows[at]] = at - found.offsets[rows[at]] + 1
            return Column(t.BIGINT, out), None
        there = _any(rows, hit, n)
        unknown = _any(rows, is_null(found.pieces), n) & ~there
        return Column(t.BOOLEAN, there, ~unknown if unknown.any() else None), None

    return strict(args, op)


def _matching(given: list[Column]) -> tuple[Lists, Ints, Bools]:
    """The elements of the first argument, their rows, and which equal the second argument."""
    found = nested.lists(given[0])
    needles = nested.pieces_of(nested.marked(given[1]))
    rows = found.rows
    have, want = codes(found.pieces, needles)
    return found, rows, (have == want[rows]) & ~is_null(found.pieces)


def _remove(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found, rows, hit = _matching(given)
        kept = np.flatnonzero(~hit)
        return grouped(call.type, rows[kept], found.pieces.take(kept), n), None

    return strict(args, op)


def _compact(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        kept = np.flatnonzero(~is_null(found.pieces))
        return grouped(call.type, found.rows[kept], found.pieces.take(kept), n), None

    return strict(args, op)


def _distinct(call: Call, args: tuple[Node, ...]) -> Run:
    """ARRAY_DISTINCT, ARRAY_UNION: the first of equal elements."""

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        rows, pieces = merged([nested.lists(column) for column in given])
        kept = _first(rows, codes(pieces)[0])
        return grouped(call.type, rows[kept], pieces.take(kept), n), None

    return strict(args, op)


def _of_both(call: Call, args: tuple[Node, ...]) -> Run:
    """ARRAY_INTERSECT and ARRAY_EXCEPT."""
    both = call.function == "array_intersect"

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        left, right = (nested.lists(column) for column in given)
        have, other = codes(left.pieces, right.pieces)
        rows = left.rows
        shared = np.isin(_pairs(rows, have), _pairs(right.rows, other))
        kept = _first(rows, have)
        kept = kept[shared[kept] == both]
        return grouped(call.type, rows[kept], left.pieces.take(kept), n), None

    return strict(args, op)


def _overlap(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        left, right = (nested.lists(column) for column in given)
        have, other = codes(left.pieces, right.pieces)
        rows, nulls = left.rows, is_null(left.pieces)
        shared = np.isin(_pairs(rows, have), _pairs(right.rows, other)) & ~nulls
        there = _any(rows, shared, n)
        hidden = _any(rows, nulls, n) | _any(right.rows, is_null(right.pieces), n)
        some = (np.diff(left.offsets) > 0) & (np.diff(right.offsets) > 0)
        unknown = hidden & some & ~there
        return Column(t.BOOLEAN, there, ~unknown if unknown.any() else None), None

    return strict(args, op)


def _sorted(call: Call, args: tuple[Node, ...]) -> Run:
    descending = args[1].value is False

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        rank = ranks(found.pieces)[0]
        order = np.lexsort((-rank if descending else rank, found.rows))
        return nested.from_pieces(call.type, found.offsets, found.pieces.take(order), None), None

    return strict(args[:1], op)


def _extreme(call: Call, args: tuple[Node, ...]) -> Run:
    greatest = call.function == "array_max"

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        kept = np.flatnonzero(~is_null(found.pieces))
        rows, rank = found.rows[kept], ranks(found.pieces)[0][kept]
        order = np.lexsort((-rank if greatest else rank, rows))
        first = kept[order[np.flatnonzero(np.diff(rows, prepend=-1))]] if len(rows) else kept
        at, inside = np.zeros(n, np.int64), np.zeros(n, np.bool_)
        where = found.rows[first]
        at[where], inside[where] = first - found.offsets[where], True
        return picked(call.type, found, at, inside), None

    return strict(args, op)


# --- rearranged --------------------------------------------------------------------------------


def _concat(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        rows, pieces = merged([nested.lists(column) for column in given])
        return grouped(call.type, rows, pieces, n), None

    return strict(args, op)


def _reverse(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        order = np.lexsort((-np.arange(len(found.pieces)), found.rows))
        return nested.from_pieces(call.type, found.offsets, found.pieces.take(order), None), None

    return strict(args, op)


def _flatten(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        inner = nested.lists(nested.values(call.type, found.pieces))
        missing = _any(found.rows, is_null(found.pieces), n)
        flat = nested.from_pieces(call.type, inner.offsets[found.offsets], inner.pieces, None)
        return Column(call.type, flat.values, ~missing if missing.any() else None), None

    return strict(args, op)


def _slice(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        found = nested.lists(given[0])
        start, length = given[1].values, given[2].values
        count = np.diff(found.offsets)
        bad = ((start == 0) | (length < 0)) & valid
        begin = np.where(start < 0, count + start, start - 1)
        outside = (begin < 0) | (begin >= count) | (length <= 0)
        begin = np.where(outside, 0, begin)
        end = np.where(outside, 0, np.minimum(begin + length, count))
        rows = found.rows
        at = np.arange(len(rows)) - found.offsets[rows]
        kept = np.flatnonzero((at >= begin[rows]) & (at < end[rows]))
        column = grouped(call.type, rows[kept], found.pieces.take(kept), n)
        wrong = np.flatnonzero(bad).tolist()
        said = [
            "[INVALID_PARAMETER_VALUE.START] the start of SLICE is 0"
            if start[i] == 0
            else "[INVALID_PARAMETER_VALUE.LENGTH] the length of SLICE is negative"
            for i in wrong
        ]
        return column, failures(n, wrong, said)

    return strict(args, op)


def _repeat(call: Call, args: tuple[Node, ...]) -> Run:
    element, times = args

    def run(columns: Fetch, n: int) -> Result:
        (value, count), errors = together((element, times), columns, n)
        wanted = np.maximum(count.values, 0)
        wanted = wanted if count.valid is None else np.where(count.valid, wanted, 0)
        column, own = _repeated(call.type, value, wanted, n)
        return column.values, count.valid, first_of(errors, own)

    return run


def _repeated(kind: t.SqlType, value: Column, counts: Ints, n: int) -> tuple[Column, Errors | None]:
    bad = counts > _MOST_ELEMENTS
    rows = np.repeat(np.arange(n), np.where(bad, 0, counts))
    pieces = nested.pieces_of(nested.marked(value)).take(rows)
    return grouped(kind, rows, pieces, n), too_large(bad, n)


def too_large(bad: Bools, n: int) -> Errors | None:
    rows = np.flatnonzero(bad).tolist()
    said = f"[COLLECTION_SIZE_LIMIT_EXCEEDED] an array of more than {_MOST_ELEMENTS} elements"
    return failures(n, rows, [said] * len(rows))


def _sequence(call: Call, args: tuple[Node, ...]) -> Run:
    kind = call.type
    assert isinstance(kind, t.ArrayType)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        start, stop = (np.asarray(column.values) for column in given[:2])
        step = np.where(start <= stop, 1, -1) if len(given) < 3 else np.asarray(given[2].values)
        forward = (step > 0) & (start <= stop)
        backward = (step < 0) & (start >= stop)
        fits = forward | backward | ((step == 0) & (start == stop))
        # By unsigned distances, which fit.
        distance = np.where(step > 0, stop - start, start - stop).view(np.uint64)
        size = np.abs(step).view(np.uint64)
        counts = distance // np.where(size == 0, np.uint64(1), size) + np.uint64(1)
        large = fits & (counts > _MOST_ELEMENTS)
        counts = np.where(fits & valid & ~large, counts, 0).astype(np.int64)
        offsets = nested.offsets_of(counts)
        rows = np.repeat(np.arange(n), counts)
        values = start[rows] + (np.arange(len(rows)) - offsets[rows]) * step[rows]
        column = nested.from_lists(kind, offsets, Column(kind.element, values), None)
        wrong = np.flatnonzero(~fits & valid).tolist()
        said = [f"Illegal sequence boundaries: {start[i]} to {stop[i]} by {step[i]}" for i in wrong]
        return column, first_of(failures(n, wrong, said), too_large(large & valid, n))

    return strict(args, op)


# --- texts -------------------------------------------------------------------------------------


def _join(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        found = nested.lists(given[0])
        words = nested.values(t.STRING, found.pieces)
        texts: list[Any] = words.values.to_pylist()
        nulls = [None] * n if len(given) < 3 else given[2].values.to_pylist()
        if words.valid is not None:
            rows = found.rows.tolist()
            for i in np.flatnonzero(~words.valid).tolist():
                texts[i] = nulls[rows[i]]
        ends, separators = found.offsets.tolist(), given[1].values.to_pylist()
        made = [
            separators[i].join([x for x in texts[ends[i] : ends[i + 1]] if x is not None])
            for i in range(n)
        ]
        return Column(t.STRING, pa.array(made, pa.string())), None

    return strict(args, op)


def _split(call: Call, args: tuple[Node, ...]) -> Run:
    pattern = text_of(args[1])
    assert pattern is not None, "a literal"
    regex, most = translated(pattern, "split"), int(args[2].value or 0)

    def parts(text: str) -> list[str]:
        return parts_by(regex, text, most)

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, None]:
        lists = [parts(text) for text in given[0].values.to_pylist()]
        offsets = nested.offsets_of([len(x) for x in lists])
        words = pa.array([word for some in lists for word in some], pa.string())
        return nested.from_lists(call.type, offsets, Column(t.STRING, words), None), None

    return strict(args[:1], op)


#: Elements of an array that ARRAY_INSERT makes, at most.
_LONGEST_ARRAY = 1 << 24
_LONE_NULL = pa.array([b"\x01"], pa.binary())


def _insert(call: Call, args: tuple[Node, ...]) -> Run:
    """ARRAY_INSERT: the value may be NULL, the others not. Each row makes a list of places."""
    kind = call.type

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        found = nested.lists(given[0])
        every = nested.joined(
            [found.pieces, nested.pieces_of(_LONE_NULL), nested.pieces_of(nested.marked(value[0]))]
        )
        missing = len(found.pieces)
        places: list[int] = []
        sizes, bad = [], []
        edges = found.offsets.tolist()
        for i, at in enumerate(given[1].values.tolist()):
            old = list(range(edges[i], edges[i + 1]))
            new, size = missing + 1 + i, len(old)
            if at == 0 or abs(at) > _LONGEST_ARRAY:
                bad.append(i)
            elif at > 0:
                old += [missing] * (at - 1 - size)
                old.insert(at - 1, new)
            elif -at <= size + 1:
                old.insert(size + at + 1, new)
            else:
                old = [new, *[missing] * (-at - size - 1), *old]
            sizes.append(len(old))
            places += old
        made = every.take(np.array(places, np.int64))
        said = ["[INVALID_INDEX_OF_ZERO] the place 0, or one far beyond, is none in an array"]
        column = nested.from_pieces(kind, nested.offsets_of(sizes), made, None)
        return column, failures(n, bad, said * len(bad))

    value: list[Column] = []
    inner = strict(args[:2], op)

    def run(columns: Fetch, n: int) -> Result:
        values, own_valid, errors = args[2].run(columns, n)
        value[:] = [Column(args[2].type, values, own_valid)]
        made, valid, own = inner(columns, n)
        return made, valid, first_of(own, errors)

    return run


def parts_by(regex: re.Pattern[str], text: str, most: int) -> list[str]:
    """What is between the places where the expression is found, `most` parts if that is above 0."""
    if regex.pattern == "" and text:  # a case of its own in Spark
        return [*text[: most - 1], text[most - 1 :]] if 0 < most < len(text) else list(text)
    out: list[str] = []
    at = 0
    for match in regex.finditer(text):
        if 0 < most <= len(out) + 1:
            break
        start, end = match.span()
        if at == 0 and start == end == 0:
            continue  # what has no width leaves nothing before it
        out.append(text[at:start])
        at = end
    return [*out, text[at:]]


def convert(
    column: Column,
    target: t.SqlType,
    inner: Callable[[Column, t.SqlType], tuple[Column, Errors | None]],
) -> tuple[Column, Errors | None]:
    """A nested column cast to a nested type of the same form; `inner` casts what is inside."""
    kind, n = column.type, len(column)
    if isinstance(kind, t.StructType):
        assert isinstance(target, t.StructType)
        errors: Errors | None = None
        parts = []
        for i, f in enumerate(target.fields):
            part, own = inner(nested.field(column, i), f.type)
            parts.append(part)
            errors = first_of(errors, own)
        return nested.from_fields(target, parts, column.valid), errors
    found = nested.lists(column)
    source, wanted = nested.element_type(kind), nested.element_type(target)
    elements, own = inner(nested.values(source, found.pieces), wanted)
    made = nested.from_lists(target, found.offsets, elements, column.valid)
    return made, None if own is None else of_rows(own, found.rows, n)


def shown(
    column: Column, inner: Callable[[Column, t.SqlType], tuple[Column, Errors | None]]
) -> pa.Array:
    """Nested values as Spark writes them: [1, null], {1, a}, {k -> v}."""

    def texts(part: Column) -> list[str]:
        made, _ = inner(part, t.STRING)
        words: list[str] = made.values.to_pylist()
        if made.valid is None:
            return words
        return [w if there else "null" for w, there in zip(words, made.valid.tolist(), strict=True)]

    kind = column.type
    if isinstance(kind, t.StructType):
        parts = [texts(nested.field(column, i)) for i in range(len(kind.fields))]
        return pa.array([f"{{{', '.join(row)}}}" for row in zip(*parts, strict=True)], pa.string())
    found = nested.lists(column)
    if isinstance(kind, t.MapType):
        pairs = map(texts, nested.keys_and_values(kind, found.pieces))
        words = [f"{key} -> {value}" for key, value in zip(*pairs, strict=True)]
        begin, end = "{", "}"
    else:
        words = texts(nested.values(nested.element_type(kind), found.pieces))
        begin, end = "[", "]"
    ends = found.offsets.tolist()
    made = [f"{begin}{', '.join(words[i:j])}{end}" for i, j in pairwise(ends)]
    return pa.array(made, pa.string())


def of_rows(errors: Errors, rows: Ints, n: int) -> Errors:
    """Errors of elements as those of their rows, the first of each."""
    codes: npt.NDArray[np.int32] = np.zeros(n, np.int32)
    bad = np.flatnonzero(errors.codes)[::-1]
    codes[rows[bad]] = errors.codes[bad]
    return Errors(codes, errors.messages)


BUILDERS: dict[str, Builder] = {
    "array": _array,
    "struct": _struct,
    "field": _field,
    "element_fields": _element_fields,
    **dict.fromkeys(("size", "cardinality", "array_size"), _size),
    **dict.fromkeys(("get", "item", "element_of", "try_element_of"), _at),
    **dict.fromkeys(("array_contains", "array_position"), _contains),
    "array_remove": _remove,
    "array_compact": _compact,
    **dict.fromkeys(("array_distinct", "array_union"), _distinct),
    **dict.fromkeys(("array_intersect", "array_except"), _of_both),
    "arrays_overlap": _overlap,
    "sort_array": _sorted,
    **dict.fromkeys(("array_min", "array_max"), _extreme),
    "concat_arrays": _concat,
    "reverse_array": _reverse,
    "flatten": _flatten,
    "slice": _slice,
    "array_repeat": _repeat,
    "sequence": _sequence,
    **dict.fromkeys(("array_join", "array_join_all"), _join),
    "split": _split,
    "array_insert": _insert,
}
