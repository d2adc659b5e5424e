"""Arrays of FLOATs as vectors: products, distances and norms.

Terms are added up as DOUBLEs in Spark's own order, which the last digits show: eight at a time from
the left, each eight to the sum so far, then what is left over one by one. The result is rounded to
a FLOAT once. A NULL in a vector makes the result NULL.

Source: Spark `VectorFunctionImplUtils`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from operators.flight import nested
from operators.flight.column import Bools, Column
from operators.scalar.lists import strict
from operators.scalar.value import Builder, Errors, Node, Run, failures
from planner.calculus import types as t
from planner.calculus.expr import Call

#: float64[k, d]: vectors of one length, a row each.
_Vectors = Any
_EIGHT = 8


def _added(terms: _Vectors) -> Any:
    """The sum of each row. float64[k]"""
    k, size = terms.shape
    total = np.zeros(k)
    whole = size // _EIGHT * _EIGHT
    for first in range(0, whole, _EIGHT):
        eight = terms[:, first]
        for i in range(first + 1, first + _EIGHT):
            eight = eight + terms[:, i]
        total = total + eight
    for i in range(whole, size):
        total = total + terms[:, i]
    return total


def _inner_product(a: _Vectors, b: _Vectors) -> Any:
    return _added(a * b)


def _distance(a: _Vectors, b: _Vectors) -> Any:
    return np.sqrt(_added((a - b) * (a - b)))


def _cosine(a: _Vectors, b: _Vectors) -> Any:
    """NaN also stands for what is NULL: see `_undefined`."""
    return _added(a * b) / np.sqrt(_added(a * a) * _added(b * b))


def _undefined(a: _Vectors, b: _Vectors) -> Any:
    """Where a cosine is NULL: one of the vectors has no direction."""
    return np.sqrt(_added(a * a) * _added(b * b)) == 0


_PAIRS: dict[str, Callable[[_Vectors, _Vectors], Any]] = {
    "vector_inner_product": _inner_product,
    "vector_l2_distance": _distance,
    "vector_cosine_similarity": _cosine,
}


def _pair(call: Call, args: tuple[Node, ...]) -> Run:
    function, name = _PAIRS[call.function], call.function

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        left, right = map(_Flat, given)
        wrong = valid & (left.sizes != right.sizes)
        there = ~(wrong | left.holed | right.holed)
        values = np.zeros(n, np.float32)
        for rows in left.of_one_size(there):
            a, b = left.vectors(rows), right.vectors(rows)
            values[rows] = function(a, b)
            if name == "vector_cosine_similarity":
                there[rows] = ~_undefined(a, b)
        bad = np.flatnonzero(wrong).tolist()
        said = [
            f"[VECTOR_DIMENSION_MISMATCH] vectors of {left.sizes[i]} and {right.sizes[i]} "
            f"elements in {name}"
            for i in bad
        ]
        return Column(t.FLOAT, values, there), failures(n, bad, said)

    return strict(args, op)


#: By the degree of a norm: of vectors as rows, none of them empty, the norm of each.
_NORMS: dict[float, Callable[[_Vectors], Any]] = {
    1.0: lambda a: _added(np.abs(a)),
    2.0: lambda a: np.sqrt(_added(a * a)),
    float("inf"): lambda a: np.abs(a).max(axis=1, initial=0.0),
}


def _norm(call: Call, args: tuple[Node, ...]) -> Run:
    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        norms, there, errors = _norms(call, _Flat(given[0]), given[1].values, valid)
        return Column(t.FLOAT, norms.astype(np.float32), there), errors

    return strict(args, op)


def _normalized(call: Call, args: tuple[Node, ...]) -> Run:
    """Each element divided by the norm; NULL where that is 0, but for a vector of no elements."""

    def op(given: list[Column], valid: Bools, n: int) -> tuple[Column, Errors | None]:
        flat = _Flat(given[0])
        norms, there, errors = _norms(call, flat, given[1].values, valid)
        there &= (norms != 0) | (flat.sizes == 0)
        divisors = np.repeat(np.where(there, norms, 1.0), flat.sizes)
        elements = Column(t.FLOAT, (flat.elements / divisors).astype(np.float32))
        return nested.from_lists(call.type, flat.offsets, elements, there), errors

    return strict(args, op)


def _norms(call: Call, flat: _Flat, degrees: Any, valid: Bools) -> tuple[Any, Bools, Errors | None]:
    """float64[n], where there is one, and the rows whose degree has no norm."""
    n = len(flat.sizes)
    known = np.isin(degrees, list(_NORMS))
    there, norms = known & ~flat.holed, np.zeros(n)
    for degree, norm in _NORMS.items():
        for rows in flat.of_one_size(there & (degrees == degree)):
            norms[rows] = norm(flat.vectors(rows))
    bad = np.flatnonzero(~known & valid).tolist()
    said = f"[INVALID_VECTOR_NORM_DEGREE] {call.function} of a degree that is not 1.0, 2.0 or inf"
    return norms, there, failures(n, bad, [said] * len(bad))


class _Flat:
    """The vectors of a column, one behind the other. `holed` bool[n]: that have a NULL."""

    __slots__ = ("elements", "holed", "offsets", "sizes")

    def __init__(self, column: Column) -> None:
        found = nested.lists(column)
        elements = nested.values(t.FLOAT, found.pieces)
        self.elements = np.asarray(elements.values, np.float64)
        self.offsets = found.offsets
        self.sizes = np.diff(found.offsets)
        self.holed = np.zeros(len(column), np.bool_)
        if elements.valid is not None:
            self.holed[found.rows[~elements.valid]] = True

    def of_one_size(self, rows: Bools) -> list[Any]:
        """Positions of these rows, those of vectors of one size together."""
        places = np.flatnonzero(rows)
        order = places[np.argsort(self.sizes[places], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.sizes[order])) + 1
        return np.split(order, cuts) if len(order) else []

    def vectors(self, rows: Any) -> _Vectors:
        """Vectors of one size. float64[k, d]"""
        size = int(self.sizes[rows[0]])
        return self.elements[self.offsets[rows][:, None] + np.arange(size)]


BUILDERS: dict[str, Builder] = {
    **dict.fromkeys(_PAIRS, _pair),
    "vector_norm": _norm,
    "vector_normalize": _normalized,
}
