"""Every function against its row-wise twin, and nested expressions too."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import scalar
from operators.flight.column import Column
from operators.scalar import text
from planner.bind.lambdas import LAMBDAS
from planner.calculus import expr as e
from planner.calculus import types as t
from planner.calculus.failing import may_fail
from planner.calculus.library import LIBRARY
from planner.calculus.primitives import FUNCTIONS, Nulls
from planner.errors import BindError, UnsupportedError
from tests.operators.scalar_cases import (
    DECIMALS,
    FLOATS,
    INTEGERS,
    MOMENTS,
    MONEY,
    TYPES,
    WIDE,
    D,
    call,
    col,
    column_of,
    columns,
    decimal_result,
    evaluate,
    lit,
    same,
    values,
)
from tests.reference import expressions as reference

#: Functions of which libraries differ in the last digit.
_LOOSE = frozenset("power exp expm1 cbrt ln log2 log10 log1p log".split())
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe")


def check(expr: e.Expr, data: list[list[Any]], kinds: tuple[t.SqlType, ...]) -> None:
    n = len(data[0])
    got = evaluate(expr, [column_of(k, v) for k, v in zip(kinds, data, strict=True)], n)
    loose = any(isinstance(x, e.Call) and x.function in _LOOSE for x in e.walk(expr))
    for i, row in enumerate(zip(*data, strict=True)):
        try:
            wanted = reference.evaluate(expr, row)
        except reference.Failure as failure:
            wanted = ("error", str(failure))
        except (OverflowError, ValueError):
            continue  # beyond the years of Python's dates
        assert same(got[i], wanted, loose), f"{expr}\n{row}: {got[i]!r}, twin {wanted!r}"


def simple_cases() -> list[e.Call]:
    """Calls over columns #0, #1, …, at least one for each function and kind of type."""
    out: list[e.Call] = []

    def add(function: str, kinds: tuple[t.SqlType, ...], result: t.SqlType, *more: e.Expr) -> None:
        args = [col(i, kind) for i, kind in enumerate(kinds)]
        out.append(call(function, *args, *more, type=result))

    for kind in INTEGERS:
        for function in ("add", "subtract", "multiply", "remainder"):
            add(function, (kind, kind), kind)
        add("integral_divide", (kind, kind), t.BIGINT)
        add("round", (kind,), kind, lit(-1, t.INT))
        add("floor", (kind,), kind)
    for kind in FLOATS:
        for function in ("add", "subtract", "multiply", "divide", "remainder"):
            add(function, (kind, kind), kind)
        add("round", (kind,), kind, lit(2, t.INT))
    for function in ("floor", "ceil"):
        add(function, (t.DOUBLE,), t.BIGINT)
    for a in DECIMALS:
        for b in DECIMALS:
            for function in ("add", "subtract", "multiply", "divide", "remainder"):
                add(function, (a, b), decimal_result(function, a, b))
            add("integral_divide", (a, b), t.BIGINT)
        for function in ("floor", "ceil"):
            add(function, (a,), t.bounded_decimal(a.precision - a.scale + 1, 0))
        for digits in (0, 1, -1, 20):
            result = t.bounded_decimal(a.precision - a.scale + 1 + max(digits, 0), max(digits, 0))
            if digits >= a.scale:
                result = a
            add("round", (a,), result, lit(digits, t.INT))
    for kind in (*INTEGERS, *FLOATS, *DECIMALS):
        add("negate", (kind,), kind)
        add("abs", (kind,), kind)
    for kind in TYPES:
        for function in COMPARISONS:
            add(function, (kind, kind), t.BOOLEAN)
        for function in ("greatest", "least", "coalesce"):
            add(function, (kind, kind, kind), kind)
        add("is_null", (kind,), t.BOOLEAN)
        condition = col(2, t.BOOLEAN)
        out.append(call("case", condition, col(0, kind), col(1, kind), type=kind))
    add("sqrt", (t.DOUBLE,), t.DOUBLE)
    add("power", (t.DOUBLE, t.DOUBLE), t.DOUBLE)
    for function in ("and", "or"):
        add(function, (t.BOOLEAN, t.BOOLEAN), t.BOOLEAN)
    add("not", (t.BOOLEAN,), t.BOOLEAN)
    for function in ("upper", "lower", "trim", "ltrim", "rtrim"):
        add(function, (t.STRING,), t.STRING)
        if function.endswith("trim"):
            add(function, (t.STRING, t.STRING), t.STRING)
            add(function, (t.STRING,), t.STRING, lit("ab", t.STRING))
    for function in ("lpad", "rpad"):
        add(function, (t.STRING, t.TINYINT, t.STRING), t.STRING)
    add("repeat", (t.STRING, t.TINYINT), t.STRING)
    for function in ("reverse", "initcap"):
        add(function, (t.STRING,), t.STRING)
    add("locate", (t.STRING, t.STRING, t.INT), t.INT)
    add("translate", (t.STRING, t.STRING, t.STRING), t.STRING)
    add("translate", (t.STRING,), t.STRING, lit("aéa", t.STRING), lit("xy", t.STRING))
    add("ascii", (t.STRING,), t.INT)
    add("chr", (t.BIGINT,), t.STRING)
    add("concat_ws", (t.STRING, t.STRING, t.STRING), t.STRING)
    add("substring_index", (t.STRING, t.STRING, t.TINYINT), t.STRING)
    add("like", (t.STRING, t.STRING), t.BOOLEAN, lit("!", t.STRING))
    for function in ("exp", "expm1", "cbrt", "rint", "ln", "log2", "log10", "log1p"):
        add(function, (t.DOUBLE,), t.DOUBLE)
    add("log", (t.DOUBLE, t.DOUBLE), t.DOUBLE)
    add("second_fraction", (t.TIMESTAMP,), D(8, 6))
    add("make_date", (t.INT, t.TINYINT, t.TINYINT), t.DATE)
    for pattern in ("yyyy-MM-dd HH:mm:ss.SSSSSS", "EEEE dd MMM", "a DDD"):
        add("date_format", (t.TIMESTAMP,), t.STRING, lit(pattern, t.STRING))
    add("length", (t.STRING,), t.INT)
    add("concat", (t.STRING, t.STRING, t.STRING), t.STRING)
    add("replace", (t.STRING, t.STRING, t.STRING), t.STRING)
    add("replace", (t.STRING,), t.STRING, lit("a", t.STRING), lit("éé", t.STRING))
    add("split_part", (t.STRING, t.STRING, t.INT), t.STRING)
    add("substring", (t.STRING, t.INT, t.INT), t.STRING)
    for start, length in ((1, 2), (0, 3), (2, 1), (-2, 2), (-9, 8), (3, -1), (1, 2**31 - 1)):
        add("substring", (t.STRING,), t.STRING, lit(start, t.INT), lit(length, t.INT))
    for function in ("starts_with", "ends_with", "contains"):
        add(function, (t.STRING, t.STRING), t.BOOLEAN)
        for needle in ("", "a", "é", "ab"):
            add(function, (t.STRING,), t.BOOLEAN, lit(needle, t.STRING))
    patterns = (
        "",
        "%",
        "%%",
        "a",
        "a%",
        "%a",
        "%b%",
        "_",
        "a_b",
        "a/%b",
        "a/_b%",
        "%/%%",
        "P%O%",
        "日_%",
        ".*",
    )
    for pattern in patterns:
        add("like", (t.STRING,), t.BOOLEAN, lit(pattern, t.STRING), lit("/", t.STRING))
    for regex in ("a", "^a", "b$", "[é日]", "a.b"):
        add("rlike", (t.STRING,), t.BOOLEAN, lit(regex, t.STRING))
    for function in ("year", "quarter", "month", "day", "day_of_week", "day_of_year", "week"):
        for kind in MOMENTS:
            add(function, (kind,), t.INT)
    for function in ("hour", "minute", "second"):
        add(function, (t.TIMESTAMP,), t.INT)
    add("date_diff", (t.DATE, t.DATE), t.INT)
    add("last_day", (t.DATE,), t.DATE)
    for weekday in (1, 4, 7):
        add("next_day", (t.DATE,), t.DATE, lit(weekday, t.INT))
    for kind in MOMENTS:
        for months in (-13, -1, 0, 1, 2, 12, 100):
            add("add_months", (kind,), kind, lit(months, t.INT))
        units = "year QUARTER mon MM week day hour minute second millisecond microsecond x"
        out.extend(
            call("date_trunc", lit(unit, t.STRING), col(0, kind), type=kind)
            for unit in units.split()
        )
    for days in (-1, 0, 59, 36525):
        add("date_add", (t.DATE,), t.DATE, lit(days, t.INT))
    for micros in (-1, 86_400_000_000, 1):
        add("add_microseconds", (t.TIMESTAMP,), t.TIMESTAMP, lit(micros, t.INTERVAL_MICROSECONDS))
    for numbers in ((600_000_000, 0, 0), (7_000_001, -13, 21_000_003), (86_400_000_000, 5, -9)):
        literals = (lit(n, t.BIGINT) for n in numbers)
        add("period_edge", (t.TIMESTAMP,), t.TIMESTAMP, *literals)
    return out


