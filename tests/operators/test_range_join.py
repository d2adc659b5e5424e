"""Range joins against nested loops at every epoch, and what they look at."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import dataflow as ir
from planner.calculus import types as t
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Call, Expr, Literal, column
from planner.calculus.types import BINARY, STRING, Field, SqlType
from tests.operators.running import Running
from tests.properties.streams import Stream
from tests.reference.bag import accumulate
from tests.reference.tables import insert

#: Texts are indexed by their first bytes, wide decimals by two words.
KINDS: tuple[SqlType, ...] = (
    t.INT,
    t.STRING,
    t.DATE,
    t.DOUBLE,
    t.DecimalType(12, 2),
    t.DecimalType(30, 2),
)
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def _ends(function: str, value: Expr) -> dict[str, ir.RangeEnd | None]:
    end = ir.RangeEnd(value, function in ("le", "ge"))
    below = function in ("lt", "le")
    return {"low": None if below else end, "high": end if below else None}


def _index(relation: ir.Stored, c: int) -> ir.OrderedArrangement:
    return ir.OrderedArrangement(relation, (SortKey(c, nulls_first=False),), ())


def _join(left: ir.JoinInput, right: ir.JoinInput, a: int, function: str, b: int) -> ir.DeltaJoin:
    """Column a of left `function` column b of right."""
    kind = left.schema[a].type
    width = len(left.schema)
    x, y = column(a, kind), column(width + b, kind)
    compared = (Call(function, (x, y), t.BOOLEAN, True),) if kind in (STRING, BINARY) else ()
    forth = ir.RangeJoin(
        1, _index(right.stored, b), as_of=False, residual=compared,
        **_ends(_MIRRORED[function], x),
    )  # fmt: skip
    back = ir.RangeJoin(
        0, _index(left.stored, a), as_of=True, residual=compared, **_ends(function, y)
    )
    return ir.DeltaJoin((left, right), (ir.DeltaPath(0, (forth,)), ir.DeltaPath(1, (back,))))


def _follow(running: Running, seed: int) -> None:
    """Steps of one epoch and of several, each epoch compared with the model."""
    stream = Stream(Random(seed), running.tables, size=6)
    for size in (1, 1, 4, 1, 3):
        before = running.epoch
        transactions = [stream.transaction() for _ in range(size)]
        tables = {n: table.copy() for n, table in running.tables.items()}
        running.apply(transactions)
        after, states = running.tables, []
        for transaction in transactions:
            for change in transaction:
                tables[change.table].apply(change)
            running.tables = tables
            states.append({v: running.expected(v) for v in running.views})
        running.tables = after
        for time, expected in enumerate(states, start=before + 1):
            for view, rows in expected.items():
                assert accumulate(running.updates[view], time) == rows, view
        running.check()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@settings(max_examples=6)
@given(st.integers(0, 10**6))
def test_every_epoch(kind: SqlType, seed: int) -> None:
    running = Running()
    schema = (Field("id", t.INT, False), Field("x", kind, True))
    a = running.add_table("a", schema, key=(0,))
    b = running.add_table("b", schema[1:])
    positive = Call("gt", (column(0, t.INT), Literal(1, t.INT)), t.BOOLEAN, True)
    if Random(seed).random() < 0.5:
        running.apply([Stream(Random(seed), running.tables, size=6).filling()])
    for function in _MIRRORED:
        left, right = ir.JoinInput(a, positive if function == "le" else None), ir.JoinInput(b, None)
        running.install(function, _join(left, right, 1, function, 0))
    running.install("itself", _join(ir.JoinInput(b, None), ir.JoinInput(b, None), 0, "lt", 0))
    _follow(running, seed)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_two_ends_one_computed(seed: int, low: bool, high: bool) -> None:
    running = Running()
    a = running.add_table("a", (Field("lo", t.INT, True), Field("hi", t.BIGINT, True)))
    b = running.add_table("b", (Field("x", t.INT, True),))
    lo, hi, x = column(0, t.INT), column(1, t.BIGINT), column(2, t.INT)
    limit = Call("coalesce", (hi, Literal(2, t.BIGINT)), t.BIGINT, False)
    wide = Call("cast", (x,), t.BIGINT, True)
    forth = ir.RangeJoin(1, _index(b, 0), ir.RangeEnd(lo, low), ir.RangeEnd(limit, high), False, ())
    above = Call("le" if high else "lt", (wide, limit), t.BOOLEAN, True)
    back = ir.RangeJoin(0, _index(a, 0), None, ir.RangeEnd(x, low), True, (above,))
    inputs = (ir.JoinInput(a, None), ir.JoinInput(b, None))
    running.install(
        "v", ir.DeltaJoin(inputs, (ir.DeltaPath(0, (forth,)), ir.DeltaPath(1, (back,))))
    )
    _follow(running, seed)


def test_a_change_visits_its_matches_alone() -> None:
    running = Running()
    schema = (Field("id", t.INT, False), Field("x", t.INT, False))
    a, b = running.add_table("a", schema, key=(0,)), running.add_table("b", schema, key=(0,))
    running.apply([[insert("b", *((i, i) for i in range(20_000)))]])
    running.install("v", _join(ir.JoinInput(a, None), ir.JoinInput(b, None), 1, "lt", 1))
    before = running.dataflow.work.copy()
    running.apply([[insert("a", (1, 19_989), (2, 30_000))]])
    work = running.dataflow.work.since(before)
    # Two changed rows, ten matches of the first; the keys of `a`, and the rows of the view.
    assert work.prefixes == 2 + 10
    assert work.entries <= 10 + 2 + 10
    assert sum(running.updates["v"].values()) == 10
