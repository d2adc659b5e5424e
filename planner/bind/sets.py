"""UNION, INTERSECT and EXCEPT, DISTINCT, and VALUES.

INTERSECT and EXCEPT count, for each distinct row, how often it occurs on either side: an Aggregate
over the UNION ALL of both, each row with a tag. Then

    INTERSECT        rows that occur on both sides
    INTERSECT ALL    as often as on the side where they are fewer
    EXCEPT           rows on the left that do not occur on the right
    EXCEPT ALL       as often as there are more on the left
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.analysis.constants import fold
from planner.bind.report import Report
from planner.bind.subqueries import cast_columns
from planner.calculus import coercion, functions
from planner.calculus.algebra import (
    Aggregate,
    AggregateCall,
    Filter,
    Plan,
    Project,
    Repeat,
    UnionAll,
    Values,
    identity,
    union_all,
)
from planner.calculus.expr import Call, Expr, Literal, transform
from planner.calculus.types import BIGINT, BOOLEAN, INT, Field, Schema

_ZERO = Literal(0, BIGINT)
#: What a SELECT without FROM reads.
ONE_ROW = Values(((Literal(1, INT),),), (Field("row", INT, False),))


def unified(kind: str, branches: list[Plan], node: exp.Expression, report: Report) -> UnionAll:
    """The branches cast to their common types, all together. `node` is where errors are."""
    first, *others = branches
    kinds = [f.type for f in first.schema]
    nullable = [f.nullable for f in first.schema]
    for plan in others:
        if len(plan.schema) != len(kinds):
            report.fail(
                node, f"{kind} joins queries of {len(kinds)} and {len(plan.schema)} columns"
            )
        for i, field in enumerate(plan.schema):
            wider = coercion.common_type(kinds[i], field.type)
            if wider is None:
                report.fail(
                    node,
                    f"column {i + 1} of {kind} has types {kinds[i]} and {field.type}",
                    hint="Cast one of them.",
                )
            kinds[i] = wider
            nullable[i] = nullable[i] or field.nullable
    names = [f.name for f in first.schema]
    schema = tuple(Field(n, k, b) for n, k, b in zip(names, kinds, nullable, strict=True))
    return UnionAll(tuple(cast_columns(b, kinds) for b in branches), schema)


def set_operation(kind: str, union: UnionAll, keep_one: bool) -> Plan:
    """UNION, INTERSECT or EXCEPT of the inputs of `union`; DISTINCT if `keep_one`."""
    if kind == "UNION":
        return distinct(union) if keep_one else union
    left, right = union.inputs
    tags = (("left", 1, 0), ("right", 0, 1)) if keep_one or kind == "INTERSECT" else ()
    # EXCEPT ALL needs the difference alone.
    counts = _counted(left, right, union.schema, tags or (("count", 1, -1),))
    width = len(union.schema)
    columns = identity(counts.schema)
    if not keep_one:
        repeated = columns[width : width + 1]
        if kind == "INTERSECT":
            least = functions.scalar("least", columns[width:])
            fields = (*union.schema, Field("count", BIGINT, False))
            counts = Project(counts, (*columns[:width], least), fields)
        return _columns(Repeat(counts, repeated[0].index), union.schema)
    on_left = _compared("gt", columns[width])
    on_right = _compared("gt" if kind == "INTERSECT" else "eq", columns[width + 1])
    both = Call("and", (on_left, on_right), BOOLEAN, False)
    return _columns(Filter(counts, both), union.schema)


def _counted(
    left: Plan, right: Plan, schema: Schema, tags: tuple[tuple[str, int, int], ...]
) -> Plan:
    """The distinct rows of both, with the sum of each tag (name, value left, value right)."""
    fields = (*schema, *(Field(name, BIGINT, False) for name, _, _ in tags))
    tagged = tuple(
        Project(
            side,
            (*identity(side.schema), *(Literal(tag[i], BIGINT) for tag in tags)),
            (*side.schema, *fields[len(schema) :]),
        )
        for i, side in ((1, left), (2, right))
    )
    union = UnionAll(tagged, fields)
    columns = identity(fields)
    sums = tuple(AggregateCall("sum", c, BIGINT, False) for c in columns[len(schema) :])
    return Aggregate(union, columns[: len(schema)], sums, fields)


def _compared(function: str, count: Expr) -> Expr:
    return Call(function, (count, _ZERO), BOOLEAN, False)


def _columns(plan: Plan, schema: Schema) -> Plan:
    return Project(plan, identity(plan.schema)[: len(schema)], schema)


def distinct(plan: Plan) -> Plan:
    return Aggregate(plan, identity(plan.schema), (), plan.schema)


def values(
    rows: Sequence[Sequence[tuple[Expr, exp.Expression]]], node: exp.Expression, report: Report
) -> Plan:
    """VALUES: rows of constants, in each column of their common type. Rows of which something is
    not known now, since it fails, are computed."""
    width = len(rows[0])
    for row in rows:
        if len(row) != width:
            report.fail(node, f"VALUES has rows of {width} and {len(row)} columns")
    columns: list[list[Expr]] = []
    for i in range(width):
        try:
            cast = coercion.unify([row[i][0] for row in rows], f"column {i + 1} of VALUES")
        except coercion.TypeMismatch as mismatch:
            report.fail(node, mismatch.message, mismatch.detail, mismatch.hint)
        columns.append([transform(expr, _folded) for expr in cast])
    schema = tuple(
        Field(f"col{i + 1}", c[0].type, any(v.nullable for v in c)) for i, c in enumerate(columns)
    )
    constant: list[tuple[Literal, ...]] = []
    plans: list[Plan] = []
    for given in zip(*columns, strict=True):
        literals = tuple(e for e in given if isinstance(e, Literal))
        if len(literals) == width:
            constant.append(literals)
        else:
            plans.append(Project(ONE_ROW, given, schema))
    if constant or not plans:
        plans.insert(0, Values(tuple(constant), schema))
    return union_all(plans, schema)


def _folded(expr: Expr) -> Expr:
    """What a call of constants is worth, casts included."""
    match expr:
        case Call(function="cast", args=(Literal() as literal,)):
            return coercion.cast(literal, expr.type)
        case _:
            return fold(expr)
