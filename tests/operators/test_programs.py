"""Maps of few rows through one kernel, beside the evaluators: same rows, same errors."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from operators.flight import delta as deltas
from operators.flight.delta import Delta
from operators.nodes.map import MapOperator
from operators.nodes.programs import program_of
from operators.state.relation import Relation
from planner import dataflow as ir
from planner.calculus import expr as e
from planner.calculus import types as t
from planner.calculus.types import Field
from tests.operators.columns import to_rows
from tests.operators.scalar_cases import (
    DATES,
    MONEY,
    WIDE,
    D,
    call,
    col,
    column_of,
    decimal_result,
    lit,
    moment,
)

KINDS = (t.BOOLEAN, t.INT, t.BIGINT, MONEY, D(18, 0), WIDE, D(38, 0), t.DATE, t.TIMESTAMP, t.STRING)
FIELDS = tuple(Field(f"c{i}", kind, True) for i, kind in enumerate(KINDS))
NUMBERS = tuple(k for k in KINDS if isinstance(k, (t.IntegerType, t.DecimalType)))
ORDERED = tuple(k for k in KINDS if k != t.STRING)


class Drawn:
    """Random values and expressions."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        #: Whether numbers are so small that little fails.
        self.small = self.draw.random() < 0.7

    def value(self, kind: t.SqlType) -> Any:
        number = self.draw.randint(-40, 40)
        match kind:
            case t.BooleanType():
                return number < 0
            case t.IntegerType():
                ends = (kind.min, kind.max, 0, 1)
                return number if self.small or number % 3 else self.draw.choice(ends)
            case t.DecimalType():
                top = 10**kind.precision - 1
                wide = self.draw.choice((top, -top, 5, self.draw.randint(-top, top)))
                unscaled = number * 37 if self.small or number % 3 else wide
                return Decimal(max(-top, min(top, unscaled))).scaleb(-kind.scale)
            case t.DateType():
                return self.draw.choice(DATES)
            case t.TimestampType():
                return number * 1_000_000
            case _:
                return self.draw.choice(("", "a", "b"))

    def column(self, kind: t.SqlType, n: int) -> list[Any]:
        share = self.draw.choice((0, 0, 0.2, 1))
        return [None if self.draw.random() < share else self.value(kind) for _ in range(n)]

    def expr(self, kind: t.SqlType, depth: int) -> e.Expr:
        if depth == 0 or self.draw.random() < 0.2:
            if self.draw.random() < 0.3:
                return lit(None if self.draw.random() < 0.2 else self.value(kind), kind)
            if kind in KINDS:
                return col(KINDS.index(kind), kind)
            return call("cast", self.expr(t.INT, 0), type=kind)
        if self.draw.random() < 0.3:
            return self._chosen(kind, depth - 1)
        match kind:
            case t.BooleanType():
                return self._condition(depth - 1)
            case t.IntegerType():
                if self.draw.random() < 0.2:
                    sign = self.draw.choice(("negate", "abs"))
                    return call(sign, self.expr(kind, depth - 1), type=kind)
                if kind == t.BIGINT and self.draw.random() < 0.2:
                    return call("checked_sum", col(KINDS.index(D(38, 0)), D(38, 0)), type=kind)
                function = self.draw.choice(("add", "subtract", "multiply"))
                args = [self.expr(kind, depth - 1) for _ in range(2)]
                return call(function, *args, type=kind)
            case t.DecimalType():
                return self._decimal(kind, depth - 1)
            case _:
                return self._chosen(kind, depth - 1)

    def _chosen(self, kind: t.SqlType, depth: int) -> e.Expr:
        """One of several values of a type."""
        if kind in ORDERED and self.draw.random() < 0.5:
            function = self.draw.choice(("coalesce", "least", "greatest"))
            return call(function, *(self.expr(kind, depth) for _ in range(2)), type=kind)
        branches = []
        for _ in range(self.draw.randint(1, 2)):
            branches += [self.expr(t.BOOLEAN, depth), self.expr(kind, depth)]
        return call("case", *branches, self.expr(kind, depth), type=kind)

    def _condition(self, depth: int) -> e.Expr:
        kind = self.draw.choice(KINDS)
        if kind == t.STRING:
            return call("eq", self.expr(kind, 0), lit("a", kind), type=t.BOOLEAN)
        match self.draw.randint(0, 9):
            case 0:
                return call("not", self.expr(t.BOOLEAN, depth), type=t.BOOLEAN)
            case 1:
                return call("is_null", self.expr(kind, depth), type=t.BOOLEAN)
            case 2:
                listed = [None if self.draw.random() < 0.1 else self.value(kind) for _ in range(3)]
                return call(
                    "in", self.expr(kind, depth), *(lit(v, kind) for v in listed), type=t.BOOLEAN
                )
            case 3 | 4:
                function = self.draw.choice(("and", "or"))
                args = [self.expr(t.BOOLEAN, depth) for _ in range(2)]
                return call(function, *args, type=t.BOOLEAN)
            case _:
                function = self.draw.choice(("eq", "ne", "lt", "le", "gt", "ge", "eq_null_safe"))
                args = [self.expr(kind, depth) for _ in range(2)]
                return call(function, *args, type=t.BOOLEAN)

    def _decimal(self, kind: t.DecimalType, depth: int) -> e.Expr:
        if kind in KINDS and self.draw.random() < 0.2:
            total = col(KINDS.index(WIDE), WIDE)
            if kind.scale == WIDE.scale:
                if self.draw.random() < 0.3:
                    # The word above a sum, which is not as wide as it.
                    top = call("cast", lit(0, t.BIGINT), type=t.BIGINT)
                    return call("checked_sum", total, top, type=kind)
                return call("checked_sum", total, type=kind)
        a, b = (self.draw.choice(NUMBERS) for _ in range(2))
        if isinstance(a, t.DecimalType) and isinstance(b, t.DecimalType):
            function = self.draw.choice(("add", "subtract", "multiply", "divide"))
            made = call(
                function,
                self.expr(a, depth),
                self.expr(b, depth),
                type=decimal_result(function, a, b),
            )
        else:
            made = call("cast", self.expr(a, depth), type=D(24, 4))
        if made.type == kind:
            return made
        return call("cast", made, type=kind)

    def delta(self, n: int) -> Delta:
        """n updates, of rows that are stored or of values."""
        columns = [column_of(k, self._times(k, self.column(k, n))) for k in KINDS]
        diff = np.array([self.draw.choice((1, -1, 2)) for _ in range(n)], np.int64)
        time = np.full(n, 3, np.int64)
        if self.draw.random() < 0.5:
            return Delta(FIELDS, time, diff, columns)
        relation = Relation(FIELDS)
        relation.append(columns, np.zeros(n, np.int64))
        if self.draw.random() < 0.5:
            relation.leave_fresh()
        rows = np.array([self.draw.randrange(n) for _ in range(n)], np.int64)
        return deltas.bound(relation, rows, time, diff)

    def _times(self, kind: t.SqlType, values: list[Any]) -> list[Any]:
        if not isinstance(kind, t.TimestampType):
            return values
        return [None if v is None else moment(v) for v in values]


