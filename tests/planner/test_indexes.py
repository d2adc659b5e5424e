"""The choice of indexes: a function of the plans, whatever order they came in."""

from __future__ import annotations

from random import Random

import pytest

from planner import dataflow as ir
from planner.calculus.expr import Call, Column, Expr
from planner.calculus.types import BOOLEAN, INT, Field
from planner.lower.indexes import Indexes, serves

_TABLE = ir.Source("f", tuple(Field(name, INT, name > "c") for name in "abcde"))
_OTHER = ir.Source("d", (Field("k", INT, False),))


def _filter(column: int) -> Expr:
    return Call("is_null", (Column(column, INT, True, "x"),), BOOLEAN, False)


def _index(rng: Random) -> ir.Arrangement:
    columns = tuple(rng.sample(range(5), rng.randrange(4)))
    part = None if rng.random() < 0.7 else _filter(rng.randrange(2))
    return ir.Arrangement(_TABLE, columns, rng.random() < 0.3, part)


def _view(rng: Random) -> ir.Node:
    """Joins, and a group that holds its index itself."""
    indexes = [_index(rng) for _ in range(1 + rng.randrange(3))]
    inputs = (ir.JoinInput(_OTHER, None), ir.JoinInput(_TABLE, None))
    steps = [ir.HalfJoin(1, i, (0,) * len(i.columns), True, ()) for i in indexes]
    paths = tuple(ir.DeltaPath(0, (step,)) for step in steps)
    root: ir.Node = ir.Store(ir.DeltaJoin(inputs, paths))
    if rng.random() < 0.4:
        held = ir.Arrangement(_TABLE, tuple(rng.sample(range(3), 1)), null_safe=True)
        root = ir.Store(ir.Union((root, ir.Recompute(held, (), root.schema)), root.schema))
    return root


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_depends_on_no_order(seed: int) -> None:
    rng = Random(seed)
    views = {f"v{n}": _view(rng) for n in range(6)}
    one = other = Indexes()
    for name, root in views.items():
        one = one.with_view(name, root)
    for name in rng.sample(sorted(views), len(views)):
        other = other.with_view(name, views[name])
    assert _chosen(one) == _chosen(other)
    assert one.to(other).moves == one.to(other).built == one.to(other).gone == ()
    # What goes leaves nothing behind, and the way there leads back.
    gone = rng.sample(sorted(views), 3)
    less, never = one, Indexes()
    for name in gone:
        less = less.without(name)
    for name in views.keys() - set(gone):
        never = never.with_view(name, views[name])
    assert _chosen(less) == _chosen(never)
    there, back = less.to(one), one.to(less)
    assert set(there.built) == set(back.gone) and set(there.gone) == set(back.built)
    assert {(m.named, m.before, m.index) for m in there.moves} == {
        (m.named, m.index, m.before) for m in back.moves
    }


@pytest.mark.parametrize("seed", range(40))
def test_what_is_read_serves(seed: int) -> None:
    rng = Random(seed)
    chosen = Indexes()
    for n in range(6):
        chosen = chosen.with_view(f"v{n}", _view(rng))
    named = set(chosen.named(""))
    read = {index: chosen.read("", index) for index in named}
    for index, other in read.items():
        assert other == index or serves(other, index)  # type: ignore[arg-type]
        assert read[other] == other, "nothing serves for what serves"
        assert chosen.readers("", index) == chosen.readers("", other)
    for index in set(read.values()):
        held = isinstance(index, ir.HashArrangement) or (
            isinstance(index, ir.Arrangement) and index.null_safe and len(index.columns) == 1
        )
        if isinstance(index, ir.Arrangement) and not held:
            assert not any(serves(i, index) for i in read.values()), "it is not needed"


def _chosen(indexes: Indexes) -> dict[ir.Index, tuple[ir.Index, frozenset[str]]]:
    return {i: (indexes.read("", i), indexes.readers("", i)) for i in indexes.named("")}
