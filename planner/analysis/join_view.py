"""A join as its rules look at it: which column is whose, what each conjunct reads, what links two
inputs, and where columns go when some inputs are joined apart.

Columns of a join are those of its inputs one after the other: `starts[i]` is the first of input i,
`home[c]` the input of column c.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from planner.analysis.equality import EqualityClass, classes, links
from planner.calculus.algebra import Join, MarkJoin, OuterJoin, Plan, SemiJoin
from planner.calculus.expr import Call, Expr, columns_used, conjuncts, remap


@dataclass(frozen=True)
class JoinView:
    """`parts`: the conjuncts of the condition, in the order in which they are evaluated."""

    inputs: tuple[Plan, ...]
    parts: tuple[Expr, ...]
    starts: tuple[int, ...]
    home: tuple[int, ...]

    @staticmethod
    def of(plan: Join | OuterJoin | SemiJoin | MarkJoin) -> JoinView:
        """Of a join of any kind; of one with two sides, left is input 0 and right is input 1."""
        if isinstance(plan, Join):
            return JoinView.over(plan.inputs, plan.predicate)
        return JoinView.over((plan.left, plan.right), plan.condition)

    @staticmethod
    def over(inputs: tuple[Plan, ...], condition: Expr | None) -> JoinView:
        starts: list[int] = []
        home: list[int] = []
        for i, x in enumerate(inputs):
            starts.append(len(home))
            home += [i] * len(x.schema)
        return JoinView(inputs, conjuncts(condition), tuple(starts), tuple(home))

    def columns(self, i: int) -> range:
        """The join's columns that input i has."""
        return range(self.starts[i], self.starts[i] + len(self.inputs[i].schema))

    def readers(self, *exprs: Expr) -> frozenset[int]:
        """The inputs whose columns the expressions read."""
        return frozenset([self.home[c] for c in columns_used(*exprs)])

    def local(self, expr: Expr, i: int) -> Expr:
        """An expression that reads input i alone, over that input's own columns."""
        start = self.starts[i]
        return remap(expr, {c: c - start for c in columns_used(expr)})

    def placed(self, expr: Expr, i: int) -> Expr:
        """An expression over input i's own columns, over the join's."""
        start = self.starts[i]
        return remap(expr, {c: c + start for c in columns_used(expr)})

    def together(self, inputs: Iterable[int]) -> dict[int, int]:
        """Where the join's columns are in a join of these inputs, in this order."""
        at: dict[int, int] = {}
        for i in inputs:
            for c in self.columns(i):
                at[c] = len(at)
        return at

    def linked(self, predicate: Expr) -> tuple[int, int] | None:
        """The two inputs that an equality links, each with one side of it."""
        sides = self.sides(predicate)
        return None if sides is None else (self.home_of(sides[0]), self.home_of(sides[1]))

    def home_of(self, side: Expr) -> int:
        """The one input that an expression reads."""
        (home,) = self.readers(side)
        return home

    def sides(self, predicate: Expr) -> tuple[Expr, Expr] | None:
        """The two sides of an equality of two inputs, that of the first of them first."""
        if not is_equality(predicate):
            return None
        assert isinstance(predicate, Call)
        a, b = predicate.args
        of_a, of_b = self.readers(a), self.readers(b)
        if len(of_a) != 1 or len(of_b) != 1 or of_a == of_b:
            return None
        return (a, b) if min(of_a) < min(of_b) else (b, a)

    @cached_property
    def classes(self) -> tuple[EqualityClass, ...]:
        """The columns that are equal by the condition."""
        return classes(links(self.parts))

    @cached_property
    def equal(self) -> tuple[frozenset[int], ...]:
        """The columns of each class that has no NULL."""
        strict = (g.columns for g in self.classes if not g.null_safe)
        return tuple(frozenset(c.index for c in columns) for columns in strict)

    def components(self) -> list[int]:
        """For each input one of those that equalities connect it with, the same for all."""
        component = list(range(len(self.inputs)))
        for p in self.parts:
            link = self.linked(p)
            if link is not None:
                old, new = component[link[0]], component[link[1]]
                component = [new if c == old else c for c in component]
        return component


def is_equality(predicate: Expr) -> bool:
    return isinstance(predicate, Call) and predicate.function in ("eq", "eq_null_safe")