def cast_cases() -> list[e.Call]:
    out = []
    for source in TYPES:
        for target in TYPES:
            try:
                scalar.compile(call("cast", col(0, source), type=target))
            except UnsupportedError:
                continue
            both = ("cast", "try_cast")
            out.extend(call(function, col(0, source), type=target) for function in both)
    return out


def kinds_of(expr: e.Expr) -> tuple[t.SqlType, ...]:
    found = {x.index: x.type for x in e.walk(expr) if isinstance(x, e.Column)}
    return tuple(found[i] for i in range(len(found)))


SIMPLE, CASTS = simple_cases(), cast_cases()


#: What planner.bind.library makes of calls.
_FORMS = {
    *("bit_and", "bit_or", "bit_xor", "bit_not", "bit_count", "bit_get", "bround", "elt"),
    *("shift_left", "shift_right", "shift_right_unsigned", "raise_error", "user"),
    *("array", "struct", "map", "field", "element_fields", "concat_arrays", "map_concat"),
    *("hash", "xxhash64", "sequence", "arrays_zip", *LAMBDAS.keys() - {"reduce"}),
    *("try_add", "try_subtract", "try_multiply", "try_divide", "try_remainder"),
    *("interval_of", "units_of", "clock_of", "rounded_quotient"),
    *("parse_timestamp", "try_parse_timestamp", "units_between", "ceil_to", "floor_to"),
}


