"""Scalar expressions: bound, typed, immutable, compared by structure.

Columns are positions in the input's schema, never names. There are three nodes: `Column`,
`Literal`, and `Call` of a function from the closed list of `planner.calculus.primitives`, whose
meaning is given there.
Two more occur inside of others: `Outer` in subqueries, `Parameter` in the bodies of lambdas, which
are arguments of the calls that run them.
Implicit casts are already explicit here: unless that list says otherwise the arguments of a
function have one common type, and `Call.type` is the result type by Spark's rules.

Invariant: `nullable` False is a proof that the value is never NULL; True claims nothing.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from operator import is_
from typing import TypeAlias

from planner.calculus.node import node
from planner.calculus.primitives import FUNCTIONS
from planner.calculus.types import BOOLEAN, SqlType

Scalar = bool | int | float | str | bytes | decimal.Decimal | datetime.date | None


@node
class Column:
    """The input's column at `index`. `name` is for display and takes no part in equality; nor do
    `chars`, which the binder alone reads: of a CHAR column the characters that each value has."""

    index: int
    type: SqlType
    nullable: bool
    name: str
    chars: int | None = None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Column)
            and self.index == other.index
            and self.nullable == other.nullable
            and self.type == other.type
        )

    def __hash__(self) -> int:
        return hash(self.index)


@node
class Literal:
    """A constant.

    `value` by type: bool; int for integers; decimal.Decimal for decimals (exactly `type.scale`
    digits after the point); float; str; bytes; datetime.date; for timestamps an int of
    microseconds since 1970-01-01 (UTC for TIMESTAMP); for intervals an int of months or of
    microseconds; None for NULL of any type.
    """

    value: Scalar
    type: SqlType

    @property
    def nullable(self) -> bool:
        return self.value is None

    def __eq__(self, other: object) -> bool:
        # True == 1 == 1.0 and -0.0 == 0.0 in Python, but not here.
        return (
            isinstance(other, Literal)
            and self.type == other.type
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash(repr(self.value))


@node
class Call:
    """A function of `FUNCTIONS` applied to `args`."""

    function: str
    args: tuple[Expr, ...]
    type: SqlType = field(hash=False)
    nullable: bool = field(hash=False)
    #: Of `columns_used`, once somebody has asked.
    _columns: frozenset[int] | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise ValueError(f"no such function: {self.function!r}")


@node
class Outer:
    """A column of an enclosing query: of the input of the `depth`-th Apply around the subquery (1
    is the nearest). Occurs inside the subquery of an algebra.Apply only; decorrelation removes it.
    `name` is for display and takes no part in equality."""

    depth: int
    index: int
    type: SqlType
    nullable: bool
    name: str = field(compare=False)


@node
class Parameter:
    """A variable of a lambda, in whose body alone it occurs. The call that runs the body has the
    literal `base` as its last argument, and its variables are numbered from there on, so that those
    of lambdas in each other differ, and equal calls are equal."""

    number: int
    type: SqlType
    nullable: bool


Expr: TypeAlias = Column | Literal | Call | Outer | Parameter


def column(index: int, type: SqlType, nullable: bool = True, name: str = "") -> Column:
    return Column(index, type, nullable, name or f"#{index}")


def children(expr: Expr) -> tuple[Expr, ...]:
    return expr.args if isinstance(expr, Call) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """`expr` and everything under it, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def columns_used(*exprs: Expr) -> frozenset[int]:
    """Positions of the input columns that the expressions read."""
    if len(exprs) == 1:
        return _columns_of(exprs[0])
    return _NO_COLUMNS.union(*map(_columns_of, exprs))


_NO_COLUMNS: frozenset[int] = frozenset()


def _columns_of(expr: Expr) -> frozenset[int]:
    if isinstance(expr, Column):
        return frozenset((expr.index,))
    if not isinstance(expr, Call):
        return _NO_COLUMNS
    known = expr._columns
    if known is None:
        known = _NO_COLUMNS.union(*map(_columns_of, expr.args))
        object.__setattr__(expr, "_columns", known)
    return known


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild bottom-up; returns the same object where `change` changed nothing."""
    if isinstance(expr, Call):
        args = tuple([transform(a, change) for a in expr.args])
        if not all(map(is_, args, expr.args)):
            expr = Call(expr.function, args, expr.type, expr.nullable)
    return change(expr)


def remap(expr: Expr, positions: dict[int, int]) -> Expr:
    """The same expression over another schema: column i becomes column positions[i]."""
    if isinstance(expr, Column):
        place = positions[expr.index]
        if place != expr.index:
            return Column(place, expr.type, expr.nullable, expr.name)
    elif isinstance(expr, Call):
        if any(positions[c] != c for c in _columns_of(expr)):
            args = tuple(remap(a, positions) for a in expr.args)
            return Call(expr.function, args, expr.type, expr.nullable)
    return expr


def substitute(expr: Expr, replacements: tuple[Expr, ...]) -> Expr:
    """Column i replaced by replacements[i] (used to merge projections)."""
    return transform(expr, lambda e: replacements[e.index] if isinstance(e, Column) else e)


def conjuncts(expr: Expr | None) -> tuple[Expr, ...]:
    """Operands of nested ANDs, left to right; none of None, which is no condition."""
    if expr is None:
        return ()
    if isinstance(expr, Call) and expr.function == "and":
        return tuple(c for arg in expr.args for c in conjuncts(arg))
    return (expr,)


def conjunction(exprs: tuple[Expr, ...]) -> Expr:
    """The AND of one or more predicates, left to right."""
    return _chain("and", exprs)


def condition(exprs: Sequence[Expr]) -> Expr | None:
    """The AND of any number of predicates, None of none."""
    return conjunction(tuple(exprs)) if exprs else None


def disjuncts(expr: Expr) -> tuple[Expr, ...]:
    """Operands of nested ORs, left to right."""
    if isinstance(expr, Call) and expr.function == "or":
        return tuple(d for arg in expr.args for d in disjuncts(arg))
    return (expr,)


def disjunction(exprs: tuple[Expr, ...]) -> Expr:
    """The OR of one or more predicates, left to right."""
    return _chain("or", exprs)


#: Operands up to which a chain nests to the left. Longer ones are balanced, so that their depth
#: stays far below what recursion over expressions can take.
_LEFT_OPERANDS = 16


def _chain(function: str, exprs: tuple[Expr, ...]) -> Expr:
    if len(exprs) > _LEFT_OPERANDS:
        middle = len(exprs) // 2
        exprs = (_chain(function, exprs[:middle]), _chain(function, exprs[middle:]))
    result = exprs[0]
    for right in exprs[1:]:
        result = Call(function, (result, right), BOOLEAN, result.nullable or right.nullable)
    return result


def size(expr: Expr) -> int:
    """Number of nodes."""
    return sum(1 for _ in walk(expr))


#: Nodes up to which substitution may always go, and by which it may grow beyond that.
_SMALL, _GROWTH = 256, 24


def substitution_grows(exprs: tuple[Expr, ...], replacements: tuple[Expr, ...]) -> bool:
    """Whether `substitute` would copy so much that the work should stay shared instead.

    The bound is absolute: a tower of projections that each use a column twice would grow
    exponentially under any factor.
    """
    sizes = [size(r) for r in replacements]
    before = sum(map(size, exprs)) + sum(sizes)
    after = sum(
        sizes[e.index] if isinstance(e, Column) else 1 for expr in exprs for e in walk(expr)
    )
    return after > max(_SMALL, before + _GROWTH)
