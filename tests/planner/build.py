"""Short ways to write algebra plans by hand; columns by name, resolved against a plan's schema."""

from __future__ import annotations

import datetime
from decimal import Decimal

from planner.calculus.algebra import (
    Aggregate,
    AggregateCall,
    Filter,
    Join,
    Plan,
    Project,
    Scan,
    SortKey,
    TopK,
)
from planner.calculus.expr import Call, Column, Expr, Literal, Scalar, conjunction
from planner.calculus.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    DecimalType,
    Field,
    SqlType,
)
from planner.context import CatalogReader


def scan(catalog: CatalogReader, name: str) -> Scan:
    info = catalog.relation(name)
    assert info is not None
    return Scan(info.name, info.schema)


def col(plan: Plan, name: str, occurrence: int = 0) -> Column:
    positions = [i for i, f in enumerate(plan.schema) if f.name == name]
    i = positions[occurrence]
    return Column(i, plan.schema[i].type, plan.schema[i].nullable, name)


def lit(value: Scalar) -> Literal:
    kinds: dict[type, SqlType] = {bool: BOOLEAN, int: INT, str: STRING, datetime.date: DATE}
    return Literal(value, kinds[type(value)])


def big(value: int) -> Literal:
    return Literal(value, BIGINT)


def call(function: str, *args: Expr, type: SqlType = BOOLEAN) -> Call:
    return Call(function, args, type, any(a.nullable for a in args))


def eq(left: Expr, right: Expr) -> Call:
    return call("eq", left, right)


def cast(arg: Expr, type: SqlType) -> Call:
    return call("cast", arg, type=type)


def both(*predicates: Expr) -> Expr:
    return conjunction(predicates)


def either(*predicates: Expr) -> Expr:
    result = predicates[0]
    for p in predicates[1:]:
        result = call("or", result, p)
    return result


def where(plan: Plan, *predicates: Expr) -> Filter:
    return Filter(plan, conjunction(predicates))


def cross(*plans: Plan) -> Join:
    return Join(plans, None)


def select(plan: Plan, **exprs: Expr) -> Project:
    fields = tuple(Field(n, e.type, e.nullable) for n, e in exprs.items())
    return Project(plan, tuple(exprs.values()), fields)


def pick(plan: Plan, *names: str) -> Project:
    return select(plan, **{n: col(plan, n) for n in names})


def aggregate(plan: Plan, keys: dict[str, Expr], **calls: AggregateCall) -> Aggregate:
    fields = [Field(n, e.type, e.nullable) for n, e in keys.items()]
    fields += [Field(n, c.type, c.nullable) for n, c in calls.items()]
    return Aggregate(plan, tuple(keys.values()), tuple(calls.values()), tuple(fields))


def count_rows() -> AggregateCall:
    return AggregateCall("count_rows", None, BIGINT, False)


def count(arg: Expr) -> AggregateCall:
    return AggregateCall("count", arg, BIGINT, False)


def total(arg: Expr) -> AggregateCall:
    kind: SqlType = BIGINT
    if isinstance(arg.type, DecimalType):
        kind = DecimalType(min(38, arg.type.precision + 10), arg.type.scale)
    return AggregateCall("sum", arg, kind, True)


def average(arg: Expr) -> AggregateCall:
    kind: SqlType = DOUBLE
    if isinstance(arg.type, DecimalType):
        kind = DecimalType(min(38, arg.type.precision + 4), min(38, arg.type.scale + 4))
    return AggregateCall("avg", arg, kind, True)


def top(plan: Plan, limit: int, *order: SortKey) -> TopK:
    return TopK(plan, order, tuple(range(len(plan.schema))), limit)


def revenue(plan: Plan) -> Expr:
    """l_extendedprice * (1 - l_discount), typed as Spark types it."""
    one = Literal(Decimal(1), DecimalType(1, 0))
    rest = call("subtract", one, col(plan, "l_discount"), type=DecimalType(13, 2))
    return call("multiply", col(plan, "l_extendedprice"), rest, type=DecimalType(26, 4))