def mapped(operator: MapOperator, delta: Delta) -> tuple[Any, ...]:
    out = operator.step([delta])
    rows = to_rows(out.columns(), out.schema)
    return rows, out.diff.tolist(), out.time.tolist(), operator.errors.counts


def maps(node: ir.Map) -> tuple[MapOperator, MapOperator]:
    """With a program, and without."""
    without = MapOperator(node)
    without._program = None
    return MapOperator(node), without


@pytest.mark.parametrize("part", range(4))
def test_programs_agree_with_the_evaluators(part: int) -> None:
    ran, left, failed = 0, 0, 0
    source = ir.Source("t", FIELDS)
    for seed in range(100 * part, 100 * part + 100):
        drawn = Drawn(seed)
        predicates = [drawn.expr(t.BOOLEAN, 2) for _ in range(drawn.draw.randint(0, 3))]
        kinds = [drawn.draw.choice(KINDS) for _ in range(drawn.draw.randint(1, 3))]
        outputs = [drawn.expr(kind, 3) for kind in kinds]
        fields = tuple(Field(f"o{i}", kind, True) for i, kind in enumerate(kinds))
        node = ir.Map(source, tuple(predicates), tuple(outputs), fields)
        program, plain = maps(node)
        for _ in range(4):
            delta = drawn.delta(drawn.draw.choice((1, 2, 7, 40)))
            got, wanted = mapped(program, delta), mapped(plain, delta)
            assert got == wanted, f"seed {seed}"
            if program._program is not None:
                ran += program._program._waits == 0
                left += program._program._waits > 0
            failed += bool(wanted[3])
    assert ran > 200, "programs ran"
    assert left > 5, "programs gave up"
    assert failed > 5, "rows failed"


