"""A SingleRow that is not sure of its one row counts its rows.

    SingleRow[keys](x)   ->   Project[single_value(count, value)](Aggregate[keys](x))

The value, if there is one row, is any of them; else reading it fails (the view is in error until
one row leaves). A join evaluates it for rows that it finds alone.
"""

from __future__ import annotations

from planner.analysis.constants import TRUE
from planner.analysis.keys import TableKey, matches_once
from planner.calculus.algebra import Aggregate, AggregateCall, Plan, Project, SingleRow, identity
from planner.calculus.expr import Call, Expr
from planner.calculus.types import BIGINT, BOOLEAN, Field
from planner.calculus.visit import transform


def apply(plan: Plan, table_key: TableKey) -> Plan:
    return transform(plan, lambda p: expand(p, table_key))


def expand(plan: Plan, table_key: TableKey) -> Plan:
    if not isinstance(plan, SingleRow):
        return plan
    if matches_once(plan.input, frozenset(plan.keys), table_key):
        return plan.input
    columns = identity(plan.schema)
    rest = [c for c in columns if c.index not in plan.keys]
    calls = (
        AggregateCall("count_rows", None, BIGINT, False),
        *(AggregateCall("any_value", c, c.type, True) for c in rest),
    )
    keys = tuple(columns[k] for k in plan.keys)
    fields = (
        *(plan.schema[k] for k in plan.keys),
        Field("rows", BIGINT, False),
        *(Field(c.name, c.type, True) for c in rest),
    )
    if not keys:
        # A group by a constant: it has no row where there is none.
        schema = (Field("any", BOOLEAN, False), *fields)
        return _read(plan, Aggregate(plan.input, (TRUE,), calls, schema), 1)
    return _read(plan, Aggregate(plan.input, keys, calls, fields), len(keys))


def _read(plan: SingleRow, groups: Aggregate, first: int) -> Plan:
    found = identity(groups.schema)
    count, values = found[first], iter(found[first + 1 :])
    exprs: list[Expr] = []
    for c in identity(plan.schema):
        if c.index in plan.keys:
            exprs.append(found[plan.keys.index(c.index)])
        else:
            value = next(values)
            exprs.append(Call("single_value", (count, value), value.type, True))
    names = [f.name for f in plan.schema]
    fields = tuple(Field(n, e.type, e.nullable) for n, e in zip(names, exprs, strict=True))
    return Project(groups, tuple(exprs), fields)