def test_every_function_is_implemented() -> None:
    assert set(scalar.BUILDERS) == set(FUNCTIONS)
    # The planner's own functions are tested in test_exact_sum.py and tests/recursion.
    internal = {"exact_sum_to_double", "checked_sum", "single_value", "variance", "magnitude"}
    tested = {c.function for c in SIMPLE + CASTS} | {"in"} | internal
    # Spark's own answers to the others are in tests/sql/function_answers.json.
    assert tested >= FUNCTIONS.keys() - LIBRARY.keys() - _FORMS


@given(st.data())
@pytest.mark.parametrize("function", sorted({c.function for c in SIMPLE}))
def test_function_agrees_with_twin(function: str, data: st.DataObject) -> None:
    expr = data.draw(st.sampled_from([c for c in SIMPLE if c.function == function]))
    kinds = kinds_of(expr)
    check(expr, data.draw(columns(kinds)), kinds)


@given(st.data())
@pytest.mark.parametrize("function", sorted({c.function for c in SIMPLE + CASTS}))
def test_what_a_record_says_of_nulls_and_errors(function: str, data: st.DataObject) -> None:
    expr = data.draw(st.sampled_from([c for c in SIMPLE + CASTS if c.function == function]))
    kinds = kinds_of(expr)
    rows = data.draw(columns(kinds))
    inputs = [column_of(kind, values) for kind, values in zip(kinds, rows, strict=True)]
    results = evaluate(expr, inputs, len(rows[0]))
    record = FUNCTIONS[function]
    for row, result in zip(zip(*rows, strict=True), results, strict=True):
        if record.nulls is Nulls.NEVER:
            assert result is not None
        if record.nulls is Nulls.STRICT and None in row:
            assert result is None
        if not may_fail(expr):
            assert not isinstance(result, tuple)


def test_what_fails_by_its_meaning_fails_by_its_record() -> None:
    for name, record in FUNCTIONS.items():
        if re.search(r"\bfails\b", record.meaning):
            assert record.fails, name


