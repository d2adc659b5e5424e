"""The logical algebra: what a query means, before any decision on how to maintain it.

Small immutable nodes that check themselves when built. Columns are positions; `schema` names them
for display. Bags throughout: a relation is a multiset of rows.

Nodes: Scan, Filter, Project, Join (n-way, inner), Aggregate, UnionAll, TopK. DISTINCT is an
`Aggregate` without aggregates; a CTE used twice is the same subtree twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from planner.expr import Column, Expr, columns_used
from planner.types import BOOLEAN, Schema, SqlType


@dataclass(frozen=True, slots=True)
class Scan:
    """All columns of a table or view of the catalog, by its canonical name."""

    relation: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Filter:
    """Rows for which `predicate` is TRUE."""

    input: Plan
    predicate: Expr

    def __post_init__(self) -> None:
        if self.predicate.type != BOOLEAN:
            raise ValueError(f"a filter needs BOOLEAN, not {self.predicate.type}")
        _check_columns(self.input.schema, self.predicate)

    @property
    def schema(self) -> Schema:
        return self.input.schema


@dataclass(frozen=True, slots=True)
class Project:
    """One output column per expression; `schema` carries the display names."""

    input: Plan
    exprs: tuple[Expr, ...]
    schema: Schema

    def __post_init__(self) -> None:
        if tuple(e.type for e in self.exprs) != tuple(f.type for f in self.schema):
            raise ValueError("the types of a projection differ from its schema")
        _check_columns(self.input.schema, *self.exprs)


@dataclass(frozen=True, slots=True)
class Join:
    """Inner join of all inputs: rows of the product for which `predicate` is TRUE.

    Columns are those of the inputs one after the other. `predicate` None is the whole product.
    """

    inputs: tuple[Plan, ...]
    predicate: Expr | None

    def __post_init__(self) -> None:
        if len(self.inputs) < 2:
            raise ValueError("a join has at least two inputs")
        if self.predicate is not None:
            _check_columns(self.schema, self.predicate)

    @property
    def schema(self) -> Schema:
        return tuple(f for i in self.inputs for f in i.schema)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """`function` is sum, count, count_rows or avg; `arg` is None for count_rows alone."""

    function: str
    arg: Expr | None
    type: SqlType
    nullable: bool
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY `keys`; output is the keys, then the aggregates.

    Without keys there is always exactly one output row. NULL keys form a group.
    """

    input: Plan
    keys: tuple[Expr, ...]
    aggregates: tuple[AggregateCall, ...]
    schema: Schema

    def __post_init__(self) -> None:
        if len(self.schema) != len(self.keys) + len(self.aggregates):
            raise ValueError("the schema of an aggregate names its keys and its aggregates")
        _check_columns(self.input.schema, *self.keys)
        _check_columns(self.input.schema, *(a.arg for a in self.aggregates if a.arg is not None))


@dataclass(frozen=True, slots=True)
class UnionAll:
    inputs: tuple[Plan, ...]
    schema: Schema

    def __post_init__(self) -> None:
        for i in self.inputs:
            if tuple(f.type for f in i.schema) != tuple(f.type for f in self.schema):
                raise ValueError("the inputs of UNION ALL have the types of its schema")


@dataclass(frozen=True, slots=True)
class SortKey:
    """ORDER BY one column of the input. Defaults are Spark's: NULLS FIRST when ascending."""

    column: int
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class TopK:
    """The rows at positions [offset, offset + limit) in the order of `order`.

    Ties in `order` are broken by the columns `ties` in turn, ascending, NULLs first; rows that are
    still equal there are equal in all columns. The order itself is not part of the result.
    """

    input: Plan
    order: tuple[SortKey, ...]
    ties: tuple[int, ...]
    limit: int
    offset: int = 0

    @property
    def schema(self) -> Schema:
        return self.input.schema


Plan: TypeAlias = Scan | Filter | Project | Join | Aggregate | UnionAll | TopK


def inputs(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Scan():
            return ()
        case Join() | UnionAll():
            return plan.inputs
        case _:
            return (plan.input,)


def identity(schema: Schema, offset: int = 0) -> tuple[Column, ...]:
    """The columns of `schema` as expressions, the first at position `offset`."""
    return tuple(Column(offset + i, f.type, f.nullable, f.name) for i, f in enumerate(schema))


def _check_columns(schema: Schema, *exprs: Expr) -> None:
    used = columns_used(*exprs)
    if used and max(used) >= len(schema):
        raise ValueError(f"column #{max(used)} is outside the {len(schema)} columns of the input")