def test_what_has_a_program() -> None:
    a, text, double = col(2, t.BIGINT), col(9, t.STRING), col(0, t.DOUBLE)
    above = call("gt", a, lit(1, t.BIGINT), type=t.BOOLEAN)
    named = call("eq", text, lit("a", t.STRING), type=t.BOOLEAN)
    more = call("add", a, lit(1, t.BIGINT), type=t.BIGINT)
    halved = call("divide", double, lit(2.0, t.DOUBLE), type=t.DOUBLE)
    assert program_of((), (a, text)) is None
    assert program_of((named,), (more,)) is None
    assert program_of((), (halved,)) is None
    only = program_of((above,), (a, halved, more))
    assert only is not None and only.covers == {2}


def test_predicates_before_those_of_a_program_are_tested_before() -> None:
    named = call("eq", col(9, t.STRING), lit("a", t.STRING), type=t.BOOLEAN)
    above = call("gt", col(2, t.BIGINT), lit(1, t.BIGINT), type=t.BOOLEAN)
    more = call("add", col(2, t.BIGINT), lit((1 << 63) - 5, t.BIGINT), type=t.BIGINT)
    node = ir.Map(
        ir.Source("t", FIELDS), (above, named, above), (more,), (Field("o", t.BIGINT, True),)
    )
    program, plain = maps(node)
    assert program._tests_ahead == 2
    columns = [column_of(k, Drawn(1).column(k, 6)) for k in KINDS[:2]]
    columns.append(column_of(t.BIGINT, [1, 2, 3, 4, 9, None]))
    columns += [column_of(k, [None] * 6) for k in KINDS[3:9]]
    columns.append(column_of(t.STRING, ["a", "a", "b", "a", "b", "a"]))
    ones = np.ones(6, np.int64)
    for chosen in ([0, 1, 2, 3, 5], [0, 1, 2, 3, 4, 5]):
        rows = np.array(chosen, np.int64)
        delta = Delta(FIELDS, ones, ones, columns).select(rows)
        assert mapped(program, delta) == mapped(plain, delta)
    assert [v for (v,) in mapped(plain, delta)[0]] == [(1 << 63) - 3, (1 << 63) - 1]


def test_halves_are_rounded_away_from_zero() -> None:
    whole, half, unit = D(20, 0), D(15, 2), D(15, 0)
    source = ir.Source("t", (Field("a", half, True), Field("b", unit, True)))
    a, b = col(0, half), col(1, unit)
    quotient = call("divide", a, b, type=D(18, 2))
    outputs = (call("cast", a, type=whole), quotient)
    program, plain = maps(ir.Map(source, (), outputs, (Field("c", whole), Field("q", D(18, 2)))))
    numbers = [(x, y) for x in range(-250, 251, 25) for y in (-8, -2, 1, 2, 4, 8)]
    columns = [
        column_of(half, [Decimal(x).scaleb(-2) for x, _ in numbers]),
        column_of(unit, [Decimal(y) for _, y in numbers]),
    ]
    ones = np.ones(len(numbers), np.int64)
    delta = Delta(source.schema, ones, ones, columns)
    assert mapped(program, delta) == mapped(plain, delta)
    assert program._program is not None and program._program._waits == 0