@given(st.data())
@pytest.mark.parametrize("function", sorted({c.function for c in SIMPLE if len(c.args) == 2}))
def test_function_of_a_literal_agrees_with_twin(function: str, data: st.DataObject) -> None:
    candidates = [
        c
        for c in SIMPLE
        if c.function == function
        and len(c.args) == 2
        and all(isinstance(a, e.Column) for a in c.args)
    ]
    if not candidates:
        pytest.skip("takes a literal anyhow")
    expr = data.draw(st.sampled_from(candidates))
    a, b = expr.args
    value = data.draw(st.one_of(st.none(), values(b.type)))
    if data.draw(st.booleans()):
        expr = e.Call(function, (a, lit(value, b.type)), expr.type, True)
    else:
        expr = (
            e.Call(function, (lit(value, a.type), col(0, b.type)), expr.type, True)
            if (a.type == b.type)
            else expr
        )
    kinds = kinds_of(expr)
    check(expr, data.draw(columns(kinds)), kinds)


@given(st.data())
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_cast_agrees_with_twin(source: t.SqlType, data: st.DataObject) -> None:
    expr = data.draw(st.sampled_from([c for c in CASTS if c.args[0].type == source]))
    check(expr, data.draw(columns((source,))), (source,))


@given(st.data())
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_in_agrees_with_twin(kind: t.SqlType, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from((1, 2, 5, 40)))
    listed = data.draw(st.lists(st.one_of(values(kind), st.none()), min_size=1, max_size=size))
    if data.draw(st.booleans()):
        listed = [v for v in listed if v is not None] or listed
    expr = call("in", col(0, kind), *(lit(v, kind) for v in listed), type=t.BOOLEAN)
    (drawn,) = data.draw(columns((kind,)))
    drawn = [listed[0] if v is not None and i % 3 == 0 else v for i, v in enumerate(drawn)]
    check(expr, [drawn], (kind,))


NESTED_KINDS = (t.BOOLEAN, t.INT, t.BIGINT, t.DOUBLE, MONEY, WIDE, t.STRING, t.DATE)
BY_RESULT = [c for c in SIMPLE if kinds_of(c) and all(k in NESTED_KINDS for k in kinds_of(c))]


@st.composite
def nested(draw: st.DrawFn, kind: t.SqlType, depth: int) -> e.Expr:
    """An expression of `kind` over one column of each of NESTED_KINDS."""
    choice = draw(st.integers(0, 9)) if depth else 0
    if choice < 2:
        return col(NESTED_KINDS.index(kind), kind)
    if choice == 2:
        return lit(draw(st.one_of(st.none(), values(kind))), kind)
    if choice == 3:
        args = []
        for _ in range(draw(st.integers(1, 2))):
            args += [draw(nested(t.BOOLEAN, depth - 1)), draw(nested(kind, depth - 1))]
        return call("case", *args, draw(nested(kind, depth - 1)), type=kind)
    if kind == t.BOOLEAN and choice < 7:
        args = [draw(nested(t.BOOLEAN, depth - 1)) for _ in range(2)]
        return call(draw(st.sampled_from(("and", "or"))), *args, type=t.BOOLEAN)
    shape = draw(st.sampled_from([c for c in BY_RESULT if c.type == kind] or BY_RESULT))
    made = e.Call(
        shape.function,
        tuple(
            draw(nested(a.type, depth - 1)) if isinstance(a, e.Column) else a for a in shape.args
        ),
        shape.type,
        True,
    )
    castable = any(c.args[0].type == shape.type and c.type == kind for c in CASTS)
    if shape.type == kind:
        return made
    return (
        call("cast", made, type=kind)
        if castable
        else call("is_null", made, type=t.BOOLEAN)
        if (kind == t.BOOLEAN)
        else col(NESTED_KINDS.index(kind), kind)
    )


@given(st.data())
@pytest.mark.parametrize("kind", NESTED_KINDS, ids=str)
def test_nested_expressions_agree_with_twin(kind: t.SqlType, data: st.DataObject) -> None:
    expr = data.draw(nested(kind, 4))
    check(expr, data.draw(columns(NESTED_KINDS)), NESTED_KINDS)


