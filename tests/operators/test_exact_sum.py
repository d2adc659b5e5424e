"""Exact sums against fractions, and against sums of the rows that are left."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import exact_sum
from operators.column import Column
from operators.exact_sum import Sum, add, decode, encode, from_values, to_double
from operators.scalar import compile as compile_expr
from planner import types as t
from planner.expr import Call, Literal
from tests.operators.scalar_cases import call, col, column_of

DIFFS = st.integers(-3, 3) | st.integers(-(2**40), 2**40)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def state_of(values: list[float], diffs: list[int]) -> bytes:
    return add(b"", from_values(np.array(values, np.float64), np.array(diffs, np.int64)))


def rounded(total: Fraction) -> float:
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(st.lists(st.tuples(FINITE, DIFFS), max_size=40))
def test_sum_is_exact_and_rounded_once(rows: list[tuple[float, int]]) -> None:
    values, diffs = [v for v, _ in rows], [d for _, d in rows]
    exact = sum((Fraction(v) * d for v, d in rows), Fraction(0))
    assert to_double(state_of(values, diffs)) == rounded(exact)


@given(st.lists(st.tuples(st.floats(), DIFFS), max_size=30), st.randoms(use_true_random=False))
def test_retraction_leaves_no_trace(rows: list[tuple[float, int]], shuffle: random.Random) -> None:
    state = state_of([1.5], [1])
    steps = [*rows, *((v, -d) for v, d in rows)]
    shuffle.shuffle(steps)
    for value, diff in steps:
        state = add(state, from_values(np.array([value]), np.array([diff])))
    assert state == state_of([1.5], [1])


@given(st.integers(-(2**3000), 2**3000), *[st.integers(0, 9)] * 3)
def test_bytes_are_canonical(total: int, nan: int, pinf: int, ninf: int) -> None:
    state = encode(total, nan, pinf, ninf)
    assert decode(state) == Sum(total, nan, pinf, ninf)
    assert (state == b"") == (not (total or nan or pinf or ninf))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([], 0.0),
        ([0.1] * 10, 1.0),
        ([1e308, 1e308, -1e308], 1e308),
        ([1e308, 1e308], math.inf),
        ([-1e308, -1e308], -math.inf),
        ([5e-324, 5e-324], 1e-323),
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([-0.0], 0.0),
    ],
)
def test_examples(values: list[float], wanted: float) -> None:
    got = to_double(state_of(values, [1] * len(values)))
    assert got == wanted or (math.isnan(got) and math.isnan(wanted))


def test_many_rows_of_one_exponent() -> None:
    values = np.random.default_rng(7).normal(1e6, 1.0, 50_000)
    diffs = np.where(np.arange(50_000) % 3 == 0, -1, 1)
    assert to_double(state_of(values.tolist(), diffs.tolist())) == math.fsum(values * diffs)
    assert exact_sum.from_values(values.astype(np.float32), diffs).nan == 0


def test_read_by_expression() -> None:
    states = column_of(t.BINARY, [state_of([0.5, 0.25], [1, 1]), b"", None])
    expr = call("exact_sum_to_double", col(0, t.BINARY), type=t.DOUBLE)
    column, errors = compile_expr(expr).evaluate([states].__getitem__, 3)
    assert isinstance(column, Column)
    assert column.values.tolist() == [0.75, 0.0, 0.0]  # type: ignore[union-attr]
    assert column.valid is not None
    assert column.valid.tolist() == [True, True, False]
    assert errors is None


@pytest.mark.parametrize("reduction", [0, 1])
def test_variance_of_doubles(reduction: int) -> None:
    values = [0.1, 0.2, 1e9, -3.5]
    total = from_values(np.array(values), np.ones(4, np.int64))
    squares = exact_sum.of_squares(np.array(values), np.ones(4, np.int64))
    parts = [
        column_of(t.BIGINT, [4, reduction, 0]),
        column_of(t.BINARY, [add(b"", total), b"", b""]),
        column_of(t.BINARY, [add(b"", squares), b"", b""]),
    ]
    args = (col(0, t.BIGINT), col(1, t.BINARY), col(2, t.BINARY), Literal(reduction, t.INT))
    column, errors = compile_expr(Call("variance", args, t.DOUBLE, True)).evaluate(
        parts.__getitem__, 3
    )
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / 4
    wanted = sum((x - mean) ** 2 for x in exact) / (4 - reduction)
    assert errors is None and column.valid is not None
    assert column.values[0] == rounded(Fraction(wanted))
    assert column.valid.tolist() == [True, False, False]


def test_variance_of_decimals() -> None:
    kind = t.DecimalType(38, 2)
    squares = t.DecimalType(38, 4)
    parts = [
        column_of(t.BIGINT, [3]),
        column_of(kind, [Decimal("6.00")]),
        column_of(squares, [Decimal("14.0000")]),
    ]
    args = (col(0, t.BIGINT), col(1, kind), col(2, squares), Literal(1, t.INT))
    column, _ = compile_expr(Call("variance", args, t.DOUBLE, True)).evaluate(parts.__getitem__, 1)
    assert column.values.tolist() == [1.0]  # of 1, 2, 3


def test_single_value() -> None:
    parts = [column_of(t.BIGINT, [0, 1, 2]), column_of(t.INT, [None, 7, 8])]
    expr = Call("single_value", (col(0, t.BIGINT), col(1, t.INT)), t.INT, True)
    column, errors = compile_expr(expr).evaluate(parts.__getitem__, 3)
    assert errors is not None and errors.mask.tolist() == [False, False, True]
    assert "SCALAR_SUBQUERY_TOO_MANY_ROWS" in (errors.message(2) or "")
    assert column.values[1] == 7 and column.valid is not None and not column.valid[0]
