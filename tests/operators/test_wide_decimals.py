"""Decimals of two words against Python's integers."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.kernels import scalar as kernels
from operators.scalar import arithmetic, decimals
from operators.scalar import compile as compile_expr
from planner.calculus import types as t
from planner.calculus.expr import Call
from tests.operators.columns import ints
from tests.operators.scalar_cases import col, column_of
from tests.reference import groups as naive

_NUMBER = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.integers(-(2**64), 2**64),
    st.sampled_from([0, 1, -1, 2**63, -(2**63), 2**64, 10**37]),
)
_PLACES = st.sampled_from([0, 0, 1, 18, 19, 37])


def _pairs(numbers: list[int]) -> np.ndarray:
    return np.array([naive.words(x) for x in numbers], np.int64).reshape(-1, 2)


@given(st.lists(st.tuples(_NUMBER, _NUMBER), max_size=6), _PLACES, _PLACES, st.booleans())
def test_sums(rows: list[tuple[int, int]], x_places: int, y_places: int, minus: bool) -> None:
    x, y = (_pairs([r[i] for r in rows]) for i in (0, 1))
    found = decimals.added(x, y, x_places, y_places, -1 if minus else 1, len(rows))
    parts = [(a * 10**x_places, (-b if minus else b) * 10**y_places) for a, b in rows]
    if found is None:
        assert any(max(abs(a), abs(b), abs(a + b)) >= 2**127 for a, b in parts)
    else:
        assert [naive.from_words(*row) for row in found.tolist()] == [a + b for a, b in parts]


def test_a_narrow_side_and_a_scalar() -> None:
    wide = _pairs([10**30, -(10**30)])
    for other in (ints(5, 5), 5):
        found = decimals.added(wide, other, 0, 2, -1, 2)
        assert found is not None
        sums = [naive.from_words(*row) for row in found.tolist()]
        assert sums == [10**30 - 500, -(10**30) - 500]


@given(st.lists(st.tuples(_NUMBER, st.sampled_from([None, -1, 0, 3])), max_size=5))
def test_sums_in_range(rows: list[tuple[int, int | None]]) -> None:
    """Tops that are None are those of a number of two words."""
    sums, bound = _pairs([r[0] for r in rows]), 10**30
    tops = ints(*(-1 if x < 0 else 0 if top is None else top for x, top in rows))
    exact = [x + (int(top) + (x < 0) << 128) for (x, _), top in zip(rows, tops, strict=True)]
    out = np.empty(len(rows), np.int64)
    length = kernels.sums_in_range(sums, tops, decimals.words_of(bound), out)
    if length == kernels.WORD:
        assert out.tolist() == exact
    elif length == kernels.PAIR:
        assert all(abs(x) < bound for x in exact)
        assert any(not -(2**63) <= x < 2**63 for x in exact)
    else:
        assert any(abs(x) >= bound for x in exact)


_SIZES = st.integers(0, 38).flatmap(lambda d: st.integers(-(10**d), 10**d))
#: Quotients just below, at and above a half, where both roundings show.
_HALVES = st.tuples(st.integers(1, 38), st.integers(0, 38), st.integers(-2, 2)).map(
    lambda x: (5 * 10 ** x[0] // 10 + x[2], 10 ** x[1])
)


@given(st.lists(st.tuples(_SIZES, _SIZES), max_size=5), st.sampled_from([0, 1, 6, 18, 37, 38]))
def test_products(rows: list[tuple[int, int]], drop: int) -> None:
    x, y = (_pairs([r[i] for r in rows]) for i in (0, 1))
    found = decimals.multiplied(x, y, drop, len(rows))
    exact = np.array([*(a * b for a, b in rows), None], object)[:-1]
    expected = decimals.shift_right(exact, drop).tolist()
    if found is None:
        assert any(abs(e) >= 2**127 for e in expected)
    else:
        assert [naive.from_words(*row) for row in found.tolist()] == expected


@given(st.lists(st.tuples(_SIZES, _SIZES) | _HALVES, max_size=5), st.integers(-38, 38))
def test_quotients(rows: list[tuple[int, int]], places: int) -> None:
    x, y = (_pairs([r[i] for r in rows]) for i in (0, 1))
    found = decimals.quotients(x, y, places, len(rows))
    expected = [0 if b == 0 else arithmetic._quotient(a, b, places) for a, b in rows]
    if found is None:
        below = [abs(b) * 10 ** max(-places, 0) for _, b in rows]
        assert any(abs(e) >= 2**127 for e in [*expected, *below])
    else:
        assert [naive.from_words(*row) for row in found.tolist()] == expected


@pytest.mark.parametrize(("factor", "more"), [(44, 0), (45, 1), (-44, 0), (-45, -1)])
def test_39_digits_make_a_half_that_goes_up(factor: int, more: int) -> None:
    """…0.44 stays below a half with one digit of the fraction, …0.45 becomes one."""
    number = 4 * 10**37 + 1
    found = decimals.multiplied(_pairs([number]), _pairs([factor]), 2, 1)
    assert found is not None
    assert naive.from_words(*found[0].tolist()) == 4 * 10**35 * factor + more


@pytest.mark.parametrize("function", ["add", "subtract"])
def test_a_sum_beyond_38_digits_names_its_row(function: str) -> None:
    kind = t.DecimalType(38, 2)
    most = Decimal("9" * 36 + ".99")
    values = [most, Decimal("1.25"), -most]
    expr = Call(function, (col(0, kind), col(1, kind)), kind, True)
    columns = [column_of(kind, values), column_of(kind, [Decimal("0.01")] * 3)]
    column, errors = compile_expr(expr).evaluate(columns.__getitem__, 3)
    assert errors is not None
    assert errors.mask.tolist() == (
        [True, False, False] if function == "add" else [False, False, True]
    )
    unscaled = [naive.from_words(*row) for row in np.asarray(column.values).tolist()]
    assert unscaled[1] == (126 if function == "add" else 124)