def test_a_row_does_not_depend_on_its_batch() -> None:
    """A batch that overflows takes the exact path, and gives the other rows what they had."""
    product = call(
        "multiply",
        col(0, MONEY),
        col(1, D(16, 2)),
        type=decimal_result("multiply", MONEY, D(16, 2)),
    )
    small = [
        column_of(MONEY, [reference.Decimal("1.25")]),
        column_of(D(16, 2), [reference.Decimal("0.94")]),
    ]
    large = [
        column_of(MONEY, [reference.Decimal("1.25"), reference.Decimal("9999999999999.99")]),
        column_of(D(16, 2), [reference.Decimal("0.94"), reference.Decimal("-99999999999999.99")]),
    ]
    assert evaluate(product, small)[0] == evaluate(product, large)[0]
    assert evaluate(product, large)[1] == reference.Decimal("-999999999999998900000000000.0001")


def test_errors_count_only_where_evaluated() -> None:
    ratio = call("integral_divide", col(0, t.BIGINT), col(1, t.BIGINT), type=t.BIGINT)
    positive = call("gt", ratio, lit(0, t.BIGINT), type=t.BOOLEAN)
    nonzero = call("ne", col(1, t.BIGINT), lit(0, t.BIGINT), type=t.BOOLEAN)
    data = [column_of(t.BIGINT, [6, 6, 6]), column_of(t.BIGINT, [0, 3, None])]
    failed = ("error", "DIVIDE_BY_ZERO")
    assert evaluate(ratio, data) == [failed, 2, None]
    assert evaluate(call("and", nonzero, positive, type=t.BOOLEAN), data) == [False, True, None]
    assert evaluate(call("and", positive, nonzero, type=t.BOOLEAN), data) == [failed, True, None]
    zero = call("eq", col(1, t.BIGINT), lit(0, t.BIGINT), type=t.BOOLEAN)
    assert evaluate(call("or", zero, positive, type=t.BOOLEAN), data) == [True, True, None]
    guarded = call("case", zero, lit(0, t.BIGINT), ratio, type=t.BIGINT)
    assert evaluate(guarded, data) == [0, 2, None]
    first = call("coalesce", col(1, t.BIGINT), ratio, type=t.BIGINT)
    assert evaluate(first, data) == [0, 3, None]


def test_messages_carry_the_values() -> None:
    total = call("add", col(0, t.BIGINT), lit(1, t.BIGINT), type=t.BIGINT)
    _, errors = scalar.compile(total).evaluate([column_of(t.BIGINT, [5, 2**63 - 1])].__getitem__, 2)
    assert errors is not None
    assert errors.mask.tolist() == [False, True]
    assert errors.message(0) is None
    assert errors.message(1) == "[ARITHMETIC_OVERFLOW] BIGINT overflow in 9223372036854775807 + 1"
    assert errors.take(np.array([0])) is None
    kept = errors.take(np.array([True, True]))
    assert kept is not None
    assert kept.codes.tolist() == [0, 1]


def test_constants_are_folded_and_their_errors_are_not() -> None:
    def no_columns(index: int) -> Column:
        raise AssertionError(f"column {index} is not needed")

    one_day = call(
        "date_add", lit(reference.datetime.date(1994, 1, 1), t.DATE), lit(1, t.INT), type=t.DATE
    )
    compiled = scalar.compile(one_day)
    assert compiled.literal
    column, errors = compiled.evaluate(no_columns, 3)
    assert (column.values.tolist(), errors) == ([8767] * 3, None)  # type: ignore[union-attr]
    by_zero = call("divide", lit(1.0, t.DOUBLE), lit(0.0, t.DOUBLE), type=t.DOUBLE)
    compiled = scalar.compile(by_zero)
    assert not compiled.literal
    assert compiled.evaluate(no_columns, 0)[1] is None
    failed = compiled.evaluate(no_columns, 2)[1]
    assert failed is not None
    assert failed.mask.all()


def test_literals_outgrow_their_first_array() -> None:
    compiled = scalar.compile(lit(7, t.BIGINT))
    for n in (3, 5000, 20000, 10):
        column, _ = compiled.evaluate(lambda i: pytest.fail(f"column {i}"), n)
        assert len(column) == n
        assert (column.values == 7).all()  # type: ignore[union-attr]


