"""Equalities between columns: which can be looked up through an index, and what follows from them.

An equality links two columns if, once casts that change no value are stripped, both sides are
plain columns whose values encode alike: the same type, two integers of any width, or two decimals
of one scale that both fit 64 bits.

Equal columns form *classes* (a = b and b = c give a = c). In a class linked by at least one `=`
no member is NULL in any result row; one linked by `<=>` alone lets NULL equal NULL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.calculus.expr import Call, Column, Expr
from planner.calculus.types import BOOLEAN, DecimalType, IntegerType, SqlType


def encode_alike(left: SqlType, right: SqlType) -> bool:
    """Whether equal values of the two types have equal keys in an index."""
    match left, right:
        case IntegerType(), IntegerType():
            return True
        case DecimalType(), DecimalType() if left != right:
            return left.scale == right.scale and left.narrow and right.narrow
        case _:
            return left == right


def strip_widening(expr: Expr) -> Expr:
    """The expression without outer casts that neither change a value nor its key."""
    while isinstance(expr, Call) and expr.function == "cast":
        inner, target = expr.args[0].type, expr.type
        match inner, target:
            case IntegerType(), IntegerType():
                widens = inner.bits <= target.bits
            case DecimalType(), DecimalType():
                widens = encode_alike(inner, target) and inner.precision <= target.precision
            case _:
                widens = False
        if not widens:
            break
        expr = expr.args[0]
    return expr


def plain_column(expr: Expr) -> Column | None:
    """The column that the expression is, value for value, or None."""
    stripped = strip_widening(expr)
    return stripped if isinstance(stripped, Column) else None


@dataclass(frozen=True, slots=True)
class Link:
    """`left` = `right`, or `left` <=> `right` where `null_safe`."""

    left: Column
    right: Column
    null_safe: bool


def as_link(expr: Expr) -> Link | None:
    """The two columns that a predicate equates, or None if it is no such equality."""
    if not (isinstance(expr, Call) and expr.function in ("eq", "eq_null_safe")):
        return None
    left, right = plain_column(expr.args[0]), plain_column(expr.args[1])
    if left is None or right is None or not encode_alike(left.type, right.type):
        return None
    return Link(left, right, expr.function == "eq_null_safe")


def links(predicates: Iterable[Expr]) -> tuple[Link, ...]:
    """What those predicates equate that are such equalities."""
    return tuple(link for link in map(as_link, predicates) if link is not None)


def equality(left: Column, right: Column, null_safe: bool) -> Expr:
    """The predicate that two columns of one class are equal, with casts to a common type."""
    common = left.type if _width(left.type) >= _width(right.type) else right.type
    args = tuple(
        c if c.type == common else Call("cast", (c,), common, c.nullable) for c in (left, right)
    )
    if null_safe:
        return Call("eq_null_safe", args, BOOLEAN, False)
    return Call("eq", args, BOOLEAN, left.nullable or right.nullable)


def _width(kind: SqlType) -> int:
    match kind:
        case IntegerType():
            return kind.bits
        case DecimalType():
            return kind.precision
        case _:
            return 0


@dataclass(frozen=True, slots=True)
class EqualityClass:
    """Columns that are equal in every result row, by ascending position."""

    columns: tuple[Column, ...]
    null_safe: bool


def classes(links: tuple[Link, ...]) -> tuple[EqualityClass, ...]:
    """The transitive closure of the links, classes by their first column."""
    parent: dict[int, int] = {}
    column: dict[int, Column] = {}

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    for link in links:
        for c in (link.left, link.right):
            parent.setdefault(c.index, c.index)
            column.setdefault(c.index, c)
        low, high = sorted((root(link.left.index), root(link.right.index)))
        parent[high] = low
    strict = {root(link.left.index) for link in links if not link.null_safe}
    members: dict[int, list[Column]] = {}
    for i in sorted(parent):
        members.setdefault(root(i), []).append(column[i])
    return tuple(EqualityClass(tuple(m), r not in strict) for r, m in members.items())
