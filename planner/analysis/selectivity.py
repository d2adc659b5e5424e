"""How many rows pass a predicate, guessed from its form.

No statistics are kept: the guess decides the order of lookups, whether an index is partial, whether
an aggregate is restricted, never a result. Equal predicates get equal guesses on empty and on
loaded tables.

    a = b, a IS NULL       0.1         a AND b    the product
    a IN (…), a LIKE …     0.2         a OR b     the sum, at most 0.9
    a LIKE 'b…'            0.05        NOT a      the rest
    a <> b                 0.9
    any other comparison   0.4
"""

from __future__ import annotations

import math

from planner.expr import Call, Expr, Literal

_LEAST = 0.01
_MOST_OF_OR = 0.9
_KNOWN = {"eq": 0.1, "is_null": 0.1, "in": 0.2, "like": 0.2, "ne": 0.9}
_PREFIX = 0.05
_OTHER = 0.4


def selectivity(predicate: Expr | None) -> float:
    """The part of the rows of which the predicate is TRUE, from 0.01 to 1; None passes all."""
    return 1.0 if predicate is None else max(_LEAST, _guess(predicate))


def _guess(predicate: Expr) -> float:
    match predicate:
        case Call(function="and"):
            return math.prod(map(_guess, predicate.args))
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
