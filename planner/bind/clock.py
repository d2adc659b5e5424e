"""The time as it passes: `now()` is a scalar subquery over the clock.

The clock is a relation of one row, which a session moves as it does any other. So `ts > now() -
interval 7 days` is a comparison with a scalar that moves, of which the planner makes a threshold
(planner.rewrite.rules.make_thresholds): a move of the clock visits the rows that it takes in or
throws out.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.calculus import coercion
from planner.calculus.expr import Expr
from planner.calculus.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, SqlType
from planner.context import CLOCK, CLOCK_COLUMN

#: What the functions give, by the nodes of those that sqlglot knows.
CLOCK_NODES: dict[type[exp.Expression], SqlType] = {
    exp.CurrentTimestamp: TIMESTAMP,
    exp.CurrentDate: DATE,
    exp.Localtimestamp: TIMESTAMP_NTZ,
}
#: And by the names of the others.
CLOCK_NAMES: dict[str, SqlType] = {"now": TIMESTAMP}


def clock_value(
    kind: SqlType, place: int, called: str, scalar: Callable[[exp.Expression], Expr]
) -> Expr:
    """The clock as of the epoch. `scalar` binds a scalar subquery; `called`: as the text has it."""
    table = exp.Identifier(this=CLOCK, quoted=True)
    table.meta.update(start=place, end=place)
    now: exp.Expression = exp.Column(this=exp.Identifier(this=CLOCK_COLUMN, quoted=True))
    if kind == DATE:  # within the aggregate, whose result then changes once a day
        now = exp.Cast(this=now, to=exp.DataType.build("date"))
    value = exp.Max(this=now)
    clock = exp.Table(this=table)
    clock.meta["called"] = called
    query = exp.Select(expressions=[value], from_=exp.From(this=clock))
    return coercion.cast(scalar(query), kind)
