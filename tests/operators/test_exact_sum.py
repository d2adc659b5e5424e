"""Exact sums against fractions, their twin, and sums of the rows that are left."""

from __future__ import annotations

import functools
import math
import random
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.flight.column import Column
from operators.scalar import compile as compile_expr
from operators.scalar import exact_sum
from operators.scalar.exact_sum import Sum, decode
from planner.calculus import types as t
from planner.calculus.expr import Call, Literal
from tests.operators.columns import ints
from tests.operators.scalar_cases import call, col, column_of
from tests.reference.exact import add, encode, state_of, to_double

DIFFS = st.integers(-3, 3) | st.integers(-(2**62), 2**62)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
Rows = list[tuple[float, int]]
STATES = st.builds(
    encode,
    st.integers(-(2**2140), 2**2140) | st.integers(-9, 9) | st.sampled_from([2**64, -(2**63)]),
    *[st.just(0) | st.integers(0, 2**40)] * 3,
)


def states_of(runs: list[Rows], square: bool = False) -> list[bytes]:
    """By the kernel, with a NULL before each run that must not count."""
    rows = [(v, d, ok) for run in runs for v, d, ok in [(math.nan, 1, False), *with_true(run)]]
    starts = np.cumsum([0, *(len(run) + 1 for run in runs)])
    order = np.arange(len(rows))[::-1].copy()
    values, diff, valid = (list(c) for c in zip(*rows[::-1], strict=True)) if rows else ([],) * 3
    made = exact_sum.of_values(
        np.array(values, np.float64), np.array(valid, np.bool_), ints(*diff), order, starts, square
    )
    made.validate(full=True)
    return made.to_pylist()  # type: ignore[no-any-return]


def with_true(run: Rows) -> list[tuple[float, int, bool]]:
    return [(v, d, True) for v, d in run]


def doubles_of(states: list[bytes]) -> list[float]:
    return exact_sum.to_doubles(pa.array(states, pa.binary())).tolist()


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@given(st.lists(st.lists(st.tuples(st.floats(), DIFFS), max_size=12), max_size=4), st.booleans())
def test_states_are_those_of_the_twin(runs: list[Rows], square: bool) -> None:
    assert states_of(runs, square) == [state_of(run, square) for run in runs]


@given(st.lists(st.tuples(FINITE, DIFFS), max_size=40))
def test_sum_is_exact_and_rounded_once(rows: Rows) -> None:
    total = sum((Fraction(v) * d for v, d in rows), Fraction(0))
    assert doubles_of(states_of([rows])) == [rounded(total)]


def rounded(total: Fraction) -> float:
    try:
        return total.numerator / total.denominator
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@given(st.lists(STATES | st.integers(-(2**60), 2**60).map(encode), max_size=20))
def test_reading_states(states: list[bytes]) -> None:
    got = doubles_of(states)
    assert all(same(a, to_double(s)) for a, s in zip(got, states, strict=True))


@given(st.integers(0, 60), st.integers(0, 2000), st.integers(-2, 2), st.booleans())
def test_halves_are_rounded_to_even(odd: int, shift: int, off: int, negative: bool) -> None:
    total = ((2**53 + odd) * 2 + 1 << shift) + off
    state = encode(-total if negative else total)
    assert doubles_of([state]) == [to_double(state)]


@given(st.lists(st.lists(STATES, max_size=4), max_size=4))
def test_adding_states_up(runs: list[list[bytes]]) -> None:
    states = pa.array([s for run in runs for s in run], pa.binary())
    starts = np.cumsum([0, *map(len, runs)])
    made = exact_sum.added_up(states, np.arange(len(states)), starts)
    assert made.to_pylist() == [functools.reduce(plus, run, b"") for run in runs]


def plus(a: bytes, b: bytes) -> bytes:
    return add(a, decode(b))


@given(st.lists(STATES, min_size=1, max_size=3), st.lists(STATES, max_size=3), st.data())
def test_successive_versions(changes: list[bytes], old: list[bytes], data: st.DataObject) -> None:
    versions: list[tuple[int, int]] = []
    wanted: list[bytes] = []
    for b in range(data.draw(st.integers(0, 6))):
        run = data.draw(st.integers(0, len(changes) - 1))
        prior = data.draw(st.integers(-1 - b, len(old) - 1))
        base = old[prior] if prior >= 0 else wanted[-2 - prior] if prior < -1 else b""
        versions.append((run, prior))
        wanted.append(plus(base, changes[run]))
    run, prior = (ints(*(v[i] for v in versions)) for i in (0, 1))
    arrays = (pa.array(s, pa.binary()) for s in (changes, old))
    assert exact_sum.successive(run, prior, *arrays).to_pylist() == wanted


@given(st.lists(st.tuples(st.floats(), DIFFS), max_size=30), st.randoms(use_true_random=False))
def test_retraction_leaves_no_trace(rows: Rows, shuffle: random.Random) -> None:
    steps = [*rows, *((v, -d) for v, d in rows), (1.5, 1)]
    shuffle.shuffle(steps)
    assert states_of([steps]) == [state_of([(1.5, 1)])]


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
    (got,) = doubles_of(states_of([[(v, 1) for v in values]]))
    assert same(got, wanted)


def test_many_rows_of_one_exponent() -> None:
    values = np.random.default_rng(7).normal(1e6, 1.0, 50_000)
    diffs = np.where(np.arange(50_000) % 3 == 0, -1, 1)
    rows = list(zip(values.tolist(), diffs.tolist(), strict=True))
    assert doubles_of(states_of([rows])) == [math.fsum(values * diffs)]
    assert states_of([rows]) == [state_of(rows)]


def test_floats_count_as_doubles() -> None:
    one, none = np.array([0, 1]), np.array([0.1], np.float32)
    made = exact_sum.of_values(none, None, ints(1), ints(0), one, False)
    assert made.to_pylist() == [state_of([(float(none[0]), 1)])]


def test_read_by_expression() -> None:
    states = column_of(t.BINARY, [state_of([(0.5, 1), (0.25, 1)]), b"", None])
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
    total, squares = (state_of([(v, 1) for v in values], square) for square in (False, True))
    parts = [
        column_of(t.BIGINT, [4, reduction, 0]),
        column_of(t.BINARY, [total, b"", b""]),
        column_of(t.BINARY, [squares, b"", b""]),
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
