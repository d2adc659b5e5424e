"""Which comparisons of a join can be looked up through an ordered index.

A conjunct `column < value` finds the rows of the column's input by a range, once all inputs that
`value` reads are bound: `column` is a plain one, as in an equality (planner.analysis.equality), and
encodes like the value.

Invariant: a comparison cannot fail; with NULL on either side it finds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.analysis.equality import encode_alike, strip_widening
from planner.calculus.algebra import SortKey
from planner.calculus.expr import Call, Column, Expr, columns_used
from planner.calculus.failing import may_fail
from planner.calculus.types import BINARY, STRING
from planner.dataflow import OrderedArrangement, RangeEnd, Stored

MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`predicate`, written as `column` `function` `value`; the column's input is not in value."""

    predicate: Expr
    column: Column
    function: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Range:
    """What comparisons of one column amount to; `covered`: those that the lookup decides alone."""

    column: Column
    low: RangeEnd | None
    high: RangeEnd | None
    covered: tuple[Expr, ...]

    @property
    def ends(self) -> int:
        return (self.low is not None) + (self.high is not None)

    def index(self, relation: Stored, column: int) -> OrderedArrangement:
        """The index to seek it in; `column` is the range's column in the relation."""
        return OrderedArrangement(relation, (SortKey(column, nulls_first=False),), ())


def comparisons(predicates: tuple[Expr, ...], home: list[int]) -> tuple[Comparison, ...]:
    """Both readings of each inequality that can be looked up; home[c] is the input of column c."""
    found = []
    for p in predicates:
        if not (isinstance(p, Call) and p.function in MIRRORED) or may_fail(p):
            continue
        left, right = (strip_widening(a) for a in p.args)
        for a, b, function in ((left, right, p.function), (right, left, MIRRORED[p.function])):
            if not isinstance(a, Column) or not encode_alike(a.type, b.type):
                continue
            others = {home[c] for c in columns_used(b)}
            if others and home[a.index] not in others:
                found.append(Comparison(p, a, function, b))
    return tuple(found)


def best_range(found: tuple[Comparison, ...]) -> Range | None:
    """The range to seek, of comparisons that are ready for one input: the one with two ends, else
    the first in the order of the query."""
    ranges = [_of_column(found, c) for c in dict.fromkeys(x.column.index for x in found)]
    return max(ranges, key=lambda r: r.ends, default=None)


def _of_column(found: tuple[Comparison, ...], column: int) -> Range:
    own = [c for c in found if c.column.index == column]
    lows = [c for c in own if c.function in ("gt", "ge")]
    highs = [c for c in own if c.function in ("lt", "le")]
    used = (*lows[:1], *highs[:1])
    low, high = (
        RangeEnd(some[0].value, some[0].function in ("ge", "le")) if some else None
        for some in (lows, highs)
    )
    # The index has the first bytes of texts: they are compared again.
    exact = own[0].column.type not in (STRING, BINARY)
    covered = tuple(c.predicate for c in used) if exact else ()
    return Range(own[0].column, low, high, covered)