def test_slices_of_texts() -> None:
    """Arrow arrays with an offset are read from there."""
    texts = column_of(t.STRING, ["PROMO A", "xPROMO", "PROMO", ""])
    part = Column(t.STRING, texts.values[1:])
    for function, wanted in (
        ("starts_with", [False, True, False]),
        ("ends_with", [True, True, False]),
    ):
        expr = call(function, col(0, t.STRING), lit("PROMO", t.STRING), type=t.BOOLEAN)
        assert evaluate(expr, [part]) == wanted
    listed = call("in", col(0, t.STRING), lit("PROMO", t.STRING), lit("", t.STRING), type=t.BOOLEAN)
    assert evaluate(listed, [part]) == [False, True, True]


def test_like_of_many_parts() -> None:
    """Overlaps, repeats, ends that meet, characters of several bytes: as a regular expression."""
    rng = random.Random(7)
    for number in range(400):
        letters = rng.choice(["ab", "abc", "aéb"])
        texts = ["".join(rng.choices(letters, k=rng.randrange(12))) for _ in range(30)]
        parts = ["".join(rng.choices(letters, k=rng.randrange(4))) for _ in range(1 + number % 4)]
        if number % 10 == 0:
            parts[-1] = rng.choice(texts) * 4  # longer than what is looked for byte by byte
            texts += [f"b{parts[-1]}", f"{parts[-1]}a", f"a{parts[-1]}b"]
        pattern = rng.choice(["", "%"]) + "%".join(parts) + rng.choice(["", "%"])
        expr = call(
            "like", col(0, t.STRING), lit(pattern, t.STRING), lit("!", t.STRING), type=t.BOOLEAN
        )
        like = re.compile(".*".join(map(re.escape, pattern.split("%"))))
        expected = [like.fullmatch(text) is not None for text in texts]
        found = evaluate(expr, [Column(t.STRING, column_of(t.STRING, ["", *texts]).values[1:])])
        assert found == expected, (pattern, texts)


def test_empty_batches() -> None:
    for expr in SIMPLE + CASTS:
        kinds = kinds_of(expr)
        assert evaluate(expr, [column_of(k, []) for k in kinds], 0) == []


@pytest.mark.parametrize(
    ("expr", "error"),
    [
        (call("cast", col(0, t.DATE), type=t.INT), UnsupportedError),
        (call("cast", col(0, t.STRING), type=t.INTERVAL_MONTHS), UnsupportedError),
        (call("rlike", col(0, t.STRING), lit("(?=a)", t.STRING), type=t.BOOLEAN), UnsupportedError),
        (
            call(
                "like", col(0, t.STRING), lit("a\\", t.STRING), lit("\\", t.STRING), type=t.BOOLEAN
            ),
            BindError,
        ),
        (
            call(
                "like", col(0, t.STRING), lit("\\ab", t.STRING), lit("\\", t.STRING), type=t.BOOLEAN
            ),
            BindError,
        ),
        (call("eq", col(0, D(9, 2)), col(1, D(9, 3)), type=t.BOOLEAN), ValueError),
        (call("lt", col(0, t.INT), col(1, t.BIGINT), type=t.BOOLEAN), ValueError),
    ],
    ids=lambda x: x.function if isinstance(x, e.Call) else "",
)
def test_refused(expr: e.Expr, error: type[Exception]) -> None:
    with pytest.raises(error):
        scalar.compile(expr)


@given(st.integers(-(2**31), 2**31 - 1))
def test_calendar_beyond_the_years_of_python(days: int) -> None:
    """The calendar repeats every 400 years, to the ends of a 32-bit DATE."""
    year, month, day = text.civil_of(days)
    dates = [Column(t.DATE, np.array([days]))]
    parts = {"year": year, "month": month, "day": day}
    for function, wanted in parts.items():
        assert evaluate(call(function, col(0, t.DATE), type=t.INT), dates) == [wanted]
    assert text.days_from(year, month, day) == days
    assert text.parse_date(text.format_date(days)) == days


@pytest.mark.slow
def test_kernels_without_jit() -> None:
    """The kernels as plain Python give the same answers, wrapping silently where they wrap."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("this is the run without")
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    chosen = "function_agrees or in_agrees or row or slices or calendar"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    command += ["-k", chosen]
    subprocess.run(command, env=environment, check=True)
