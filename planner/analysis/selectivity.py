"""How many rows pass a predicate, guessed from its form.

No statistics are kept: the guess decides the order of lookups, whether an index is partial, whether
an aggregate is restricted, never a result. Equal predicates get equal guesses on empty and on
loaded tables.

    a = b, a IS NULL       0.1         a AND b    the product
    a IN (…), a LIKE …     0.2         a OR b     the sum, at most 0.9
    a LIKE 'b…'            0.05        NOT a      the rest
    a <> b                 0.9
    any other comparison   0.4; two that bound a column on both sides 0.1 together
"""

from __future__ import annotations

import math

from planner.calculus.expr import Call, Column, Expr, Literal, conjuncts

_LEAST = 0.01
_MOST_OF_OR = 0.9
_KNOWN = {"eq": 0.1, "is_null": 0.1, "in": 0.2, "like": 0.2, "ne": 0.9}
_PREFIX = 0.05
_OTHER = 0.4
_BETWEEN = 0.1
_LOW, _HIGH = ("gt", "ge"), ("lt", "le")


def selectivity(predicate: Expr | None) -> float:
    """The part of the rows of which the predicate is TRUE, from 0.01 to 1; None passes all."""
    return 1.0 if predicate is None else max(_LEAST, _guess(predicate))


def _guess(predicate: Expr) -> float:
    match predicate:
        case Call(function="and"):
            bounded, rest = _bounded(conjuncts(predicate))
            return _BETWEEN**bounded * math.prod(map(_guess, rest))
        case Call(function="or"):
            return min(_MOST_OF_OR, sum(map(_guess, predicate.args)))
        case Call(function="not"):
            return 1.0 - _guess(predicate.args[0])
        case Call(function="like", args=(_, Literal(value=str(pattern)), *_)):
            return _KNOWN["like"] if pattern.startswith(("%", "_")) else _PREFIX
        case Call():
            return _KNOWN.get(predicate.function, _OTHER)
        case _:
            return 1.0


def _bounded(parts: tuple[Expr, ...]) -> tuple[int, list[Expr]]:
    """How many columns have constant bounds on both sides, and the conjuncts that are none of
    these bounds."""
    sides: dict[Expr, set[bool]] = {}
    for part in parts:
        if (bound := _bound(part)) is not None:
            sides.setdefault(bound[0], set()).add(bound[1])
    both = {column for column, some in sides.items() if len(some) == 2}
    rest = [p for p in parts if (bound := _bound(p)) is None or bound[0] not in both]
    return len(both), rest


def _bound(part: Expr) -> tuple[Column, bool] | None:
    """The column that a conjunct compares with a constant, and whether from above."""
    match part:
        case Call(function=name, args=(Column() as column, Literal())):
            above = name in _HIGH
        case Call(function=name, args=(Literal(), Column() as column)):
            above = name in _LOW
        case _:
            return None
    return (column, above) if name in (*_LOW, *_HIGH) else None
